//! Finds the class of a failed attempt: of its verdict, or of an agent that did not end well.

use super::class::{self, FailureMatch, FailureOutput};
use super::recipe::Recipes;
use super::{fingerprint, last_words};
use crate::model::event::{AttemptEnd, FailureClass};
use crate::model::plan::StepNumber;
use crate::model::timestamp::Timestamp;
use crate::model::verdict::{CheckOutcome, Verdict};
use crate::state::run::Run;

/// Why an attempt did not pass its step.
pub enum AttemptFailure<'a> {
    Verdict(&'a Verdict),
    Agent(&'a AttemptEnd),
}

impl AttemptFailure<'_> {
    /// Returns one line for people and the log.
    pub fn message(&self) -> String {
        match self {
            AttemptFailure::Verdict(verdict) if verdict.unmet.is_empty() => {
                format!("contract {}", verdict.outcome)
            }
            AttemptFailure::Verdict(verdict) => {
                format!("contract {} (not met: {})", verdict.outcome, verdict.unmet.join(", "))
            }
            AttemptFailure::Agent(AttemptEnd::NotStarted { reason }) => {
                format!("the agent could not be started: {reason}")
            }
            AttemptFailure::Agent(AttemptEnd::OverBounds { reason }) => {
                format!("the agent exceeded a limit: {reason}")
            }
            AttemptFailure::Agent(AttemptEnd::PlanFailed { plan, reason }) => {
                format!("the plan {plan}, which carries it out, failed: {reason}")
            }
            AttemptFailure::Agent(AttemptEnd::PlanWaits { plan, reason }) => {
                format!("the plan {plan}, which carries it out, waits: {reason}")
            }
            AttemptFailure::Agent(AttemptEnd::PlanStopped { plan }) => {
                format!("the plan {plan}, which carries it out, was stopped because the budget was used up")
            }
            AttemptFailure::Agent(AttemptEnd::TimedOut) => "the agent ran out of time".to_owned(),
            AttemptFailure::Agent(AttemptEnd::Exited { exit_code }) => {
                format!("the agent exited with {exit_code}")
            }
            AttemptFailure::Agent(AttemptEnd::Signalled { signal }) => {
                format!("the agent was ended by signal {signal}")
            }
        }
    }

    pub(super) fn fingerprint(&self) -> Option<String> {
        match self {
            AttemptFailure::Verdict(verdict) => {
                let output = format!("{}\n{}", verdict.stdout, verdict.stderr);
                fingerprint::of(verdict.outcome.word(), &output)
            }
            AttemptFailure::Agent(_) => fingerprint::of("agent", &self.message()),
        }
    }
}

/// The recipes and the current time.
#[derive(Clone, Copy, Debug)]
pub struct RecoveryInput<'a> {
    pub recipes: &'a Recipes,
    pub now: Timestamp,
}

impl Default for RecoveryInput<'_> {
    fn default() -> Self {
        static BUILT_IN: std::sync::LazyLock<Recipes> = std::sync::LazyLock::new(Recipes::default);
        RecoveryInput { recipes: &BUILT_IN, now: Timestamp(0) }
    }
}

/// Returns the class of a failure and the rule that found it.
pub fn classify(
    run: &Run,
    means: &RecoveryInput<'_>,
    step: StepNumber,
    failure: &AttemptFailure<'_>,
) -> FailureMatch {
    use FailureClass::{InvalidInput, Logic, Transient, Unrecoverable};
    let verdict = match failure {
        AttemptFailure::Verdict(verdict) => verdict,
        AttemptFailure::Agent(AttemptEnd::NotStarted { reason }) => {
            let seen = FailureOutput { stderr: reason, ..FailureOutput::default() };
            let own = means.recipes.recognise(seen, "not_started");
            return own.unwrap_or_else(|| {
                FailureMatch::new(InvalidInput, "agent-not-started", "the agent could not be started")
            });
        }
        AttemptFailure::Agent(AttemptEnd::PlanFailed { reason, .. }) => {
            let seen = FailureOutput { stderr: reason, ..FailureOutput::default() };
            let own = means.recipes.recognise(seen, "plan");
            return own.unwrap_or_else(|| FailureMatch::new(Logic, "plan-failed", "its sub-plan failed"));
        }
        AttemptFailure::Agent(_) => return FailureMatch::unknown(),
    };
    let exit_code = match verdict.outcome {
        CheckOutcome::Broke { exit_code } => Some(exit_code),
        _ => None,
    };
    let (stdout, stderr) = (verdict.stdout.to_string(), verdict.stderr.to_string());
    let seen = FailureOutput { stdout: &stdout, stderr: &stderr, exit_code };
    match &verdict.outcome {
        CheckOutcome::Vacuous { .. } => {
            return FailureMatch::new(InvalidInput, "vacuous", "the contract proves nothing");
        }
        CheckOutcome::Flaky { .. } => {
            return FailureMatch::new(Transient, "flaky", "the contract's results differ on the same files");
        }
        CheckOutcome::Tampered { .. } => {
            return FailureMatch::new(Unrecoverable, "tampered", "a protected file was changed");
        }
        CheckOutcome::Conflict { .. } => {
            return FailureMatch::new(Logic, "conflict", "two steps changed the same files");
        }
        CheckOutcome::Held
        | CheckOutcome::Broke { .. }
        | CheckOutcome::TimedOut { .. }
        | CheckOutcome::Killed { .. }
        | CheckOutcome::NotRun { .. } => {}
    }
    if let Some(own) = means.recipes.recognise(seen, verdict.outcome.word()) {
        return own;
    }
    // A service refused the agent, so it could not do the work: that is why the contract does not hold.
    if let Some(found) = turned_away(run, means, step).or_else(|| fails_alike(run, step, failure)) {
        return found;
    }
    match &verdict.outcome {
        CheckOutcome::Killed { .. } => {
            FailureMatch::new(Transient, "check-killed", "the contract was killed from outside")
        }
        CheckOutcome::TimedOut { .. } => {
            FailureMatch::new(Logic, "check-timed-out", "the contract ran out of time")
        }
        CheckOutcome::NotRun { reason } => {
            let stderr = format!("{reason}\n{stderr}");
            class::of(FailureOutput { stderr: &stderr, stdout: &stdout, exit_code: None })
        }
        _ => of_the_work(run, step, verdict, class::of(seen)),
    }
}

