//! Sums the usage of an account and checks its limit.
//!
//! If an answer did not report a count, that sum is unknown to readers. The limit is compared with the
//! known counts plus an estimate of the rest, so that it still applies.

use std::collections::BTreeMap;

use provost_core::model::usage::Usage;

use super::count::ReportedUsage;

/// Spending limits; `None` means no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limit {
    pub tokens: Option<u64>,
    pub micro_usd: Option<u64>,
}

#[derive(Debug, Default)]
pub(super) struct UsageCounters {
    calls: u64,
    /// Tokens of each model.
    models: BTreeMap<String, u64>,
    input: Sum,
    output: Sum,
    cache_read: Sum,
    cache_write: Sum,
    money: Sum,
    /// Amounts that count towards the limit: known or estimated.
    tokens: u64,
    micro_usd: u64,
    /// Answers that ended before they reported their output.
    unsaid: u64,
    stopped: Option<String>,
    /// The last answer, if it was an error.
    refused: Option<ApiRefusal>,
}

/// An answer of the model's API that is an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiRefusal {
    pub status: u16,
    /// The header that says when to come back, as `name: value`.
    pub after: Option<String>,
}

#[derive(Debug, Default)]
struct Sum {
    known: u64,
    /// A part of the sum is unknown.
    lacks: bool,
}

impl Sum {
    fn add(&mut self, more: Option<u64>) {
        self.known = self.known.saturating_add(more.unwrap_or(0));
        self.lacks |= more.is_none();
    }

    fn total(&self) -> Option<u64> {
        (!self.lacks).then_some(self.known)
    }
}

/// One finished call.
pub(super) struct FinishedCall<'a> {
    pub counted: &'a ReportedUsage,
    pub micro_usd: Option<u64>,
    /// Bytes of request and answer, for the estimate.
    pub bytes: (usize, usize),
}

/// Estimates tokens from bytes: four bytes are about one token.
fn guess(bytes: usize) -> u64 {
    u64::try_from(bytes / 4).unwrap_or(u64::MAX)
}

impl UsageCounters {
    /// Keeps the last answer if it is an error; an answer that is none makes the one before unimportant.
    pub(super) fn answered(&mut self, refusal: Option<ApiRefusal>) {
        self.refused = refusal;
    }

    pub(super) fn refused(&self) -> Option<ApiRefusal> {
        self.refused.clone()
    }

    /// Counts a call that begins.
    pub(super) fn begin(&mut self) {
        self.calls += 1;
    }

    pub(super) fn book(&mut self, call: &FinishedCall<'_>) {
        let ReportedUsage { model, input, output, cache_read, cache_write } = call.counted;
        self.input.add(*input);
        self.output.add(*output);
        self.cache_read.add(*cache_read);
        self.cache_write.add(*cache_write);
        self.money.add(call.micro_usd);
        self.unsaid += u64::from(output.is_none());
        let input = input.unwrap_or_else(|| guess(call.bytes.0));
        let output = output.unwrap_or_else(|| guess(call.bytes.1));
        let tokens = input.saturating_add(output);
        self.tokens = self.tokens.saturating_add(tokens);
        if let Some(model) = model {
            let used = self.models.entry(model.clone()).or_default();
            *used = used.saturating_add(tokens);
        }
        self.micro_usd = self.micro_usd.saturating_add(call.micro_usd.unwrap_or(0));
    }

    /// Returns the reason if the limit is reached.
    pub(super) fn is_over(&mut self, limit: &Limit) -> Option<String> {
        let why = match (limit.tokens, limit.micro_usd) {
            (Some(0), _) | (_, Some(0)) => "the budget is used up".to_owned(),
            (Some(most), _) if self.tokens >= most => {
                format!("the budget is used up: {} of {most} tokens", self.tokens)
            }
            (_, Some(most)) if self.micro_usd >= most => {
                format!("the budget is used up: {} of {}", dollars(self.micro_usd), dollars(most))
            }
            _ => return None,
        };
        self.stop(why.clone());
        Some(why)
    }

