//! Lists the worktrees of a repository, and says which of them provost made.
//!
//! git's own files say which worktrees exist. An agent may be able to write them, so they do not prove who
//! made one: that is recorded in the state folder, where no agent can write.
//!
//! **Invariant:** a worktree counts as provost's only if the state folder has a record of exactly this path
//! and of git's folder for it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use provost_core::model::hash::Hash;
use serde::{Deserialize, Serialize};

use crate::files::folder;
use crate::{files, git};

/// The purpose of a worktree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    pub plan: String,
    pub attempt: u32,
    pub branch: String,
    pub base: String,
    /// Milliseconds since 1970.
    pub at: u64,
    pub pid: u32,
    /// False if the process that made it did not finish.
    pub finished: bool,
}

impl Note {
    pub(super) fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// The worktrees that provost made, as recorded in the state folder.
#[derive(Clone, Debug)]
pub struct Records {
    folder: PathBuf,
}

/// One file of [`Records`].
#[derive(Serialize, Deserialize)]
struct Record {
    path: PathBuf,
    /// git's folder for it.
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

    /// Returns the purpose of a worktree; `None` if provost did not make it.
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

/// A worktree that the repository lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedWorktree {
    pub path: PathBuf,
    /// git's folder for it.
    pub own: PathBuf,
    /// The full name; `None` if HEAD is detached.
    pub branch: Option<String>,
    pub head: Option<String>,
    /// `None` if provost did not make it.
    pub note: Option<Note>,
    pub is_locked: bool,
}

impl ListedWorktree {
    pub fn is_there(&self) -> bool {
        self.path.join(".git").is_file()
    }
}

/// Returns all worktrees except the main checkout, in order of their names.
pub fn list(workspace: &Path, records: &Records) -> Vec<ListedWorktree> {
    let Some(repository) = git::repository(workspace) else { return Vec::new() };
    let entries = repository.join("worktrees").read_dir().into_iter().flatten().flatten();
    let mut found: Vec<ListedWorktree> =
        entries.filter_map(|entry| one(workspace, &repository, entry.path(), records)).collect();
    found.sort_by(|a, b| a.own.cmp(&b.own));
    found
}

fn one(workspace: &Path, repository: &Path, own: PathBuf, records: &Records) -> Option<ListedWorktree> {
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
    own.starts_with(repository).then_some(ListedWorktree { path, own, branch, head: commit, note, is_locked })
}
