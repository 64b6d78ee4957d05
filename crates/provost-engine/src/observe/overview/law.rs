//! Lists what changed in the spec of a plan since its last approval by a person or a policy.

use std::ops::ControlFlow;

use provost_core::language::parse;
use provost_core::model::approved_spec::{self, Binding, Law};
use provost_core::model::chain::PlanId;
use provost_core::model::event::{Approver, Event, Revision};
use provost_core::state::run::Run;
use provost_store::{Log, Query};

use crate::Error;

pub struct SpecChanges {
    /// The approved revision and its approver.
    pub from: Revision,
    pub by: Approver,
    /// Text of the plan at that time.
    pub text: String,
    /// One line per change.
    pub lines: Vec<String>,
}

pub(super) fn changes(log: &dyn Log, plan: &PlanId, run: &Run) -> Result<Option<SpecChanges>, Error> {
    let mut approved = None;
    newest(log, plan, &["GATE_APPROVED"], &mut |event| match event {
        Event::Approved { revision, by, missing: 0, .. } => {
            approved = Some((revision, by));
            ControlFlow::Break(())
        }
        _ => ControlFlow::Continue(()),
    })?;
    let Some((from, by)) = approved else { return Ok(None) };
    let mut before = None;
    newest(log, plan, &["PLAN_CREATED", "PLAN_REWRITTEN"], &mut |event| match event {
        Event::PlanCreated { text, revision, base, files, terms, included, .. }
        | Event::PlanRewritten { text, revision, base, files, terms, included, .. }
            if revision == from =>
        {
            before = Some((text, Binding { base, files, terms, included }));
            ControlFlow::Break(())
        }
        _ => ControlFlow::Continue(()),
    })?;
    let Some((text, binding)) = before else { return Ok(None) };
    let parsed = parse::plan(&text).plan;
    let old = Law { text: &text, plan: &parsed, binding: Some(&binding) };
    let new = Law { text: &run.text, plan: &run.plan, binding: Some(&run.binding) };
    let lines = approved_spec::diff(old, new);
    Ok(Some(SpecChanges { from, by, text, lines }))
}

fn newest(
    log: &dyn Log,
    plan: &PlanId,
    names: &[&str],
    each: &mut dyn FnMut(Event) -> ControlFlow<()>,
) -> Result<(), Error> {
    let names = names.iter().map(|name| (*name).to_owned()).collect();
    let mut bad = Ok(());
    log.read(
        &Query { names, newest_first: true, ..Query::plan(plan) },
        &mut |sealed| match sealed.event() {
            Ok(event) => each(event),
            Err(error) => {
                bad = Err(error);
                ControlFlow::Break(())
            }
        },
    )?;
    Ok(bad?)
}
