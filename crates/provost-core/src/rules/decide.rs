//! Decides which events follow from a command.
//!
//! Every event is created here, by one function per sender: [`agent`], [`human`], [`harness`]. None of them
//! waits, reads a clock or uses the disk, so a log always replays the same way.
//!
//! **Invariant:** [`agent`] cannot reach the code that passes a step (`decide/judged.rs`).

mod agent;
mod human;
mod judged;
mod landed;
mod session;

use crate::language::parse;
use crate::model::approved_spec::{self, Binding, Law};
use crate::model::check_author::CheckAuthor;
use crate::model::escalation::EscalationCause;
use crate::model::event::{
    Approver, AttemptEnd, BudgetScope, Dependency, EndedAttempt, Event, LossCause, Revision, RunEndReason,
    RunOutcome, StartTree,
};
use crate::model::plan::{Needs, Plan, StepNumber};
use crate::model::timestamp::Timestamp;
use crate::model::usage::Usage;
use crate::rules::budget::{self, Fit};
use crate::rules::command::{HarnessCommand, Refusal};
use crate::rules::inbox;
use crate::rules::quorum::ApprovalCount;
use crate::rules::recover::{self, AttemptFailure, RecoveryInput};
use crate::state::run::{PostState, Run, Stage, StepRun, StepState};

pub use agent::agent;
pub use human::human;
pub use judged::HOLDS_ALONE;

use judged::{doubted, judged, judged_lost, passed, postcondition_is_due, seen, with_verdict};

/// Start of an attempt's target if a sub-plan carries it out. No role name contains a blank.
pub const PLAN: &str = "plan ";

type Decision = Result<Vec<Event>, Refusal>;

/// Records another approval; the plan is approved once none is missing.
fn one_more(run: &Run, revision: Revision, by: Approver, modifications: Vec<String>) -> Decision {
    if run.has_approval_of(&by) {
        return Err(Refusal::CountsOnce { by: by.to_string(), tally: ApprovalCount::of(run).to_string() });
    }
    let missing = ApprovalCount::of(run).missing.saturating_sub(1);
    Ok(vec![Event::Approved { revision, by, modifications, missing }])
}

/// Requires that the plan is verified and that the revision is the one in the log.
fn at_gate(run: &Run, revision: &Revision) -> Result<(), Refusal> {
    if *revision != run.revision {
        return Err(Refusal::Stale {
            read: revision.short().to_owned(),
            current: run.revision.short().to_owned(),
        });
    }
    if run.stage != Stage::Verified {
        return Err(wrong_stage(run, "approving", "verified"));
    }
    Ok(())
}

/// Decides what follows from something provost saw, with the built-in recipes and without waiting.
pub fn harness(run: &Run, command: HarnessCommand) -> Decision {
    harness_with(run, &RecoveryInput::default(), command)
}

