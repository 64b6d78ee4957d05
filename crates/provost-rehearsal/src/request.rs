//! Parses a client's request: its API, the offered tools, and the messages since the model's last one.

use serde_json::Value;

use crate::dialect::ModelApi;
use crate::http::HttpRequest;

/// One request for an answer, as it was received.
#[derive(Clone, Debug)]
pub struct SeenRequest {
    /// Empty for the default session.
    pub session: String,
    pub dialect: ModelApi,
    /// Without the session's prefix, with its query.
    pub path: String,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    /// The key, from a header or from the query.
    pub key: Option<String>,
    pub is_stream: bool,
    pub model: String,
    /// The names by which the model calls them.
    pub tools: Vec<String>,
    /// All texts since the model's last message: the prompt, or the answers of its tools.
    pub newest: String,
    /// The number of the script's turn that it got, if any.
    pub turn: Option<usize>,
    /// The client disconnected before the answer was complete.
    pub has_left: bool,
    pub body: Value,
}

impl SeenRequest {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Returns every text in the request: system prompt, history, tools.
    pub fn all_text(&self) -> String {
        leaves(&self.body)
    }

    pub(crate) fn of(
        session: String,
        dialect: ModelApi,
        path: &str,
        incoming: &HttpRequest,
        body: Value,
    ) -> Self {
        let is_stream = match dialect {
            ModelApi::Gemini => path.contains(":streamGenerateContent"),
            _ => body["stream"].as_bool().unwrap_or(false),
        };
        let model = match dialect {
            ModelApi::Gemini => gemini_model(path),
            _ => body["model"].as_str().unwrap_or("scripted-1"),
        };
        Self {
            session,
            dialect,
            path: path.to_owned(),
            headers: incoming.headers.clone(),
            key: key(incoming),
            is_stream,
            model: model.to_owned(),
            tools: crate::offered::tools(dialect, &body).into_iter().map(|tool| tool.name).collect(),
            newest: newest(dialect, &body),
            turn: None,
            has_left: false,
            body,
        }
    }
}

/// Returns the client's key, in any of the ways in which providers accept it.
pub(crate) fn key(incoming: &HttpRequest) -> Option<String> {
    let bearer = incoming.header("authorization").and_then(|value| value.strip_prefix("Bearer "));
    let named = ["x-api-key", "x-goog-api-key"].into_iter().find_map(|name| incoming.header(name));
    let query = incoming.path.split_once('?').map_or("", |(_, query)| query);
    let in_query = query.split('&').find_map(|pair| pair.strip_prefix("key="));
    named.or(bearer).or(in_query).map(str::to_owned)
}

fn gemini_model(path: &str) -> &str {
    let name = path.rsplit("models/").next().unwrap_or_default();
    name.split([':', '?']).next().unwrap_or_default()
}

fn newest(dialect: ModelApi, body: &Value) -> String {
    let list = match dialect {
        ModelApi::Anthropic | ModelApi::Chat => &body["messages"],
        ModelApi::Responses => &body["input"],
        ModelApi::Gemini => &body["contents"],
    };
    let Some(items) = list.as_array() else { return leaves(list) };
    let is_of_the_model = |item: &Value| {
        matches!(item["role"].as_str(), Some("assistant" | "model"))
            || matches!(
                item["type"].as_str(),
                Some("function_call" | "custom_tool_call" | "tool_search_call" | "reasoning")
            )
    };
    let begun = items.iter().rposition(is_of_the_model).map_or(0, |last| last + 1);
    items[begun..].iter().map(leaves).collect::<Vec<_>>().join("\n")
}

/// Returns all texts of a JSON value, without JSON escapes.
fn leaves(value: &Value) -> String {
    fn collect<'a>(value: &'a Value, into: &mut Vec<&'a str>) {
        match value {
            Value::String(text) => into.push(text),
            Value::Array(items) => items.iter().for_each(|item| collect(item, into)),
            Value::Object(fields) => fields.values().for_each(|field| collect(field, into)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    let mut texts = Vec::new();
    collect(value, &mut texts);
    texts.join("\n")
}
