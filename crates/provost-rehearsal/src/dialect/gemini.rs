//! Writes replies in the format of Gemini's generateContent.

use serde_json::{Value, json};

use super::{EncodedReply, Frame, Reply, pieces};
use crate::turn::{ApiFailure, Form, StopReason};

pub(super) fn say(reply: &Reply) -> EncodedReply {
    let used = &reply.usage;
    let usage = json!({
        "promptTokenCount": used.input,
        // Reasoning is counted separately from the answer.
        "candidatesTokenCount": used.output.saturating_sub(used.thinking),
        "thoughtsTokenCount": used.thinking,
        "cachedContentTokenCount": used.cache_read,
        "totalTokenCount": used.input + used.output,
    });
    // Gemini never returns a malformed call.
    let is_malformed = reply.calls.iter().any(|call| matches!(call.form, Form::Raw(_)));
    let finish = match reply.stop {
        _ if is_malformed => "MALFORMED_FUNCTION_CALL",
        StopReason::End | StopReason::Tools => "STOP",
        StopReason::MaxTokens => "MAX_TOKENS",
        StopReason::Refusal => "SAFETY",
    };
    let calls: Vec<Value> = reply
        .calls
        .iter()
        .enumerate()
        .filter_map(|(place, call)| {
            let args = match &call.form {
                Form::Json(input) | Form::Search(input) => input.clone(),
                Form::Freeform(text) => json!({ "input": text }),
                Form::Raw(_) => return None,
            };
            let id = reply.call_id("call_", place);
            Some(json!({ "functionCall": { "id": id, "name": call.name, "args": args } }))
        })
        .collect();
    let thought = |text: &str| json!({ "text": text, "thought": true });
    let mut parts: Vec<Value> = reply.thinking.iter().map(|text| thought(text)).collect();
    parts.extend(reply.text.iter().map(|text| json!({ "text": text })));
    parts.extend(calls.iter().cloned());
    let answer = |parts: &[Value], finish: Option<&str>, usage: Value| {
        let mut candidate = json!({ "content": { "role": "model", "parts": parts }, "index": 0 });
        if let Some(finish) = finish {
            candidate["finishReason"] = json!(finish);
        }
        json!({
            "candidates": [candidate], "usageMetadata": usage,
            "modelVersion": reply.model, "responseId": reply.id("response-"),
        })
    };
    let body = answer(&parts, Some(finish), usage.clone());
    let early = json!({ "promptTokenCount": used.input, "totalTokenCount": used.input });
    let thoughts = pieces(reply.thinking.as_deref().unwrap_or_default());
    let texts = pieces(reply.text.as_deref().unwrap_or_default());
    let mut said: Vec<Value> = thoughts.into_iter().map(thought).collect();
    said.extend(texts.into_iter().map(|text| json!({ "text": text })));
    let mut frames: Vec<Frame> =
        said.into_iter().map(|part| Frame::plain(&answer(&[part], None, early.clone()))).collect();
    frames.push(Frame::plain(&answer(&calls, Some(finish), usage)));
    EncodedReply { body, frames }
}

pub(super) fn error(failure: &ApiFailure) -> Value {
    let status = match failure.status {
        401 => "UNAUTHENTICATED",
        403 => "PERMISSION_DENIED",
        404 => "NOT_FOUND",
        429 => "RESOURCE_EXHAUSTED",
        500 => "INTERNAL",
        503 => "UNAVAILABLE",
        504 => "DEADLINE_EXCEEDED",
        _ => "INVALID_ARGUMENT",
    };
    let message = failure.message.clone().unwrap_or_else(|| match failure.status {
        429 => "Resource has been exhausted (e.g. check quota).".to_owned(),
        503 => "The model is overloaded. Please try again later.".to_owned(),
        _ => "An internal error has occurred.".to_owned(),
    });
    let mut error = json!({
        "code": failure.status, "message": message, "status": failure.kind.as_deref().unwrap_or(status),
    });
    // Gemini sends the retry delay here, not in a header.
    if let Some(seconds) = failure.headers.get("retry-after") {
        let kind = "type.googleapis.com/google.rpc.RetryInfo";
        error["details"] = json!([{ "@type": kind, "retryDelay": format!("{seconds}s") }]);
    }
    json!({ "error": error })
}
