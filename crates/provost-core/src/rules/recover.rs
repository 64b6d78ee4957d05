//! Classifies a failure and decides what follows from it.
//!
//! The failure is classified before anything is tried. The recipe of its class decides whether and when
//! another attempt makes sense; the plan's `on_fail` limits the number of attempts and says what comes after
//! the last. If both are exhausted, a person decides.
//!
//! **Invariant:** retries are counted in the log, never in memory.
//! **Invariant:** the same failure twice in a row is not tried a third time in the same way.

pub mod class;
mod classify;
pub mod environment;
pub mod fingerprint;
pub mod last_words;
mod needed;
pub mod pause;
pub mod recipe;
pub mod rules;
#[cfg(test)]
mod tests;

use std::time::Duration;

use crate::model::escalation::EscalationCause;
use crate::model::event::{AttemptEnd, Event, FailureClass, RunEndReason, RunOutcome, SESSION_RECIPE};
use crate::model::plan::{Step, StepNumber, Then};
use crate::model::timestamp::Timestamp;
use crate::model::verdict::{CheckOutcome, Verdict};
use crate::state::run::Run;
use class::FailureMatch;
use classify::{agent_fingerprint, ended_badly, is_of_the_check};
use recipe::{Recipe, RecipeEnd};

pub use classify::{AttemptFailure, RecoveryInput, classify};

/// Returns what follows from a failed attempt.
pub fn after(
    run: &Run,
    means: &RecoveryInput<'_>,
    step: StepNumber,
    attempt: u32,
    failure: &AttemptFailure<'_>,
) -> Vec<Event> {
    let found = classify(run, means, step, failure);
    let hidden = run.plan.step(step).is_some_and(Step::is_hidden);
    let message = match failure {
        // The expectations of a hidden contract go into the verdict, and into nothing that agents can read.
        AttemptFailure::Verdict(verdict) if hidden => format!("contract {}", verdict.outcome),
        failure => failure.message(),
    };
    let halts = found.quota.then(|| run.role(step).to_owned());
    let of_the_check = is_of_the_check(failure, &found);
    let fingerprint = failure.fingerprint().or_else(|| agent_fingerprint(run, step, failure));
    let again = fingerprint.is_some() && run.step(step).is_some_and(|step| step.fingerprint == fingerprint);
    let case = Case { run, means, step, attempt, failure, found, message, hidden, again, of_the_check };
    let mut events = vec![
        Event::FailureDetected { step, attempt, error_message: case.message.clone(), fingerprint },
        Event::FailureClassified {
            step,
            failure_type: case.found.class,
            rule: case.found.to_string(),
            halts,
            of_the_check,
        },
    ];
    events.extend(case.follows());
    events
}

/// Returns what follows if the agent is a session that continues by itself: it learns the failure, and no
/// retry is decided.
pub fn send_back(
    run: &Run,
    means: &RecoveryInput<'_>,
    step: StepNumber,
    failure: &AttemptFailure<'_>,
) -> Vec<Event> {
    let attempt = run.step(step).map_or(0, |step| step.attempts);
    let mut events = after(run, means, step, attempt, failure);
    events.truncate(2);
    for event in &mut events {
        // Whatever a contract prints: a session is not a role with a quota.
        if let Event::FailureClassified { halts, of_the_check, .. } = event {
            (*halts, *of_the_check) = (None, false);
        }
    }
    events.push(Event::RecoveryApplied {
        step,
        recipe_name: SESSION_RECIPE.to_owned(),
        outcome: "the session continues with the output of the check".to_owned(),
        not_before: None,
        wait_ms: 0,
        check_again: false,
        role: None,
        fresh: false,
    });
    events
}

/// One failure, and everything that decides what follows.
struct Case<'a> {
    run: &'a Run,
    means: &'a RecoveryInput<'a>,
    step: StepNumber,
    attempt: u32,
    failure: &'a AttemptFailure<'a>,
    found: FailureMatch,
    message: String,
    hidden: bool,
    /// The same failure as the last one.
    again: bool,
    /// The environment of the check is at fault.
    of_the_check: bool,
}

