//! Reads `[agents.X]` with `driver = "builtin"`: the model, its address, the source of its key.
//!
//! **Invariant:** the file never holds a key, only the place where provost finds it.

use serde::Deserializer;

use super::reading::meant;
use super::values::checked;
use crate::egress::proxy::Address;

/// The keys of a role that only this driver has.
pub(super) const BUILTIN_KEYS: [&str; 7] =
    ["model", "provider", "base_url", "key_env", "key_command", "max_turns", "context_tokens"];
const PROVIDERS: [&str; 5] = ["anthropic", "openai", "chat", "gemini", "ollama"];
/// Smallest context, in tokens; the tools alone would not fit into less.
pub(super) const LEAST_CONTEXT: u64 = 8_000;

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

pub(super) fn provider<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    checked(from, |word| match PROVIDERS.contains(&word) {
        true => Ok(()),
        false => Err(format!("there is no provider `{word}`{}", meant(word, &PROVIDERS))),
    })
}

pub(super) fn base_url<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    checked(from, |url| match address(url) {
        Some(_) => Ok(()),
        None => Err(format!("`{url}` is not a URL such as \"http://127.0.0.1:8000/v1\"")),
    })
}

/// Reads `key_env`. The error does not repeat the value, which may be the key itself.
pub(super) fn key_env<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    checked(from, |name| {
        let starts = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
        match starts && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
            true => Ok(()),
            false => Err("`{key}` is the name of a variable; the key itself does not belong here"),
        }
    })
}

/// Returns the address of a base URL, to which the agent gets network access.
pub(super) fn address(url: &str) -> Option<Address> {
    let is_http = url.starts_with("http://") || url.starts_with("https://");
    is_http.then(|| Address::of_url(url, 80)).flatten()
}
