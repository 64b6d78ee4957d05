//! Writes replies as Anthropic Messages.

use serde_json::{Value, json};

use super::{EncodedReply, Frame, Reply, halves, pieces};
use crate::turn::{ApiFailure, Form, StopReason};

pub(super) fn say(reply: &Reply) -> EncodedReply {
    let used = &reply.usage;
    let usage = json!({
        "input_tokens": used.input.saturating_sub(used.cache_read + used.cache_write),
        "cache_creation_input_tokens": used.cache_write,
        "cache_read_input_tokens": used.cache_read,
        "output_tokens": used.output,
    });
    let stop = match reply.stop {
        StopReason::End => "end_turn",
        StopReason::Tools => "tool_use",
        StopReason::MaxTokens => "max_tokens",
        StopReason::Refusal => "refusal",
    };
    let blocks = blocks(reply);
    let message = json!({
        "id": reply.id("msg_"), "type": "message", "role": "assistant", "model": reply.model,
        "content": blocks.iter().map(|block| block.whole.clone()).collect::<Vec<_>>(),
        "stop_reason": stop, "stop_sequence": null, "usage": usage,
    });
    let mut begun = message.clone();
    begun["content"] = json!([]);
    begun["stop_reason"] = Value::Null;
    begun["usage"]["output_tokens"] = json!(1);
    let mut frames =
        vec![Frame::typed("message_start", json!({ "message": begun })), Frame::typed("ping", json!({}))];
    for (index, block) in blocks.iter().enumerate() {
        let start = json!({ "index": index, "content_block": block.empty });
        frames.push(Frame::typed("content_block_start", start));
        for delta in &block.deltas {
            frames.push(Frame::typed("content_block_delta", json!({ "index": index, "delta": delta })));
        }
        frames.push(Frame::typed("content_block_stop", json!({ "index": index })));
    }
    let end = json!({ "delta": { "stop_reason": stop, "stop_sequence": null }, "usage": usage });
    frames.push(Frame::typed("message_delta", end));
    frames.push(Frame::typed("message_stop", json!({})));
    EncodedReply { body: message, frames }
}

struct Block {
    whole: Value,
    empty: Value,
    deltas: Vec<Value>,
}

fn blocks(reply: &Reply) -> Vec<Block> {
    let mut blocks = Vec::new();
    if let Some(thinking) = &reply.thinking {
        let signature = reply.id("signature-");
        let mut deltas: Vec<Value> = pieces(thinking)
            .iter()
            .map(|piece| json!({ "type": "thinking_delta", "thinking": piece }))
            .collect();
        deltas.push(json!({ "type": "signature_delta", "signature": signature }));
        blocks.push(Block {
            whole: json!({ "type": "thinking", "thinking": thinking, "signature": signature }),
            empty: json!({ "type": "thinking", "thinking": "", "signature": "" }),
            deltas,
        });
    }
    // In this API a refusal is a stop reason, with or without text.
    for text in [&reply.text, &reply.refusal].into_iter().flatten() {
        let deltas =
            pieces(text).iter().map(|piece| json!({ "type": "text_delta", "text": piece })).collect();
        let whole = json!({ "type": "text", "text": text });
        blocks.push(Block { whole, empty: json!({ "type": "text", "text": "" }), deltas });
    }
    for (place, call) in reply.calls.iter().enumerate() {
        let id = reply.call_id("toolu_", place);
        let (input, written) = match &call.form {
            Form::Json(input) | Form::Search(input) => (input.clone(), input.to_string()),
            Form::Raw(text) | Form::Freeform(text) => (json!(text), text.clone()),
        };
        let deltas =
            halves(&written).map(|half| json!({ "type": "input_json_delta", "partial_json": half })).to_vec();
        blocks.push(Block {
            whole: json!({ "type": "tool_use", "id": id, "name": call.name, "input": input }),
            empty: json!({ "type": "tool_use", "id": id, "name": call.name, "input": {} }),
            deltas,
        });
    }
    blocks
}

pub(super) fn error(failure: &ApiFailure) -> Value {
    let kind = match failure.status {
        400 => "invalid_request_error",
        401 => "authentication_error",
        402 => "billing_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        504 => "timeout_error",
        529 => "overloaded_error",
        _ => "api_error",
    };
    let message = failure.message.clone().unwrap_or_else(|| match failure.status {
        429 => "This request would exceed your organization's rate limit.".to_owned(),
        529 => "Overloaded".to_owned(),
        _ => "Internal server error".to_owned(),
    });
    json!({
        "type": "error",
        "error": { "type": failure.kind.as_deref().unwrap_or(kind), "message": message },
        "request_id": "req_scripted",
    })
}
