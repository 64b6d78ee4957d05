//! Entries of Claude Code's `stream-json`.

use serde_json::Value;

use super::{EntrySink, text_of};

pub(in crate::agent) fn entries(kind: &str, value: &Value, sink: &mut EntrySink<'_>) {
    let parts = value["message"]["content"].as_array().into_iter().flatten();
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    match kind {
        "assistant" => parts.for_each(|part| match part["type"].as_str() {
            Some("text") => sink.message(&word(&part["text"])),
            Some("tool_use") => sink.call(&word(&part["id"]), &word(&part["name"]), &part["input"]),
            _ => {}
        }),
        "user" => parts.filter(|part| part["type"] == "tool_result").for_each(|part| {
            let ok = part["is_error"] != Value::Bool(true);
            sink.result(&word(&part["tool_use_id"]), ok, &text_of(&part["content"]));
        }),
        "result" if value["is_error"] == Value::Bool(true) => {
            let words = value["result"].as_str().or(value["subtype"].as_str());
            sink.error(words.unwrap_or("the client reports an error"));
        }
        _ => {}
    }
}
