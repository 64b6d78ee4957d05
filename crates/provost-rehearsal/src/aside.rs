//! Answers requests of clients that are not for the model, and sends errors.

use std::io;
use std::net::TcpStream;

use serde_json::{Value, json};

use crate::dialect::ModelApi;
use crate::http;
use crate::http::{HttpRequest, Then};
use crate::turn::ApiFailure;

pub(crate) fn refuse(wire: &TcpStream, dialect: ModelApi, failure: &ApiFailure) -> io::Result<Then> {
    let body = failure.body.clone().unwrap_or_else(|| dialect.error(failure).to_string());
    let headers: Vec<(&str, &str)> =
        failure.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    http::answer(wire, failure.status, "application/json", &headers, body.as_bytes())?;
    Ok(Then::Goes)
}

/// Answers a request that is not for the model.
pub(crate) fn aside(
    wire: &TcpStream,
    dialect: ModelApi,
    incoming: &HttpRequest,
    path: &str,
) -> io::Result<Then> {
    let tokens = incoming.body.len() / 4 + 1;
    let found = match incoming.method.as_str() {
        "HEAD" => return http::answer(wire, 200, "application/json", &[], b"").map(|()| Then::Goes),
        "POST" if path.ends_with("/messages/count_tokens") => json!({ "input_tokens": tokens }),
        "POST" if path.ends_with("/responses/input_tokens") => {
            json!({ "object": "response.input_tokens", "input_tokens": tokens })
        }
        "POST" if path.ends_with(":countTokens") => json!({ "totalTokens": tokens }),
        // Codex prefers a websocket; without one it posts.
        "GET" if incoming.header("upgrade").is_some() => {
            let message = Some("there is no websocket here".to_owned());
            return refuse(wire, dialect, &ApiFailure { status: 426, message, ..ApiFailure::default() });
        }
        "GET" if path.ends_with("/models") => models(dialect),
        "GET" if path.contains("/models/") => model(dialect, path.rsplit('/').next().unwrap_or("scripted-1")),
        _ => return refuse(wire, dialect, &dialect.not_found(&incoming.method, path)),
    };
    http::answer(wire, 200, "application/json", &[], found.to_string().as_bytes())?;
    Ok(Then::Goes)
}

fn models(dialect: ModelApi) -> Value {
    let names = ["scripted-1", "claude-sonnet-4-5", "gpt-5-codex", "gemini-2.5-pro"];
    let all: Vec<Value> = names.iter().map(|name| model(dialect, name)).collect();
    match dialect {
        ModelApi::Gemini => json!({ "models": all }),
        ModelApi::Anthropic => {
            json!({ "data": all, "has_more": false, "first_id": names[0], "last_id": names[3] })
        }
        ModelApi::Responses | ModelApi::Chat => json!({ "object": "list", "data": all }),
    }
}

fn model(dialect: ModelApi, name: &str) -> Value {
    match dialect {
        ModelApi::Gemini => json!({
            "name": format!("models/{name}"), "displayName": name, "inputTokenLimit": 1_048_576,
            "supportedGenerationMethods": ["generateContent", "countTokens"],
        }),
        ModelApi::Anthropic => {
            json!({ "type": "model", "id": name, "display_name": name, "created_at": "2026-01-01T00:00:00Z" })
        }
        ModelApi::Responses | ModelApi::Chat => {
            json!({ "id": name, "object": "model", "created": 1_767_225_600, "owned_by": "scripted" })
        }
    }
}
