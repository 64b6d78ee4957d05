//! Reads a plan's log from its first event and folds it into the current state.

use std::ops::ControlFlow;

use provost_core::model::chain::{Auditor, Head, PlanId, SealedEvent};
use provost_core::model::event::Event;
use provost_core::state::run::Run;
use provost_store::{Log, Query};

use crate::Error;

/// Folds a plan's whole log; returns an error at the first event that does not verify.
pub fn read(log: &dyn Log, plan: &PlanId) -> Result<Run, Error> {
    replay(log, plan, &mut |_, _, _| {}).map(|(run, _)| run)
}

/// Folds a plan's whole log like [`read`], and calls `watch` for every event as a run would.
pub fn replay(
    log: &dyn Log,
    plan: &PlanId,
    watch: &mut dyn FnMut(&Run, &SealedEvent, &Event),
) -> Result<(Run, Head), Error> {
    let mut run = Run::default();
    let head = verified(log, plan, &mut |sealed, event| {
        run.apply_at(&event, sealed.at);
        watch(&run, sealed, &event);
    })?;
    match run.forged_from {
        None => Ok((run, head)),
        Some(from) => without_forged(log, plan, from),
    }
}

/// Folds the log again without the events from `from` on, except recorded tampering.
fn without_forged(log: &dyn Log, plan: &PlanId, from: u64) -> Result<(Run, Head), Error> {
    let mut run = Run::default();
    let head = verified(log, plan, &mut |sealed, event| match event {
        Event::TamperDetected { .. } => run.apply_at(&event, sealed.at),
        _ if sealed.seq >= from => run.pass_over(),
        _ => run.apply_at(&event, sealed.at),
    })?;
    Ok((run, head))
}

/// Calls `each` for every event of a plan and stops at the first one that does not verify.
pub(super) fn verified(
    log: &dyn Log,
    plan: &PlanId,
    each: &mut dyn FnMut(&SealedEvent, Event),
) -> Result<Head, Error> {
    let mut auditor = Auditor::default();
    let mut bad = Ok(());
    log.read(&Query::plan(plan), &mut |sealed| {
        bad = auditor
            .next(&sealed)
            .map_err(|found| Error::Broken { plan: plan.clone(), found })
            .and_then(|()| Ok(sealed.event()?))
            .map(|event| each(&sealed, event));
        if bad.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    bad.map(|()| auditor.head())
}
