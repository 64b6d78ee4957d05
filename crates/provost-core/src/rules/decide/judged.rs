//! Decides what follows from a verdict.
//!
//! **Invariant:** [`Event::StepPassed`] is built in [`pass`] alone, from a verdict that held or the word of a
//! named person: on a `human` contract, or on one that held but proves nothing.

use super::Decision;
use crate::language::test_files;
use crate::model::escalation::EscalationCause;
use crate::model::event::{CheckSubject, Event, FailureClass, LossCause, RunEndReason, RunOutcome};
use crate::model::pass::Pass;
use crate::model::plan::{Check, StepNumber};
use crate::model::verdict::{CheckOutcome, Verdict};
use crate::rules::command::Refusal;
use crate::rules::recover::{self, AttemptFailure, RecoveryInput, environment};
use crate::state::run::{CONFIRMED, PostState, Run, Stage, StepState};

pub(super) fn judged(
    run: &Run,
    means: &RecoveryInput<'_>,
    subject: CheckSubject,
    verdict: Verdict,
) -> Decision {
    let verdict = blamed(run, subject, verdict);
    match subject {
        CheckSubject::Contract(number) => {
            let Some(StepState::Ended { attempt }) = run.step(number).map(|step| step.state.clone()) else {
                return Err(Refusal::NotDue { what: format!("step {number}") });
            };
            let verdict = together(run, number, doubted(run, number, verdict));
            let verdict = controlled(run, subject, verdict);
            let follows = if verdict.held() && run.is_behind(&verdict) {
                // Other steps have passed since: it must hold on the combined tree.
                Vec::new()
            } else if verdict.held() {
                vec![passed(run, number, seen(run, number, &verdict), &verdict)]
            } else {
                recover::after(run, means, number, attempt, &AttemptFailure::Verdict(&verdict))
            };
            Ok(with_verdict(Some(number), subject, verdict, follows))
        }
        CheckSubject::Final(number) => judged_at_the_end(run, means, number, verdict),
        CheckSubject::Control(number) => {
            if !run.is_ready(number) && !run.under_way().any(|step| step == number) {
                return Err(Refusal::NotDue { what: format!("the control of step {number}") });
            }
            // A check without a result now would prove nothing after the work, so no agent is started for it.
            let follows = match verdict.outcome {
                CheckOutcome::NotRun { .. } | CheckOutcome::Killed { .. } => {
                    closed_door(run, means, number, "contract", &verdict)
                }
                CheckOutcome::Held if run.is_red_first(number) => vec![holds_already(number)],
                _ => Vec::new(),
            };
            Ok(with_verdict(Some(number), subject, verdict, follows))
        }
        CheckSubject::Precondition(number) => {
            if !run.is_ready(number) {
                return Err(Refusal::NotDue { what: format!("the precondition of step {number}") });
            }
            let follows = match verdict.held() {
                true => Vec::new(),
                false => closed_door(run, means, number, "precondition", &verdict),
            };
            Ok(with_verdict(Some(number), subject, verdict, follows))
        }
        CheckSubject::Postcondition(number) => {
            postcondition_is_due(run, number)?;
            let verdict = controlled(run, subject, verdict);
            // An agent that is still there repairs it and claims again; nothing has ended.
            let follows = if verdict.held() || run.agent_outside {
                Vec::new()
            } else {
                let (outcome, summary, why) = (RunOutcome::Failed, run.summary(), Some(RunEndReason::Failed));
                vec![Event::RunEnded { outcome, summary, tree: None, why, train: None }]
            };
            Ok(with_verdict(None, subject, verdict, follows))
        }
    }
}

