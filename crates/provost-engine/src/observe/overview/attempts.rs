//! Lists the attempts at each step from the log: agent, end, claims and verdicts.

use std::ops::ControlFlow;

use provost_core::model::chain::PlanId;
use provost_core::model::event::{AttemptEnd, CheckSubject, EndedAttempt, Event, FailureClass};
use provost_core::model::plan::StepNumber;
use provost_core::model::timestamp::Timestamp;
use provost_core::model::usage::Usage;
use provost_core::model::verdict::Verdict;
use provost_store::{Log, Query};

use crate::Error;

/// One dispatch of a step and its outcome.
#[derive(Clone, Debug)]
pub struct AttemptRecord {
    pub step: StepNumber,
    pub number: u32,
    pub target: String,
    pub begun: Timestamp,
    pub ended: Option<Timestamp>,
    /// How the agent ended, once it has.
    pub end: Option<AttemptEnd>,
    /// provost did not see it end.
    pub lost: bool,
    pub report: String,
    pub notes: Vec<String>,
    pub usage: Usage,
    /// SHA-256 of its transcript, if it has ended and has one.
    pub transcript: Option<String>,
    pub claims: Vec<String>,
    pub verdicts: Vec<TimedVerdict>,
    pub failure: Option<String>,
    pub class: Option<FailureClass>,
    pub followed: Vec<String>,
    pub passed: bool,
    /// The tree it left, if it was kept.
    pub left: Option<String>,
}

/// A verdict and its time.
#[derive(Clone, Debug)]
pub struct TimedVerdict {
    pub at: Timestamp,
    pub subject: CheckSubject,
    pub verdict: Verdict,
}

const NAMES: [&str; 10] = [
    "TASK_STARTED",
    "ATTEMPT_ENDED",
    "ATTEMPT_LOST",
    "STEP_CLAIMED",
    "CONTRACT_JUDGED",
    "FAILURE_DETECTED",
    "FAILURE_CLASSIFIED",
    "RECOVERY_APPLIED",
    "RECOVERY_ESCALATION",
    "TASK_COMPLETED",
];

pub(super) fn of(log: &dyn Log, plan: &PlanId) -> Result<Vec<AttemptRecord>, Error> {
    let mut all: Vec<AttemptRecord> = Vec::new();
    let query = Query { names: NAMES.map(str::to_owned).to_vec(), ..Query::plan(plan) };
    let mut bad = Ok(());
    log.read(&query, &mut |sealed| match sealed.event() {
        Ok(event) => {
            hear(&mut all, sealed.at, event);
            ControlFlow::Continue(())
        }
        Err(error) => {
            bad = Err(error);
            ControlFlow::Break(())
        }
    })?;
    bad?;
    Ok(all)
}

fn hear(all: &mut Vec<AttemptRecord>, at: Timestamp, event: Event) {
    if let Event::StepStarted { step, attempt, target, .. } = event {
        all.push(AttemptRecord {
            step,
            number: attempt,
            target,
            begun: at,
            ended: None,
            end: None,
            lost: false,
            report: String::new(),
            notes: Vec::new(),
            usage: Usage::default(),
            transcript: None,
            claims: Vec::new(),
            verdicts: Vec::new(),
            failure: None,
            class: None,
            followed: Vec::new(),
            passed: false,
            left: None,
        });
        return;
    }
    // A contract may be checked before the first attempt; that is shown with the step itself.
    let Some(step) = event.step() else { return };
    let Some(last) = all.iter_mut().rev().find(|attempt| attempt.step == step) else { return };
    match event {
        Event::AttemptEnded(EndedAttempt { end, report, notes, usage, transcript, left, .. }) => {
            (last.ended, last.transcript, last.left) = (Some(at), transcript, left);
            (last.end, last.report, last.notes, last.usage) = (Some(end), report, notes, usage);
        }
        Event::AttemptLost { left, .. } => (last.ended, last.lost, last.left) = (Some(at), true, left),
        Event::StepClaimed { evidence, .. } => last.claims.push(evidence),
        Event::Judged { subject, verdict, .. } => last.verdicts.push(TimedVerdict { at, subject, verdict }),
        Event::FailureDetected { error_message, .. } => last.failure = Some(error_message),
        Event::FailureClassified { failure_type, .. } => last.class = Some(failure_type),
        Event::RecoveryApplied { outcome, .. } => last.followed.push(outcome),
        Event::Escalated { reason, .. } => last.followed.push(reason),
        Event::StepPassed { .. } => last.passed = true,
        _ => {}
    }
}