/// The same with the recipes and the time of a run.
pub fn harness_with(run: &Run, means: &RecoveryInput<'_>, command: HarnessCommand) -> Decision {
    if !matches!(command, HarnessCommand::Tampered { .. } | HarnessCommand::Forged { .. }) {
        genuine(run)?;
    }
    match command {
        HarnessCommand::Record { text, binding, author } => Ok(record(run, text, binding, author)),
        HarnessCommand::RecordDraft { text, binding, usage, author, checks_by } => {
            Ok(drafted(record(run, text, binding, author), usage, checks_by))
        }
        HarnessCommand::Verified { revision, warnings } => verified(run, revision, warnings),
        HarnessCommand::RequestApproval { plan_id } => request_approval(run, plan_id),
        HarnessCommand::ApproveByPolicy { revision, by } => approve_by_policy(run, revision, by),
        HarnessCommand::Attested {
            level,
            require_red,
            probes,
            kernel,
            bubblewrap,
            agent_outside,
            took_over,
        } => Ok(vec![Event::IsolationAttested {
            level,
            require_red,
            probes,
            kernel,
            bubblewrap,
            agent_outside,
            took_over,
        }]),
        HarnessCommand::Start { step } => start(run, step, None, means.now),
        HarnessCommand::StartFrom { step, start: tree } => start(run, step, Some(tree), means.now),
        HarnessCommand::AttemptEnded(ended) => attempt_ended(run, means, ended),
        HarnessCommand::AttemptInterrupted { step, attempt } => interrupted(run, step, attempt, None),
        HarnessCommand::AttemptStopped { step, attempt, left } => interrupted(run, step, attempt, left),
        HarnessCommand::Judged { subject, verdict } => judged(run, means, subject, verdict),
        HarnessCommand::JudgedLost { step, verdict, max_losses } => {
            judged_lost(run, step, verdict, max_losses)
        }
        HarnessCommand::Looked { subject, verdict, client } => {
            session::looked(run, means, subject, verdict, &client)
        }
        HarnessCommand::LetGo { reason } => session::let_go(run, &reason),
        HarnessCommand::LawChanged { changes } => Ok(vec![Event::LawChanged { changes }]),
        HarnessCommand::Tampered { step, what } => {
            Ok(vec![Event::TamperDetected { step, what, from_seq: None }])
        }
        HarnessCommand::Forged { from_seq, what } => {
            Ok(vec![Event::TamperDetected { step: None, what, from_seq: Some(from_seq) }])
        }
        HarnessCommand::Hold { step } => hold(run, step),
        HarnessCommand::PlanWaits { step, reason } => match run.ready().any(|ready| ready == step) {
            true => Ok(vec![waits_for_its_plan(step, &reason)]),
            false => Err(Refusal::NotOpen { step }),
        },
        HarnessCommand::PlanGoesOn { step } => match run.waits_for_its_plan(step) {
            true => Ok(vec![plan_goes_on(step, "the plan that carries it out can continue")]),
            false => Err(Refusal::NothingToAnswer { step }),
        },
        HarnessCommand::Remind { reason } => remind(run, reason),
        HarnessCommand::OverBudget { step } => over_budget(run, step, means.now),
        HarnessCommand::End => end(run),
        HarnessCommand::Landed { plan_id, target, before, commit } => {
            landed::landed(run, plan_id, target, before, commit)
        }
        HarnessCommand::Undone { subject, verdict, reason } => landed::undone(run, subject, verdict, reason),
    }
}

fn attempt_ended(run: &Run, means: &RecoveryInput<'_>, ended: EndedAttempt) -> Decision {
    still_running(run, ended.step, ended.attempt)?;
    let follows = after_end(run, means, &ended);
    Ok([Event::AttemptEnded(ended)].into_iter().chain(follows).collect())
}

/// Records that a person interrupted the attempt, with the tree it left if that is known.
fn interrupted(run: &Run, step: StepNumber, attempt: u32, left: Option<String>) -> Decision {
    still_running(run, step, attempt)?;
    Ok(vec![Event::AttemptLost { step, attempt, cause: LossCause::Interrupt, left }])
}

/// Returns what follows at once from the end of an attempt. Empty if the check comes next.
fn after_end(run: &Run, means: &RecoveryInput<'_>, ended: &EndedAttempt) -> Vec<Event> {
    let EndedAttempt { step, attempt, end, .. } = ended;
    let (step, attempt) = (*step, *attempt);
    match end {
        AttemptEnd::NotStarted { .. } | AttemptEnd::PlanFailed { .. } => {
            recover::after(run, means, step, attempt, &AttemptFailure::Agent(end))
        }
        AttemptEnd::PlanWaits { reason, .. } => vec![waits_for_its_plan(step, reason)],
        // The budget is checked before the next attempt, as always.
        AttemptEnd::PlanStopped { .. } => {
            vec![plan_goes_on(
                step,
                "the plan that carries it out was stopped because the budget was used up",
            )]
        }
        AttemptEnd::Exited { .. }
        | AttemptEnd::Signalled { .. }
        | AttemptEnd::TimedOut
        | AttemptEnd::OverBounds { .. } => Vec::new(),
    }
}

fn waits_for_its_plan(step: StepNumber, reason: &str) -> Event {
    let cause = EscalationCause::SubplanWaits;
    Event::escalated(Some(step), cause, format!("{}{reason}", cause.words()))
}

fn plan_goes_on(step: StepNumber, outcome: &str) -> Event {
    Event::RecoveryApplied {
        step,
        recipe_name: "plan".to_owned(),
        outcome: outcome.to_owned(),
        not_before: None,
        wait_ms: 0,
        check_again: false,
        role: None,
        fresh: false,
    }
}