/// Decides after a contract ran again at the end of the plan.
fn judged_at_the_end(run: &Run, means: &RecoveryInput<'_>, number: StepNumber, verdict: Verdict) -> Decision {
    if !run.all_settled() || run.stage != Stage::InProgress || run.is_final(number) {
        return Err(Refusal::NotDue { what: format!("the final contract of step {number}") });
    }
    let mut verdict = verdict;
    let follows = if verdict.held() {
        Vec::new()
    } else {
        verdict.unmet.push("it held when the step was done; a later change undid it".to_owned());
        let attempt = run.step(number).map_or(0, |step| step.attempts);
        recover::after(run, means, number, attempt, &AttemptFailure::Verdict(&verdict))
    };
    Ok(with_verdict(Some(number), CheckSubject::Final(number), verdict, follows))
}

pub(super) fn postcondition_is_due(run: &Run, number: u32) -> Result<(), Refusal> {
    let open = run.postcondition(number) == Some(&PostState::Open);
    match run.all_settled() && run.to_be_final().next().is_none() && open {
        true => Ok(()),
        false => Err(Refusal::NotDue { what: format!("postcondition {number}") }),
    }
}

/// Treats a check that failed because the machine lacks something as not run: it says nothing about the work.
pub(super) fn blamed(run: &Run, subject: CheckSubject, verdict: Verdict) -> Verdict {
    let step = |number: StepNumber| run.plan.step(number);
    let check = match subject {
        CheckSubject::Contract(number) | CheckSubject::Final(number) | CheckSubject::Control(number) => {
            step(number).and_then(|step| step.contract.as_ref()).map(|contract| &contract.check)
        }
        CheckSubject::Precondition(number) => {
            step(number).and_then(|step| step.precondition.as_ref()).map(|contract| &contract.check)
        }
        CheckSubject::Postcondition(number) => {
            let post = run.plan.postconditions.iter().find(|post| post.number == number);
            post.and_then(|post| post.contract.as_ref()).map(|contract| &contract.check)
        }
    };
    let Some(Check::Shell(shell)) = check else { return verdict };
    match environment::lacks(shell, &verdict) {
        Some(reason) => Verdict { outcome: CheckOutcome::NotRun { reason }, ..verdict },
        None => verdict,
    }
}

/// Rejects a pass that proves nothing: if red is required, a contract that held before any work; in any case,
/// one that just failed on this same tree.
pub(super) fn doubted(run: &Run, number: StepNumber, verdict: Verdict) -> Verdict {
    let Some(step) = run.step(number).filter(|_| verdict.held()) else { return verdict };
    let outcome = if run.is_red_first(number) && step.held_before == Some(true) {
        CheckOutcome::Vacuous { reason: "it held before any work was done".to_owned() }
    } else if step.verdict.as_ref().is_some_and(|before| same_tree_failed(before, &verdict))
        && !outside_failed(run, number)
    {
        CheckOutcome::Flaky { reason: "it failed before on the same files".to_owned() }
    } else {
        return verdict;
    };
    Verdict { outcome, ..verdict }
}

/// Marks a verdict that held as `uncontrolled` if provost never saw this check fail.
pub(super) fn controlled(run: &Run, subject: CheckSubject, verdict: Verdict) -> Verdict {
    let is_open = verdict.held() && verdict.uncontrolled.is_none() && verdict.judged.is_none();
    let looked = match subject {
        CheckSubject::Contract(number) => run.step(number).and_then(|step| step.held_before),
        CheckSubject::Postcondition(_) => verdict.held_before,
        CheckSubject::Precondition(_) | CheckSubject::Control(_) | CheckSubject::Final(_) => return verdict,
    };
    let uncontrolled = match looked {
        None if verdict.isolation.has_clean_tree() => Some(NOT_RUN_BEFORE.to_owned()),
        None => Some(format!("{NOT_RUN_BEFORE}: there is no tree for that at {}", verdict.isolation)),
        // Negative controls were already run for a step's check, but not for a postcondition's.
        Some(false) => (!verdict.cached && lets_code_decide(run, subject)).then(|| NOT_PLANTED.to_owned()),
        Some(true) => None,
    };
    match uncontrolled.filter(|_| is_open) {
        Some(why) => Verdict { uncontrolled: Some(why), ..verdict },
        None => verdict,
    }
}

