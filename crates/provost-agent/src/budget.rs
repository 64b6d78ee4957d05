//! The budget of a run: the most tokens and money it may use.
//!
//! It is compared before each call of the model, with what the API reported and an estimate of what it did
//! not report. A running call is not cut off.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use provost_core::model::usage::{Amount, Resource, Usage};

/// Prices of a million tokens, in micro-dollars.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenPrices {
    pub input: u64,
    pub output: u64,
    pub cache_read: u64,
    pub cache_write: u64,
}

impl TokenPrices {
    /// Reads `input,output,cache_read,cache_write`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let all: Result<Vec<u64>, _> = text.split(',').map(str::parse).collect();
        match all.as_deref() {
            Ok([input, output, cache_read, cache_write]) => {
                let (input, output) = (*input, *output);
                Ok(Self { input, output, cache_read: *cache_read, cache_write: *cache_write })
            }
            _ => Err("four prices are expected: input,output,cache_read,cache_write".to_owned()),
        }
    }

    fn cost(&self, used: &Usage) -> u64 {
        let [input, output, read, written] =
            [used.input_tokens, used.output_tokens, used.cache_read_tokens, used.cache_write_tokens]
                .map(|tokens| u128::from(tokens.unwrap_or(0)));
        let fresh = input.saturating_sub(read).saturating_sub(written);
        let parts = [
            (fresh, self.input),
            (output, self.output),
            (read, self.cache_read),
            (written, self.cache_write),
        ];
        let sum: u128 = parts.iter().map(|(tokens, price)| tokens * u128::from(*price)).sum();
        u64::try_from(sum.div_ceil(1_000_000)).unwrap_or(u64::MAX)
    }
}

/// Limits of a run; without prices, money is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoopBudget {
    pub amount: Amount,
    pub prices: Option<TokenPrices>,
}

impl LoopBudget {
    /// Returns the words about a limit that is reached. provost recognises them.
    pub(crate) fn exceeded_by(&self, used: &Usage) -> Option<String> {
        let (resource, spent, most) = self.parts(used).find(|(_, spent, most)| spent >= most)?;
        let (spent, most) = (resource.say(spent), resource.say(most));
        Some(format!("provost: the budget is used up: {spent} of {most}"))
    }

    /// Returns what is left, if four fifths of a limit are used.
    pub(crate) fn little_left(&self, used: &Usage) -> Option<String> {
        let is_little = |spent: u64, most: u64| spent >= most - most / 5;
        let (resource, spent, most) = self.parts(used).find(|(_, spent, most)| is_little(*spent, *most))?;
        Some(format!("about {} of your budget", resource.say(most.saturating_sub(spent))))
    }

    /// Returns the budget after this usage.
    pub(crate) fn after(&self, used: &Usage) -> Self {
        let mut left = *self;
        for (resource, spent, most) in self.parts(used) {
            let rest = Some(most.saturating_sub(spent));
            match resource {
                Resource::Tokens => left.amount.tokens = rest,
                Resource::Usd => left.amount.micro_usd = rest,
                Resource::WallClock => {}
            }
        }
        left
    }

    /// Divides the budget into `shares` equal parts and returns one.
    pub(crate) fn share(&self, shares: u64) -> Self {
        let part = |most: Option<u64>| most.map(|most| most / shares.max(1));
        let amount = Amount {
            tokens: part(self.amount.tokens),
            micro_usd: part(self.amount.micro_usd),
            ..self.amount
        };
        Self { amount, ..*self }
    }

    /// Returns each limited resource with what is used of it and the limit.
    fn parts(&self, used: &Usage) -> impl Iterator<Item = (Resource, u64, u64)> {
        let tokens = used.input_tokens.unwrap_or(0).saturating_add(used.output_tokens.unwrap_or(0));
        let money = self.prices.map(|prices| prices.cost(used));
        let amount = self.amount;
        let parts = [(Resource::Tokens, Some(tokens)), (Resource::Usd, money)].into_iter();
        parts.filter_map(move |(resource, spent)| Some((resource, spent?, amount.of(resource)?)))
    }
}

/// What the sub-agents of a run may use, and what they have used.
#[derive(Clone, Debug, Default)]
pub struct SideAccount(Arc<Mutex<SideUsage>>);

#[derive(Debug, Default)]
struct SideUsage {
    left: LoopBudget,
    /// Usage as reported, and as it counts towards a limit.
    used: Vec<(Usage, Usage)>,
}

impl SideAccount {
    fn open(&self) -> MutexGuard<'_, SideUsage> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set_left(&self, left: LoopBudget) {
        self.open().left = left;
    }

    pub(crate) fn left(&self) -> LoopBudget {
        self.open().left
    }

    pub(crate) fn add(&self, used: &Usage, counted: &Usage) {
        self.open().used.push((used.clone(), counted.clone()));
    }

    /// Returns what was used since the last time.
    pub(crate) fn take(&self) -> Vec<(Usage, Usage)> {
        std::mem::take(&mut self.open().used)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_shared_equally() {
        let amount = Amount { tokens: Some(1000), micro_usd: Some(100), ..Amount::default() };
        let left = LoopBudget { amount, prices: None }.after(&used(300, 100));
        assert_eq!((left.amount.tokens, left.amount.micro_usd), (Some(600), Some(100)));
        assert_eq!(left.share(4).amount.tokens, Some(150));
        assert_eq!(LoopBudget::default().after(&used(5, 5)).share(3), LoopBudget::default());
    }

    fn used(input: u64, output: u64) -> Usage {
        Usage { input_tokens: Some(input), output_tokens: Some(output), ..Usage::default() }
    }

    #[test]
    fn a_limit_is_reached_or_nearly_reached() {
        let amount = Amount { tokens: Some(1000), ..Amount::default() };
        let budget = LoopBudget { amount, prices: None };
        assert_eq!((budget.exceeded_by(&used(700, 0)), budget.little_left(&used(700, 0))), (None, None));
        assert_eq!(budget.little_left(&used(800, 50)).as_deref(), Some("about 150 tokens of your budget"));
        let words = "provost: the budget is used up: 1,100 tokens of 1k tokens";
        assert_eq!(budget.exceeded_by(&used(1000, 100)).as_deref(), Some(words));
        assert_eq!(LoopBudget::default().exceeded_by(&used(u64::MAX, 1)), None);
    }

    #[test]
    fn money_counts_with_prices_only_and_cached_tokens_have_their_own() {
        let amount = Amount { micro_usd: Some(1_000_000), ..Amount::default() };
        assert_eq!(LoopBudget { amount, prices: None }.exceeded_by(&used(u64::MAX, 1)), None);
        let prices = TokenPrices::parse("3000000,15000000,300000,3750000").expect("prices");
        let budget = LoopBudget { amount, prices: Some(prices) };
        assert!(budget.exceeded_by(&used(400_000, 0)).is_some());
        let cached = Usage { cache_read_tokens: Some(400_000), ..used(400_000, 0) };
        assert_eq!(budget.exceeded_by(&cached), None);
        assert!(TokenPrices::parse("1,2").is_err() && TokenPrices::parse("a,b,c,d").is_err());
    }
}
