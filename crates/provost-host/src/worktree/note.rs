//! Lists the worktrees of a repository, and says which of them provost made.
//!
//! Git's own files say which worktrees there are. An agent may be able to write those, so they do not say
//! who made one: that is recorded in the state folder, where no agent writes.
//!
//! **Invariant:** a worktree counts as provost's only if the state folder has a record of this very path
//! and of the folder in which git keeps it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use provost_core::model::hash::Hash;
use serde::{Deserialize, Serialize};

use crate::{files, folder, git};

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

/// The worktrees that provost made, as the state folder remembers them.
#[derive(Clone, Debug)]
pub struct Records {
    folder: PathBuf,
}

/// One file of [`Records`].
#[derive(Serialize, Deserialize)]
struct Record {
    path: PathBuf,
    /// What git keeps of it.
    own: PathBuf,
    note: Note,
}

impl Records {
    pub fn new(state: &Path) -> Self {
        Self { folder: state.join("worktrees") }
    }

    pub(super) fn write(&self, path: &Path, own: &Path, note: &Note) -> io::Result<()> {
        folder::make_private(&self.folder)?;
        let record = Record { path: path.to_owned(), own: own.to_owned(), note: note.clone() };
        files::write_whole(&self.file(path), &serde_json::to_vec(&record)?)
    }

    /// What a worktree was made for; nothing, where provost did not make it.
    pub fn find(&self, path: &Path, own: &Path) -> Option<Note> {
        let record: Record = serde_json::from_slice(&fs::read(self.file(path)).ok()?).ok()?;
        (record.path == path && record.own == own).then_some(record.note)
    }

    pub(super) fn remove(&self, path: &Path) {
        let _ = fs::remove_file(self.file(path));
    }

    fn file(&self, path: &Path) -> PathBuf {
        let name = Hash::of(path.as_os_str().as_encoded_bytes()).to_string();
        self.folder.join(format!("{}.json", &name[..32]))
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
pub fn list(workspace: &Path, records: &Records) -> Vec<Found> {
    let Some(repository) = git::repository(workspace) else { return Vec::new() };
    let entries = repository.join("worktrees").read_dir().into_iter().flatten().flatten();
    let mut found: Vec<Found> =
        entries.filter_map(|entry| one(workspace, &repository, entry.path(), records)).collect();
    found.sort_by(|a, b| a.own.cmp(&b.own));
    found
}

fn one(workspace: &Path, repository: &Path, own: PathBuf, records: &Records) -> Option<Found> {
    let link = git::line(&own.join("gitdir"))?;
    let path = Path::new(&link).parent()?.to_owned();
    let head = git::line(&own.join("HEAD"));
    let branch = head.as_ref().and_then(|head| Some(head.strip_prefix("ref:")?.trim().to_owned()));
    let commit = match &branch {
        Some(branch) => git::find(workspace, branch),
        None => head.filter(|head| head.bytes().all(|byte| byte.is_ascii_hexdigit())),
    };
    let note = records.find(&path, &own);
    let is_locked = own.join("locked").exists();
    own.starts_with(repository).then_some(Found { path, own, branch, head: commit, note, is_locked })
}