const NOT_RUN_BEFORE: &str = "it was not run before the work";
const NOT_PLANTED: &str = "a postcondition is not tried with a failing test";

fn lets_code_decide(run: &Run, subject: CheckSubject) -> bool {
    let CheckSubject::Postcondition(number) = subject else { return false };
    let post = run.plan.postconditions.iter().find(|post| post.number == number);
    match post.and_then(|post| post.contract.as_ref()).map(|contract| &contract.check) {
        Some(Check::Shell(shell)) => test_files::lets_code_decide(&shell.command),
        Some(Check::Human | Check::Judge { .. }) | None => false,
    }
}

/// Note of a check that fails only because of the changes of other steps.
pub const HOLDS_ALONE: &str = "it held on its own tree, but not together with the changes of other steps";

/// Adds a note to a check that held on its own tree but not together with the changes of other steps.
fn together(run: &Run, number: StepNumber, mut verdict: Verdict) -> Verdict {
    if run.is_held_apart(number) && matches!(verdict.outcome, CheckOutcome::Broke { .. }) {
        verdict.unmet.push(HOLDS_ALONE.to_owned());
    }
    verdict
}

/// Returns whether the last failure was transient and the plan lets the check use the network.
fn outside_failed(run: &Run, number: StepNumber) -> bool {
    let network = run.plan.step(number).and_then(|step| step.network.as_ref());
    let passing = run.step(number).and_then(|step| step.failed_as) == Some(FailureClass::Transient);
    passing && network.is_some_and(|network| network.value)
}

fn same_tree_failed(before: &Verdict, now: &Verdict) -> bool {
    let id = |verdict: &Verdict| verdict.tree.as_ref().map(|tree| tree.id.clone());
    !before.held() && id(before).is_some() && id(before) == id(now)
}

/// Escalates a precondition that does not hold or a contract that cannot be run: no attempt can help.
fn closed_door(
    run: &Run,
    means: &RecoveryInput<'_>,
    step: StepNumber,
    what: &str,
    verdict: &Verdict,
) -> Vec<Event> {
    let failure = AttemptFailure::Verdict(verdict);
    let found = recover::classify(run, means, step, &failure);
    let attempt = run.step(step).map_or(0, |step| step.attempts);
    let reason = match &verdict.outcome {
        CheckOutcome::Killed { signal } => format!(
            "its {what} was killed by signal {signal} from outside; answer `retry` to run it again (no attempt \
             was used up)"
        ),
        CheckOutcome::NotRun { .. } => {
            format!("its {what} {}; then answer `retry` (no attempt was used up)", verdict.outcome)
        }
        outcome => format!("its {what} {outcome}"),
    };
    vec![
        Event::FailureDetected { step, attempt, error_message: reason.clone(), fingerprint: None },
        Event::FailureClassified {
            step,
            failure_type: found.class,
            rule: found.to_string(),
            halts: None,
            of_the_check: false,
        },
        Event::escalated(Some(step), EscalationCause::Other, reason),
    ]
}

/// Asks a person before an agent does work that this check cannot show.
fn holds_already(step: StepNumber) -> Event {
    let cause = EscalationCause::HoldsAlready;
    let reason = format!(
        "{}, so it cannot show that the work was done; change it, or write `**guard:** yes` in the step \
         if it is meant to hold before",
        cause.words()
    );
    Event::escalated(Some(step), cause, reason)
}

