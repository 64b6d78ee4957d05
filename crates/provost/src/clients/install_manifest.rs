//! The install manifest: records what `init` wrote to which file, so that it can be removed. The state folder
//! has a small file for each.
//!
//! **Invariant:** a file that was not changed since gets back exactly its old bytes; from a changed one only
//! provost's insertions are removed, and only if they are unchanged.

use std::fs;
use std::path::{Path, PathBuf};

use provost_core::model::hash::Hash;
use serde::{Deserialize, Serialize};

use super::jsonc::Splice;
use super::{Trouble, write};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Entry {
    pub path: PathBuf,
    /// The project it belongs to; `None` if it is for the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<PathBuf>,
    before: Before,
    /// Folders that did not exist before, innermost first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub folders: Vec<PathBuf>,
    /// Digest of the file after the change.
    after: String,
    /// Insertions, each with its position in the text that has the earlier ones.
    added: Vec<Splice>,
}

/// State of the file before. Its text is not kept, because it may hold secrets: it is what remains without
/// provost's insertions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Before {
    Absent,
    /// It contained only blanks.
    Blank(String),
    Text,
}

impl Before {
    fn of(text: Option<&str>) -> Self {
        match text {
            None => Before::Absent,
            Some(text) if text.trim().is_empty() => Before::Blank(text.to_owned()),
            Some(_) => Before::Text,
        }
    }

    fn text(&self, left: String) -> Option<String> {
        match self {
            Before::Absent => None,
            Before::Blank(text) => Some(text.clone()),
            Before::Text => Some(left),
        }
    }
}

/// A file without provost's insertions.
pub(crate) struct Without {
    pub text: Option<String>,
    /// Whether it is known to be the original, byte for byte.
    pub is_exact: bool,
}

pub(crate) struct Ledger {
    folder: PathBuf,
}

impl Ledger {
    pub(crate) fn open(state: &Path) -> Self {
        Self { folder: state.join("init") }
    }

    pub(crate) fn entries(&self) -> Vec<Entry> {
        let files = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let read = |path: PathBuf| serde_json::from_slice(&fs::read(path).ok()?).ok();
        let mut entries: Vec<Entry> = files.filter_map(|file| read(file.path())).collect();
        entries.sort_by(|one, other| one.path.cmp(&other.path));
        entries
    }

    pub(crate) fn find(&self, path: &Path, project: Option<&Path>) -> Option<Entry> {
        serde_json::from_slice(&fs::read(self.file(path, project)).ok()?).ok()
    }

    /// Records a change before the file is written.
    pub(crate) fn keep(
        &self,
        path: &Path,
        project: Option<&Path>,
        before: Option<&str>,
        after: &str,
        added: Vec<Splice>,
    ) -> Result<(), Trouble> {
        let before = Before::of(before);
        let after = Hash::of(after.as_bytes()).to_string();
        let known = self.find(path, project).map(|entry| entry.folders).unwrap_or_default();
        let made = path.ancestors().skip(1).take_while(|folder| !folder.exists()).map(Path::to_owned);
        let folders = if known.is_empty() { made.collect() } else { known };
        let entry = Entry {
            folders,
            path: path.to_owned(),
            project: project.map(Path::to_owned),
            before,
            after,
            added,
        };
        let text = serde_json::to_string(&entry).map_err(|error| Trouble::new(error.to_string()))?;
        write(&self.file(path, project), &text)
    }

    pub(crate) fn forget(&self, path: &Path, project: Option<&Path>) {
        let _ = fs::remove_file(self.file(path, project));
    }

    /// Returns the manifest file; several projects may each have an entry for a file of the user.
    fn file(&self, path: &Path, project: Option<&Path>) -> PathBuf {
        let mut name = path.as_os_str().as_encoded_bytes().to_vec();
        if let Some(project) = project.filter(|project| !path.starts_with(project)) {
            name.push(0);
            name.extend_from_slice(project.as_os_str().as_encoded_bytes());
        }
        self.folder.join(format!("{}.json", Hash::of(&name)))
    }
}

impl Entry {
    /// Returns the file without provost's insertions; `None` if they are not found any more.
    pub(crate) fn without(&self, now: Option<&str>) -> Option<Without> {
        let Some(now) = now else {
            return Some(Without { text: None, is_exact: self.before == Before::Absent });
        };
        if Hash::of(now.as_bytes()).to_string() == self.after {
            let left = self.added.iter().rev().try_fold(now.to_owned(), |text, added| added.undo(&text))?;
            return Some(Without { text: self.before.text(left), is_exact: true });
        }
        let mut text = now.to_owned();
        for added in self.added.iter().rev().map(|added| added.text.as_str()) {
            // If it occurs twice, it is unknown which one is provost's.
            let (before, after) = text.split_once(added)?;
            if after.contains(added) {
                return None;
            }
            text = format!("{before}{after}");
        }
        Some(Without { text: Some(text), is_exact: false })
    }

    /// Returns the inserted text, for people who have to remove it themselves.
    pub(crate) fn added(&self) -> String {
        self.added.iter().map(|added| added.text.as_str()).collect()
    }
}
