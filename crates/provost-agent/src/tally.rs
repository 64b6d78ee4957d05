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
    /// Everything that counts towards a limit: known, or estimated if the API did not report it.
    counted: Usage,
    /// A call is running: if it never ends, its usage is unknown.
    is_asking: bool,
}

impl Tally {
    pub(crate) fn new(model: &str) -> Self {
        Self { model: model.to_owned(), sum: None, calls: 0, counted: Usage::default(), is_asking: false }
    }

    pub(crate) fn ask(&mut self) {
        self.calls += 1;
        self.is_asking = true;
    }

    /// Returns what counts towards a limit.
    pub(crate) fn counted(&self) -> &Usage {
        &self.counted
    }

    /// Adds the usage of a call; `guess` is an estimate of its input and output tokens.
    pub(crate) fn add(&mut self, usage: &Usage, guess: (usize, usize)) {
        self.is_asking = false;
        let guess = (guess.0 as u64, guess.1 as u64);
        self.count(usage.input_tokens.unwrap_or(guess.0), usage.output_tokens.unwrap_or(guess.1), usage);
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

    /// Adds what a sub-agent used: as its API reported it, and as it counts towards a limit.
    pub(crate) fn add_side(&mut self, used: &Usage, counted: &Usage) {
        self.calls += used.calls.unwrap_or(0);
        let guess = |tokens: Option<u64>| usize::try_from(tokens.unwrap_or(0)).unwrap_or(usize::MAX);
        self.add(used, (guess(counted.input_tokens), guess(counted.output_tokens)));
    }

    fn count(&mut self, input: u64, output: u64, usage: &Usage) {
        let counted = &mut self.counted;
        let parts = [
            (&mut counted.input_tokens, input),
            (&mut counted.output_tokens, output),
            (&mut counted.cache_read_tokens, usage.cache_read_tokens.unwrap_or(0)),
            (&mut counted.cache_write_tokens, usage.cache_write_tokens.unwrap_or(0)),
        ];
        for (sum, more) in parts {
            *sum = Some(sum.unwrap_or(0).saturating_add(more));
        }
    }

    /// Records a call without an answer; one that was cut off used an unknown amount. `guess` is an estimate
    /// of its input tokens.
    pub(crate) fn failed(&mut self, failure: &Failure, guess: usize) {
        self.is_asking = false;
        if let Failure::Cut { .. } | Failure::Malformed { .. } = failure {
            self.count(guess as u64, 0, &Usage::default());
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
        tally.add(&counted(10, 1), (0, 0));
        tally.ask();
        tally.add(&Usage { cache_read_tokens: Some(8), ..counted(20, 2) }, (0, 0));
        let usage = tally.usage();
        assert_eq!((usage.calls, usage.input_tokens, usage.output_tokens), (Some(2), Some(30), Some(3)));
        assert_eq!(usage.cache_read_tokens, Some(8));
        tally.ask();
        let stopped = tally.usage();
        assert_eq!((stopped.calls, stopped.input_tokens), (Some(3), None), "stopped in the middle of a call");
        tally.add(&Usage { output_tokens: Some(1), ..Usage::default() }, (70, 5));
        let usage = tally.usage();
        assert_eq!((usage.calls, usage.input_tokens, usage.output_tokens), (Some(3), None, Some(4)));
        assert_eq!(tally.counted().tokens(), Some(104), "what was not reported is estimated");
    }
}
