//! Parts of the events about the gate: what an approval is bound to, and who gave it.

use serde::{Deserialize, Serialize};

use crate::model::plan::StepNumber;

/// The digest an approval is bound to: the spec, the base commit, the run policy, the files the contracts
/// name and the included files.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Revision(pub String);

impl Revision {
    /// Returns the short form that people see and type.
    pub fn short(&self) -> &str {
        self.0.get(..12).unwrap_or(&self.0)
    }

    /// Returns whether `typed` names this revision. A prefix is enough if it is too long to match by chance.
    pub fn is_named_by(&self, typed: &str) -> bool {
        typed.len() >= 12 && self.0.starts_with(typed)
    }
}

impl std::fmt::Display for Revision {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedFile {
    pub path: String,
    pub sha256: String,
}

/// A file that differs from the base commit and was approved with the plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IncludedFile {
    pub path: String,
    /// The digest of its content; `None` if the file is deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dependency {
    pub step: StepNumber,
    pub needs: Vec<StepNumber>,
}

/// Log name of the rule that approves plans of an agent's own session if a person trusted their checks. In old
/// logs, it approved checks of the agent too.
pub const SESSION_POLICY: &str = "mcp gate auto";
/// Log name of the rule that also approves checks that the agent wrote.
pub const SELF_CHECKED_POLICY: &str = "mcp gate self-checked";

/// The person or policy that approved the plan at the gate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Approver {
    Person(String),
    /// A policy of the configuration, by name, with the digest of its text.
    Policy {
        name: String,
        digest: String,
        /// The policy accepts any check, so no person has read the checks.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        unread: bool,
        /// Digests of the plan's checks that come from a catalogue a person trusts.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        trusted: Vec<String>,
    },
    /// A person in a dialog of the client that the agent works in. provost cannot see who answered it.
    Dialog {
        /// Account that the client runs as.
        by: String,
        /// Name that the client gives itself, as the configuration has it.
        client: String,
    },
}

impl std::fmt::Display for Approver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Approver::Person(name) => f.write_str(name),
            Approver::Policy { name, .. } => write!(f, "policy {name}"),
            Approver::Dialog { by, client } => write!(f, "{by} in a dialog of {client}"),
        }
    }
}
