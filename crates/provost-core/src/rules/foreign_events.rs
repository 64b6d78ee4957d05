//! What another process may add to a plan's log while a run is under way.
//!
//! The run has the plan's lease, so whatever it did not write itself came in by a door: a decision of a
//! person, a text that was verified anew, words of an agent, a reminder, the record of a door that stayed
//! shut.
//! Each is exactly what [`decide`] makes of the same words on the same state, and is held to that.
//!
//! **Invariant:** what only a run can say (an attempt, a verdict, a pass that rests on one, the end) is
//! never taken from anybody else.
//! **Invariant:** nothing is let through from outside while an agent works without a fence.

use crate::model::approved_spec::Binding;
use crate::model::event::{Approver, Choice, Ended, Event, Revision};
use crate::model::timestamp::Timestamp;
use crate::model::verdict::Isolation;
use crate::rules::command::{AgentCommand, HarnessCommand, HumanCommand, Refusal};
use crate::rules::decide;
use crate::state::run::Run;

/// An agent, or code of its that a check runs, is at work with nothing between it and the log: a
/// decision that is found there now can be the agent's own.
pub fn exposed(run: &Run) -> bool {
    let fenced = run.isolation.is_some_and(Isolation::has_fence) && !run.agent_outside;
    // A step that waits for a person's word has nobody at work on it.
    !fenced && (!run.at_work.is_empty() || run.under_way().any(|number| !run.is_being_confirmed(number)))
}

/// Decisions that let something through which did not get through by itself.
pub fn lets_through(command: &HumanCommand) -> bool {
    match command {
        HumanCommand::Approve { .. } => true,
        HumanCommand::Answer { choice, .. } => match choice {
            Choice::Skip | Choice::Confirm => true,
            Choice::Retry | Choice::Abort | Choice::Revise => false,
        },
        HumanCommand::Raise { .. } => true,
        HumanCommand::Reject { .. } | HumanCommand::Ask { .. } => false,
    }
}

/// What a person says while a run is under way.
pub fn human(run: &Run, command: HumanCommand) -> Result<Vec<Event>, Refusal> {
    if lets_through(&command) && exposed(run) {
        return Err(Refusal::AgentAtWork);
    }
    decide::human(run, command)
}

/// What a policy says while a run is under way.
pub fn policy(run: &Run, revision: Revision, by: Approver) -> Result<Vec<Event>, Refusal> {
    if exposed(run) {
        return Err(Refusal::AgentAtWork);
    }
    decide::harness(run, HarnessCommand::ApproveByPolicy { revision, by })
}

/// Holds `events`, which follow on `run` at these times, against the doors. `Err` is the place of the first that no
/// door can have made.
pub fn made(run: &Run, events: &[(Event, Timestamp)]) -> Result<(), usize> {
    let mut run = run.clone();
    let mut place = 0;
    while let Some((first, _)) = events.get(place) {
        let decision = again(&run, first);
        if decision.is_empty() {
            return Err(place);
        }
        for event in decision {
            match events.get(place) {
                Some((found, at)) if *found == event => run.apply_at(&event, *at),
                Some(_) | None => return Err(place.min(events.len() - 1)),
            }
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
        Event::PlanRewritten { text, base, files, terms, included, author, .. } => {
            let binding = Binding { base, files, terms, included };
            decide::harness(run, HarnessCommand::Record { text, binding, author })
        }
        Event::PlanVerified { revision, warnings } => {
            decide::harness(run, HarnessCommand::Verified { revision, warnings })
        }
        Event::ApprovalRequested { plan_id, .. } => {
            decide::harness(run, HarnessCommand::RequestApproval { plan_id })
        }
        Event::Approved { revision, by: Approver::Person(by), modifications, .. } => {
            human(run, HumanCommand::Approve { revision, by, modifications })
        }
        Event::Approved { revision, by: by @ Approver::Policy { .. }, .. } => policy(run, revision, by),
        Event::Rejected { reason, by, .. } => human(run, HumanCommand::Reject { reason, by }),
        Event::QuestionAsked { question, by, .. } => human(run, HumanCommand::Ask { question, by }),
        Event::Answered { step: Some(step), choice: Choice::Retry, by, note, budget }
            if !budget.is_empty() =>
        {
            human(run, HumanCommand::Raise { step, budget, note, by })
        }
        Event::Answered { step, choice, by, note, .. } => {
            human(run, HumanCommand::Answer { step, choice, note, by })
        }
        Event::StepClaimed { step, evidence } => decide::agent(run, AgentCommand::Claim { step, evidence }),
        Event::Escalated { step: Some(step), reason } => {
            let Some(reason) = reason.strip_prefix(decide::BLOCKED).map(str::to_owned) else {
                return Vec::new();
            };
            decide::agent(run, AgentCommand::Block { step, reason })
        }
        Event::Escalated { step: None, reason } => decide::harness(run, HarnessCommand::Remind { reason }),
        Event::TamperDetected { from_seq: Some(_), .. }
        | Event::PlanCreated { .. }
        | Event::IsolationAttested { .. }
        | Event::StepStarted { .. }
        | Event::AttemptEnded(Ended { .. })
        | Event::AttemptLost { .. }
        | Event::Judged { .. }
        | Event::StepPassed { .. }
        | Event::StepFailed { .. }
        | Event::StepWaived { .. }
        | Event::FailureDetected { .. }
        | Event::FailureClassified { .. }
        | Event::RecoveryApplied { .. }
        | Event::PermissionRequired { .. }
        | Event::BudgetExceeded { .. }
        | Event::LawChanged { .. }
        | Event::RunEnded { .. }
        | Event::TrainStarted { .. }
        | Event::PlanLanded { .. } => return Vec::new(),
    };
    decision.unwrap_or_default()
}

#[cfg(test)]
mod tests;
