//! What passes between a plan and the one that carries out a step of it.
//!
//! The plan above says what is to be done and how much it may take; how it is done is the affair of the
//! plan below.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use provost_core::model::chain::PlanId;
use provost_core::model::event::{Ended, Event};
use provost_core::model::plan::StepNumber;
use provost_core::model::usage::{Amount, Usage};

use crate::world::Said;

/// A step that another plan is to carry out.
pub struct Errand {
    pub step: StepNumber,
    pub attempt: u32,
    /// The slug of the plan that does it.
    pub plan: String,
    /// The tree the steps before left.
    pub tree: Option<String>,
    /// The most it may use.
    pub limit: Amount,
    /// How long it may take, where the step says so.
    pub timeout: Option<Duration>,
}

/// Whoever has steps carried out by other plans.
pub trait Carrier: Sync {
    /// Why the plan cannot begin or go on before a person has done something, in words for them.
    fn held_up(&self, plan: &str) -> Option<String>;

    /// Runs the plan until it rests. Nothing is said where a person interrupted it: it is taken up again.
    fn carry_out(&self, errand: &Errand) -> Vec<Said>;
}

/// What a plan has to mind while it carries out a step of another.
pub struct Within {
    /// The plans above.
    pub plans: Vec<PlanId>,
    /// Their files: no agent may write them.
    pub files: Vec<PathBuf>,
    /// What the steps before left: where this plan begins.
    pub tree: Option<String>,
    pub leash: Leash,
}

/// How far a plan goes that carries out a step. It is looked at before anything new is begun.
#[derive(Default)]
pub struct Leash {
    until: Option<Instant>,
    limit: Amount,
    spent: Mutex<Amount>,
}

impl Leash {
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
        // What nobody counted is not taken for anything here; the ledger has the word on it.
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

/// What an event says was used.
pub fn used(event: &Event) -> Option<&Usage> {
    match event {
        Event::AttemptEnded(Ended { usage, .. }) => Some(usage),
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
        let leash = Leash::new(limit, None, &used(60));
        assert!(!leash.is_at_its_end());
        leash.add(&Usage::default());
        assert!(!leash.is_at_its_end(), "what nobody counted is not taken for anything");
        leash.add(&used(40));
        assert!(leash.is_at_its_end());
    }

    #[test]
    fn and_where_its_time_does() {
        assert!(Leash::new(Amount::default(), Some(Duration::ZERO), &Usage::default()).is_out_of_time());
        assert!(!Leash::new(Amount::default(), None, &used(1_000_000)).is_at_its_end());
    }
}
