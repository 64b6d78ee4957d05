//! Entries of Gemini CLI's `stream-json`.

use serde_json::Value;

use super::{EntrySink, error_text};

pub(in crate::agent) fn entries(kind: &str, value: &Value, sink: &mut EntrySink<'_>) {
    let word = |name: &str| value[name].as_str().unwrap_or_default();
    match kind {
        "message" if value["role"] == "assistant" => match value["delta"] == Value::Bool(true) {
            true => sink.chunk(word("content")),
            false => sink.message(word("content")),
        },
        "tool_use" => sink.call(word("tool_id"), word("tool_name"), &value["parameters"]),
        "tool_result" => {
            let ok = value["status"] == "success";
            let text = match (ok, value["output"].as_str()) {
                (false, None) => error_text(&value["error"]),
                (_, output) => output.unwrap_or_default().to_owned(),
            };
            sink.result(word("tool_id"), ok, &text);
        }
        "error" => sink.error(word("message")),
        "result" if value["status"].as_str().is_some_and(|status| status != "success") => {
            sink.error(&error_text(&value["error"]));
        }
        _ => {}
    }
}
