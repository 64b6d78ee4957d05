//! Writes replies as OpenAI Responses.

use serde_json::{Value, json};

use super::{EncodedReply, Frame, Reply, halves, pieces};
use crate::turn::{Form, StopReason};

/// A fixed time, so that answers are reproducible.
const CREATED: u64 = 1_767_225_600;

pub(super) fn say(reply: &Reply) -> EncodedReply {
    let used = &reply.usage;
    let usage = json!({
        "input_tokens": used.input, "input_tokens_details": { "cached_tokens": used.cache_read },
        "output_tokens": used.output, "output_tokens_details": { "reasoning_tokens": used.thinking },
        "total_tokens": used.input + used.output,
    });
    let items = items(reply);
    let (status, why) = match reply.stop {
        StopReason::MaxTokens => ("incomplete", json!({ "reason": "max_output_tokens" })),
        StopReason::End | StopReason::Tools | StopReason::Refusal => ("completed", Value::Null),
    };
    let response = json!({
        "id": reply.id("resp_"), "object": "response", "created_at": CREATED, "status": status,
        "model": reply.model, "output": items, "usage": usage, "error": null, "incomplete_details": why,
        "parallel_tool_calls": true, "tool_choice": "auto", "tools": [],
    });
    let mut begun = response.clone();
    begun["status"] = json!("in_progress");
    begun["output"] = json!([]);
    begun["usage"] = Value::Null;
    let mut stream = Stream::default();
    stream.push("response.created", json!({ "response": begun }));
    for (index, item) in items.iter().enumerate() {
        stream.item(index, item);
    }
    let end = if status == "incomplete" { "response.incomplete" } else { "response.completed" };
    stream.push(end, json!({ "response": response }));
    EncodedReply { body: response, frames: stream.frames }
}

/// Returns the event of a stream that ends in an error.
pub(super) fn failed(body: &Value) -> Frame {
    let error = json!({ "code": "server_error", "message": body["error"]["message"] });
    let response = json!({ "object": "response", "status": "failed", "error": error, "output": [] });
    Frame::typed("response.failed", json!({ "sequence_number": 0, "response": response }))
}

fn items(reply: &Reply) -> Vec<Value> {
    let mut items = Vec::new();
    if let Some(thinking) = &reply.thinking {
        let summary = json!([{ "type": "summary_text", "text": thinking }]);
        items.push(json!({ "type": "reasoning", "id": reply.id("rs_"), "summary": summary }));
    }
    let mut content = Vec::new();
    if let Some(text) = &reply.text {
        content.push(json!({ "type": "output_text", "text": text, "annotations": [] }));
    }
    if let Some(refusal) = &reply.refusal {
        content.push(json!({ "type": "refusal", "refusal": refusal }));
    }
    if !content.is_empty() {
        items.push(json!({
            "type": "message", "id": reply.id("msg_"), "role": "assistant", "status": "completed",
            "content": content,
        }));
    }
    for (place, call) in reply.calls.iter().enumerate() {
        let (id, call_id) = (reply.call_id("item_", place), reply.call_id("call_", place));
        let mut item = json!({ "id": id, "call_id": call_id, "status": "completed", "name": call.name });
        let arguments = match &call.form {
            Form::Json(input) => ("function_call", "arguments", json!(input.to_string())),
            Form::Raw(text) => ("function_call", "arguments", json!(text)),
            Form::Freeform(text) => ("custom_tool_call", "input", json!(text)),
            Form::Search(input) => ("tool_search_call", "arguments", input.clone()),
        };
        item["type"] = json!(arguments.0);
        item[arguments.1] = arguments.2;
        if let Form::Search(_) = &call.form {
            item["execution"] = json!("client");
        }
        if let Some(namespace) = &call.namespace {
            item["namespace"] = json!(namespace);
        }
        items.push(item);
    }
    items
}

#[derive(Default)]
struct Stream {
    frames: Vec<Frame>,
}

impl Stream {
    fn push(&mut self, event: &'static str, mut data: Value) {
        data["sequence_number"] = json!(self.frames.len());
        self.frames.push(Frame::typed(event, data));
    }

    fn item(&mut self, index: usize, item: &Value) {
        let mut begun = item.clone();
        begun["status"] = json!("in_progress");
        for field in ["content", "summary"] {
            if begun.get(field).is_some() {
                begun[field] = json!([]);
            }
        }
        for field in ["arguments", "input"] {
            if begun.get(field).is_some_and(Value::is_string) {
                begun[field] = json!("");
            }
        }
        self.push("response.output_item.added", json!({ "output_index": index, "item": begun }));
        let at = |more: Value| {
            let mut at = json!({ "output_index": index, "item_id": item["id"] });
            for (name, value) in more.as_object().into_iter().flatten() {
                at[name] = value.clone();
            }
            at
        };
        match item["type"].as_str().unwrap_or_default() {
            "message" => {
                for (place, part) in item["content"].as_array().into_iter().flatten().enumerate() {
                    let at = |mut more: Value| {
                        more["content_index"] = json!(place);
                        at(more)
                    };
                    self.part(part, &at);
                }
            }
            "reasoning" => {
                let text = item["summary"][0]["text"].as_str().unwrap_or_default();
                let empty = json!({ "type": "summary_text", "text": "" });
                let part = |part: &Value| at(json!({ "summary_index": 0, "part": part }));
                self.push("response.reasoning_summary_part.added", part(&empty));
                for piece in pieces(text) {
                    let delta = at(json!({ "summary_index": 0, "delta": piece }));
                    self.push("response.reasoning_summary_text.delta", delta);
                }
                let whole = at(json!({ "summary_index": 0, "text": text }));
                self.push("response.reasoning_summary_text.done", whole);
                self.push("response.reasoning_summary_part.done", part(&item["summary"][0]));
            }
            "function_call" => {
                let text = item["arguments"].as_str().unwrap_or_default();
                for half in halves(text) {
                    self.push("response.function_call_arguments.delta", at(json!({ "delta": half })));
                }
                self.push("response.function_call_arguments.done", at(json!({ "arguments": text })));
            }
            "custom_tool_call" => {
                let text = item["input"].as_str().unwrap_or_default();
                for half in halves(text) {
                    self.push("response.custom_tool_call_input.delta", at(json!({ "delta": half })));
                }
                self.push("response.custom_tool_call_input.done", at(json!({ "input": text })));
            }
            _ => {}
        }
        self.push("response.output_item.done", json!({ "output_index": index, "item": item }));
    }

    fn part(&mut self, part: &Value, at: &dyn Fn(Value) -> Value) {
        let (field, delta, done) = match part["type"].as_str() {
            Some("refusal") => ("refusal", "response.refusal.delta", "response.refusal.done"),
            _ => ("text", "response.output_text.delta", "response.output_text.done"),
        };
        let mut empty = part.clone();
        empty[field] = json!("");
        let text = part[field].as_str().unwrap_or_default();
        self.push("response.content_part.added", at(json!({ "part": empty })));
        for piece in pieces(text) {
            self.push(delta, at(json!({ "delta": piece })));
        }
        self.push(done, at(json!({ field: text })));
        self.push("response.content_part.done", at(json!({ "part": part })));
    }
}