    /// Records why a call was rejected; only the first reason is kept.
    pub(super) fn stop(&mut self, why: String) {
        self.stopped.get_or_insert(why);
    }

    pub(super) fn usage(&self) -> Usage {
        // The model with the most tokens: side models for titles and summaries are called as often.
        let model = self.models.iter().max_by_key(|(_, tokens)| **tokens).map(|(model, _)| model.clone());
        Usage {
            model,
            calls: Some(self.calls),
            input_tokens: self.input.total(),
            output_tokens: self.output.total(),
            cache_read_tokens: self.cache_read.total(),
            cache_write_tokens: self.cache_write.total(),
            micro_usd: self.money.total(),
        }
    }

    /// Returns notes for people.
    pub(super) fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if let Some(why) = &self.stopped {
            notes.push(format!("provost blocked further calls to the model: {why}"));
        }
        if self.unsaid > 0 {
            let answers =
                if self.unsaid == 1 { "1 answer".to_owned() } else { format!("{} answers", self.unsaid) };
            let (input, output) = (self.input.known, self.output.known);
            notes.push(format!(
                "{answers} of the model ended without a usage report; known: {input} tokens in, {output} out"
            ));
        }
        notes
    }
}

fn dollars(micro_usd: u64) -> String {
    format!("${}.{:04}", micro_usd / 1_000_000, micro_usd % 1_000_000 / 100)
}

#[cfg(test)]
mod tests {
    use super::{FinishedCall, Limit, ReportedUsage, UsageCounters};

    #[test]
    fn an_attempt_is_filed_under_the_model_that_did_the_work() {
        let mut tally = UsageCounters::default();
        for (model, input) in [("big", 9000), ("tiny", 40), ("tiny", 50)] {
            let counted = ReportedUsage {
                model: Some(model.to_owned()),
                input: Some(input),
                output: Some(10),
                ..ReportedUsage::default()
            };
            tally.book(&FinishedCall { counted: &counted, micro_usd: None, bytes: (0, 0) });
        }
        assert_eq!(tally.usage().model.as_deref(), Some("big"));
    }

    #[test]
    fn what_one_answer_left_unsaid_is_unknown_in_the_sum_and_counts_for_the_limit() {
        let mut tally = UsageCounters::default();
        let limit = Limit { tokens: Some(1000), micro_usd: None };
        let whole = ReportedUsage { input: Some(600), output: Some(100), ..ReportedUsage::default() };
        tally.book(&FinishedCall { counted: &whole, micro_usd: Some(7), bytes: (0, 0) });
        assert_eq!((tally.usage().tokens(), tally.is_over(&limit)), (Some(700), None));
        let half = ReportedUsage { input: Some(200), output: None, ..ReportedUsage::default() };
        tally.book(&FinishedCall { counted: &half, micro_usd: None, bytes: (0, 400) });
        assert_eq!((tally.usage().tokens(), tally.usage().input_tokens), (None, Some(800)));
        assert_eq!(tally.is_over(&limit).as_deref(), Some("the budget is used up: 1000 of 1000 tokens"));
        assert_eq!(
            tally.notes(),
            [
                "provost blocked further calls to the model: the budget is used up: 1000 of 1000 tokens",
                "1 answer of the model ended without a usage report; known: 800 tokens in, 100 out",
            ]
        );
    }

    #[test]
    fn dollars_are_a_limit_too() {
        let mut tally = UsageCounters::default();
        let counted = ReportedUsage { input: Some(1), output: Some(1), ..ReportedUsage::default() };
        tally.book(&FinishedCall { counted: &counted, micro_usd: Some(1_500_000), bytes: (0, 0) });
        let nothing = Limit { tokens: Some(0), micro_usd: None };
        assert_eq!(UsageCounters::default().is_over(&nothing).as_deref(), Some("the budget is used up"));
        let limit = Limit { tokens: None, micro_usd: Some(1_250_000) };
        assert_eq!(tally.is_over(&limit).as_deref(), Some("the budget is used up: $1.5000 of $1.2500"));
    }
}
