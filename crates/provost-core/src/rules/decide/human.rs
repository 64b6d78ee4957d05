//! Decides about commands of people: approvals at the gate, and answers.
//!
//! **Invariant:** a person approves the revision they read, and passes a step only if its contract leaves
//! that to a person or proves nothing.

use super::judged::confirmed;
use super::{Decision, at_gate, genuine, one_more, said, wrong_stage};
use crate::model::event::{Approver, BudgetScope, Choice, Event, Revision, RunEndReason};
use crate::model::plan::StepNumber;
use crate::model::timestamp::Timestamp;
use crate::model::usage::{Amount, Resource};
use crate::model::verdict::CheckOutcome;
use crate::rules::command::{HumanCommand, Refusal};
use crate::rules::quorum::{self, ApprovalCount};
use crate::rules::{budget, recover};
use crate::state::run::{PostState, Run, Stage, StepState};

/// Decides about a person's command, which concerns only the text they read.
pub fn human(run: &Run, command: HumanCommand) -> Decision {
    genuine(run)?;
    if !run.exists() {
        return Err(Refusal::NoPlan);
    }
    match command {
        HumanCommand::Approve { revision, by, modifications } => approve(run, revision, by, modifications),
        HumanCommand::Reject { reason, by } => {
            let reason = said(reason, "why the plan is rejected")?;
            if matches!(run.stage, Stage::Draft | Stage::Done) {
                return Err(wrong_stage(run, "rejecting", "at the gate or under way"));
            }
            Ok(vec![Event::Rejected { revision: run.revision.clone(), reason, by }])
        }
        HumanCommand::Ask { question, by, step } => {
            let question = said(question, "what you want to know")?;
            if !matches!(run.stage, Stage::Verified | Stage::Approved) {
                return Err(wrong_stage(run, "asking", "at the gate"));
            }
            if let Some(step) = step.filter(|step| run.step(*step).is_none()) {
                return Err(Refusal::NoSuchStep { step });
            }
            Ok(vec![Event::QuestionAsked { revision: run.revision.clone(), question, by, step }])
        }
        HumanCommand::Answer { step, choice, note, by } => answer(run, step, choice, note, by),
        HumanCommand::Raise { step, budget, note, by } => raise(run, step, budget, note, by),
        HumanCommand::BreakLease { lease, held_by, by } => {
            Ok(vec![Event::LeaseBroken { lease, held_by, by }])
        }
    }
}

fn approve(run: &Run, revision: Revision, by: String, modifications: Vec<String>) -> Decision {
    if run.is_unread() && revision == run.revision {
        // A policy approved the plan, and now a person has read it.
        return Ok(vec![Event::Approved { revision, by: Approver::Person(by), modifications, missing: 0 }]);
    }
    if let (Some(before), true) = (&run.approved_by, revision == run.revision) {
        return Err(Refusal::AlreadyApproved {
            revision: revision.short().to_owned(),
            by: run.approvers().unwrap_or_else(|| before.to_string()),
        });
    }
    at_gate(run, &revision)?;
    let own = || run.author.as_ref().map(|author| quorum::is_same(author, &by));
    match (run.quorum().self_approval, own()) {
        (true, _) | (false, Some(false)) => {}
        (false, Some(true)) => {
            return Err(Refusal::OwnPlan { by, tally: ApprovalCount::of(run).to_string() });
        }
        (false, None) => return Err(Refusal::NoAuthor),
    }
    one_more(run, revision, Approver::Person(by), modifications)
}

/// Returns the run with the reserved amounts of uncounted attempts released.
fn given_back(run: &Run) -> Run {
    let mut run = run.clone();
    run.ledger.give_back(None);
    run
}

