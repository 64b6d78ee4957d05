//! The clients that `init` sets up: those that a hook holds, and those that only get the tools.

use provost_core::text::hook_protocol::HookClient;

/// A client that `init` sets up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SetUpClient {
    /// It calls a hook before a session stops.
    Held(HookClient),
    /// It has no such hook; its sessions get the tools of `provost mcp`.
    ToolsOnly(ToolsOnlyClient),
}

/// A client without a stop hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ToolsOnlyClient {
    Amp,
    Goose,
    VsCode,
    Zed,
}

impl SetUpClient {
    pub(crate) fn all() -> Vec<Self> {
        let tools =
            [ToolsOnlyClient::Amp, ToolsOnlyClient::Goose, ToolsOnlyClient::VsCode, ToolsOnlyClient::Zed];
        let held = HookClient::ALL.into_iter().map(SetUpClient::Held);
        held.chain(tools.into_iter().map(SetUpClient::ToolsOnly)).collect()
    }

    pub(crate) fn words() -> Vec<&'static str> {
        Self::all().into_iter().map(Self::word).collect()
    }

    /// Returns the word as a person types it.
    pub(crate) fn word(self) -> &'static str {
        match self {
            SetUpClient::Held(client) => client.word(),
            SetUpClient::ToolsOnly(ToolsOnlyClient::Amp) => "amp",
            SetUpClient::ToolsOnly(ToolsOnlyClient::Goose) => "goose",
            SetUpClient::ToolsOnly(ToolsOnlyClient::VsCode) => "vscode",
            SetUpClient::ToolsOnly(ToolsOnlyClient::Zed) => "zed",
        }
    }

    pub(crate) fn named(word: &str) -> Option<Self> {
        Self::all().into_iter().find(|client| client.word() == word)
    }

    /// Returns its programs and its folders; it is set up without being named if one of them is there.
    pub(super) fn traces(self) -> (&'static [&'static str], &'static [&'static str]) {
        match self {
            SetUpClient::Held(client) => match client {
                HookClient::Claude => (&["claude"], &[".claude"]),
                HookClient::Codex => (&["codex"], &[".codex"]),
                HookClient::Gemini => (&["gemini"], &[".gemini"]),
                HookClient::Qwen => (&["qwen"], &[".qwen"]),
                HookClient::Copilot => (&["copilot"], &[".copilot"]),
                HookClient::Opencode => (&["opencode"], &[".config/opencode", ".opencode"]),
                HookClient::Cursor => (&["cursor", "cursor-agent"], &[".cursor"]),
                // Only on request, because it affects people too.
                HookClient::GitPrePush => (&[], &[]),
            },
            // Only on request, because nothing is held there.
            SetUpClient::ToolsOnly(_) => (&[], &[]),
        }
    }
}
