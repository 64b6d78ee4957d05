//! What `init` wrote where, so that it can be taken back: a small file for each in the state folder.
//!
//! **Invariant:** a file that was not touched since gets back the very bytes it had; of one that was, only
//! what is ours is taken out, and only where it is still as it was put in.

use std::fs;
use std::path::{Path, PathBuf};

use provost_core::model::hash::Hash;
use serde::{Deserialize, Serialize};

use super::jsonc::Splice;
use super::{Trouble, write};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    pub path: PathBuf,
    /// The project it belongs to; none for what holds for the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<PathBuf>,
    before: Before,
    /// Folders that were not there, innermost first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub folders: Vec<PathBuf>,
    /// What it said after, as a digest.
    after: String,
    /// What was put in, piece by piece, each at its place in the text with those before it.
    added: Vec<Splice>,
}

/// What the file was. Its text is not kept, since it may hold secrets: it is what is left without ours.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Before {
    Absent,
    /// There, with nothing but blanks.
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

/// A file as it would be without us.
pub struct Without {
    pub text: Option<String>,
    /// Whether it is known to be what it was, byte for byte.
    pub is_exact: bool,
}

pub struct Ledger {
    folder: PathBuf,
}

impl Ledger {
    pub fn open(state: &Path) -> Self {
        Self { folder: state.join("init") }
    }

    pub fn entries(&self) -> Vec<Entry> {
        let files = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let read = |path: PathBuf| serde_json::from_slice(&fs::read(path).ok()?).ok();
        let mut entries: Vec<Entry> = files.filter_map(|file| read(file.path())).collect();
        entries.sort_by(|one, other| one.path.cmp(&other.path));
        entries
    }

    pub fn find(&self, path: &Path, project: Option<&Path>) -> Option<Entry> {
        serde_json::from_slice(&fs::read(self.file(path, project)).ok()?).ok()
    }

    /// Written down before the file itself is.
    pub fn keep(
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

    pub fn forget(&self, path: &Path, project: Option<&Path>) {
        let _ = fs::remove_file(self.file(path, project));
    }

    /// Projects may have something each in a file of the user's.
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
    /// The file without what we put in; `None` where that is not to be found any more.
    pub fn without(&self, now: Option<&str>) -> Option<Without> {
        let Some(now) = now else {
            return Some(Without { text: None, is_exact: self.before == Before::Absent });
        };
        if Hash::of(now.as_bytes()).to_string() == self.after {
            let left = self.added.iter().rev().try_fold(now.to_owned(), |text, added| added.undo(&text))?;
            return Some(Without { text: self.before.text(left), is_exact: true });
        }
        let mut text = now.to_owned();
        for added in self.added.iter().rev().map(|added| added.text.as_str()) {
            // Twice there, nobody knows which is ours.
            let (before, after) = text.split_once(added)?;
            if after.contains(added) {
                return None;
            }
            text = format!("{before}{after}");
        }
        Some(Without { text: Some(text), is_exact: false })
    }

    /// For people who have to take it out themselves.
    pub fn added(&self) -> String {
        self.added.iter().map(|added| added.text.as_str()).collect()
    }
}
