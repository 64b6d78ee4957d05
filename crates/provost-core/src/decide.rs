//! Turns what someone says into what happened.
//!
//! Every event is born here, behind one of three doors: [`agent`], [`human`], [`harness`]. None of
//! them waits, reads a clock or touches the disk, so a log always replays the same way.
//!
//! **Invariant:** [`Event::StepPassed`] is built in [`passed`] alone, from a verdict that held or the
//! word of a named person on a `human` contract. [`agent`] cannot reach it.

mod landed;
mod session;

use crate::budget::{self, Fit};
use crate::chain::Timestamp;
use crate::command::{AgentCommand, HarnessCommand, HumanCommand, Refusal};
use crate::event::{
    Approver, AttemptEnd, Choice, Dependency, Event, FailureClass, LossCause, Revision, RunOutcome, Scope,
    Subject, Why,
};
use crate::inbox;
use crate::law::{self, Binding, Law};
use crate::parse;
use crate::plan::{Needs, Plan, StepNumber};
use crate::quorum::{self, Tally};
use crate::recover::{self, Failure, Means};
use crate::run::{PLAN_WAITS, PostState, Run, Stage, StepRun, StepState};
use crate::usage::{Amount, Resource};
use crate::verdict::{Outcome, Verdict};

pub use session::SESSION;

/// How the target of an attempt begins that another plan carries out. No role has a blank in its name.
pub const PLAN: &str = "plan ";

/// How the escalation begins that an agent asked for.
pub(crate) const BLOCKED: &str = "the agent is blocked: ";

type Decision = Result<Vec<Event>, Refusal>;

/// An agent may claim, may be stuck and may want to stop. All three are words; none ends a step.
pub fn agent(run: &Run, command: AgentCommand) -> Decision {
    genuine(run)?;
    match command {
        AgentCommand::Claim { step, evidence } => {
            under_way(run, step)?;
            if evidence.trim().is_empty() {
                return Err(Refusal::NoEvidence { step });
            }
            Ok(vec![Event::StepClaimed { step, evidence }])
        }
        AgentCommand::Block { step, reason } => {
            under_way(run, step)?;
            let reason = said(reason, "why the step is blocked")?;
            Ok(vec![Event::Escalated { step: Some(step), reason: format!("{BLOCKED}{reason}") }])
        }
        AgentCommand::Finish => finish(run),
    }
}

/// An empty plan is never finished, and neither is one whose postconditions nobody has seen hold.
fn finish(run: &Run) -> Decision {
    if !run.exists() {
        return Err(Refusal::NoPlan);
    }
    let mut open =
        run.steps().filter(|(_, step)| !matches!(step.state, StepState::Passed | StepState::Waived { .. }));
    if let Some((first, _)) = open.next() {
        return Err(Refusal::Unfinished { first: first.number, more: open.count() });
    }
    if run.stage == Stage::Done { Ok(Vec::new()) } else { Err(Refusal::StillOpen) }
}

fn under_way(run: &Run, step: StepNumber) -> Result<(), Refusal> {
    match run.step(step).map(|step| &step.state) {
        Some(StepState::Running { .. } | StepState::Ended { .. }) => Ok(()),
        _ => Err(Refusal::NotOpen { step }),
    }
}

/// A person decides, and only about the text they read.
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
        HumanCommand::Ask { question, by } => {
            let question = said(question, "what you want to know")?;
            if !matches!(run.stage, Stage::Verified | Stage::Approved) {
                return Err(wrong_stage(run, "asking", "at the gate"));
            }
            Ok(vec![Event::QuestionAsked { revision: run.revision.clone(), question, by }])
        }
        HumanCommand::Answer { step, choice, note, by } => answer(run, step, choice, note, by),
        HumanCommand::Raise { step, budget, note, by } => raise(run, step, budget, note, by),
    }
}

fn approve(run: &Run, revision: Revision, by: String, modifications: Vec<String>) -> Decision {
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
        (false, Some(true)) => return Err(Refusal::OwnPlan { by, tally: Tally::of(run).to_string() }),
        (false, None) => return Err(Refusal::NoAuthor),
    }
    one_more(run, revision, Approver::Person(by), modifications)
}

