//! Reads `[mcp]`: the gate for plans that an agent made in its own client's session.

use super::reading::{Section, Wrong};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct McpConfig {
    pub gate: SessionGate,
}

/// The approver of such a plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SessionGate {
    /// A built-in rule, recorded by its name, if the plan stays inside the workspace; otherwise a person.
    #[default]
    Auto,
    /// Always a person.
    Person,
}

impl SessionGate {
    pub const ALL: [SessionGate; 2] = [SessionGate::Auto, SessionGate::Person];

    /// Returns the word in the configuration.
    pub fn word(self) -> &'static str {
        match self {
            SessionGate::Auto => "auto",
            SessionGate::Person => "person",
        }
    }
}

pub(super) fn read(top: &Section<'_, '_>) -> Result<McpConfig, Wrong> {
    let Some(section) = top.section("mcp", &["gate"])? else { return Ok(McpConfig::default()) };
    Ok(McpConfig { gate: section.word("gate", &SessionGate::ALL, SessionGate::word)? })
}
