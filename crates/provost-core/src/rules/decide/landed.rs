//! Decides about landed plans: a plan that is done can land, and is reopened if the branch breaks it.

use super::{Decision, wrong_stage};
use crate::model::escalation::EscalationCause;
use crate::model::event::{CheckSubject, Event, RunEndReason, RunOutcome};
use crate::model::verdict::Verdict;
use crate::rules::command::Refusal;
use crate::state::run::{LandedCommit, Run, Stage};

/// Records a landing, once.
pub(super) fn landed(run: &Run, plan: String, target: String, before: String, commit: String) -> Decision {
    if run.landed == Some(LandedCommit { target: target.clone(), commit: commit.clone() }) {
        return Ok(Vec::new());
    }
    if run.stage != Stage::Done {
        return Err(wrong_stage(run, "landing", "done"));
    }
    Ok(vec![Event::PlanLanded { plan, target, before, commit }])
}

/// Reopens a plan. A broken contract blocks its step; a broken postcondition fails the plan. Either way a
/// person decides.
pub(super) fn undone(run: &Run, subject: CheckSubject, verdict: Verdict, reason: String) -> Decision {
    if run.stage != Stage::Done || run.landed.is_none() || verdict.held() {
        return Err(wrong_stage(run, "opening it again", "done, landed and undone"));
    }
    let (step, plan) = (
        match subject {
            CheckSubject::Final(step) if run.step(step).is_some() => Some(step),
            CheckSubject::Postcondition(number) if run.postcondition(number).is_some() => None,
            _ => return Err(Refusal::NotDue { what: format!("{subject:?}") }),
        },
        None,
    );
    let judged = Event::Judged { step, subject, verdict, plan };
    let told = Event::escalated(step, EscalationCause::Other, reason);
    if step.is_some() {
        return Ok(vec![judged, told]);
    }
    let (outcome, summary) = (RunOutcome::Failed, run.summary());
    let ended =
        Event::RunEnded { outcome, summary, tree: None, why: Some(RunEndReason::Undone), train: None };
    Ok(vec![judged, told, ended])
}