/// Escalates a step that is due but whose role gets no work.
fn hold(run: &Run, step: StepNumber) -> Decision {
    let role = run.role(step);
    if !run.halted.contains(role) || !run.is_ready(step) {
        return Err(Refusal::NotOpen { step });
    }
    let reason = format!("{role} has nothing left to spend (another step found this); `retry` when it has");
    Ok(vec![Event::escalated(Some(step), EscalationCause::Other, reason)])
}

/// Reminds a person; it changes nothing.
fn remind(run: &Run, reason: String) -> Decision {
    if !reason.starts_with(EscalationCause::Overdue.words()) || inbox::waiting(run).is_empty() {
        return Err(Refusal::NothingWaits);
    }
    Ok(vec![Event::escalated(None, EscalationCause::Overdue, reason)])
}

/// Escalates a step that is due but that the budget does not allow.
fn over_budget(run: &Run, step: StepNumber, now: Timestamp) -> Decision {
    // Ask once about the plan's budget, however many steps it blocks.
    let over =
        |step: &StepRun| step.over_budget.as_ref().is_some_and(|breach| breach.scope == BudgetScope::Plan);
    let asked = run.steps().any(|(_, step)| over(step));
    match budget::fit(run, step, now) {
        Fit::No(breach) if asked && breach.scope == BudgetScope::Plan => Err(Refusal::NotOpen { step }),
        Fit::No(breach) if run.is_ready(step) => Ok(vec![Event::BudgetExceeded { step, breach }]),
        Fit::Yes(_) | Fit::NotNow | Fit::No(_) => Err(Refusal::NotOpen { step }),
    }
}

/// Refuses everything after another process wrote to the log.
fn genuine(run: &Run) -> Result<(), Refusal> {
    match run.forged_from {
        Some(from_seq) => Err(Refusal::Forged { from_seq }),
        None => Ok(()),
    }
}

/// Records the text as the new spec if it differs. Before the first attempt the base commit and the named
/// files count too; later the steps themselves change them. The run policy always counts.
fn record(run: &Run, text: String, binding: Binding, author: Option<String>) -> Vec<Event> {
    let plan = parse::plan(&text).plan;
    let law = approved_spec::digest(&text, &plan);
    let revision = approved_spec::revision(law, &binding);
    let same = match run.started() {
        true => run.law == Some(law) && run.binding.terms == binding.terms,
        false => run.revision == revision,
    };
    if run.exists() && same {
        return Vec::new();
    }
    let task_count = plan.steps.len() as u32;
    let dependencies = dependencies(&plan);
    let old = Law { text: &run.text, plan: &run.plan, binding: Some(&run.binding) };
    let mut changes = approved_spec::diff(old, Law { text: &text, plan: &plan, binding: Some(&binding) });
    if let Some(line) = changes.iter_mut().find(|line| line.starts_with("the base commit moved")) {
        *line = run.base_moved(&run.binding.base, &binding.base);
    }
    // The same text on another commit keeps its author.
    let author = if run.law == Some(law) { run.author.clone().or(author) } else { author };
    let Binding { base, files, terms, included } = binding;
    vec![match run.exists() {
        false => {
            let drafting = Vec::new();
            Event::PlanCreated {
                text,
                revision,
                base,
                files,
                terms,
                included,
                task_count,
                dependencies,
                drafting,
                author,
                checks_by: CheckAuthor::Person,
            }
        }
        true => Event::PlanRewritten {
            text,
            revision,
            base,
            files,
            terms,
            included,
            task_count,
            dependencies,
            changes,
            author,
            checks_by: CheckAuthor::Person,
        },
    }]
}

/// Adds to the events of a new text who wrote it, and what the drafting cost.
fn drafted(mut events: Vec<Event>, usage: Vec<Usage>, by: CheckAuthor) -> Vec<Event> {
    match events.first_mut() {
        Some(Event::PlanCreated { drafting, checks_by, .. }) => (*drafting, *checks_by) = (usage, by),
        Some(Event::PlanRewritten { checks_by, .. }) => *checks_by = by,
        Some(_) | None => {}
    }
    events
}

fn verified(run: &Run, revision: Revision, warnings: u32) -> Decision {
    if !run.exists() || run.stage != Stage::Draft || revision != run.revision {
        return Err(wrong_stage(run, "verifying", "a draft"));
    }
    Ok(vec![Event::PlanVerified { revision, warnings }])
}

