//! Writes replies as OpenAI Chat Completions, which many servers support.

use serde_json::{Value, json};

use super::{EncodedReply, Frame, Reply, halves, pieces};
use crate::turn::{ApiFailure, Form, StopReason};

/// A fixed time, so that answers are reproducible.
const CREATED: u64 = 1_767_225_600;

pub(super) fn say(reply: &Reply) -> EncodedReply {
    let used = &reply.usage;
    let usage = json!({
        "prompt_tokens": used.input, "completion_tokens": used.output, "total_tokens": used.input + used.output,
        "prompt_tokens_details": { "cached_tokens": used.cache_read },
        "completion_tokens_details": { "reasoning_tokens": used.thinking },
    });
    let finish = match reply.stop {
        StopReason::End | StopReason::Refusal => "stop",
        StopReason::Tools => "tool_calls",
        StopReason::MaxTokens => "length",
    };
    let calls: Vec<Value> = reply
        .calls
        .iter()
        .enumerate()
        .map(|(place, call)| {
            let arguments = match &call.form {
                Form::Json(input) | Form::Search(input) => input.to_string(),
                Form::Raw(text) | Form::Freeform(text) => text.clone(),
            };
            let function = json!({ "name": call.name, "arguments": arguments });
            json!({ "id": reply.call_id("call_", place), "type": "function", "function": function })
        })
        .collect();
    let mut message = json!({ "role": "assistant", "content": reply.text, "refusal": reply.refusal });
    if let Some(thinking) = &reply.thinking {
        message["reasoning_content"] = json!(thinking);
    }
    if !calls.is_empty() {
        message["tool_calls"] = json!(calls);
    }
    let body = json!({
        "id": reply.id("chatcmpl-"), "object": "chat.completion", "created": CREATED, "model": reply.model,
        "choices": [{ "index": 0, "message": message, "logprobs": null, "finish_reason": finish }],
        "usage": usage,
    });
    EncodedReply { body, frames: frames(reply, &calls, finish, &usage) }
}

fn frames(reply: &Reply, calls: &[Value], finish: &str, usage: &Value) -> Vec<Frame> {
    let chunk = |choices: Value| {
        json!({
            "id": reply.id("chatcmpl-"), "object": "chat.completion.chunk", "created": CREATED,
            "model": reply.model, "choices": choices,
        })
    };
    let piece = |delta: Value, finish: Option<&str>| {
        Frame::plain(&chunk(json!([{ "index": 0, "delta": delta, "finish_reason": finish }])))
    };
    let mut frames = vec![piece(json!({ "role": "assistant", "content": "" }), None)];
    let parts =
        [("reasoning_content", &reply.thinking), ("content", &reply.text), ("refusal", &reply.refusal)];
    for (name, text) in parts {
        let text = text.as_deref().unwrap_or_default();
        frames.extend(pieces(text).into_iter().map(|part| piece(json!({ name: part }), None)));
    }
    for (index, call) in calls.iter().enumerate() {
        let mut begun = call.clone();
        begun["index"] = json!(index);
        begun["function"]["arguments"] = json!("");
        frames.push(piece(json!({ "tool_calls": [begun] }), None));
        for half in halves(call["function"]["arguments"].as_str().unwrap_or_default()) {
            let more = json!({ "index": index, "function": { "arguments": half } });
            frames.push(piece(json!({ "tool_calls": [more] }), None));
        }
    }
    frames.push(piece(json!({}), Some(finish)));
    if reply.tells_usage {
        let mut last = chunk(json!([]));
        last["usage"] = usage.clone();
        frames.push(Frame::plain(&last));
    }
    frames
}

pub(super) fn error(failure: &ApiFailure) -> Value {
    let (kind, code) = match failure.status {
        401 => ("invalid_request_error", Some("invalid_api_key")),
        429 => ("requests", Some("rate_limit_exceeded")),
        status if status >= 500 => ("server_error", None),
        _ => ("invalid_request_error", None),
    };
    let code = failure.kind.as_deref().or(code);
    let kind = if code == Some("insufficient_quota") { "insufficient_quota" } else { kind };
    let message = failure.message.clone().unwrap_or_else(|| match failure.status {
        429 => "Rate limit reached for requests".to_owned(),
        503 => "The server is overloaded or not ready yet.".to_owned(),
        _ => "The server had an error while processing your request.".to_owned(),
    });
    json!({ "error": { "message": message, "type": kind, "param": null, "code": code } })
}
