//! Sums the usage of a run over its turns.
//!
//! **Invariant:** if one turn did not report its input or output tokens, that sum is unknown. A missing
//! count of cached tokens counts as zero.

use provost_core::model::usage::Usage;

use crate::provider::Failure;

#[derive(Debug)]
pub(crate) struct Tally {
    model: String,
    /// `None` before the first answer, which is different from an unknown sum.
    sum: Option<Usage>,
    calls: u64,
    /// A call is running: if it never ends, its usage is unknown.
    is_asking: bool,
}

impl Tally {
    pub(crate) fn new(model: &str) -> Self {
        Self { model: model.to_owned(), sum: None, calls: 0, is_asking: false }
    }

    pub(crate) fn ask(&mut self) {
        self.calls += 1;
        self.is_asking = true;
    }

    pub(crate) fn add(&mut self, usage: &Usage) {
        self.is_asking = false;
        let Some(sum) = &mut self.sum else {
            self.sum = Some(usage.clone());
            return;
        };
        let both = |one: Option<u64>, other: Option<u64>| Some(one?.saturating_add(other?));
        // Not every turn uses a cache; a turn without a count used none.
        let either = |one: Option<u64>, other: Option<u64>| match (one, other) {
            (None, None) => None,
            (one, other) => Some(one.unwrap_or(0).saturating_add(other.unwrap_or(0))),
        };
        sum.input_tokens = both(sum.input_tokens, usage.input_tokens);
        sum.output_tokens = both(sum.output_tokens, usage.output_tokens);
        sum.cache_read_tokens = either(sum.cache_read_tokens, usage.cache_read_tokens);
        sum.cache_write_tokens = either(sum.cache_write_tokens, usage.cache_write_tokens);
    }

    /// Records a call without an answer; one that was cut off used an unknown amount.
    pub(crate) fn failed(&mut self, failure: &Failure) {
        self.is_asking = false;
        if let Failure::Cut { .. } | Failure::Malformed { .. } = failure {
            let sum = self.sum.get_or_insert_default();
            (sum.input_tokens, sum.output_tokens) = (None, None);
        }
    }

    pub(crate) fn usage(&self) -> Usage {
        let mut sum = self.sum.clone().unwrap_or_default();
        if self.is_asking {
            (sum.input_tokens, sum.output_tokens) = (None, None);
        }
        Usage { model: Some(self.model.clone()), calls: Some(self.calls), ..sum }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_nobody_counted_leaves_the_sum_unknown() {
        let counted = |input, output| Usage {
            input_tokens: Some(input),
            output_tokens: Some(output),
            ..Usage::default()
        };
        let mut tally = Tally::new("m");
        tally.ask();
        tally.add(&counted(10, 1));
        tally.ask();
        tally.add(&Usage { cache_read_tokens: Some(8), ..counted(20, 2) });
        let usage = tally.usage();
        assert_eq!((usage.calls, usage.input_tokens, usage.output_tokens), (Some(2), Some(30), Some(3)));
        assert_eq!(usage.cache_read_tokens, Some(8));
        tally.ask();
        let stopped = tally.usage();
        assert_eq!((stopped.calls, stopped.input_tokens), (Some(3), None), "stopped in the middle of a call");
        tally.add(&Usage { output_tokens: Some(1), ..Usage::default() });
        let usage = tally.usage();
        assert_eq!((usage.calls, usage.input_tokens, usage.output_tokens), (Some(3), None, Some(4)));
    }
}