/// The yes of somebody who has not given it yet; with enough of them the plan is approved.
fn one_more(run: &Run, revision: Revision, by: Approver, modifications: Vec<String>) -> Decision {
    if run.has_approval_of(&by) {
        return Err(Refusal::CountsOnce { by: by.to_string(), tally: Tally::of(run).to_string() });
    }
    let missing = Tally::of(run).missing.saturating_sub(1);
    Ok(vec![Event::Approved { revision, by, modifications, missing }])
}

/// The plan is verified, and the revision is the one in the log.
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
        // Time is counted up to the last event: people have none.
        Choice::Retry if over_budget && !budget::is_any_left(run, number, Timestamp(0)) => {
            return Err(Refusal::NothingLeft { step: number });
        }
        Choice::Retry | Choice::Revise => vec![answered],
        Choice::Skip => {
            let reason = if note.is_empty() { "skipped by a person".to_owned() } else { note };
            vec![answered, Event::StepWaived { step: number, by, reason }]
        }
        Choice::Abort => {
            let why = if over_budget { Why::Budget } else { Why::Person };
            let [failed, ended] = recover::fail(run, number, format!("aborted by {by}"), why);
            vec![answered, failed, ended]
        }
        Choice::Confirm if confirming => vec![answered, confirmed(run, number, &by)],
        // It held, and only proved nothing: a person may say what it is worth.
        Choice::Confirm if vacuous(run, number) && !note.trim().is_empty() => {
            vec![answered, confirmed(run, number, &by)]
        }
        Choice::Confirm => {
            return Err(Refusal::WrongChoice { choice: "confirm", instead: "retry, skip, abort or revise" });
        }
    })
}

/// New limits for what ran out; parts that are not named stay as they are.
fn raise(run: &Run, step: StepNumber, limits: Amount, note: String, by: String) -> Decision {
    let waiting = run.step(step).and_then(|step| step.over_budget.as_ref()).map(|breach| breach.scope);
    let open = matches!(run.stage, Stage::Approved | Stage::InProgress);
    let Some(scope) = waiting.filter(|_| open && !limits.is_empty()) else {
        return Err(Refusal::NothingToRaise { step });
    };
    for resource in Resource::ALL {
        let Some(limit) = limits.of(resource) else { continue };
        let spent = match scope {
            Scope::Plan => run.ledger.committed(resource, Timestamp(0)),
            Scope::Step => run.ledger.committed_by(step, resource),
        };
        if limit <= spent {
            let (limit, spent) = (resource.say(limit), resource.say(spent));
            return Err(Refusal::RaisedTooLittle { limit, spent });
        }
    }
    Ok(vec![Event::Answered { step: Some(step), choice: Choice::Retry, by, note, budget: limits }])
}

/// A postcondition broke: look again, or give up.
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

/// The harness says what it saw; what follows from it is decided here, with the recipes that are built
/// in and without waiting.
pub fn harness(run: &Run, command: HarnessCommand) -> Decision {
    harness_with(run, &Means::default(), command)
}

