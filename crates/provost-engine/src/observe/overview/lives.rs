//! Splits a plan's history by revision: what was tried under each, and with which outcome.

use std::ops::ControlFlow;
use std::sync::Arc;

use provost_core::model::event::Event;
use provost_core::state::run::Run;
use provost_store::{Log, Query};

use super::{AttemptRecord, PlanSnapshot, attempts};
use crate::Error;

/// A plan as it was when it was revised, or as it is now.
pub struct Life {
    pub seen: PlanSnapshot,
    pub attempts: Vec<AttemptRecord>,
}

/// Returns the revisions, oldest first; leaves out those without an attempt, except the last.
pub(super) fn of(log: &dyn Log, seen: &PlanSnapshot) -> Result<Vec<Life>, Error> {
    let mut all = attempts::of(log, &seen.id)?.into_iter();
    let mut lives: Vec<Life> = Vec::new();
    let (mut run, mut begun, mut moved, mut tried) = (Run::default(), seen.begun, seen.begun, 0);
    let mut unread = Ok(());
    log.read(&Query::plan(&seen.id), &mut |sealed| {
        let event = match sealed.event() {
            Ok(event) => event,
            Err(error) => {
                unread = Err(error);
                return ControlFlow::Break(());
            }
        };
        if matches!(event, Event::PlanRewritten { .. }) {
            if tried > 0 {
                let (run, is_worked_on) = (Arc::new(run.clone()), false);
                let over = PlanSnapshot { run, begun, moved, waiting: 0, is_worked_on, ..seen.clone() };
                lives.push(Life { seen: over, attempts: all.by_ref().take(tried).collect() });
            }
            (begun, tried) = (Some(sealed.at), 0);
        }
        tried += usize::from(matches!(event, Event::StepStarted { .. }));
        moved = Some(sealed.at);
        run.apply_at(&event, sealed.at);
        ControlFlow::Continue(())
    })?;
    unread?;
    lives.push(Life { seen: PlanSnapshot { begun, ..seen.clone() }, attempts: all.collect() });
    Ok(lives)
}
