//! Classifies errors of a model's API.

use std::time::Duration;

use serde_json::Value;

use super::Key;
use crate::provider::Failure;
use crate::truncate;

/// Most bytes of a message that are shown.
const MESSAGE: usize = 600;

pub(super) fn read(error: &genai::Error, key: &Key) -> Failure {
    let said = |text: &str| key.hide(&truncate::middle(text.trim(), MESSAGE, "cut"));
    match error {
        genai::Error::HttpError { status, body, headers, .. } => {
            let retry_after = header(headers, "retry-after-ms")
                .map(Duration::from_millis)
                .or_else(|| header(headers, "retry-after").map(Duration::from_secs));
            of_status(status.as_u16(), said(&message(body)), retry_after)
        }
        // The status is in the error inside the stream error.
        genai::Error::WebStream { error, cause, .. } => match error.downcast_ref::<genai::Error>() {
            Some(inner) => read(inner, key),
            None => of_connection(error.as_ref(), said(cause)),
        },
        genai::Error::ChatResponse { body, .. } => of_event(body, said(&message(&body.to_string()))),
        genai::Error::StreamParse { serde_error, .. } => {
            Failure::Malformed { message: said(&serde_error.to_string()) }
        }
        genai::Error::JsonValueExt(error) => Failure::Malformed { message: said(&error.to_string()) },
        genai::Error::SerdeJson(error) => Failure::Malformed { message: said(&error.to_string()) },
        other => Failure::Rejected { status: 400, message: said(&other.to_string()) },
    }
}

fn header(headers: &reqwest::header::HeaderMap, name: &str) -> Option<u64> {
    let value: f64 = headers.get(name)?.to_str().ok()?.trim().parse().ok()?;
    (value.is_finite() && value >= 0.0).then_some(value.ceil() as u64)
}

fn of_status(status: u16, message: String, retry_after: Option<Duration>) -> Failure {
    match status {
        401 | 403 => Failure::Unauthorized { status, message },
        // Anthropic has its own status code for overload.
        429 | 529 => Failure::Busy { status, message, retry_after },
        408 | 409 | 500..=599 => Failure::Server { status, message, retry_after },
        413 => Failure::TooLong { message },
        _ if is_too_long(&message) => Failure::TooLong { message },
        _ => Failure::Rejected { status, message },
    }
}

/// Classifies an error that arrived as an event within a stream.
fn of_event(body: &Value, message: String) -> Failure {
    let error = body.get("error").unwrap_or(body);
    let kind = ["type", "code", "status"].iter().find_map(|key| error.get(key)?.as_str()).unwrap_or_default();
    let status = match kind {
        "overloaded_error" => 529,
        "rate_limit_error" | "rate_limit_exceeded" | "RESOURCE_EXHAUSTED" => 429,
        "authentication_error" | "permission_error" => 401,
        "invalid_request_error" => 400,
        _ => 500,
    };
    match is_too_long(&message) {
        true => Failure::TooLong { message },
        false => of_status(status, message, None),
    }
}

/// Recognises the context-length errors of all providers, which word them differently.
fn is_too_long(message: &str) -> bool {
    let message = message.to_lowercase();
    [
        "prompt is too long",
        "context_length_exceeded",
        "context length",
        "context window",
        // llama.cpp
        "available context size",
        "maximum context",
        "input token count",
        "too many tokens",
    ]
    .iter()
    .any(|words| message.contains(words))
}

fn of_connection(error: &(dyn std::error::Error + Send + Sync + 'static), cause: String) -> Failure {
    let web = error.downcast_ref::<reqwest::Error>();
    // The innermost source has the reason: "connection refused", not "error sending request".
    let mut reason = cause;
    let mut below = error.source();
    while let Some(source) = below {
        reason = format!("{reason}: {source}");
        below = source.source();
    }
    match web {
        Some(web) if web.is_connect() || web.is_request() => Failure::Unreachable { message: reason },
        _ => Failure::Cut { message: reason },
    }
}

/// Returns the message in a body, which is JSON of some form, or an HTML page.
fn message(body: &str) -> String {
    let Ok(value) = serde_json::from_str::<Value>(body) else { return body.to_owned() };
    // Gemini wraps it in a list when it streams.
    let value = value.get(0).unwrap_or(&value);
    let error = value.get("error").unwrap_or(value);
    let text = error.get("message").or(value.get("message")).and_then(Value::as_str);
    let code = error.get("code").or(error.get("type")).and_then(Value::as_str);
    match (text, code) {
        (Some(text), Some(code)) => format!("{text} ({code})"),
        (Some(text), None) => text.to_owned(),
        (None, _) => match error.as_str() {
            Some(text) => text.to_owned(),
            None => body.to_owned(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_of_every_kind_become_a_sentence() {
        let table = [
            (
                r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
                "Overloaded (overloaded_error)",
            ),
            (r#"{"error":{"message":"Bad key","code":"invalid_api_key"}}"#, "Bad key (invalid_api_key)"),
            (r#"[{"error":{"code":429,"message":"Quota","status":"RESOURCE_EXHAUSTED"}}]"#, "Quota"),
            (r#"{"error":"model not found"}"#, "model not found"),
            ("<html>502</html>", "<html>502</html>"),
        ];
        for (body, sentence) in table {
            assert_eq!(message(body), sentence);
        }
    }

    #[test]
    fn a_status_is_read_by_what_can_be_done_about_it() {
        let kind = |status, message: &str| of_status(status, message.to_owned(), None);
        assert!(matches!(kind(401, ""), Failure::Unauthorized { .. }));
        assert!(matches!(kind(429, ""), Failure::Busy { .. }));
        assert!(matches!(kind(529, ""), Failure::Busy { .. }));
        assert!(matches!(kind(503, ""), Failure::Server { .. }));
        assert!(matches!(kind(400, "prompt is too long: 210000 tokens"), Failure::TooLong { .. }));
        let of_llama = "request (8227 tokens) exceeds the available context size (8192 tokens)";
        assert!(matches!(kind(400, of_llama), Failure::TooLong { .. }));
        assert!(matches!(kind(400, "This model's maximum context length is 8192"), Failure::TooLong { .. }));
        assert!(matches!(kind(404, "no such model"), Failure::Rejected { status: 404, .. }));
    }
}
