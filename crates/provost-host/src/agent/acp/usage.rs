//! Reads the usage of a turn; every agent tells it in its own way.

use provost_core::model::usage::Usage;
use serde_json::Value;

use crate::agent::believable;

/// Returns the usage of a turn from its last answer, and the cost that the agent told while it worked.
pub(super) fn used(result: &Value, cost: Option<u64>, is_opencode: bool) -> Usage {
    let (usage, quota) = (&result["usage"], &result["_meta"]["quota"]["token_count"]);
    let count = |names: &[&str]| {
        let both = names.iter().flat_map(|name| [&usage[*name], &quota[*name]]);
        both.filter_map(Value::as_u64).next()
    };
    let models = result["_meta"]["quota"]["model_usage"].as_array().filter(|models| models.len() == 1);
    let money = Usage { micro_usd: cost, ..Usage::default() };
    // opencode reports only its last step.
    if is_opencode {
        return money;
    }
    let output = count(&["outputTokens", "output_tokens"]);
    let thought = count(&["thoughtTokens", "reasoningOutputTokens"]).unwrap_or(0);
    let all = count(&["totalTokens"]).zip(count(&["inputTokens"]));
    believable(Usage {
        model: models.and_then(|models| models[0]["model"].as_str()).map(str::to_owned),
        input_tokens: count(&["inputTokens", "input_tokens"]),
        // The output count includes the reasoning tokens or not; the total shows which.
        output_tokens: output.map(|output| match all {
            Some((total, input)) if total >= input + output + thought => output + thought,
            _ => output,
        }),
        cache_read_tokens: count(&["cachedReadTokens", "cachedInputTokens"]),
        cache_write_tokens: count(&["cachedWriteTokens", "cacheWriteInputTokens"]),
        ..money
    })
}
