//! Ends an agent that has used up its budget, as far as its client reports usage while it works.
//!
//! A meter does this for every client. Without one, provost adds up what Claude Code, opencode and ACP agents
//! report after each call; the built-in loop stops by itself. Other clients report at the end, so they cannot
//! be stopped.

use std::sync::atomic::{AtomicBool, Ordering};

use provost_core::model::usage::{Amount, Resource, Usage};

use crate::process::StopRequest;

/// Returns the cost of a usage in micro-dollars; `None` if the price of its model is unknown.
pub type CostOf<'a> = &'a (dyn Fn(&Usage) -> Option<u64> + Sync + 'a);

/// The most that an attempt without a meter may use.
#[derive(Clone, Copy)]
pub struct SpendLimit<'a> {
    pub amount: Amount,
    pub cost: CostOf<'a>,
}

impl SpendLimit<'_> {
    /// Returns the words about an exceeded limit. The failure rule `budget-used-up` matches them.
    pub fn exceeded_by(&self, used: &Usage) -> Option<String> {
        let spent = |resource| match resource {
            Resource::Tokens => used.tokens(),
            Resource::Usd => used.micro_usd.or_else(|| (self.cost)(used)),
            Resource::WallClock => None,
        };
        Resource::ALL.into_iter().find_map(|resource| {
            let (spent, most) = (spent(resource)?, self.amount.of(resource)?);
            let (said, most_said) = (resource.say(spent), resource.say(most));
            (spent >= most).then(|| format!("provost: the budget is used up: {said} of {most_said}"))
        })
    }
}

/// Watches the spending of an attempt, and the caller's own request to stop.
pub(super) struct SpendWatch<'a> {
    limit: Option<SpendLimit<'a>>,
    stop: Option<&'a AtomicBool>,
    is_over: AtomicBool,
}

impl<'a> SpendWatch<'a> {
    pub(super) fn new(limit: Option<SpendLimit<'a>>, stop: Option<&'a AtomicBool>) -> Self {
        Self { limit, stop, is_over: AtomicBool::new(false) }
    }

    /// Compares what was used so far. Returns the words about the limit when it is exceeded.
    pub(super) fn look(&self, used: &Usage) -> Option<String> {
        let words = self.limit?.exceeded_by(used)?;
        self.is_over.store(true, Ordering::Relaxed);
        Some(words)
    }

    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }
}

impl StopRequest for SpendWatch<'_> {
    fn is_made(&self) -> bool {
        self.is_over() || self.stop.is_some_and(StopRequest::is_made)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_counted_and_money_only_with_a_price() {
        let used = |input, output| Usage {
            input_tokens: Some(input),
            output_tokens: Some(output),
            ..Usage::default()
        };
        let limit = |tokens, micro_usd, cost| SpendLimit {
            amount: Amount { tokens, micro_usd, wall_ms: Some(1) },
            cost,
        };
        let cheap: CostOf<'_> = &|usage| usage.tokens();
        let unknown: CostOf<'_> = &|_| None;
        assert_eq!(limit(Some(1000), None, cheap).exceeded_by(&used(900, 99)), None);
        assert_eq!(
            limit(Some(1000), None, cheap).exceeded_by(&used(900, 100)).as_deref(),
            Some("provost: the budget is used up: 1k tokens of 1k tokens")
        );
        assert_eq!(
            limit(None, Some(2_000_000), cheap).exceeded_by(&used(2_000_000, 0)).as_deref(),
            Some("provost: the budget is used up: $2.00 of $2.00")
        );
        assert_eq!(limit(None, Some(1), unknown).exceeded_by(&used(900, 100)), None);
        assert_eq!(limit(Some(1), None, cheap).exceeded_by(&Usage::default()), None);
    }
}