impl Case<'_> {
    fn follows(&self) -> Vec<Event> {
        // No attempt can make a check stronger or stop it from being flaky.
        let hopeless = matches!(
            self.failure,
            AttemptFailure::Verdict(Verdict {
                outcome: CheckOutcome::Vacuous { .. } | CheckOutcome::Flaky { .. },
                ..
            })
        );
        if hopeless {
            return vec![self.to_a_person(self.message.clone())];
        }
        let recipe = self.means.recipes.of(&self.found);
        let on_fail = self.run.on_fail(self.step);
        let (failures, tried) = self.counted(recipe);
        let may = failures <= on_fail.retries && recipe.max_attempts.is_none_or(|most| tried < most);
        // A sub-plan that ended stays ended, until a person answers there or changes it.
        if self.run.carried_by(self.step).is_some() && !self.checks_again() {
            return self.by_plan(self.message.clone(), RunEndReason::Failed);
        }
        if !may || self.found.quota {
            return self.stop(recipe, failures > on_fail.retries);
        }
        // Waiting longer is another way; repeating at once is not. An agent in its own client has worked on
        // since, and learns the result each time.
        if self.again && recipe.backoff.is_empty() && !self.run.agent_outside {
            return self.not_a_third_time();
        }
        let pause = self.pause(recipe, tried);
        if pause > pause::LONGEST {
            let wait = humantime::format_duration(Duration::from_secs(pause.as_secs()));
            return vec![self.to_a_person(format!("{}; the server asks to wait for {wait}", self.message))];
        }
        vec![self.again_after(pause, recipe, format!("retry {failures} of {}", on_fail.retries))]
    }

    /// Returns the number of failures since the last reset, this one included, and how many times in a row
    /// the recipe was applied.
    fn counted(&self, recipe: &Recipe) -> (u32, u32) {
        let step = self.run.step(self.step);
        let applied = step.and_then(|step| step.recipe.as_ref()).filter(|(name, _)| *name == recipe.name);
        (step.map_or(0, |step| step.failures) + 1, applied.map_or(0, |(_, times)| *times))
    }

    fn pause(&self, recipe: &Recipe, tried: u32) -> Duration {
        let Some(longest) = recipe.backoff.last() else { return Duration::ZERO };
        let own = recipe.backoff.get(tried as usize).unwrap_or(longest);
        let asked = pause::asked(&self.output(), self.means.now).unwrap_or_default();
        let seed = format!("{}/{}/{}", self.run.revision, self.step, self.attempt + tried);
        pause::spread(asked.max(*own), &seed)
    }

    /// Returns the output of whatever failed: the agent or the check.
    fn output(&self) -> String {
        let report = || self.run.step(self.step).and_then(|step| step.ended.as_ref()).map(|(_, said)| said);
        match self.failure {
            _ if self.found.of_the_agent => report().cloned().unwrap_or_default(),
            AttemptFailure::Verdict(verdict) => format!("{}\n{}", verdict.stdout, verdict.stderr),
            AttemptFailure::Agent(_) => self.message.clone(),
        }
    }

    /// Returns whether only the check is repeated: a transient failure of the check is not the work's fault.
    fn checks_again(&self) -> bool {
        match self.failure {
            AttemptFailure::Verdict(verdict) => {
                verdict.is_of_the_check()
                    || (self.found.class == FailureClass::Transient && !self.found.of_the_agent)
            }
            AttemptFailure::Agent(_) => false,
        }
    }

    fn again_after(&self, pause: Duration, recipe: &Recipe, count: String) -> Event {
        let check_again = self.checks_again();
        let who = match (check_again, self.found.of_the_agent) {
            (true, _) => ": the check runs again, not the agent",
            (false, true) => ": the agent runs again, because a service refused it",
            (false, false) => ", with the output of the check",
        };
        let when = match pause.is_zero() {
            true => String::new(),
            false => format!(" in {:.1} s", pause.as_secs_f64()),
        };
        let wait_ms = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX);
        Event::RecoveryApplied {
            step: self.step,
            recipe_name: recipe.name.clone(),
            outcome: format!("{count}{when}{who}"),
            not_before: (wait_ms > 0).then(|| Timestamp(self.means.now.0.saturating_add(wait_ms))),
            wait_ms,
            check_again,
            role: None,
            fresh: false,
        }
    }

    /// Handles the same failure twice in a row: first the same agent in a new conversation, then another role
    /// that has not been tried, else the retries count as used up.
    fn not_a_third_time(&self) -> Vec<Event> {
        if self.run.step(self.step).and_then(|step| step.session.as_ref()).is_some_and(|it| it.turns > 1) {
            return vec![Event::RecoveryApplied {
                step: self.step,
                recipe_name: "fresh-context".to_owned(),
                outcome: "the same failure twice: retry in a new conversation".to_owned(),
                not_before: None,
                wait_ms: 0,
                check_again: false,
                role: None,
                fresh: true,
            }];
        }
        let role = self.run.role(self.step);
        let fresh = self.run.step(self.step).is_some_and(|step| step.role.is_none());
        match self.run.binding.terms.fallback.get(role).filter(|_| fresh) {
            Some(other) => vec![Event::RecoveryApplied {
                step: self.step,
                recipe_name: "other-role".to_owned(),
                outcome: format!("the same failure twice: {other} instead of {role}"),
                not_before: None,
                wait_ms: 0,
                check_again: false,
                role: Some(other.clone()),
                fresh: false,
            }],
            // Its own words say that neither the work nor the check is at fault.
            None if self.found.of_the_agent => {
                vec![self.to_a_person(format!("{}; correct it, then `retry`", self.of_the_agent()))]
            }
            None => self.by_plan(
                format!("{}: the same failure twice, so retries stopped{}", self.message, self.agents_end()),
                RunEndReason::Stuck,
            ),
        }
    }

    /// Stops: no attempt is left, or none makes sense.
    fn stop(&self, recipe: &Recipe, used_up: bool) -> Vec<Event> {
        let mut events = Vec::new();
        if self.found.class == FailureClass::Permission {
            events.push(self.permission());
        }
        if used_up && !self.found.quota && !self.is_of_the_environment() {
            let (failures, _) = self.counted(recipe);
            let tried = if failures == 1 { "1 attempt".to_owned() } else { format!("{failures} attempts") };
            let on_fail = self.run.on_fail(self.step);
            let reason = match on_fail.then {
                Then::Escalate => format!("{}, after {tried}", self.message),
                Then::Abort | Then::Skip => self.message.clone(),
            };
            events.extend(self.by_plan(format!("{reason}{}", self.agents_end()), RunEndReason::Failed));
            return events;
        }
        if let Some(asked) = self.asks() {
            let allows = "`retry` allows it in this step, and the agent goes on";
            events.push(self.to_a_person(format!("the agent asks for permission: {asked}; {allows}")));
            return events;
        }
        let again = "`retry` runs the check again, not the agent";
        let reason = match self.failure {
            _ if self.found.of_the_agent => self.of_the_agent(),
            AttemptFailure::Verdict(Verdict { outcome: CheckOutcome::NotRun { reason }, .. }) => {
                format!("the check could not be run: {reason}; then {again}")
            }
            _ if self.of_the_check => format!("{}: {}; {again}", self.message, self.found.reason),
            _ if self.message.contains(&self.found.reason) => self.message.clone(),
            _ => format!("{}: {}", self.message, self.found.reason),
        };
        let skips = self.run.on_fail(self.step).then == Then::Skip;
        match recipe.then {
            RecipeEnd::Escalate => events.push(self.to_a_person(reason)),
            RecipeEnd::Ask => events.push(self.to_a_person(format!("{reason}; correct it, then `retry`"))),
            RecipeEnd::Abort => events.extend(self.failed(reason, RunEndReason::Failed)),
            RecipeEnd::Skip if skips => events.extend(self.by_plan(reason, RunEndReason::Failed)),
            RecipeEnd::Skip => {
                events.push(self.to_a_person(format!("{reason}; the plan does not allow a skip")))
            }
        }
        events
    }

    /// Returns what the agent asked for, if only a person can allow it.
    fn asks(&self) -> Option<&str> {
        self.run.step(self.step)?.asks.as_deref()
    }

    /// Describes why the agent could not work, with its own words.
    fn of_the_agent(&self) -> String {
        let reason = &self.found.reason;
        let lead = if reason.starts_with("the agent") { "" } else { "a service refused the agent: " };
        format!("{lead}{reason}{}", self.said())
    }

    /// Describes how the agent ended, if it did not end well, for the end of a sentence.
    fn agents_end(&self) -> String {
        match (self.failure, ended_badly(self.run, self.step)) {
            (_, None) => String::new(),
            // The message says it already.
            (AttemptFailure::Agent(_), Some(_)) => self.said(),
            (AttemptFailure::Verdict(_), Some((end, _))) => format!("; {}{}", end.words(), self.said()),
        }
    }

    /// Quotes the line of the agent's report that says why it did not end well.
    fn said(&self) -> String {
        let line = match self.found.line.as_str() {
            "" => ended_badly(self.run, self.step).and_then(|(_, report)| last_words::of(report)),
            line => Some(last_words::cut(line)),
        };
        line.map(|line| format!(" (it said: {line})")).unwrap_or_default()
    }

    /// Returns whether neither the agent nor its work is at fault: then the plan's `on_fail` does not apply.
    fn is_of_the_environment(&self) -> bool {
        use FailureClass::Transient;
        let not_started = matches!(self.failure, AttemptFailure::Agent(AttemptEnd::NotStarted { .. }));
        not_started || (self.of_the_check || self.found.of_the_agent) && self.found.class != Transient
    }

    /// Applies the end of the plan's `on_fail`, after all retries.
    fn by_plan(&self, reason: String, why: RunEndReason) -> Vec<Event> {
        let on_fail = self.run.on_fail(self.step);
        match on_fail.then {
            Then::Escalate => vec![self.to_a_person(reason)],
            Then::Abort => self.failed(reason, why),
            Then::Skip => vec![Event::StepWaived {
                step: self.step,
                by: self.run.approvers().unwrap_or_else(|| "the plan".to_owned()),
                reason: format!("on_fail: {on_fail}, as approved; {reason}"),
            }],
        }
    }

    /// Fails the step for good. Steps that do not wait for it continue; the run ends with the last of them.
    fn failed(&self, reason: String, why: RunEndReason) -> Vec<Event> {
        let [failed, ended] = fail(self.run, self.step, reason, why);
        let goes_on = |step: StepNumber| step != self.step && !self.run.is_being_confirmed(step);
        let mut others = self.run.under_way().chain(self.run.ready());
        if others.any(goes_on) { vec![failed] } else { vec![failed, ended] }
    }

    fn permission(&self) -> Event {
        // Elsewhere in its report an agent talks about its work.
        let text = if self.found.line.is_empty() { self.output() } else { self.found.line.clone() };
        let mut configure = if self.hidden { Vec::new() } else { needed::named(&text) };
        if configure.is_empty() && !self.found.configure.is_empty() {
            configure.push(self.found.configure.clone());
        }
        Event::PermissionRequired { step: self.step, reason: self.found.reason.clone(), configure }
    }

    fn to_a_person(&self, reason: String) -> Event {
        Event::escalated(Some(self.step), EscalationCause::Other, reason)
    }
}

/// Fails the step for good, and the run with it.
pub fn fail(run: &Run, step: StepNumber, error: String, why: RunEndReason) -> [Event; 2] {
    let mut summary = run.summary();
    summary.failed += 1;
    let outcome = RunOutcome::Failed;
    [
        Event::StepFailed { step, error },
        Event::RunEnded { outcome, summary, tree: None, why: Some(why), train: None },
    ]
}
