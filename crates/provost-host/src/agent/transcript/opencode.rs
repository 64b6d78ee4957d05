//! Entries of the JSON lines of `opencode run`.

use serde_json::Value;

use super::{EntrySink, error_text};

pub(in crate::agent) fn entries(kind: &str, value: &Value, sink: &mut EntrySink<'_>) {
    let part = &value["part"];
    match kind {
        "text" => sink.message(part["text"].as_str().unwrap_or_default()),
        // A call is reported when it is over.
        "tool_use" => {
            let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let (id, state) = (word(&part["callID"]), &part["state"]);
            sink.call(&id, &word(&part["tool"]), &state["input"]);
            let ok = state["status"] != "error";
            sink.result(&id, ok, &word(if ok { &state["output"] } else { &state["error"] }));
        }
        "error" => {
            let error = &value["error"];
            sink.error(&error_text(if error["data"].is_object() { &error["data"] } else { error }));
        }
        _ => {}
    }
}
