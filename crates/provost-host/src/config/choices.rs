//! Choices in the configuration: the client of a role, the format of its reports, the answer to permission
//! requests, the approver of plans that a session made, the format of a message, and what a person may do.

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

    /// Returns the word in the configuration, which is also the name of the program.
    pub fn word(self) -> &'static str {
        match self {
            Client::Claude => "claude",
            Client::Codex => "codex",
            Client::Gemini => "gemini",
            Client::Opencode => "opencode",
        }
    }

    /// Guesses the client from the words of a command line: `claude-agent-acp`, `npx …/codex-acp`.
    pub fn of(command: &[String]) -> Option<Client> {
        let name =
            |word: &String| Path::new(word).file_name().map(|name| name.to_string_lossy().into_owned());
        let known = |name: String| Client::ALL.into_iter().find(|client| name.starts_with(client.word()));
        command.iter().filter(|word| !word.starts_with('-')).filter_map(name).find_map(known)
    }
}

/// The format in which a client reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Speaks {
    /// The whole output is the report.
    #[default]
    Text,
    /// The last line is `{"report": "…", "usage": {…}, "rewrites": ["…"]}`, provost's own format.
    Json,
    /// Output of `claude -p --output-format stream-json --verbose`, or `json`.
    Claude,
    /// Output of `codex exec --json`.
    Codex,
    /// Output of `gemini -p … -o stream-json`.
    Gemini,
    /// Output of `opencode run --format json`.
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

/// The answer to an agent's permission requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Permissions {
    /// Allow once; the sandbox limits what the agent can access.
    #[default]
    Allow,
    Deny,
    /// End the attempt and show a person the request.
    Ask,
}

impl Permissions {
    pub const ALL: [Permissions; 3] = [Permissions::Allow, Permissions::Deny, Permissions::Ask];

    /// Returns the word in the configuration.
    pub fn word(self) -> &'static str {
        match self {
            Permissions::Allow => "allow",
            Permissions::Deny => "deny",
            Permissions::Ask => "ask",
        }
    }
}

/// The approver of a plan that an agent made in its own client's session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SessionGate {
    /// A built-in rule, recorded by its name, if a person trusted every check of the plan; otherwise a person.
    #[default]
    Auto,
    /// The same rule, also for checks that the agent wrote. Their steps pass as self-checked.
    SelfChecked,
    /// Always a person.
    Person,
}

impl SessionGate {
    pub const ALL: [SessionGate; 3] = [SessionGate::Auto, SessionGate::SelfChecked, SessionGate::Person];

    /// Returns the word in the configuration.
    pub fn word(self) -> &'static str {
        match self {
            SessionGate::Auto => "auto",
            SessionGate::SelfChecked => "self-checked",
            SessionGate::Person => "person",
        }
    }
}

/// The format of a webhook's body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum MessageFormat {
    /// The item as JSON, for programs.
    #[default]
    Provost,
    /// A message with blocks, for an incoming webhook of Slack.
    Slack,
    /// An adaptive card, for a webhook of Workflows in Microsoft Teams.
    Teams,
    /// An embed, for a webhook of Discord.
    Discord,
}

impl MessageFormat {
    pub const ALL: [MessageFormat; 4] =
        [MessageFormat::Provost, MessageFormat::Slack, MessageFormat::Teams, MessageFormat::Discord];

    pub fn word(self) -> &'static str {
        match self {
            MessageFormat::Provost => "provost",
            MessageFormat::Slack => "slack",
            MessageFormat::Teams => "teams",
            MessageFormat::Discord => "discord",
        }
    }

    pub(super) fn is_default(&self) -> bool {
        *self == MessageFormat::Provost
    }
}

/// What a person who signed in may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignInScope {
    View,
    Decide,
    Admin,
}

impl SignInScope {
    pub const ALL: [SignInScope; 3] = [SignInScope::View, SignInScope::Decide, SignInScope::Admin];

    pub fn word(self) -> &'static str {
        match self {
            SignInScope::View => "view",
            SignInScope::Decide => "decide",
            SignInScope::Admin => "admin",
        }
    }
}