/// Returns how the last attempt ended and what its agent said, if it did not end well.
pub(super) fn ended_badly(run: &Run, step: StepNumber) -> Option<&(AttemptEnd, String)> {
    run.step(step)?.ended.as_ref().filter(|(end, _)| *end != (AttemptEnd::Exited { exit_code: 0 }))
}

/// Returns the finding about an agent that did not end well, if it explains why the agent could not work.
///
/// Nothing here lets an agent try for ever: a transient failure counts as a retry, and all others go to a
/// person.
fn turned_away(run: &Run, means: &RecoveryInput<'_>, step: StepNumber) -> Option<FailureMatch> {
    let (end, report) = ended_badly(run, step)?;
    let exit_code = match end {
        AttemptEnd::Exited { exit_code } => Some(*exit_code),
        AttemptEnd::Signalled { .. }
        | AttemptEnd::TimedOut
        | AttemptEnd::NotStarted { .. }
        | AttemptEnd::OverBounds { .. }
        | AttemptEnd::PlanFailed { .. }
        | AttemptEnd::PlanWaits { .. }
        | AttemptEnd::PlanStopped { .. } => None,
    };
    let seen = FailureOutput { stderr: report, exit_code, ..FailureOutput::default() };
    let role = run.role(step);
    let login = || format!("a login or an API key for the program behind role `{role}`");
    if let Some(own) = means.recipes.recognise(seen, "agent") {
        let line = last_words::of(report).unwrap_or_default();
        return Some(FailureMatch { of_the_agent: true, line, configure: login(), ..own });
    }
    if let Some(found) = class::of_agent(report, exit_code) {
        return Some(FailureMatch { configure: found.configure.replace("{role}", role), ..found });
    }
    // Only its output counts; exit codes of agents have no common meaning.
    let found = class::of_report(report);
    let counts = matches!(found.class, FailureClass::Transient | FailureClass::Permission);
    // These rules name what checks need.
    let configure = if found.quota { found.configure.clone() } else { login() };
    (counts && !found.mendable).then_some(FailureMatch { configure, ..found })
}

/// Returns the fingerprint of what an agent said that did not end well and changed nothing. Only a silent
/// check makes it count: otherwise the output of the check tells whether the work goes on.
pub(super) fn agent_fingerprint(run: &Run, step: StepNumber, failure: &AttemptFailure<'_>) -> Option<String> {
    if failure.fingerprint().is_some() || run.agent_outside {
        return None;
    }
    let known = run.step(step)?;
    let has_changed =
        known.start.as_ref().zip(known.left.as_ref()).is_some_and(|(start, left)| start.tree != *left);
    let (_, report) = ended_badly(run, step).filter(|_| !has_changed)?;
    fingerprint::of("agent failed", report)
}

/// Returns the finding about an agent that ended twice in the same way, without a change to any file.
fn fails_alike(run: &Run, step: StepNumber, failure: &AttemptFailure<'_>) -> Option<FailureMatch> {
    let fingerprint = agent_fingerprint(run, step, failure)?;
    let reason = "the agent fails each time in the same way and changes nothing";
    (run.step(step)?.fingerprint.as_ref() == Some(&fingerprint)).then(|| FailureMatch {
        of_the_agent: true,
        ..FailureMatch::new(FailureClass::Logic, "agent-fails", reason)
    })
}

/// Reinterprets findings in the output of a contract, which is mostly about the work.
fn of_the_work(run: &Run, step: StepNumber, verdict: &Verdict, found: FailureMatch) -> FailureMatch {
    let network = run.plan.step(step).and_then(|step| step.network.as_ref()).is_some_and(|on| on.value);
    let broke = || FailureMatch::new(FailureClass::Logic, "contract", "the contract ran and did not hold");
    match found.class {
        FailureClass::Unknown => broke(),
        _ if found.mendable => broke(),
        // A missing program is the machine's fault only if the contract itself calls it, and then the check
        // counts as not run.
        _ if found.rule == "command-not-found" || found.rule == "exit-not-found" => broke(),
        _ if found.rule == "read-only" && verdict.isolation.has_fence() => {
            let reason = "the check wrote outside of its tree, where everything is read-only";
            FailureMatch::new(FailureClass::Logic, found.rule, reason)
        }
        // Without a network, waiting does not help.
        FailureClass::Transient if found.network && !network && verdict.isolation.has_fence() => {
            FailureMatch::new(FailureClass::Logic, found.rule, "the check needs a network, but has none")
        }
        _ => found,
    }
}

/// Returns whether the environment of the check is at fault, not the agent or its work.
pub(super) fn is_of_the_check(failure: &AttemptFailure<'_>, found: &FailureMatch) -> bool {
    use FailureClass::{Permission, Transient, Unrecoverable};
    match failure {
        AttemptFailure::Verdict(verdict) if !found.of_the_agent => match verdict.outcome {
            CheckOutcome::NotRun { .. } => true,
            CheckOutcome::Broke { .. } => matches!(found.class, Permission | Transient | Unrecoverable),
            _ => verdict.is_of_the_check(),
        },
        AttemptFailure::Verdict(_) | AttemptFailure::Agent(_) => false,
    }
}
