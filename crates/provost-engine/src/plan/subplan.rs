//! The interface between a plan and its sub-plans.
//!
//! The parent plan says what to do and how much it may use; the sub-plan decides how.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use provost_core::model::chain::PlanId;
use provost_core::model::event::{EndedAttempt, Event};
use provost_core::model::plan::StepNumber;
use provost_core::model::usage::{Amount, Usage};
use provost_core::state::run::Run;

use crate::run_loop::world::TaskOutcome;

/// Request to run a step by a sub-plan.
pub struct SubplanRequest {
    pub step: StepNumber,
    pub attempt: u32,
    /// Slug of the sub-plan.
    pub plan: String,
    /// Tree that the previous steps left.
    pub tree: Option<String>,
    /// The most it may use.
    pub limit: Amount,
    /// Time limit of the step, if it has one.
    pub timeout: Option<Duration>,
}

/// Runs sub-plans.
pub trait SubplanRunner: Sync {
    /// Returns why the sub-plan cannot start or continue before a person acts, in words for that person.
    fn held_up(&self, plan: &str) -> Option<String>;

    /// Returns a step that waits for its sub-plan although the sub-plan can continue.
    fn resumable_step(&self, run: &Run) -> Option<StepNumber> {
        let waiting = run.steps().map(|(step, _)| step.number).filter(|step| run.waits_for_its_plan(*step));
        waiting
            .into_iter()
            .find(|step| run.carried_by(*step).is_some_and(|plan| self.held_up(plan).is_none()))
    }

    /// Runs the sub-plan until it stops. Reports nothing if a person interrupted it: it is taken up again.
    fn carry_out(&self, errand: &SubplanRequest) -> Vec<TaskOutcome>;
}

/// Context of the parent plan for a running sub-plan.
pub struct ParentContext {
    /// Parent plans.
    pub plans: Vec<PlanId>,
    /// Their files, which no agent may write.
    pub files: Vec<PathBuf>,
    /// Tree that the parent's previous steps left; this plan starts with it.
    pub tree: Option<String>,
    pub leash: SubplanLimits,
}

/// Budget and deadline of a sub-plan; checked before anything new starts.
#[derive(Default)]
pub struct SubplanLimits {
    until: Option<Instant>,
    limit: Amount,
    spent: Mutex<Amount>,
}

impl SubplanLimits {
    pub fn new(limit: Amount, timeout: Option<Duration>, spent: &Usage) -> Self {
        let wall = limit.wall_ms.map(Duration::from_millis);
        let time = [wall, timeout].into_iter().flatten().min();
        let leash = Self { until: time.map(|time| Instant::now() + time), limit, spent: Mutex::default() };
        leash.add(spent);
        leash
    }

    pub fn hear(&self, event: &Event) {
        if let Some(usage) = used(event) {
            self.add(usage);
        }
    }

    fn add(&self, usage: &Usage) {
        let mut spent = self.spent.lock().unwrap_or_else(PoisonError::into_inner);
        // Uncounted usage is ignored here; the budget accounting decides about it.
        let more = |sum: Option<u64>, part: Option<u64>| match part {
            Some(part) => Some(sum.unwrap_or(0).saturating_add(part)),
            None => sum,
        };
        spent.tokens = more(spent.tokens, usage.tokens());
        spent.micro_usd = more(spent.micro_usd, usage.micro_usd);
    }

    pub fn is_out_of_time(&self) -> bool {
        self.until.is_some_and(|until| Instant::now() >= until)
    }

    pub fn is_at_its_end(&self) -> bool {
        let spent = *self.spent.lock().unwrap_or_else(PoisonError::into_inner);
        let over = |spent: Option<u64>, limit: Option<u64>| match limit {
            Some(limit) => spent.unwrap_or(0) >= limit,
            None => false,
        };
        self.is_out_of_time()
            || over(spent.tokens, self.limit.tokens)
            || over(spent.micro_usd, self.limit.micro_usd)
    }
}

/// Returns the usage that an event reports.
pub fn used(event: &Event) -> Option<&Usage> {
    match event {
        Event::AttemptEnded(EndedAttempt { usage, .. }) => Some(usage),
        Event::Judged { verdict, .. } => verdict.usage.as_deref(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used(tokens: u64) -> Usage {
        Usage { input_tokens: Some(tokens), output_tokens: Some(0), ..Usage::default() }
    }

    #[test]
    fn a_plan_stops_where_the_budget_of_the_step_ends() {
        let limit = Amount { tokens: Some(100), ..Amount::default() };
        let leash = SubplanLimits::new(limit, None, &used(60));
        assert!(!leash.is_at_its_end());
        leash.add(&Usage::default());
        assert!(!leash.is_at_its_end(), "what nobody counted is not taken for anything");
        leash.add(&used(40));
        assert!(leash.is_at_its_end());
    }

    #[test]
    fn and_where_its_time_does() {
        assert!(
            SubplanLimits::new(Amount::default(), Some(Duration::ZERO), &Usage::default()).is_out_of_time()
        );
        assert!(!SubplanLimits::new(Amount::default(), None, &used(1_000_000)).is_at_its_end());
    }
}
