//! Which worktrees a repository has, and which of them provost made, by the files git keeps of them.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::git;

/// What a worktree was made for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    pub plan: String,
    pub attempt: u32,
    pub branch: String,
    pub base: String,
    /// Milliseconds since 1970.
    pub at: u64,
    pub pid: u32,
    /// Otherwise whoever made it did not come to the end.
    pub finished: bool,
}

impl Note {
    pub(super) fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// A worktree that the repository knows of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    pub path: PathBuf,
    /// What git keeps of it.
    pub own: PathBuf,
    /// By its whole name; nothing where HEAD is on no branch.
    pub branch: Option<String>,
    pub head: Option<String>,
    /// Nothing, where somebody else made it.
    pub note: Option<Note>,
    pub is_locked: bool,
}

impl Found {
    pub fn is_there(&self) -> bool {
        self.path.join(".git").is_file()
    }
}

/// All worktrees beside the main checkout, in order of their names.
pub fn list(workspace: &Path) -> Vec<Found> {
    let Some(repository) = git::repository(workspace) else { return Vec::new() };
    let entries = repository.join("worktrees").read_dir().into_iter().flatten().flatten();
    let mut found: Vec<Found> =
        entries.filter_map(|entry| one(workspace, &repository, entry.path())).collect();
    found.sort_by(|a, b| a.own.cmp(&b.own));
    found
}

fn one(workspace: &Path, repository: &Path, own: PathBuf) -> Option<Found> {
    let link = git::line(&own.join("gitdir"))?;
    let path = Path::new(&link).parent()?.to_owned();
    let head = git::line(&own.join("HEAD"));
    let branch = head.as_ref().and_then(|head| Some(head.strip_prefix("ref:")?.trim().to_owned()));
    let commit = match &branch {
        Some(branch) => git::find(workspace, branch),
        None => head.filter(|head| head.bytes().all(|byte| byte.is_ascii_hexdigit())),
    };
    let note = own.join(git::SPAWN_NOTE);
    let note = note.is_file().then(|| fs::read(note).ok()).flatten();
    let note = note.and_then(|text| serde_json::from_slice(&text).ok());
    let is_locked = own.join("locked").exists();
    own.starts_with(repository).then_some(Found { path, own, branch, head: commit, note, is_locked })
}
