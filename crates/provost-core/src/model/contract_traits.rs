//! What is known about a contract besides its result: by its text, and by runs of it.

use serde::Serialize;

/// How something about a contract is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EvidenceKind {
    /// A run showed it.
    Seen,
    /// The text of the contract, or of a file that it names, shows it.
    Text,
}

/// Something that is known about a contract.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Evidence {
    pub kind: EvidenceKind,
    /// What was seen or read, for people: "`date` in the contract".
    pub what: String,
}

impl Evidence {
    pub fn seen(what: impl Into<String>) -> Self {
        Self { kind: EvidenceKind::Seen, what: what.into() }
    }

    pub fn text(what: impl Into<String>) -> Self {
        Self { kind: EvidenceKind::Text, what: what.into() }
    }
}

/// The traits that make a contract weaker.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ContractTraits {
    /// Why it cannot be run here, for example because a tool is missing.
    pub cannot_run: Option<String>,
    pub holds_on_empty: bool,
    /// It holds before the work, and is no guard.
    pub holds_on_base: bool,
    /// How often it held in several runs on the same files, if the runs differ.
    pub flaky: Option<String>,
    /// It reads files and runs no code of the project.
    pub only_looks: bool,
    pub network: Option<Evidence>,
    /// It gave another result when its tests ran in another order.
    pub order: Option<Evidence>,
    /// It changes files of its tree.
    pub writes: Option<Evidence>,
    pub chance: Option<Evidence>,
    pub clock: Option<Evidence>,
    pub git: Option<Evidence>,
}
