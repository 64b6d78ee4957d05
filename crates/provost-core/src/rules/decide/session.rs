//! Decides what follows from checking the work of a session, an agent that provost did not start.
//!
//! **Invariant:** only a verdict passes a step of a session, as for any other agent.

use super::{
    Decision, doubted, judged, passed, postcondition_is_due, said, seen, start, with_verdict, wrong_stage,
};
use crate::model::escalation::EscalationCause;
use crate::model::event::{AttemptEnd, CheckSubject, EndedAttempt, Event, RunEndReason, RunOutcome};
use crate::model::timestamp::Timestamp;
use crate::model::usage::Amount;
use crate::model::verdict::Verdict;
use crate::rules::command::Refusal;
use crate::rules::recover::{self, AttemptFailure, RecoveryInput};
use crate::state::run::{PostState, Run, Stage, StepState};

/// Handles the check of a session's work. The session learns the result and continues, until the caller lets
/// it stop.
pub(super) fn looked(
    run: &Run,
    means: &RecoveryInput<'_>,
    subject: CheckSubject,
    verdict: Option<Verdict>,
    client: &str,
) -> Decision {
    let Some(verdict) = verdict else { return session_ended(run, subject, client) };
    let verdict = judged::blamed(run, subject, verdict);
    if verdict.held() && !matches!(subject, CheckSubject::Contract(_)) {
        return judged(run, means, subject, verdict);
    }
    match subject {
        CheckSubject::Contract(number) => {
            let mut events = session_ended(run, subject, client)?;
            let mut run = run.clone();
            events.iter().for_each(|event| run.apply(event));
            let verdict = judged::controlled(&run, subject, doubted(&run, number, verdict));
            let follows = match verdict.held() {
                true => vec![passed(&run, number, seen(&run, number, &verdict), &verdict)],
                false => recover::send_back(&run, means, number, &AttemptFailure::Verdict(&verdict)),
            };
            events.extend(with_verdict(Some(number), subject, verdict, follows));
            Ok(events)
        }
        CheckSubject::Final(number) => {
            // Refused by the same rule if it is not due.
            judged(run, means, subject, verdict.clone())?;
            let mut verdict = verdict;
            verdict.unmet.push("it held when the step was done; later work undid it".to_owned());
            let follows = recover::send_back(run, means, number, &AttemptFailure::Verdict(&verdict));
            Ok(with_verdict(Some(number), subject, verdict, follows))
        }
        CheckSubject::Postcondition(number) => {
            postcondition_is_due(run, number)?;
            Ok(with_verdict(None, subject, verdict, Vec::new()))
        }
        CheckSubject::Control(_) | CheckSubject::Precondition(_) => judged(run, means, subject, verdict),
    }
}

/// Records the session's work so far as an ordinary attempt.
fn session_ended(run: &Run, subject: CheckSubject, client: &str) -> Decision {
    let not_due = |step| Refusal::NotDue { what: format!("step {step}") };
    let CheckSubject::Contract(number) = subject else {
        return Err(Refusal::NotDue { what: "a step that a person confirms".to_owned() });
    };
    let step = run.step(number).ok_or(not_due(number))?;
    if let Some(plan) = run.carried_by(number) {
        return Err(Refusal::CarriedByPlan { step: number, plan: plan.to_owned() });
    }
    let ended = |attempt| {
        Event::AttemptEnded(EndedAttempt::new(number, attempt, AttemptEnd::Exited { exit_code: 0 }))
    };
    match step.state {
        StepState::Ended { .. } => Ok(Vec::new()),
        StepState::Running { attempt } => Ok(vec![ended(attempt)]),
        _ => {
            // provost does not control what a session spends, so nothing is reserved for it.
            match start(run, number, None, Timestamp(0)) {
                Ok(_) | Err(Refusal::NoBudget { .. }) => {}
                Err(refusal) => return Err(refusal),
            }
            let attempt = step.attempts + 1;
            let target = Event::session_target(client);
            Ok(vec![
                Event::StepStarted {
                    step: number,
                    attempt,
                    target,
                    reserved: Amount::default(),
                    start: None,
                },
                ended(attempt),
            ])
        }
    }
}

/// Lets a session stop with the plan open: its next step, or the broken postconditions, wait for a person.
pub(super) fn let_go(run: &Run, reason: &str) -> Decision {
    if !matches!(run.stage, Stage::Approved | Stage::InProgress) {
        return Err(wrong_stage(run, "releasing a session", "under way"));
    }
    let reason = format!("the session was released: {}", said(reason.to_owned(), "why it was released")?);
    if let Some(step) = run.under_way().chain(run.ready()).next() {
        return Ok(vec![Event::escalated(Some(step), EscalationCause::Other, reason)]);
    }
    let broke = run.postconditions().any(|(_, state)| matches!(state, PostState::Broke(_)));
    if !broke {
        return Err(Refusal::StillOpen);
    }
    let (outcome, summary, why) = (RunOutcome::Failed, run.summary(), Some(RunEndReason::LetGo));
    Ok(vec![Event::RunEnded { outcome, summary, tree: None, why, train: None }])
}
