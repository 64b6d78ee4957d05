//! Command lines of known coding agents: Claude Code, Codex, Gemini CLI, opencode.
//!
//! **Invariant:** no file in the workspace configures a client, except those that the client reads in any
//! case.

use std::ffi::OsString;
use std::path::Path;

use crate::agent::AttemptInput;
use crate::config::{Client, ModelServer, Speaks};

mod furnish;

pub use furnish::environment;

impl Client {
    pub fn speaks(self) -> Speaks {
        match self {
            Client::Claude => Speaks::Claude,
            Client::Codex => Speaks::Codex,
            Client::Gemini => Speaks::Gemini,
            Client::Opencode => Speaks::Opencode,
        }
    }

    /// Returns the client's arguments. `more` are those of the user's configuration.
    pub fn arguments(
        self,
        home: &Path,
        model: Option<&str>,
        session: Option<&str>,
        more: &[String],
    ) -> Vec<OsString> {
        let mut words: Vec<OsString> = Vec::new();
        let mut add = |all: &[&str]| words.extend(all.iter().map(OsString::from));
        match self {
            Client::Claude => {
                add(&["-p", "--output-format", "stream-json", "--verbose", "--setting-sources", ""]);
                add(&["--strict-mcp-config"]);
                let settings = home.join(furnish::CLAUDE_SETTINGS);
                words.extend(["--settings".into(), settings.into_os_string()]);
                let tools = home.join(furnish::CLAUDE_TOOLS_FILE);
                words.extend(["--mcp-config".into(), tools.into_os_string()]);
            }
            Client::Codex => match session {
                Some(session) => add(&["exec", "resume", "--json", "--skip-git-repo-check", session]),
                None => add(&["exec", "--json", "--skip-git-repo-check"]),
            },
            Client::Gemini => add(&["--approval-mode", "yolo", "-o", "stream-json"]),
            Client::Opencode => add(&["run", "--format", "json"]),
        }
        let mut add = |all: &[&str]| words.extend(all.iter().map(OsString::from));
        match (self, session) {
            (Client::Claude | Client::Gemini, Some(session)) => add(&["--resume", session]),
            (Client::Opencode, Some(session)) => add(&["--session", session]),
            _ => {}
        }
        match (self, model) {
            (Client::Claude, Some(model)) => add(&["--model", model]),
            (Client::Gemini | Client::Opencode, Some(model)) => add(&["-m", model]),
            // Codex reads the model from its configuration file.
            _ => {}
        }
        words.extend(more.iter().map(OsString::from));
        if self == Client::Codex {
            words.push("-".into());
        }
        words
    }
}

#[derive(Debug, thiserror::Error)]
pub enum ClientConfigError {
    #[error("the client of this agent has no folder for its configuration")]
    NoHome,
    #[error("the configuration of the agent's client could not be written")]
    Io(#[from] std::io::Error),
}

/// Writes the client's configuration into its folder and returns the folder.
pub fn furnished<'a>(
    client: Client,
    model: Option<&str>,
    server: Option<&ModelServer>,
    work: &AttemptInput<'a>,
) -> Result<&'a Path, ClientConfigError> {
    let home = work.home.ok_or(ClientConfigError::NoHome)?;
    furnish::furnish(client, home, (model, server), work)?;
    Ok(home)
}
