//! Reads `[agents.X]` with `driver = "builtin"`: the model, its address, the source of its key.
//!
//! **Invariant:** the file never holds a key, only the place where provost finds it.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

use serde::Deserializer;

use super::mcp_server::McpServerConfig;
use super::reading::meant;
use super::server_address::address;
use super::values::checked;
use crate::egress::prices;
use crate::egress::proxy::Address;

/// The keys of a role that only this driver has.
pub(super) const BUILTIN_KEYS: [&str; 13] = [
    "model",
    "provider",
    "base_url",
    "key_env",
    "key_command",
    "max_turns",
    "context_tokens",
    "map_tokens",
    "effort",
    "mcp",
    "after_edit",
    "compaction",
    "tool_calls",
];
/// How room is made in a full context; the first is the default.
const COMPACTIONS: [&str; 2] = ["deterministic", "summary"];
/// How the model calls tools; the first is the default.
const TOOL_CALLS: [&str; 2] = ["native", "text"];
const EFFORTS: [&str; 7] = ["none", "minimal", "low", "medium", "high", "xhigh", "max"];
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
    /// Most tokens of the map of the repository in the first prompt; 0 for none.
    pub map_tokens: Option<u64>,
    /// How much the model thinks before it answers; without it, its provider decides.
    pub effort: Option<String>,
    /// The MCP servers whose tools it gets, by name.
    pub mcp: BTreeMap<String, McpServerConfig>,
    /// A command that the loop runs after edits; its output is for the model and decides nothing.
    pub after_edit: Option<String>,
    /// The model writes a summary when its context is full.
    pub summarises: bool,
    /// The model writes its calls as text.
    pub text_tools: bool,
}

impl BuiltinConfig {
    /// Returns the model's context window: as configured, or as the list of models says. On a server of the
    /// user's own, the server decides, not the list.
    pub fn window(&self) -> Option<u64> {
        let is_own = self.provider.as_deref() == Some("ollama")
            || self.base_url.as_deref().and_then(address).is_some_and(|address| is_nearby(&address));
        self.context_tokens.or_else(|| (!is_own).then(|| prices::context_window(&self.model)).flatten())
    }
}

/// The settings that a person who approves should know.
impl fmt::Display for BuiltinConfig {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "the builtin agent, model {}", self.model)?;
        self.effort.iter().try_for_each(|effort| write!(out, ", effort {effort}"))?;
        self.mcp.iter().try_for_each(|(name, server)| write!(out, ", MCP server {name}: {server}"))?;
        self.after_edit.iter().try_for_each(|command| write!(out, ", runs `{command}` after edits"))
    }
}

pub(super) fn compaction<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    one_of(from, "compaction", &COMPACTIONS)
}

pub(super) fn tool_calls<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    one_of(from, "kind of tool calls", &TOOL_CALLS)
}

fn one_of<'de, D: Deserializer<'de>>(
    from: D,
    what: &str,
    words: &[&str],
) -> Result<Option<String>, D::Error> {
    checked(from, |word| match words.contains(&word) {
        true => Ok(()),
        false => Err(format!("there is no {what} `{word}`{}", meant(word, words))),
    })
}

pub(super) fn after_edit<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    checked(from, |command| match command.trim().is_empty() {
        true => Err("the command is empty"),
        false => Ok(()),
    })
}

pub(super) fn effort<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    one_of(from, "effort", &EFFORTS)
}

pub(super) fn provider<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    one_of(from, "provider", &PROVIDERS)
}

/// Returns whether the address is on this machine or in a private network.
fn is_nearby(address: &Address) -> bool {
    match address.host.parse() {
        Ok(IpAddr::V4(ip)) => ip.is_loopback() || ip.is_private(),
        Ok(IpAddr::V6(ip)) => ip.is_loopback() || ip.is_unique_local(),
        Err(_) => address.host == "localhost" || address.host.ends_with(".local"),
    }
}

#[cfg(test)]
mod tests {
    use super::BuiltinConfig;

    #[test]
    fn the_window_is_as_configured_else_as_listed_and_on_an_own_server_unknown() {
        let of = |model: &str, base_url: Option<&str>| BuiltinConfig {
            model: model.to_owned(),
            base_url: base_url.map(str::to_owned),
            ..BuiltinConfig::default()
        };
        let listed = of("claude-sonnet-4-5", None);
        assert!(listed.window().is_some_and(|tokens| tokens >= 200_000), "{:?}", listed.window());
        assert_eq!(BuiltinConfig { context_tokens: Some(50_000), ..listed.clone() }.window(), Some(50_000));
        assert_eq!(of("claude-sonnet-4-5", Some("https://gateway.example.org")).window(), listed.window());
        for own in ["http://127.0.0.1:8000/v1", "http://localhost:8000", "http://10.0.0.7:8000"] {
            assert_eq!(of("claude-sonnet-4-5", Some(own)).window(), None, "{own}");
        }
        assert_eq!(of("no-such-model", None).window(), None);
    }
}
