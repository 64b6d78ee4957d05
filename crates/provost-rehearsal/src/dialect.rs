//! The four model APIs. Each submodule turns a reply into a body and into a stream.

use serde_json::{Value, json};

use crate::http::HttpRequest;
use crate::turn::{ApiFailure, ScriptedUsage, StopReason, WrittenCall};

mod anthropic;
mod chat;
mod gemini;
mod responses;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelApi {
    Anthropic,
    Responses,
    Chat,
    Gemini,
}

/// A reply of the model, before it is written in the format of an API.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    /// Unique for each reply of a server, and the same in every run of a test.
    pub number: u64,
    pub model: String,
    pub text: Option<String>,
    pub thinking: Option<String>,
    pub refusal: Option<String>,
    pub calls: Vec<WrittenCall>,
    pub usage: ScriptedUsage,
    pub stop: StopReason,
    /// The client asked for usage in its stream (Chat Completions sends it on request only).
    pub tells_usage: bool,
}

/// One event of a stream.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    pub event: Option<&'static str>,
    pub data: String,
}

pub(crate) struct EncodedReply {
    pub body: Value,
    pub frames: Vec<Frame>,
}

impl Frame {
    /// Creates an event that is named by the `type` of its data.
    fn typed(event: &'static str, mut data: Value) -> Self {
        data["type"] = json!(event);
        Self { event: Some(event), data: data.to_string() }
    }

    fn plain(data: &Value) -> Self {
        Self { event: None, data: data.to_string() }
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let event = self.event.map(|event| format!("event: {event}\n")).unwrap_or_default();
        format!("{event}data: {}\n\n", self.data).into_bytes()
    }
}

impl Reply {
    fn id(&self, prefix: &str) -> String {
        format!("{prefix}{:08}", self.number)
    }

    fn call_id(&self, prefix: &str, place: usize) -> String {
        format!("{prefix}{:08}_{place}", self.number)
    }
}

impl ModelApi {
    /// Returns the API of a request for an answer; `path` is without its query.
    pub(crate) fn of(path: &str) -> Option<Self> {
        if path.ends_with("/messages") {
            Some(Self::Anthropic)
        } else if path.ends_with("/chat/completions") {
            Some(Self::Chat)
        } else if path.ends_with("/responses") {
            Some(Self::Responses)
        } else {
            let asks = [":generateContent", ":streamGenerateContent"];
            asks.iter().any(|end| path.ends_with(end)).then_some(Self::Gemini)
        }
    }

    /// Guesses the API of any other request, by headers that only clients of that API send.
    pub(crate) fn of_stranger(incoming: &HttpRequest) -> Self {
        let has = |name| incoming.header(name).is_some();
        if has("x-goog-api-key") || incoming.path.contains("/v1beta/") {
            Self::Gemini
        } else if has("x-api-key") || has("anthropic-version") {
            Self::Anthropic
        } else {
            Self::Chat
        }
    }

    pub(crate) fn say(self, reply: &Reply) -> EncodedReply {
        match self {
            Self::Anthropic => anthropic::say(reply),
            Self::Responses => responses::say(reply),
            Self::Chat => chat::say(reply),
            Self::Gemini => gemini::say(reply),
        }
    }

    /// Returns the bytes that mark the end of a stream, if the API has such a mark.
    pub(crate) fn farewell(self) -> &'static [u8] {
        match self {
            Self::Chat => b"data: [DONE]\n\n",
            Self::Anthropic | Self::Responses | Self::Gemini => b"",
        }
    }

    pub(crate) fn error(self, failure: &ApiFailure) -> Value {
        match self {
            Self::Anthropic => anthropic::error(failure),
            Self::Responses | Self::Chat => chat::error(failure),
            Self::Gemini => gemini::error(failure),
        }
    }

    /// Returns the error as an event, for a stream that has begun.
    pub(crate) fn error_frame(self, failure: &ApiFailure) -> Frame {
        let body = self.error(failure);
        match self {
            Self::Anthropic => Frame { event: Some("error"), data: body.to_string() },
            Self::Responses => responses::failed(&body),
            Self::Chat | Self::Gemini => Frame::plain(&body),
        }
    }

    /// Returns the API's error for a prompt that is too long.
    pub(crate) fn too_long(self) -> ApiFailure {
        let (kind, message) = match self {
            Self::Anthropic => (None, "prompt is too long: 250000 tokens > 200000 maximum"),
            Self::Responses => (
                Some("context_length_exceeded"),
                "Your input exceeds the context window of this model. Please adjust your input and try again.",
            ),
            Self::Chat => (
                Some("context_length_exceeded"),
                "This model's maximum context length is 128000 tokens. However, your messages resulted in \
                 250000 tokens. Please reduce the length of the messages.",
            ),
            Self::Gemini => (
                None,
                "The input token count (1250000) exceeds the maximum number of tokens allowed (1048576).",
            ),
        };
        let (kind, message) = (kind.map(str::to_owned), Some(message.to_owned()));
        ApiFailure { status: 400, kind, message, ..ApiFailure::default() }
    }

    /// Returns the API's error for an unknown address.
    pub(crate) fn not_found(self, method: &str, path: &str) -> ApiFailure {
        let message = match self {
            Self::Anthropic => "Not Found".to_owned(),
            Self::Responses | Self::Chat => format!("Invalid URL ({method} {path})"),
            Self::Gemini => format!("{path} is not found for API version v1beta."),
        };
        ApiFailure { status: 404, message: Some(message), ..ApiFailure::default() }
    }

    pub(crate) fn wrong_key(self) -> ApiFailure {
        let (status, message) = match self {
            Self::Anthropic => (401, "invalid x-api-key"),
            Self::Responses | Self::Chat => (401, "Incorrect API key provided."),
            Self::Gemini => (400, "API key not valid. Please pass a valid API key."),
        };
        ApiFailure { status, message: Some(message.to_owned()), ..ApiFailure::default() }
    }
}

/// Splits text into small pieces, as a model writes it; a long text into larger pieces.
fn pieces(text: &str) -> Vec<&str> {
    const PIECE: usize = 24;
    const PIECES: usize = 500;
    let size = PIECE.max(text.len() / PIECES);
    let mut pieces = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let mut end = size.min(rest.len());
        while !rest.is_char_boundary(end) {
            end += 1;
        }
        let (piece, after) = rest.split_at(end);
        pieces.push(piece);
        rest = after;
    }
    pieces
}

/// Splits arguments in two, because a model never sends them at once.
fn halves(text: &str) -> [&str; 2] {
    let mut middle = text.len() / 2;
    while !text.is_char_boundary(middle) {
        middle += 1;
    }
    let (one, other) = text.split_at(middle);
    [one, other]
}
