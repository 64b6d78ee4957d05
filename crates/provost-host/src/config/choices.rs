//! What a role of the configuration chooses from: the client, the form of its reports, and what it may do unasked.

use std::path::Path;

/// The coding agents with a command line that provost knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Client {
    Claude,
    Codex,
    Gemini,
    Opencode,
}

impl Client {
    pub const ALL: [Client; 4] = [Client::Claude, Client::Codex, Client::Gemini, Client::Opencode];

    /// As it is written in the configuration; the name of its program, too.
    pub fn word(self) -> &'static str {
        match self {
            Client::Claude => "claude",
            Client::Codex => "codex",
            Client::Gemini => "gemini",
            Client::Opencode => "opencode",
        }
    }

    /// The one that a command line starts, as far as its words tell: `claude-agent-acp`, `npx …/codex-acp`.
    pub fn of(command: &[String]) -> Option<Client> {
        let name =
            |word: &String| Path::new(word).file_name().map(|name| name.to_string_lossy().into_owned());
        let known = |name: String| Client::ALL.into_iter().find(|client| name.starts_with(client.word()));
        command.iter().filter(|word| !word.starts_with('-')).filter_map(name).find_map(known)
    }
}

/// The form in which a client reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Speaks {
    /// Everything it prints is its report.
    #[default]
    Text,
    /// The last line is `{"report": "…", "usage": {…}, "rewrites": ["…"]}`, by our own protocol.
    Json,
    /// `claude -p --output-format stream-json --verbose`, or `json`.
    Claude,
    /// `codex exec --json`.
    Codex,
    /// `gemini -p … -o stream-json`.
    Gemini,
    /// `opencode run --format json`.
    Opencode,
}

impl Speaks {
    pub const ALL: [Speaks; 6] =
        [Speaks::Text, Speaks::Json, Speaks::Claude, Speaks::Codex, Speaks::Gemini, Speaks::Opencode];

    pub fn word(self) -> &'static str {
        match self {
            Speaks::Text => "text",
            Speaks::Json => "json",
            Speaks::Claude => "claude",
            Speaks::Codex => "codex",
            Speaks::Gemini => "gemini",
            Speaks::Opencode => "opencode",
        }
    }
}

/// The answer an agent gets when it asks for permission.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Permissions {
    /// Yes, this once: what it may reach is the fence's business.
    #[default]
    Allow,
    Deny,
    /// The attempt ends, and a person is told what was asked.
    Ask,
}

impl Permissions {
    pub const ALL: [Permissions; 3] = [Permissions::Allow, Permissions::Deny, Permissions::Ask];

    /// As it is written in the configuration.
    pub fn word(self) -> &'static str {
        match self {
            Permissions::Allow => "allow",
            Permissions::Deny => "deny",
            Permissions::Ask => "ask",
        }
    }
}
