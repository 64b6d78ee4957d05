//! Reads `[agents.X.mcp.NAME]`: a server of the Model Context Protocol for the built-in agent.
//!
//! **Invariant:** the file never holds a key, only the variable with it.

use std::fmt;

use provost_core::language::shell_word::quoted;
use serde::Deserialize;
use serde_json::{Value, json};

use super::server_address::{address, base_url, key_env};
use crate::egress::proxy::Address;

/// An MCP server: a program, or an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct McpServerConfig {
    pub at: McpServerPlace,
    /// The only tools of it that the agent gets; `None` for all.
    pub tools: Option<Vec<String>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum McpServerPlace {
    /// The agent starts this program in its sandbox.
    Program(Vec<String>),
    /// A server over HTTP, with the variable that has its bearer token.
    Url { url: String, key_env: Option<String> },
}

impl McpServerConfig {
    /// Returns the server in the form of the agent's option.
    pub(crate) fn to_json(&self, name: &str) -> Value {
        let mut server = match &self.at {
            McpServerPlace::Program(command) => json!({ "command": command }),
            McpServerPlace::Url { url, key_env } => json!({ "url": url, "key_env": key_env }),
        };
        server["name"] = json!(name);
        server["tools"] = json!(self.tools);
        server
    }

    /// Returns the address that the agent must reach.
    pub(super) fn address(&self) -> Option<Address> {
        match &self.at {
            McpServerPlace::Program(_) => None,
            McpServerPlace::Url { url, .. } => address(url),
        }
    }
}

/// The server, for a person who approves.
impl fmt::Display for McpServerConfig {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.at {
            McpServerPlace::Program(command) => {
                let words: Vec<String> = command.iter().map(|word| quoted(word)).collect();
                write!(out, "`{}`", words.join(" "))?;
            }
            McpServerPlace::Url { url, .. } => write!(out, "{url}")?,
        }
        match &self.tools {
            Some(tools) => write!(out, " ({})", tools.join(", ")),
            None => Ok(()),
        }
    }
}

/// The keys of the section.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a section")]
struct McpServerKeys {
    command: Option<Vec<String>>,
    #[serde(deserialize_with = "base_url")]
    url: Option<String>,
    #[serde(deserialize_with = "key_env")]
    key_env: Option<String>,
    tools: Option<Vec<String>>,
}

impl<'de> Deserialize<'de> for McpServerConfig {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        use serde::de::Error as _;
        let McpServerKeys { command, url, key_env, tools } = McpServerKeys::deserialize(from)?;
        let at = match (command, url) {
            (Some(command), None) if !command.is_empty() && key_env.is_none() => {
                McpServerPlace::Program(command)
            }
            (Some(_), None) if key_env.is_some() => {
                return Err(D::Error::custom("`key_env` is for a server with a `url`"));
            }
            (None, Some(url)) => McpServerPlace::Url { url, key_env },
            _ => return Err(D::Error::custom("an MCP server has a `command` or a `url`")),
        };
        Ok(Self { at, tools })
    }
}
