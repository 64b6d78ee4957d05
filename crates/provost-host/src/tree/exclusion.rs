//! Paths that did not get into a tree, each with the reason.

use provost_core::model::quote;
use serde::{Deserialize, Serialize};

/// A path that did not get into a tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExcludedPath {
    pub path: String,
    pub why: ExclusionReason,
}

impl std::fmt::Display for ExcludedPath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", quote::one_line(&self.path), self.why)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "kebab-case")]
pub enum ExclusionReason {
    #[error(
        "a symbolic link that leads out of `touches`; put a copy there, or link to a path inside `touches`"
    )]
    Link,
    #[error("a link that leads out of the tree")]
    LeadsOut,
    #[error("a pipe")]
    Pipe,
    #[error("a socket")]
    Socket,
    #[error("a device")]
    Device,
    #[error("{bytes} bytes, more than the limit for one file; raise `[verify] max_file` in provost.toml")]
    TooLarge { bytes: u64 },
    #[error("more bytes than the limit for all files; raise `[verify] max_file` in provost.toml")]
    OverTotal,
    /// Paths after this one were not examined.
    #[error("more files than the limit")]
    TooMany,
    #[error("too many folders inside one another")]
    TooDeep,
    #[error("no longer a folder")]
    NotAFolder,
    #[error("the approved tree has something else at this path")]
    InTheWay,
    #[error("it kept changing while it was read")]
    Changing,
    #[error("it cannot be read: {reason}")]
    Unreadable { reason: String },
    #[error(
        "a submodule; `git submodule update --init` fetches its files, and a commit inside it keeps changes"
    )]
    Submodule,
    #[error("a repository inside the workspace; to include it in the check, name it in `touches`")]
    Repository,
    #[error("ignored by git; `provost commit --with-ignored` includes it")]
    Ignored,
    #[error("a file of provost; `provost commit --with-plan` includes it")]
    Own,
    #[error("a name that no checkout can have")]
    Name,
    #[error("the configuration of a test runner; name it in `touches` to include it")]
    RunnerFile,
    #[error("the cache of a tool; the check makes its own")]
    ToolCache,
    #[error(
        "its permissions ({mode:03o}); every folder of a check has 755, so let the contract run chmod {mode:03o}"
    )]
    FolderMode { mode: u32 },
}
