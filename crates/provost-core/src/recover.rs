//! What a failure was, and what follows from it.
//!
//! A failure is classified before anything is tried, and the plan's own `on_fail` says what is tried.
//! The harness does not improvise: when the policy is at its end, a person decides.
//!
//! **Invariant:** retries are counted in the log, never in memory.

use crate::event::{AttemptEnd, Event, FailureClass, RunOutcome};
use crate::plan::{Step, StepNumber, Then};
use crate::run::Run;
use crate::verdict::{Outcome, Verdict};

/// Why an attempt did not pass its step.
pub enum Failure<'a> {
    Verdict(&'a Verdict),
    Agent(&'a AttemptEnd),
}

impl Failure<'_> {
    /// One line for people and the log.
    pub fn message(&self) -> String {
        match self {
            Failure::Verdict(verdict) if verdict.unmet.is_empty() => format!("contract {}", verdict.outcome),
            Failure::Verdict(verdict) => {
                format!("contract {} (not met: {})", verdict.outcome, verdict.unmet.join(", "))
            }
            Failure::Agent(AttemptEnd::NotStarted { reason }) => {
                format!("the agent could not be started: {reason}")
            }
            Failure::Agent(AttemptEnd::OverBounds { reason }) => {
                format!("the agent took too much of the machine: {reason}")
            }
            Failure::Agent(AttemptEnd::TimedOut) => "the agent ran out of time".to_owned(),
            Failure::Agent(AttemptEnd::Exited { exit_code }) => format!("the agent exited with {exit_code}"),
            Failure::Agent(AttemptEnd::Signalled { signal }) => {
                format!("the agent was ended by signal {signal}")
            }
        }
    }
}

/// The class of a failure and the rule that says so.
pub fn classify(failure: &Failure<'_>) -> (FailureClass, &'static str) {
    match failure {
        Failure::Verdict(verdict) => match &verdict.outcome {
            Outcome::Broke { .. } => (FailureClass::Logic, "the contract ran and did not hold"),
            Outcome::TimedOut { .. } => (FailureClass::Unknown, "the contract ran out of time"),
            Outcome::Killed { .. } => (FailureClass::Transient, "the contract was killed from outside"),
            Outcome::NotRun { .. } => (FailureClass::Unknown, "the contract could not be run"),
            Outcome::Vacuous { .. } => (FailureClass::InvalidInput, "the contract proves nothing"),
            Outcome::Flaky { .. } => (FailureClass::Transient, "the contract disagrees with itself"),
            Outcome::Tampered { .. } => (FailureClass::Unrecoverable, "something protected was touched"),
            Outcome::Held => (FailureClass::Unknown, "a check that held is no failure"),
        },
        Failure::Agent(AttemptEnd::NotStarted { .. }) => {
            (FailureClass::InvalidInput, "the agent could not be started")
        }
        Failure::Agent(_) => (FailureClass::Unknown, "the agent ended on its own"),
    }
}

/// What follows from a failed attempt, by the step's `on_fail`.
pub fn after(run: &Run, step: StepNumber, attempt: u32, failure: &Failure<'_>) -> Vec<Event> {
    let (failure_type, rule) = classify(failure);
    let message = match failure {
        // What a hidden contract wanted goes into the verdict, and into nothing that agents can read.
        Failure::Verdict(verdict) if run.plan.step(step).is_some_and(Step::is_hidden) => {
            format!("contract {}", verdict.outcome)
        }
        failure => failure.message(),
    };
    let mut events = vec![
        Event::FailureDetected { step, attempt, error_message: message.clone() },
        Event::FailureClassified { step, failure_type, rule: rule.to_owned() },
    ];
    let on_fail = run.on_fail(step);
    let failures = run.step(step).map_or(0, |step| step.failures) + 1;
    // No attempt can make a check mean more, or stop it from changing its mind.
    let hopeless = matches!(
        failure,
        Failure::Verdict(Verdict { outcome: Outcome::Vacuous { .. } | Outcome::Flaky { .. }, .. })
    );
    if hopeless {
        events.push(Event::Escalated { step: Some(step), reason: message });
        return events;
    }
    if failures <= on_fail.retries {
        events.push(Event::RecoveryApplied {
            step,
            recipe_name: "retry".to_owned(),
            outcome: match failure {
                Failure::Verdict(verdict) if verdict.is_of_the_check() => {
                    format!("retry {failures} of {}: the check again, not the agent", on_fail.retries)
                }
                _ => format!("retry {failures} of {}, with what the judge saw", on_fail.retries),
            },
        });
        return events;
    }
    match on_fail.then {
        Then::Escalate => {
            let tried = if failures == 1 { "1 attempt".to_owned() } else { format!("{failures} attempts") };
            events.push(Event::Escalated { step: Some(step), reason: format!("{message}, after {tried}") });
        }
        Then::Abort => events.extend(fail(run, step, message)),
        Then::Skip => events.push(Event::StepWaived {
            step,
            by: run.approved_by.as_ref().map_or("the plan".to_owned(), ToString::to_string),
            reason: format!("on_fail: {on_fail}, as approved; {message}"),
        }),
    }
    events
}

/// The step has failed for good, and the run with it.
pub fn fail(run: &Run, step: StepNumber, error: String) -> [Event; 2] {
    let mut summary = run.summary();
    summary.failed += 1;
    [Event::StepFailed { step, error }, Event::RunEnded { outcome: RunOutcome::Failed, summary, tree: None }]
}
