//! Decides which events another process may append to a plan's log during a run.
//!
//! The run holds the plan's lock, so every event it did not write itself came through a command: a decision
//! of a person, a newly verified text, words of an agent, a reminder, the record of a refused command. Each
//! must be exactly what [`decide`] returns for the same command on the same state.
//!
//! **Invariant:** an event that only a run can write (an attempt, a verdict, a pass by a verdict, the end) is
//! never accepted from another process.
//! **Invariant:** while an agent works without a sandbox, no decision that lets something pass is accepted
//! from outside.

use crate::model::approved_spec::Binding;
use crate::model::escalation::EscalationCause;
use crate::model::event::{Approver, Choice, EndedAttempt, Event, Revision};
use crate::model::timestamp::Timestamp;
use crate::model::verdict::Isolation;
use crate::rules::command::{AgentCommand, HarnessCommand, HumanCommand, Refusal};
use crate::rules::decide;
use crate::state::run::Run;

/// Returns whether an agent, or its code in a check, is running without a sandbox between it and the log: a
/// decision found there now may be the agent's own.
pub fn exposed(run: &Run) -> bool {
    let fenced = run.isolation.is_some_and(Isolation::has_fence) && !run.agent_outside;
    // No agent works on a step that waits for a person's confirmation.
    !fenced && (!run.at_work.is_empty() || run.under_way().any(|number| !run.is_being_confirmed(number)))
}

/// Recognises decisions that let something pass which did not pass by itself.
pub fn lets_through(command: &HumanCommand) -> bool {
    match command {
        HumanCommand::Approve { .. } => true,
        HumanCommand::Answer { choice, .. } => match choice {
            Choice::Skip | Choice::Confirm => true,
            Choice::Retry | Choice::Abort | Choice::Revise => false,
        },
        HumanCommand::Raise { .. } => true,
        HumanCommand::Reject { .. } | HumanCommand::Ask { .. } | HumanCommand::BreakLease { .. } => false,
    }
}

/// Decides about a person's command during a run.
pub fn human(run: &Run, command: HumanCommand) -> Result<Vec<Event>, Refusal> {
    if lets_through(&command) && exposed(run) {
        return Err(Refusal::AgentAtWork);
    }
    decide::human(run, command)
}

/// Decides about an approval by a policy, or in a dialog, during a run.
pub fn policy(run: &Run, revision: Revision, by: Approver) -> Result<Vec<Event>, Refusal> {
    if exposed(run) {
        return Err(Refusal::AgentAtWork);
    }
    decide::harness(run, HarnessCommand::ApproveByPolicy { revision, by })
}

/// Returns whether commands can have produced `events`, which follow on `run` at these times. `Err` is the
/// index of the first event that no command can have produced.
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

/// Decides the command of `event` again on the current state; empty if no command produces such an event.
fn again(run: &Run, event: &Event) -> Vec<Event> {
    let decision = match event.clone() {
        Event::TamperDetected { step, what, from_seq: None } => {
            decide::harness(run, HarnessCommand::Tampered { step, what })
        }
        Event::PlanRewritten { text, base, files, terms, included, author, checks_by, .. } => {
            let (binding, usage) = (Binding { base, files, terms, included }, Vec::new());
            decide::harness(run, HarnessCommand::RecordDraft { text, binding, usage, author, checks_by })
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
        Event::Approved {
            revision, by: by @ (Approver::Policy { .. } | Approver::Dialog { .. }), ..
        } => policy(run, revision, by),
        Event::Rejected { reason, by, .. } => human(run, HumanCommand::Reject { reason, by }),
        Event::QuestionAsked { question, by, step, .. } => {
            human(run, HumanCommand::Ask { question, by, step })
        }
        Event::Answered { step: Some(step), choice: Choice::Retry, by, note, budget }
            if !budget.is_empty() =>
        {
            human(run, HumanCommand::Raise { step, budget, note, by })
        }
        Event::Answered { step, choice, by, note, .. } => {
            human(run, HumanCommand::Answer { step, choice, note, by })
        }
        Event::LeaseBroken { lease, held_by, by } => {
            human(run, HumanCommand::BreakLease { lease, held_by, by })
        }
        Event::StepClaimed { step, evidence } => decide::agent(run, AgentCommand::Claim { step, evidence }),
        Event::Escalated { step: Some(step), reason, cause: Some(EscalationCause::AgentBlocked) } => {
            let said = reason.strip_prefix(EscalationCause::AgentBlocked.words()).unwrap_or(&reason);
            decide::agent(run, AgentCommand::Block { step, reason: said.to_owned() })
        }
        Event::Escalated { step: Some(_), .. } => return Vec::new(),
        Event::Escalated { step: None, reason, .. } => {
            decide::harness(run, HarnessCommand::Remind { reason })
        }
        Event::TamperDetected { from_seq: Some(_), .. }
        | Event::PlanCreated { .. }
        | Event::IsolationAttested { .. }
        | Event::StepStarted { .. }
        | Event::AttemptEnded(EndedAttempt { .. })
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
