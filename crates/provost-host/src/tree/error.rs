//! The errors of reading, building and committing trees.

use std::io;
use std::path::{Path, PathBuf};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("could not {attempt} {}", .path.display())]
    Io { attempt: &'static str, path: PathBuf, source: io::Error },
    #[error("could not read commit {commit}: {said}")]
    Git { commit: String, said: String },
    #[error("the repository has no commit `{name}`")]
    NoCommit { name: String },
    #[error("the patch cannot be used: {why}")]
    PatchRefused { why: String },
    #[error("git is not installed, and commit {commit} cannot be read without it")]
    NoGit { commit: String },
    #[error("git could not be started")]
    NotStarted { source: crate::process::StartError },
    #[error("the repository does not have {path}: {said}")]
    Object { path: String, said: String },
    #[error("{path} and another name are the same on this file system")]
    Clash { path: String },
    #[error("{path} differs from what was approved")]
    NotAsApproved { path: String },
    #[error("{path} is not a path inside the workspace")]
    NotInside { path: String },
    #[error("glob {glob} cannot be used: {why}")]
    Glob { glob: String, why: String },
    #[error("the kept tree {id} is damaged; provost moved it aside")]
    Damaged { id: String },
    #[error("provost's own copy was changed: {}", .path.display())]
    Altered { path: PathBuf },
    #[error("{name} has moved to {}", .now.as_deref().unwrap_or("nothing"))]
    Moved { name: String, now: Option<String> },
    #[error(
        "{path} is not a regular file on the branch, or was not one before; approve the plan \
         again on the current branch"
    )]
    Unlaid { path: String },
    #[error("two steps changed {}", .files.join(", "))]
    Conflict { files: Vec<String> },
    #[error("the layer was not made for tree {id}")]
    OtherBase { id: String },
    #[error("the workspace is too large to copy (stopped at {path})")]
    TooMuch { path: String },
    #[error("another provost has held {} for too long", .path.display())]
    Busy { path: PathBuf },
    #[error(
        "the repository replaces {object} of this commit by another object (refs/replace), so a checkout \
         would have bytes that provost never judged; remove the replacement with \
         `git replace -d {object}`"
    )]
    Replaced { object: String },
    #[error("{} is a link, and provost does not write refs through links", .path.display())]
    Linked { path: PathBuf },
    #[error("the git remote {remote} could not be used: {said}{}", next_step(next))]
    Unreachable { remote: String, said: String, next: String },
    #[error(
        "the git remote {remote} did not finish within {limit}{said}; if it only needs longer, set \
         PROVOST_REMOTE_LIMIT where provost is started, for example to 30m"
    )]
    Slow { remote: String, limit: String, said: String },
    #[error("the git remote has no {name}")]
    NotOnRemote { name: String },
    #[error("{name} on the git remote is not the tree {tree}")]
    OtherTree { name: String, tree: String },
    #[error("{name} is on the git remote already, with another content")]
    Taken { name: String },
}

/// Returns the end of a message that says what to do.
fn next_step(next: &str) -> String {
    if next.is_empty() { String::new() } else { format!("; {next}") }
}

impl Error {
    /// Returns whether the remote may take the same later.
    pub fn is_of_the_remote(&self) -> bool {
        matches!(self, Self::Unreachable { .. } | Self::Slow { .. })
    }

    pub(super) fn io(attempt: &'static str, path: &Path, source: impl Into<io::Error>) -> Self {
        Self::Io { attempt, path: path.to_path_buf(), source: source.into() }
    }
}
