//! What another process may add to a plan's log while a run is under way.
//!
//! The run has the plan's lease, so whatever it did not write itself came in by a door: a decision of a
//! person, a text that was verified anew, words of an agent, the record of a door that stayed shut.
//! Each is exactly what [`decide`] makes of the same words on the same state, and is held to that.
//!
//! **Invariant:** what only a run can say (an attempt, a verdict, a pass that rests on one, the end) is
//! never taken from anybody else.

use crate::command::{AgentCommand, HarnessCommand, HumanCommand};
use crate::decide;
use crate::event::{Approver, Event};
use crate::law::Binding;
use crate::run::Run;

/// Holds `events`, which follow on `run`, against the doors. `Err` is the place of the first that no
/// door can have made.
pub fn made(run: &Run, events: &[Event]) -> Result<(), usize> {
    let mut run = run.clone();
    let mut place = 0;
    while let Some(first) = events.get(place) {
        let decision = again(&run, first);
        if decision.is_empty() {
            return Err(place);
        }
        for event in decision {
            if events.get(place) != Some(&event) {
                return Err(place);
            }
            run.apply(&event);
            place += 1;
        }
    }
    Ok(())
}

/// What the door that `event` must have come in by makes of its words now; nothing, if there is none.
fn again(run: &Run, event: &Event) -> Vec<Event> {
    let decision = match event.clone() {
        Event::TamperDetected { step, what, from_seq: None } => {
            decide::harness(run, HarnessCommand::Tampered { step, what })
        }
        Event::PlanRewritten { text, base, files, terms, .. } => {
            decide::harness(run, HarnessCommand::Record { text, binding: Binding { base, files, terms } })
        }
        Event::PlanVerified { revision, warnings } => {
            decide::harness(run, HarnessCommand::Verified { revision, warnings })
        }
        Event::ApprovalRequested { plan_id, .. } => {
            decide::harness(run, HarnessCommand::RequestApproval { plan_id })
        }
        Event::Approved { revision, by: Approver::Person(by), modifications } => {
            decide::human(run, HumanCommand::Approve { revision, by, modifications })
        }
        Event::Approved { revision, by: by @ Approver::Policy { .. }, .. } => {
            decide::harness(run, HarnessCommand::ApproveByPolicy { revision, by })
        }
        Event::Rejected { reason, by, .. } => decide::human(run, HumanCommand::Reject { reason, by }),
        Event::QuestionAsked { question, by, .. } => decide::human(run, HumanCommand::Ask { question, by }),
        Event::Answered { step, choice, by, note } => {
            decide::human(run, HumanCommand::Answer { step, choice, note, by })
        }
        Event::StepClaimed { step, evidence } => decide::agent(run, AgentCommand::Claim { step, evidence }),
        Event::Escalated { step: Some(step), reason } => {
            let Some(reason) = reason.strip_prefix(decide::BLOCKED).map(str::to_owned) else {
                return Vec::new();
            };
            decide::agent(run, AgentCommand::Block { step, reason })
        }
        Event::TamperDetected { from_seq: Some(_), .. }
        | Event::PlanCreated { .. }
        | Event::IsolationAttested { .. }
        | Event::StepStarted { .. }
        | Event::AttemptEnded { .. }
        | Event::AttemptLost { .. }
        | Event::Judged { .. }
        | Event::StepPassed { .. }
        | Event::StepFailed { .. }
        | Event::StepWaived { .. }
        | Event::FailureDetected { .. }
        | Event::FailureClassified { .. }
        | Event::RecoveryApplied { .. }
        | Event::Escalated { step: None, .. }
        | Event::LawChanged { .. }
        | Event::RunEnded { .. } => return Vec::new(),
    };
    decision.unwrap_or_default()
}

#[cfg(test)]
mod tests;
