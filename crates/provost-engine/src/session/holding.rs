//! Says whether a plan holds its session at a stop.
//!
//! **Invariant:** a plan that holds no session is not done by that: its state is the log's.

use provost_core::model::plan::StepNumber;
use provost_core::rules::inbox;
use provost_core::state::run::{Run, Stage};

/// Returns whether the plan is approved, under way and can be trusted.
pub(crate) fn is_open(run: &Run) -> bool {
    matches!(run.stage, Stage::Approved | Stage::InProgress) && run.forged_from.is_none()
}

/// Returns why this plan does not hold a session, if so: it is over, or a person must act.
pub(crate) fn free(run: &Run) -> Option<String> {
    let title = &run.plan.title;
    if let Some(from) = run.forged_from {
        return Some(format!(
            "the log of “{title}” cannot be trusted from event {from} on; run `provost audit`"
        ));
    }
    match run.stage {
        Stage::Done => return Some(String::new()),
        Stage::Draft | Stage::Verified => {
            return Some(format!("“{title}” is not approved yet: `provost show`, then `provost approve`"));
        }
        Stage::Failed => return Some(format!("“{title}” has failed: `provost status`")),
        Stage::Approved | Stage::InProgress => {}
    }
    let waiting = inbox::waiting(run);
    let open = run.under_way().chain(run.ready()).any(|step| !waits(run, step));
    if waiting.is_empty() || (open && !run.any_blocked() && !run.any_failed()) {
        return None;
    }
    let reasons: Vec<String> = waiting.into_iter().map(|waiting| waiting.reason).collect();
    Some(format!("“{title}” waits for a person: {} (`provost inbox`)", reasons.join("; ")))
}

fn waits(run: &Run, step: StepNumber) -> bool {
    run.confirmed_by_person(step) && run.state_word(step) == "claimed"
}
