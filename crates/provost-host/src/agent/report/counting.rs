//! Counts what clients report as used: whole attempts, and model calls one by one.

use provost_core::model::usage::Usage;
use serde_json::Value;

use super::{believable, micro, string};

/// Model calls that the client reports one by one.
#[derive(Default)]
pub(super) struct Calls {
    /// Number of messages begun, and the id of the last one; a message arrives in parts.
    pub(super) messages: u64,
    pub(super) message: String,
    /// The usage of the last message, and of all before it.
    pub(super) message_usage: Option<Usage>,
    pub(super) earlier: Option<Usage>,
    pub(super) steps: u64,
    /// Sum of the steps; `None` if a step left out a count.
    pub(super) sum: Option<Usage>,
    pub(super) cost: f64,
    /// The last step had a final reason.
    pub(super) complete: bool,
}

impl Calls {
    /// Adds the usage of the message before.
    pub(super) fn next_message(&mut self) {
        self.earlier = match (self.earlier.take(), self.message_usage.take()) {
            (Some(before), Some(last)) => Some(before.and(&last)),
            (before, last) => before.or(last),
        };
    }

    /// Returns the sum of all calls so far; both clients report them one by one.
    pub(super) fn so_far(&self) -> Usage {
        let of_messages = match (&self.earlier, &self.message_usage) {
            (Some(before), Some(last)) => Some(before.and(last)),
            (before, last) => before.clone().or_else(|| last.clone()),
        };
        of_messages.or_else(|| self.sum.clone()).unwrap_or_default()
    }

    pub(super) fn step(&mut self, part: &Value) {
        let tokens = &part["tokens"];
        let cache = |what: &str| tokens["cache"][what].as_u64().unwrap_or(0);
        let one = tokens["input"].as_u64().zip(tokens["output"].as_u64());
        let before = if self.steps == 0 { Some(Usage::default()) } else { self.sum.take() };
        self.steps += 1;
        self.sum = before.zip(one).map(|(sum, (input, output))| {
            let add = |sum: Option<u64>, more: &[u64]| Some(total(&[sum.unwrap_or(0), total(more)]));
            Usage {
                input_tokens: add(sum.input_tokens, &[input, cache("read"), cache("write")]),
                output_tokens: add(sum.output_tokens, &[output, tokens["reasoning"].as_u64().unwrap_or(0)]),
                cache_read_tokens: add(sum.cache_read_tokens, &[cache("read")]),
                cache_write_tokens: add(sum.cache_write_tokens, &[cache("write")]),
                ..Usage::default()
            }
        });
        self.cost += part["cost"].as_f64().unwrap_or(f64::NAN);
        self.complete = part["reason"].as_str().is_some_and(|reason| reason != "tool-calls");
    }

    pub(super) fn opencode(&mut self) -> Usage {
        let Some(sum) = self.sum.take().filter(|_| self.complete) else { return Usage::default() };
        // opencode reports 0 for a model whose price it does not know.
        let micro_usd = micro(self.cost).filter(|cost| *cost > 0);
        Usage { calls: Some(self.steps), micro_usd, ..sum }
    }
}

pub(super) fn claude_usage(value: &Value, messages: u64) -> Usage {
    let models = value["modelUsage"].as_object();
    let sum = |part: &str| {
        let models = models.filter(|models| !models.is_empty())?;
        models.values().try_fold(0u64, |sum, model| sum.checked_add(model[part].as_u64()?))
    };
    let part = |of_models: &str, of_all: &str| sum(of_models).or(value["usage"][of_all].as_u64());
    let read = part("cacheReadInputTokens", "cache_read_input_tokens");
    let written = part("cacheCreationInputTokens", "cache_creation_input_tokens");
    let fresh = part("inputTokens", "input_tokens");
    Usage {
        model: models.filter(|models| models.len() == 1).and_then(|models| models.keys().next().cloned()),
        calls: (messages > 0).then_some(messages),
        // Claude Code counts cached tokens separately.
        input_tokens: fresh.map(|fresh| total(&[fresh, read.unwrap_or(0), written.unwrap_or(0)])),
        output_tokens: part("outputTokens", "output_tokens"),
        cache_read_tokens: read,
        cache_write_tokens: written,
        micro_usd: value["total_cost_usd"].as_f64().and_then(micro),
    }
}

/// Returns the usage of one message of Claude Code's stream.
pub(super) fn claude_message(message: &Value) -> Option<Usage> {
    let usage = &message["usage"];
    let part = |name: &str| usage[name].as_u64();
    let (read, written) = (part("cache_read_input_tokens"), part("cache_creation_input_tokens"));
    let input = total(&[part("input_tokens")?, read.unwrap_or(0), written.unwrap_or(0)]);
    Some(believable(Usage {
        model: string(&message["model"]),
        input_tokens: Some(input),
        output_tokens: part("output_tokens"),
        cache_read_tokens: Some(read.unwrap_or(0)),
        cache_write_tokens: Some(written.unwrap_or(0)),
        ..Usage::default()
    }))
}

pub(super) fn turn_tokens(usage: &Value) -> Option<u64> {
    let part = |name: &str| usage[name].as_u64();
    let cached =
        ["cache_read_input_tokens", "cache_creation_input_tokens"].map(|name| part(name).unwrap_or(0));
    Some(total(&[part("input_tokens")?, part("output_tokens")?, cached[0], cached[1]]))
}

pub(super) fn gemini_usage(stats: &Value) -> Usage {
    let input = stats["input_tokens"].as_u64();
    let written = stats["output_tokens"].as_u64();
    // Reasoning tokens are counted in the total only.
    let rest = stats["total_tokens"].as_u64().zip(input).map(|(total, input)| total.saturating_sub(input));
    let models = stats["models"].as_object();
    Usage {
        model: models.filter(|models| models.len() == 1).and_then(|models| models.keys().next().cloned()),
        input_tokens: input,
        output_tokens: written.map(|written| written.max(rest.unwrap_or(0))),
        cache_read_tokens: stats["cached"].as_u64(),
        ..Usage::default()
    }
}

fn total(parts: &[u64]) -> u64 {
    parts.iter().fold(0, |sum, part| sum.saturating_add(*part))
}
