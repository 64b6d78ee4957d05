//! The install manifest: records what `init` wrote to which file, so that it can be removed. The state folder
//! has a small file for each.
//!
//! **Invariant:** a file that was not changed since gets back exactly its old bytes; from a changed one only
//! provost's entries are removed, and what is left can be read by its client.

use std::fs;
use std::path::{Path, PathBuf};

use provost_core::model::hash::Hash;
use serde::{Deserialize, Serialize};

use super::edit::{self, Edit, InsertedEdit};
use super::jsonc::{self, Splice};
use super::{Care, Trouble, toml_text, write};

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
    /// What the insertions mean; entries of old versions have none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    made: Vec<InsertedEdit>,
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

    /// Returns what the file is without provost's entries. `is_nothing` if they were all there was.
    fn text(&self, left: String, is_nothing: bool) -> Option<String> {
        match self {
            Before::Absent if is_nothing => None,
            Before::Blank(text) if is_nothing => Some(text.clone()),
            _ => Some(left),
        }
    }
}

/// A file without provost's insertions.
pub(crate) struct Without {
    pub text: Option<String>,
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
        (added, made): (Vec<Splice>, Vec<InsertedEdit>),
    ) -> Result<(), Trouble> {
        let before = Before::of(before);
        let after = Hash::of(after.as_bytes()).to_string();
        let known = self.find(path, project).map(|entry| entry.folders).unwrap_or_default();
        let new = path.ancestors().skip(1).take_while(|folder| !folder.exists()).map(Path::to_owned);
        let folders = if known.is_empty() { new.collect() } else { known };
        let entry = Entry {
            folders,
            path: path.to_owned(),
            project: project.map(Path::to_owned),
            before,
            after,
            added,
            made,
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
    /// Returns the file without provost's entries; `None` if they cannot be removed.
    pub(crate) fn without(&self, now: Option<&str>, care: Care) -> Option<Without> {
        let Some(now) = now else { return Some(Without { text: None }) };
        if Hash::of(now.as_bytes()).to_string() == self.after {
            let left = self.added.iter().rev().try_fold(now.to_owned(), |text, added| added.undo(&text))?;
            return Some(Without { text: self.before.text(left, true) });
        }
        let by_bytes = self.by_bytes(now);
        let left = match edit::removed(&self.made, now, care).filter(|_| !self.made.is_empty()) {
            // The bytes of provost are removed as they were inserted, if that means the same.
            Some(left) => {
                by_bytes.filter(|bytes| edit::mean_the_same(&self.made, bytes, &left)).unwrap_or(left)
            }
            None => by_bytes.filter(|left| self.made.is_empty() && is_sound(&self.path, now, left))?,
        };
        let is_nothing = edit::is_nothing(&self.made, &left);
        Some(Without { text: self.before.text(left, is_nothing) })
    }

    /// Removes the inserted bytes, wherever they are now.
    fn by_bytes(&self, now: &str) -> Option<String> {
        let mut text = now.to_owned();
        for added in self.added.iter().rev().map(|added| added.text.as_str()) {
            // If it occurs twice, it is unknown which one is provost's.
            let (before, after) = text.split_once(added)?;
            if after.contains(added) {
                return None;
            }
            text = format!("{before}{after}");
        }
        Some(text)
    }

    /// Returns whether `init` made the file.
    pub(crate) fn is_new_file(&self) -> bool {
        self.before == Before::Absent
    }

    /// Returns whether all rules that were written are among these edits.
    pub(crate) fn has_only_rules_of(&self, edits: &[Edit]) -> bool {
        let lines = |edit: &Edit| match edit {
            Edit::Rules(rules) => rules.lines().map(|line| line.trim().to_owned()).collect(),
            _ => Vec::new(),
        };
        let wanted: Vec<String> = edits.iter().flat_map(lines).collect();
        self.made.iter().flat_map(|made| lines(&made.edit)).all(|line| wanted.contains(&line))
    }

    /// Returns the inserted text, for people who have to remove it themselves.
    pub(crate) fn added(&self) -> String {
        self.added.iter().map(|added| added.text.as_str()).collect()
    }
}

/// Returns whether a file without provost's entries is as readable as it was.
fn is_sound(path: &Path, now: &str, left: &str) -> bool {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("json" | "jsonc") => {
            jsonc::value(left).is_ok() && (jsonc::is_strict(left) || !jsonc::is_strict(now))
        }
        Some("toml") => toml_text::parsed(left).is_ok(),
        _ => true,
    }
}
