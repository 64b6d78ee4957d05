//! Reads `[agents.X]` with `driver = "builtin"`: the model, its address, the source of its key.
//!
//! **Invariant:** the file never holds a key, only the place where provost finds it.

use super::Section;
use super::reading::Wrong;
use crate::egress::proxy::Address;

/// The keys of a role that only this driver has.
pub(super) const KEYS: [&str; 7] =
    ["model", "provider", "base_url", "key_env", "key_command", "max_turns", "context_tokens"];
const PROVIDERS: [&str; 5] = ["anthropic", "openai", "chat", "gemini", "ollama"];
/// Smallest context, in tokens; the tools alone would not fit into less.
const LEAST_CONTEXT: u64 = 8_000;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BuiltinConfig {
    pub model: String,
    /// The API of the model's server; optional for a well-known model.
    pub provider: Option<String>,
    pub base_url: Option<String>,
    /// The variable with the key.
    pub key_env: Option<String>,
    /// A program that prints the key.
    pub key_command: Vec<String>,
    pub max_turns: Option<u32>,
    pub context_tokens: Option<u64>,
}

pub(super) fn read(section: &Section<'_, '_>) -> Result<BuiltinConfig, Wrong> {
    let model = section.required("model")?;
    if model.trim().is_empty() {
        return Err(section.wrong("model", "the model has no name".to_owned()));
    }
    let provider = section.string("provider")?;
    if let Some(word) = provider.as_deref().filter(|word| !PROVIDERS.contains(word)) {
        return Err(section.wrong_value("provider", &format!("there is no provider `{word}`"), &PROVIDERS));
    }
    if let (Some(_), true) = (section.string("key_env")?, section.has("key_command")) {
        let message = "use `key_env` or `key_command`, not both".to_owned();
        return Err(section.wrong("key_command", message));
    }
    let max_turns = section.integer("max_turns", 1..=10_000)?;
    Ok(BuiltinConfig {
        model,
        provider,
        base_url: base_url(section)?,
        key_env: key_env(section)?,
        key_command: section.strings("key_command")?.unwrap_or_default(),
        max_turns: max_turns.and_then(|turns| turns.try_into().ok()),
        context_tokens: section.integer("context_tokens", LEAST_CONTEXT..=100_000_000)?,
    })
}

fn base_url(section: &Section<'_, '_>) -> Result<Option<String>, Wrong> {
    let url = section.string("base_url")?;
    match &url {
        Some(url) if address(url).is_none() => {
            let message = format!("`{url}` is not a URL such as \"http://127.0.0.1:8000/v1\"");
            Err(section.wrong("base_url", message))
        }
        _ => Ok(url),
    }
}

/// Reads `key_env`. The error does not repeat the value, which may be the key itself.
fn key_env(section: &Section<'_, '_>) -> Result<Option<String>, Wrong> {
    let name = section.string("key_env")?;
    let is_name = |name: &str| {
        let mut bytes = name.bytes();
        bytes.next().is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
            && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    match &name {
        Some(name) if !is_name(name) => {
            let message =
                "`key_env` is the name of a variable; the key itself does not belong here".to_owned();
            Err(section.wrong("key_env", message))
        }
        _ => Ok(name),
    }
}

/// Returns the address of a base URL, to which the agent gets network access.
pub(super) fn address(url: &str) -> Option<Address> {
    let is_http = url.starts_with("http://") || url.starts_with("https://");
    is_http.then(|| Address::of_url(url, 80)).flatten()
}
