//! Writes JSON-RPC messages, and shortens what a peer sent for messages to people.

use serde_json::Value;

const LOGIN_WANTED: i64 = -32000;
const DETAIL_MAX: usize = 2000;

pub(super) fn write_message(message: &Value, say: &mut Vec<u8>) {
    say.extend_from_slice(message.to_string().as_bytes());
    say.push(b'\n');
}

/// Formats an error with all details that help to classify it.
pub(super) fn error_text(error: &Value) -> String {
    let message = match (error["code"].as_i64(), error["message"].as_str()) {
        // ACP's code for a missing login, worded so that it is classified as an error of the model and not
        // of a package registry.
        (Some(LOGIN_WANTED), _) => "authentication_error: the agent has no login or key for its model",
        (_, message) => message.unwrap_or("the agent reports an error"),
    };
    let code = error["code"].as_i64().map(|code| format!(" (code {code})")).unwrap_or_default();
    let data = match &error["data"] {
        Value::Null => String::new(),
        Value::String(text) => format!(": {text}"),
        data => format!(": {data}"),
    };
    short(&format!("{message}{code}{data}"))
}

/// Returns the text on one line, cut to `DETAIL_MAX` characters.
pub(super) fn short(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(DETAIL_MAX).collect()
}