fn answer(run: &Run, step: Option<StepNumber>, choice: Choice, note: String, by: String) -> Decision {
    let Some(number) = step else { return answer_for_plan(run, choice, note, by) };
    let Some(state) = run.step(number).map(|step| &step.state) else {
        return Err(Refusal::NoSuchStep { step: number });
    };
    let confirming = run.confirmed_by_person(number) && matches!(state, StepState::Ended { .. });
    let waiting = matches!(state, StepState::Blocked { .. } | StepState::Failed) || confirming;
    if !waiting || !matches!(run.stage, Stage::Approved | Stage::InProgress | Stage::Failed) {
        return Err(Refusal::NothingToAnswer { step: number });
    }
    let over_budget = run.step(number).is_some_and(|step| step.over_budget.is_some());
    let (text, budget) = (note.clone(), Amount::default());
    let answered = Event::Answered { step, choice, by: by.clone(), note: text, budget };
    Ok(match choice {
        // Time counts only up to the last event, because this command carries no time.
        Choice::Retry if over_budget && !budget::is_any_left(&given_back(run), number, Timestamp(0)) => {
            return Err(Refusal::NothingLeft { step: number });
        }
        Choice::Retry | Choice::Revise => vec![answered],
        Choice::Skip => {
            let reason = if note.is_empty() { "skipped by a person".to_owned() } else { note };
            vec![answered, Event::StepWaived { step: number, by, reason }]
        }
        Choice::Abort => {
            let why = if over_budget { RunEndReason::Budget } else { RunEndReason::Person };
            let [failed, ended] = recover::fail(run, number, format!("aborted by {by}"), why);
            vec![answered, failed, ended]
        }
        Choice::Confirm if confirming => vec![answered, confirmed(run, number, &by)],
        // The check held but proved nothing: a person may confirm the step.
        Choice::Confirm if (vacuous(run, number) || run.holds_already(number)) && !note.trim().is_empty() => {
            vec![answered, confirmed(run, number, &by)]
        }
        Choice::Confirm => {
            return Err(Refusal::WrongChoice { choice: "confirm", instead: "retry, skip, abort or revise" });
        }
    })
}

/// Sets new limits for what is exhausted; parts that are not named keep theirs.
fn raise(run: &Run, step: StepNumber, limits: Amount, note: String, by: String) -> Decision {
    let waiting = run.step(step).and_then(|step| step.over_budget.as_ref()).map(|breach| breach.scope);
    let open = matches!(run.stage, Stage::Approved | Stage::InProgress);
    let Some(scope) = waiting.filter(|_| open && !limits.is_empty()) else {
        return Err(Refusal::NothingToRaise { step });
    };
    for resource in Resource::ALL {
        let Some(limit) = limits.of(resource) else { continue };
        let spent = match scope {
            BudgetScope::Plan => run.ledger.committed(resource, Timestamp(0)),
            BudgetScope::Step => run.ledger.committed_by(step, resource),
        };
        if limit <= spent {
            let (limit, spent) = (resource.say(limit), resource.say(spent));
            return Err(Refusal::RaisedTooLittle { limit, spent });
        }
    }
    Ok(vec![Event::Answered { step: Some(step), choice: Choice::Retry, by, note, budget: limits }])
}

/// Answers a broken postcondition: check again, or give up.
fn answer_for_plan(run: &Run, choice: Choice, note: String, by: String) -> Decision {
    let broke = run.postconditions().any(|(_, state)| matches!(state, PostState::Broke(_)));
    if run.stage != Stage::Failed || !broke {
        return Err(Refusal::NothingWaits);
    }
    match choice {
        Choice::Abort if run.given_up => Err(Refusal::NothingWaits),
        Choice::Retry | Choice::Revise | Choice::Abort => {
            let budget = Amount::default();
            Ok(vec![Event::Answered { step: None, choice, by, note, budget }])
        }
        Choice::Skip | Choice::Confirm => {
            Err(Refusal::WrongChoice { choice: choice.word(), instead: "retry, abort or revise" })
        }
    }
}

fn vacuous(run: &Run, number: StepNumber) -> bool {
    let verdict = run.step(number).and_then(|step| step.verdict.as_ref());
    verdict.is_some_and(|verdict| matches!(verdict.outcome, CheckOutcome::Vacuous { .. }))
}