/// The same by the recipes and at the time of a run.
pub fn harness_with(run: &Run, means: &Means<'_>, command: HarnessCommand) -> Decision {
    if !matches!(command, HarnessCommand::Tampered { .. } | HarnessCommand::Forged { .. }) {
        genuine(run)?;
    }
    match command {
        HarnessCommand::Record { text, binding, author } => Ok(record(run, text, binding, author)),
        HarnessCommand::RecordDraft { text, binding, usage, author } => {
            let mut events = record(run, text, binding, author);
            if let Some(Event::PlanCreated { drafting, .. }) = events.first_mut() {
                *drafting = usage;
            }
            Ok(events)
        }
        HarnessCommand::Verified { revision, warnings } => {
            if !run.exists() || run.stage != Stage::Draft || revision != run.revision {
                return Err(wrong_stage(run, "verifying", "a draft"));
            }
            Ok(vec![Event::PlanVerified { revision, warnings }])
        }
        HarnessCommand::RequestApproval { plan_id } => {
            at_gate(run, &run.revision)?;
            if run.requested.as_ref() == Some(&run.revision) {
                return Ok(Vec::new());
            }
            Ok(vec![Event::ApprovalRequested { plan_id, revision: run.revision.clone() }])
        }
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
        HarnessCommand::Start { step } => start(run, step, means.now),
        HarnessCommand::AttemptEnded {
            step,
            attempt,
            end,
            duration_ms,
            report,
            notes,
            usage,
            session,
            published,
            rewrites,
            carried,
        } => {
            still_running(run, step, attempt)?;
            let follows = after_end(run, means, step, attempt, &end);
            let mut events = vec![Event::AttemptEnded {
                step,
                attempt,
                end,
                duration_ms,
                report,
                notes,
                usage,
                session,
                published,
                rewrites,
                carried,
            }];
            events.extend(follows);
            Ok(events)
        }
        HarnessCommand::AttemptInterrupted { step, attempt } => {
            still_running(run, step, attempt)?;
            Ok(vec![Event::AttemptLost { step, attempt, cause: LossCause::Interrupt }])
        }
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
            true => Ok(vec![plan_goes_on(step, "the plan that carries it out can go on")]),
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

/// What follows at once from the end of an attempt. Nothing, where the judge has the word.
fn after_end(run: &Run, means: &Means<'_>, step: StepNumber, attempt: u32, end: &AttemptEnd) -> Vec<Event> {
    match end {
        AttemptEnd::NotStarted { .. } | AttemptEnd::PlanFailed { .. } => {
            recover::after(run, means, step, attempt, &Failure::Agent(end))
        }
        AttemptEnd::PlanWaits { reason, .. } => vec![waits_for_its_plan(step, reason)],
        // Whether anything is left is asked before the next attempt, as always.
        AttemptEnd::PlanStopped { .. } => {
            vec![plan_goes_on(step, "the plan that carries it out was stopped where the budget ends")]
        }
        AttemptEnd::Exited { .. }
        | AttemptEnd::Signalled { .. }
        | AttemptEnd::TimedOut
        | AttemptEnd::OverBounds { .. } => Vec::new(),
    }
}

fn waits_for_its_plan(step: StepNumber, reason: &str) -> Event {
    Event::Escalated { step: Some(step), reason: format!("{PLAN_WAITS}{reason}") }
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

/// A step whose turn has come and whose role is given no work: a person has to know.
fn hold(run: &Run, step: StepNumber) -> Decision {
    let role = run.role(step);
    if !run.halted.contains(role) || !run.is_ready(step) {
        return Err(Refusal::NotOpen { step });
    }
    let reason = format!("{role} has nothing left to spend, as another step found; `retry` when it has");
    Ok(vec![Event::Escalated { step: Some(step), reason }])
}

/// A word for people, that changes nothing: what waits goes on waiting.
fn remind(run: &Run, reason: String) -> Decision {
    if !reason.starts_with(inbox::OVERDUE) || inbox::waiting(run).is_empty() {
        return Err(Refusal::NothingWaits);
    }
    Ok(vec![Event::Escalated { step: None, reason }])
}

/// A step whose turn has come and which the budget does not allow: a person has to know.
fn over_budget(run: &Run, step: StepNumber, now: Timestamp) -> Decision {
    // One question about the plan's budget is enough, however many steps it keeps from beginning.
    let over = |step: &StepRun| step.over_budget.as_ref().is_some_and(|breach| breach.scope == Scope::Plan);
    let asked = run.steps().any(|(_, step)| over(step));
    match budget::fit(run, step, now) {
        Fit::No(breach) if asked && breach.scope == Scope::Plan => Err(Refusal::NotOpen { step }),
        Fit::No(breach) if run.is_ready(step) => Ok(vec![Event::BudgetExceeded { step, breach }]),
        Fit::Yes(_) | Fit::NotNow | Fit::No(_) => Err(Refusal::NotOpen { step }),
    }
}

/// Nothing rests on a log that somebody else wrote.
fn genuine(run: &Run) -> Result<(), Refusal> {
    match run.forged_from {
        Some(from_seq) => Err(Refusal::Forged { from_seq }),
        None => Ok(()),
    }
}

/// What was read becomes the law, if it is another law. Before the first attempt the base commit and
/// the named files count too; later the steps themselves move them. The terms always count.
fn record(run: &Run, text: String, binding: Binding, author: Option<String>) -> Vec<Event> {
    let plan = parse::plan(&text).plan;
    let law = law::digest(&text, &plan);
    let revision = law::revision(law, &binding);
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
    let changes = law::diff(old, Law { text: &text, plan: &plan, binding: Some(&binding) });
    // Whoever finds the same text on another commit has not written it.
    let author = if run.law == Some(law) { run.author.clone().or(author) } else { author };
    let Binding { base, files, terms } = binding;
    vec![match run.exists() {
        false => {
            let drafting = Vec::new();
            Event::PlanCreated {
                text,
                revision,
                base,
                files,
                terms,
                task_count,
                dependencies,
                drafting,
                author,
            }
        }
        true => Event::PlanRewritten {
            text,
            revision,
            base,
            files,
            terms,
            task_count,
            dependencies,
            changes,
            author,
        },
    }]
}

/// Only what was written: the order of the file is every other step's dependency.
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
    if !run.quorum().lets_policies() {
        return Err(Refusal::NoPolicy);
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

fn start(run: &Run, number: StepNumber, now: Timestamp) -> Decision {
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
    Ok(vec![Event::StepStarted { step: number, attempt: step.attempts + 1, target, reserved }])
}

fn still_running(run: &Run, step: StepNumber, attempt: u32) -> Result<(), Refusal> {
    match run.step(step).map(|step| &step.state) {
        Some(StepState::Running { attempt: current }) if *current == attempt => Ok(()),
        _ => Err(Refusal::NotUnderWay { step, attempt }),
    }
}

fn judged(run: &Run, means: &Means<'_>, subject: Subject, verdict: Verdict) -> Decision {
    match subject {
        Subject::Contract(number) => {
            let Some(StepState::Ended { attempt }) = run.step(number).map(|step| step.state.clone()) else {
                return Err(Refusal::NotDue { what: format!("step {number}") });
            };
            let verdict = together(run, number, doubted(run, number, verdict));
            let follows = if verdict.held() && run.is_behind(&verdict) {
                // Other steps have passed since: it has to hold on what they left together.
                Vec::new()
            } else if verdict.held() {
                vec![passed(run, number, seen(run, number, &verdict), &verdict)]
            } else {
                recover::after(run, means, number, attempt, &Failure::Verdict(&verdict))
            };
            Ok(with_verdict(Some(number), subject, verdict, follows))
        }
        Subject::Final(number) => {
            if !run.all_settled() || run.stage != Stage::InProgress || run.is_final(number) {
                return Err(Refusal::NotDue { what: format!("the last look at step {number}") });
            }
            let mut verdict = verdict;
            let follows = if verdict.held() {
                Vec::new()
            } else {
                verdict.unmet.push("it held when the step was done; a later step undid it".to_owned());
                let attempt = run.step(number).map_or(0, |step| step.attempts);
                recover::after(run, means, number, attempt, &Failure::Verdict(&verdict))
            };
            Ok(with_verdict(Some(number), subject, verdict, follows))
        }
        Subject::Control(number) => {
            if !run.is_ready(number) {
                return Err(Refusal::NotDue { what: format!("the control of step {number}") });
            }
            // What cannot be run now cannot be run after the work either: no agent is paid for that.
            let follows = match verdict.outcome {
                Outcome::NotRun { .. } => closed_door(run, means, number, "contract", &verdict),
                _ => Vec::new(),
            };
            Ok(with_verdict(Some(number), subject, verdict, follows))
        }
        Subject::Precondition(number) => {
            if !run.is_ready(number) {
                return Err(Refusal::NotDue { what: format!("the precondition of step {number}") });
            }
            let follows = match verdict.held() {
                true => Vec::new(),
                false => closed_door(run, means, number, "precondition", &verdict),
            };
            Ok(with_verdict(Some(number), subject, verdict, follows))
        }
        Subject::Postcondition(number) => {
            postcondition_is_due(run, number)?;
            // An agent that is still there mends it and asks again; nothing has ended.
            let follows = if verdict.held() || run.agent_outside {
                Vec::new()
            } else {
                let (outcome, summary, why) = (RunOutcome::Failed, run.summary(), Some(Why::Failed));
                vec![Event::RunEnded { outcome, summary, tree: None, why, train: None }]
            };
            Ok(with_verdict(None, subject, verdict, follows))
        }
    }
}

fn postcondition_is_due(run: &Run, number: u32) -> Result<(), Refusal> {
    let open = run.postcondition(number) == Some(&PostState::Open);
    match run.all_settled() && run.to_be_final().next().is_none() && open {
        true => Ok(()),
        false => Err(Refusal::NotDue { what: format!("postcondition {number}") }),
    }
}

/// A pass that proves nothing is not a pass: where red is required, a contract that held before any
/// work; anywhere, one that failed on this very tree a moment ago.
fn doubted(run: &Run, number: StepNumber, verdict: Verdict) -> Verdict {
    let Some(step) = run.step(number).filter(|_| verdict.held()) else { return verdict };
    let outcome = if run.require_red && step.held_before == Some(true) {
        Outcome::Vacuous { reason: "it held before any work was done".to_owned() }
    } else if step.verdict.as_ref().is_some_and(|before| same_tree_failed(before, &verdict))
        && !outside_failed(run, number)
    {
        Outcome::Flaky { reason: "it failed before on the same files".to_owned() }
    } else {
        return verdict;
    };
    Verdict { outcome, ..verdict }
}

/// What held where it was made and not on what others left meanwhile says so.
fn together(run: &Run, number: StepNumber, mut verdict: Verdict) -> Verdict {
    if run.is_held_apart(number) && matches!(verdict.outcome, Outcome::Broke { .. }) {
        let unmet = "it held on the tree it was made on, and not together with what other steps left since";
        verdict.unmet.push(unmet.to_owned());
    }
    verdict
}

/// The check failed for something that passes by itself, and the plan lets it reach outside.
fn outside_failed(run: &Run, number: StepNumber) -> bool {
    let network = run.plan.step(number).and_then(|step| step.network.as_ref());
    let passing = run.step(number).and_then(|step| step.failed_as) == Some(FailureClass::Transient);
    passing && network.is_some_and(|network| network.value)
}

fn same_tree_failed(before: &Verdict, now: &Verdict) -> bool {
    let id = |verdict: &Verdict| verdict.tree.as_ref().map(|tree| tree.id.clone());
    !before.held() && id(before).is_some() && id(before) == id(now)
}

/// A precondition does not hold, or a contract cannot be run: no attempt can help, a person must look.
fn closed_door(run: &Run, means: &Means<'_>, step: StepNumber, what: &str, verdict: &Verdict) -> Vec<Event> {
    let failure = Failure::Verdict(verdict);
    let found = recover::classify(run, means, step, &failure);
    let attempt = run.step(step).map_or(0, |step| step.attempts);
    let reason = format!("its {what} {}", verdict.outcome);
    vec![
        Event::FailureDetected { step, attempt, error_message: reason.clone(), fingerprint: None },
        Event::FailureClassified { step, failure_type: found.class, rule: found.to_string(), halts: None },
        Event::Escalated { step: Some(step), reason },
    ]
}

/// The harness died during the attempt. If the work is done, it is done; if not, it is tried again
/// and no retry is used up, but not for ever.
fn judged_lost(run: &Run, number: StepNumber, verdict: Verdict, max_losses: u32) -> Decision {
    let Some((attempt, losses)) = run.step(number).and_then(|step| match step.state {
        StepState::Running { attempt } => Some((attempt, step.losses)),
        _ => None,
    }) else {
        return Err(Refusal::NotDue { what: format!("step {number}") });
    };
    let subject = Subject::Contract(number);
    if verdict.held() && run.is_behind(&verdict) {
        return Ok(with_verdict(Some(number), subject, verdict, Vec::new()));
    }
    if verdict.held() {
        let result = format!("{}, after the harness was lost", seen(run, number, &verdict));
        let follows = vec![passed(run, number, result, &verdict)];
        return Ok(with_verdict(Some(number), subject, verdict, follows));
    }
    let mut follows = vec![Event::AttemptLost { step: number, attempt, cause: LossCause::Crash }];
    if losses + 1 >= max_losses {
        let reason = format!("{} attempts in a row were lost because the harness died", losses + 1);
        follows.push(Event::Escalated { step: Some(number), reason });
    }
    Ok(with_verdict(Some(number), subject, verdict, follows))
}

fn end(run: &Run) -> Decision {
    let (open, over) =
        (run.stage == Stage::InProgress, run.under_way().all(|step| run.is_being_confirmed(step)));
    if run.any_failed() && open && over {
        let (outcome, summary, why) = (RunOutcome::Failed, run.summary(), Some(Why::Failed));
        return Ok(vec![Event::RunEnded { outcome, summary, tree: None, why, train: None }]);
    }
    let held = run.postconditions().all(|(_, state)| *state == PostState::Held);
    let open = run.to_be_final().next().is_some();
    if run.stage != Stage::InProgress || !run.all_settled() || !held || open {
        return Err(Refusal::StillOpen);
    }
    let (summary, tree) = (run.summary(), run.tree.clone());
    Ok(vec![Event::RunEnded { outcome: RunOutcome::Done, summary, tree, why: Some(Why::Done), train: None }])
}

fn vacuous(run: &Run, number: StepNumber) -> bool {
    let verdict = run.step(number).and_then(|step| step.verdict.as_ref());
    verdict.is_some_and(|verdict| matches!(verdict.outcome, Outcome::Vacuous { .. }))
}

/// The two ways for a step to pass: a verdict that held, and the word of a named person.
fn passed(run: &Run, step: StepNumber, result: String, verdict: &Verdict) -> Event {
    let tree = verdict.tree.as_ref().map(|tree| tree.id.clone());
    Event::StepPassed { step, attempt: run.step(step).map_or(0, |step| step.attempts), result, tree }
}

fn confirmed(run: &Run, step: StepNumber, by: &str) -> Event {
    let verdict = run.step(step).and_then(|step| step.verdict.as_ref());
    let tree = verdict.and_then(|verdict| verdict.tree.as_ref()).map(|tree| tree.id.clone());
    let result = format!("confirmed by {by}");
    Event::StepPassed { step, attempt: run.step(step).map_or(0, |step| step.attempts), result, tree }
}

fn seen(run: &Run, step: StepNumber, verdict: &Verdict) -> String {
    let guard = run.step(step).is_some_and(|step| step.held_before == Some(true));
    let worth = if guard { "; a guard: it held before the work too" } else { "" };
    let tests = match verdict.tests {
        None => String::new(),
        Some(1) => ", 1 test".to_owned(),
        Some(tests) => format!(", {tests} tests"),
    };
    if let Some(judgement) = &verdict.judged {
        let by = judgement.by();
        return format!(
            "{by}, weaker than a contract that held ({}, {} ms)",
            verdict.isolation, verdict.duration_ms
        );
    }
    let passing = if outside_failed(run, step) { "; it failed before for something transient" } else { "" };
    format!("contract held ({}, {} ms{tests}{worth}{passing})", verdict.isolation, verdict.duration_ms)
}

fn with_verdict(
    step: Option<StepNumber>,
    subject: Subject,
    verdict: Verdict,
    follows: Vec<Event>,
) -> Vec<Event> {
    let mut events = vec![Event::Judged { step, subject, verdict, plan: None }];
    events.extend(follows);
    events
}

fn said(text: String, what: &'static str) -> Result<String, Refusal> {
    if text.trim().is_empty() { Err(Refusal::Empty { what }) } else { Ok(text.trim().to_owned()) }
}

fn wrong_stage(run: &Run, wanted: &'static str, needed: &'static str) -> Refusal {
    Refusal::WrongStage { stage: run.stage.word(), wanted, needed }
}

#[cfg(test)]
mod tests;
