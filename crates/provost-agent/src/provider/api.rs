//! Provider for models behind an API: Anthropic Messages, OpenAI Responses, Chat Completions, Gemini,
//! Ollama.
//!
//! The crate `genai` implements the wire formats. This module adds the source of the key, the
//! classification of errors, and the rule that a stream without its end is a failed answer, not a short
//! one.
//!
//! **Invariant:** a key is in memory only, and in no error: it is removed from the API's messages.

mod effort;
mod failures;
mod wire;

use std::time::Duration;

pub use effort::ThinkingEffort;
use futures_util::StreamExt as _;
use genai::adapter::AdapterKind;
use genai::chat::{ChatMessage, ChatOptions, ChatStreamEvent, StopReason, StreamEnd};
use genai::resolver::{AuthData, Endpoint};
use genai::{Client, ModelIden, ServiceTarget};
use provost_core::model::usage::Usage;

use crate::Future;
use crate::provider::{Ask, Failure, Listener, Piece, Provider, Reply};
use crate::transcript::{Call, Replay};

/// Timeout for the first byte. Models that think first send something meanwhile.
const FIRST: Duration = Duration::from_secs(300);
/// Timeout for silence within an answer.
const SILENCE: Duration = Duration::from_secs(120);

/// The API of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// Anthropic Messages.
    Anthropic,
    /// OpenAI Responses.
    OpenAi,
    /// Chat Completions: vLLM, llama.cpp, OpenRouter and most others.
    Chat,
    Gemini,
    /// Ollama's own API; it also supports `Chat`.
    Ollama,
}

impl Dialect {
    pub const ALL: [Dialect; 5] =
        [Dialect::Anthropic, Dialect::OpenAi, Dialect::Chat, Dialect::Gemini, Dialect::Ollama];

    /// Returns the word in a configuration.
    pub fn word(self) -> &'static str {
        match self {
            Dialect::Anthropic => "anthropic",
            Dialect::OpenAi => "openai",
            Dialect::Chat => "chat",
            Dialect::Gemini => "gemini",
            Dialect::Ollama => "ollama",
        }
    }

    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|dialect| dialect.word() == word)
    }

    /// Returns the API by which the maker of a well-known model serves it.
    pub fn of_model(model: &str) -> Option<Self> {
        let begins = |names: &[&str]| names.iter().any(|name| model.starts_with(name));
        match () {
            () if begins(&["claude"]) => Some(Dialect::Anthropic),
            () if begins(&["gpt-oss"]) => None,
            () if begins(&["gpt", "o1", "o3", "o4", "codex"]) => Some(Dialect::OpenAi),
            () if begins(&["gemini"]) => Some(Dialect::Gemini),
            () => None,
        }
    }

    /// Returns the variables that usually hold the key; the first that is set counts.
    pub fn key_variables(self) -> &'static [&'static str] {
        match self {
            Dialect::Anthropic => &["ANTHROPIC_API_KEY"],
            Dialect::OpenAi | Dialect::Chat => &["OPENAI_API_KEY"],
            Dialect::Gemini => &["GEMINI_API_KEY", "GOOGLE_API_KEY"],
            Dialect::Ollama => &[],
        }
    }

    /// Returns the variable from which other programs read a base URL.
    pub fn base_url_variable(self) -> &'static str {
        match self {
            Dialect::Anthropic => "ANTHROPIC_BASE_URL",
            Dialect::OpenAi | Dialect::Chat => "OPENAI_BASE_URL",
            Dialect::Gemini => "GOOGLE_GEMINI_BASE_URL",
            Dialect::Ollama => "OLLAMA_HOST",
        }
    }

    fn default_base_url(self) -> &'static str {
        match self {
            Dialect::Anthropic => "https://api.anthropic.com",
            Dialect::OpenAi | Dialect::Chat => "https://api.openai.com",
            Dialect::Gemini => "https://generativelanguage.googleapis.com",
            Dialect::Ollama => "http://localhost:11434",
        }
    }

    /// Adds the version to a base URL without one; programs differ in whether it is part of the URL.
    fn endpoint(self, base_url: &str) -> String {
        let base = base_url.trim().trim_end_matches('/');
        let (_, after_scheme) = base.split_once("://").unwrap_or(("", base));
        let has_path = after_scheme.contains('/');
        let version = match self {
            Dialect::Anthropic if !base.ends_with("/v1") => "/v1",
            Dialect::OpenAi | Dialect::Chat if !has_path => "/v1",
            Dialect::Gemini if !base.ends_with("/v1beta") && !base.ends_with("/v1") => "/v1beta",
            _ => "",
        };
        format!("{base}{version}/")
    }

    fn adapter(self) -> AdapterKind {
        match self {
            Dialect::Anthropic => AdapterKind::Anthropic,
            Dialect::OpenAi => AdapterKind::OpenAIResp,
            Dialect::Chat => AdapterKind::OpenAI,
            Dialect::Gemini => AdapterKind::Gemini,
            Dialect::Ollama => AdapterKind::Ollama,
        }
    }
}