/// Decides after provost crashed during the attempt. If the contract holds, the step passes; if not, it is
/// tried again without using up a retry, up to a limit.
pub(super) fn judged_lost(run: &Run, number: StepNumber, verdict: Verdict, max_losses: u32) -> Decision {
    let Some((attempt, losses)) = run.step(number).and_then(|step| match step.state {
        StepState::Running { attempt } => Some((attempt, step.losses)),
        _ => None,
    }) else {
        return Err(Refusal::NotDue { what: format!("step {number}") });
    };
    let subject = CheckSubject::Contract(number);
    let verdict = controlled(run, subject, verdict);
    if verdict.held() && run.is_behind(&verdict) {
        return Ok(with_verdict(Some(number), subject, verdict, Vec::new()));
    }
    if verdict.held() {
        let result = format!("{}, after provost was interrupted", seen(run, number, &verdict));
        let follows = vec![passed(run, number, result, &verdict)];
        return Ok(with_verdict(Some(number), subject, verdict, follows));
    }
    let mut follows = vec![Event::AttemptLost { step: number, attempt, cause: LossCause::Crash, left: None }];
    if losses + 1 >= max_losses {
        let reason = match losses {
            0 => "provost died during an attempt".to_owned(),
            more => format!("provost died during {} attempts in a row", more + 1),
        };
        follows.push(Event::escalated(Some(number), EscalationCause::Other, reason));
    }
    Ok(with_verdict(Some(number), subject, verdict, follows))
}

/// Passes a step by a verdict that held.
pub(super) fn passed(run: &Run, step: StepNumber, result: String, verdict: &Verdict) -> Event {
    let tree = verdict.tree_id().map(str::to_owned);
    pass(run, step, result, tree, run.pass_by(step, Some(verdict)))
}

/// Passes a step by the word of a named person.
pub(super) fn confirmed(run: &Run, step: StepNumber, by: &str) -> Event {
    let step_run = run.step(step);
    let seen = step_run.and_then(|step| step.verdict.as_ref()).and_then(Verdict::tree_id);
    // The person was shown what the attempt left, whatever has happened to the workspace since.
    let tree = step_run.and_then(|step| step.left.as_deref()).or(seen).map(str::to_owned);
    pass(run, step, format!("{CONFIRMED}{by}"), tree, Pass::Confirmed)
}

fn pass(run: &Run, step: StepNumber, result: String, tree: Option<String>, kind: Pass) -> Event {
    let attempt = run.step(step).map_or(0, |step| step.attempts);
    Event::StepPassed { step, attempt, result, tree, pass: Some(kind) }
}

pub(super) fn seen(run: &Run, step: StepNumber, verdict: &Verdict) -> String {
    let self_checked = if run.is_self_checked(step, Some(verdict)) {
        "; self-checked: the agent wrote this check or its tests"
    } else {
        ""
    };
    let held_before = run.step(step).is_some_and(|step| step.held_before == Some(true));
    let held_before = if held_before { "; held before the work too" } else { "" };
    let uncontrolled = verdict.uncontrolled.iter().map(|why| format!("; uncontrolled: {why}"));
    let worth = format!("{self_checked}{held_before}{}", uncontrolled.collect::<String>());
    let tests = match verdict.tests {
        None => String::new(),
        Some(1) => ", 1 test".to_owned(),
        Some(tests) => format!(", {tests} tests"),
    };
    let changes = verdict.test_results.as_ref().and_then(|results| results.changes.as_ref());
    let fixed = changes.map_or(0, |changes| changes.fixed.count);
    let tests = if fixed == 0 { tests } else { format!("{tests}, {fixed} fixed") };
    if let Some(judgement) = &verdict.judged {
        let by = judgement.by();
        return format!(
            "{by}, weaker than a contract that held ({}, {} ms)",
            verdict.isolation, verdict.duration_ms
        );
    }
    let passing = if outside_failed(run, step) { "; it failed before for a transient reason" } else { "" };
    let remarks: String = verdict.remarks().iter().map(|remark| format!("; {remark}")).collect();
    format!(
        "contract held ({}, {} ms{tests}{worth}{passing}{remarks})",
        verdict.isolation, verdict.duration_ms
    )
}

pub(super) fn with_verdict(
    step: Option<StepNumber>,
    subject: CheckSubject,
    verdict: Verdict,
    follows: Vec<Event>,
) -> Vec<Event> {
    let mut events = vec![Event::Judged { step, subject, verdict, plan: None }];
    events.extend(follows);
    events
}