fn request_approval(run: &Run, plan_id: String) -> Decision {
    at_gate(run, &run.revision)?;
    if run.requested.as_ref() == Some(&run.revision) {
        return Ok(Vec::new());
    }
    Ok(vec![Event::ApprovalRequested { plan_id, revision: run.revision.clone() }])
}

/// Returns only the written dependencies: every other step depends on all steps before it.
fn dependencies(plan: &Plan) -> Vec<Dependency> {
    plan.steps
        .iter()
        .filter_map(|step| match &step.needs {
            Needs::Before => None,
            Needs::Steps(needs) => {
                Some(Dependency { step: step.number, needs: needs.iter().map(|need| need.value).collect() })
            }
        })
        .collect()
}

fn approve_by_policy(run: &Run, revision: Revision, by: Approver) -> Decision {
    at_gate(run, &revision)?;
    match by {
        // An agent's client answered, so no quorum of people counts it.
        Approver::Dialog { .. } if !run.quorum().is_usual() => return Err(Refusal::NoDialog),
        Approver::Policy { .. } if !run.quorum().lets_policies() => return Err(Refusal::NoPolicy),
        Approver::Dialog { .. } | Approver::Policy { .. } => {}
        Approver::Person(_) => return Err(Refusal::NoPolicy),
    }
    if let Some(question) = &run.question {
        return Err(Refusal::QuestionOpen { question: question.clone() });
    }
    if let Some((rejected, reason)) = &run.rejection
        && *rejected == revision
    {
        return Err(Refusal::Rejected { reason: reason.clone() });
    }
    one_more(run, revision, by, Vec::new())
}

fn start(run: &Run, number: StepNumber, from: Option<StartTree>, now: Timestamp) -> Decision {
    if !matches!(run.stage, Stage::Approved | Stage::InProgress) {
        return Err(wrong_stage(run, "starting a step", "approved"));
    }
    let Some(step) = run.step(number) else { return Err(Refusal::NoSuchStep { step: number }) };
    if !run.is_ready(number) {
        return Err(Refusal::NotOpen { step: number });
    }
    let Fit::Yes(reserved) = budget::fit(run, number, now) else {
        return Err(Refusal::NoBudget { step: number });
    };
    let target = match run.carried_by(number) {
        Some(plan) => format!("{PLAN}{plan}"),
        None => run.role(number).to_owned(),
    };
    Ok(vec![Event::StepStarted { step: number, attempt: step.attempts + 1, target, reserved, start: from }])
}

fn still_running(run: &Run, step: StepNumber, attempt: u32) -> Result<(), Refusal> {
    match run.step(step).map(|step| &step.state) {
        Some(StepState::Running { attempt: current }) if *current == attempt => Ok(()),
        _ => Err(Refusal::NotUnderWay { step, attempt }),
    }
}

fn end(run: &Run) -> Decision {
    let (open, over) =
        (run.stage == Stage::InProgress, run.under_way().all(|step| run.is_being_confirmed(step)));
    if run.any_failed() && open && over {
        let (outcome, summary, why) = (RunOutcome::Failed, run.summary(), Some(RunEndReason::Failed));
        return Ok(vec![Event::RunEnded { outcome, summary, tree: None, why, train: None }]);
    }
    let held = run.postconditions().all(|(_, state)| matches!(state, PostState::Held(_)));
    let open = run.to_be_final().next().is_some();
    if run.stage != Stage::InProgress || !run.all_settled() || !held || open {
        return Err(Refusal::StillOpen);
    }
    let (summary, tree) = (run.summary(), run.tree.clone());
    Ok(vec![Event::RunEnded {
        outcome: RunOutcome::Done,
        summary,
        tree,
        why: Some(RunEndReason::Done),
        train: None,
    }])
}

fn said(text: String, what: &'static str) -> Result<String, Refusal> {
    if text.trim().is_empty() { Err(Refusal::Empty { what }) } else { Ok(text.trim().to_owned()) }
}

fn wrong_stage(run: &Run, wanted: &'static str, needed: &'static str) -> Refusal {
    Refusal::WrongStage { stage: run.stage.word(), wanted, needed }
}

#[cfg(test)]
mod tests;