/// A key that cannot be printed by accident.
#[derive(Clone, Default)]
pub struct Key(String);

impl Key {
    pub fn new(key: impl Into<String>) -> Self {
        Self(key.into().trim().to_owned())
    }

    /// Returns an empty key, for a server that needs none.
    pub fn none() -> Self {
        Self::default()
    }

    /// Removes the key from a text.
    pub fn hide(&self, text: &str) -> String {
        // Such a short text is not a key, and would match everywhere.
        if self.0.len() < 8 { text.to_owned() } else { text.replace(&self.0, "[key]") }
    }
}

impl std::fmt::Debug for Key {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(if self.0.is_empty() { "no key" } else { "[key]" })
    }
}

/// A model behind an API.
pub struct Api {
    dialect: Dialect,
    model: String,
    endpoint: String,
    key: Key,
    effort: Option<ThinkingEffort>,
    client: Client,
}

#[derive(Debug, thiserror::Error)]
pub enum NotBuilt {
    #[error("`{0}` is not a base URL; it begins with http:// or https://")]
    BaseUrl(String),
    #[error("no client for the model's API could be made: {0}")]
    Client(#[from] reqwest::Error),
    #[error("no client for the model's API could be made: {0}")]
    Genai(#[from] genai::Error),
}

impl Api {
    pub fn new(
        dialect: Dialect,
        model: impl Into<String>,
        base_url: Option<&str>,
        key: Key,
    ) -> Result<Self, NotBuilt> {
        let base_url = base_url.unwrap_or(dialect.default_base_url());
        if !base_url.starts_with("http://") && !base_url.starts_with("https://") {
            return Err(NotBuilt::BaseUrl(base_url.to_owned()));
        }
        // Once per process; if the program has installed another provider, that one stays.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let web = reqwest::Client::builder()
            .connect_timeout(Duration::from_secs(30))
            .tcp_nodelay(true)
            // A redirect would send the key to another server.
            .redirect(reqwest::redirect::Policy::none())
            .build()?;
        Ok(Self {
            dialect,
            model: model.into(),
            endpoint: dialect.endpoint(base_url),
            key,
            effort: None,
            client: Client::builder().with_reqwest(web).build()?,
        })
    }

    /// Sets how much the model thinks before it answers; without it, the provider decides.
    #[must_use]
    pub fn with_effort(self, effort: Option<ThinkingEffort>) -> Self {
        Self { effort, ..self }
    }

    fn target(&self) -> ServiceTarget {
        ServiceTarget {
            endpoint: Endpoint::from_owned(self.endpoint.clone()),
            // An empty key is sent as it is; servers without keys ignore it.
            auth: AuthData::Key(self.key.0.clone()),
            model: ModelIden::new(self.dialect.adapter(), self.model.clone()),
        }
    }

    fn options(&self, ask: &Ask<'_>) -> ChatOptions {
        let mut options = ChatOptions::default()
            .with_capture_usage(true)
            .with_capture_content(true)
            .with_capture_tool_calls(true)
            // Some providers need the signed reasoning back in the next turn.
            .with_capture_reasoning_content(true)
            .with_stream_header_timeout(FIRST)
            .with_stream_read_timeout(SILENCE)
            .with_max_tokens(ask.max_output_tokens);
        if self.dialect == Dialect::OpenAi {
            // Requests with the same key reach the same cache.
            options = options.with_prompt_cache_key(wire::cache_key(ask));
        }
        match self.effort {
            Some(effort) => options.with_reasoning_effort(effort.of_genai()),
            None => options,
        }
    }

    async fn stream(&self, ask: Ask<'_>, hear: Listener<'_>) -> Result<Reply, genai_or::Failure> {
        let request = wire::request(&ask, self.dialect);
        let options = self.options(&ask);
        let mut answer = self.client.exec_chat_stream(self.target(), request, Some(&options)).await?.stream;
        while let Some(event) = answer.next().await {
            match event? {
                ChatStreamEvent::Chunk(chunk) => hear(Piece::Text(&chunk.content)),
                ChatStreamEvent::ReasoningChunk(chunk) => hear(Piece::Thought(&chunk.content)),
                ChatStreamEvent::End(end) if self.is_whole(&end) => return Ok(self.reply(end)),
                ChatStreamEvent::End(_) => break,
                _ => {}
            }
        }
        Err(Failure::Cut { message: "it has no end".to_owned() }.into())
    }

    /// Returns whether the answer is complete. For these two APIs, `genai` reports an end also if a stream
    /// just stops, but then without a stop reason.
    fn is_whole(&self, end: &StreamEnd) -> bool {
        match self.dialect {
            Dialect::OpenAi | Dialect::Gemini => end.captured_stop_reason.is_some(),
            Dialect::Anthropic | Dialect::Chat | Dialect::Ollama => true,
        }
    }

    fn reply(&self, end: StreamEnd) -> Reply {
        let usage = wire::usage(end.captured_usage.as_ref(), &self.model);
        let cut = matches!(end.captured_stop_reason, Some(StopReason::MaxTokens(_)));
        let calls: Vec<Call> = end.captured_tool_calls().into_iter().flatten().map(wire::call).collect();
        let text = end.captured_texts().map(|texts| texts.concat()).unwrap_or_default();
        let are_whole = calls.iter().all(|call| call.arguments.is_object());
        // An API would refuse arguments that are not JSON when they are sent back.
        let replay =
            if are_whole { end.into_assistant_message_for_tool_use().map(Replay::new) } else { None };
        Reply { text, calls, cut, usage: Usage { calls: Some(1), ..usage }, replay }
    }
}

/// An error of a stream, before it is classified.
mod genai_or {
    use crate::provider;

    pub(super) enum Failure {
        Ours(provider::Failure),
        Theirs(Box<genai::Error>),
    }

    impl From<provider::Failure> for Failure {
        fn from(failure: provider::Failure) -> Self {
            Self::Ours(failure)
        }
    }

    impl From<genai::Error> for Failure {
        fn from(error: genai::Error) -> Self {
            Self::Theirs(Box::new(error))
        }
    }
}

impl Provider for Api {
    fn model(&self) -> &str {
        &self.model
    }

    fn restore(&self, saved: &Replay) -> Option<Replay> {
        let turn: ChatMessage = serde_json::from_value(saved.get::<serde_json::Value>()?.clone()).ok()?;
        Some(Replay::new(turn))
    }

    fn answer<'a>(&'a self, ask: Ask<'a>, hear: Listener<'a>) -> Future<'a, Result<Reply, Failure>> {
        Box::pin(async move {
            self.stream(ask, hear).await.map_err(|failure| match failure {
                genai_or::Failure::Ours(failure) => failure,
                genai_or::Failure::Theirs(error) => failures::read(&error, &self.key),
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base_urls_are_taken_as_people_write_them() {
        let table = [
            (Dialect::Anthropic, "https://api.anthropic.com", "https://api.anthropic.com/v1/"),
            (Dialect::Anthropic, "http://127.0.0.1:1/r/x", "http://127.0.0.1:1/r/x/v1/"),
            (Dialect::Anthropic, "http://127.0.0.1:1/v1/", "http://127.0.0.1:1/v1/"),
            (Dialect::OpenAi, "https://api.openai.com", "https://api.openai.com/v1/"),
            (Dialect::Chat, "http://localhost:8000/v1", "http://localhost:8000/v1/"),
            (Dialect::Chat, "https://openrouter.ai/api/v1/", "https://openrouter.ai/api/v1/"),
            (Dialect::Gemini, "http://127.0.0.1:1", "http://127.0.0.1:1/v1beta/"),
            (Dialect::Ollama, "http://localhost:11434", "http://localhost:11434/"),
        ];
        for (dialect, written, endpoint) in table {
            assert_eq!(dialect.endpoint(written), endpoint);
        }
    }

    #[test]
    fn a_key_is_not_shown() {
        let key = Key::new("sk-not-a-real-key\n");
        assert_eq!(format!("{key:?}"), "[key]");
        assert_eq!(key.hide("invalid x-api-key: sk-not-a-real-key"), "invalid x-api-key: [key]");
        assert_eq!(Key::none().hide("text"), "text");
    }

    #[test]
    fn a_well_known_model_says_how_it_is_spoken_to() {
        assert_eq!(Dialect::of_model("claude-sonnet-5"), Some(Dialect::Anthropic));
        assert_eq!(Dialect::of_model("gpt-5.5"), Some(Dialect::OpenAi));
        assert_eq!(Dialect::of_model("gemini-3-pro"), Some(Dialect::Gemini));
        assert_eq!(Dialect::of_model("gpt-oss:20b"), None);
        assert_eq!(Dialect::of_model("qwen3"), None);
    }
}
