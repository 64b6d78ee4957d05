//! `[mcp]`: how plans get through the gate that an agent made in a session of its own client.

use super::reading::{Section, Wrong};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mcp {
    pub gate: SessionGate,
}

/// Who lets such a plan through.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SessionGate {
    /// A rule that names itself, where the plan stays inside the workspace; a person otherwise.
    #[default]
    Auto,
    /// A person, always.
    Person,
}

impl SessionGate {
    pub const ALL: [SessionGate; 2] = [SessionGate::Auto, SessionGate::Person];

    /// As it is written in the configuration.
    pub fn word(self) -> &'static str {
        match self {
            SessionGate::Auto => "auto",
            SessionGate::Person => "person",
        }
    }
}

pub(super) fn read(top: &Section<'_, '_>) -> Result<Mcp, Wrong> {
    let Some(section) = top.section("mcp", &["gate"])? else { return Ok(Mcp::default()) };
    Ok(Mcp { gate: section.word("gate", &SessionGate::ALL, SessionGate::word)? })
}
