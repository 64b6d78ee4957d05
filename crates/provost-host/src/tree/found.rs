//! Collects the results of a walk over a workspace.

use super::checkout::lossy;
use super::index::Leaf;
use super::{ExcludedPath, ExclusionReason};

/// Limit of a list that is shown to the user and not recorded.
const OUTSIDE_MAX: usize = 20;
/// Limit of lists that people read; further entries are counted.
const NAMES_MAX: usize = 1_000;

#[derive(Default)]
pub(super) struct ImportResult {
    pub taken: Vec<(Vec<u8>, Leaf)>,
    pub removed: Vec<Vec<u8>>,
    /// Empty folders.
    pub folders: Vec<Vec<u8>>,
    /// The mtimes of the imported files.
    pub written: Vec<((i64, i64), Vec<u8>)>,
    pub refused: CappedList<ExcludedPath>,
    /// Caches of tools, which are not imported.
    pub tool_caches: Vec<Vec<u8>>,
    /// Folders whose permissions are not imported, and these permissions.
    pub folder_modes: Vec<(Vec<u8>, u32)>,
    /// Paths that git ignores. A path with a final slash is a folder with all its content.
    pub ignored: CappedList<String>,
    pub protected: Vec<String>,
    pub outside: CappedList<String>,
}

impl ImportResult {
    pub(super) fn refuse(&mut self, path: &[u8], why: ExclusionReason) {
        self.refused.push(NAMES_MAX, || ExcludedPath { path: lossy(path), why });
    }

    /// Lists caches and the permissions of folders after everything else that was not imported.
    pub(super) fn refuse_the_rest(&mut self) {
        for path in std::mem::take(&mut self.tool_caches) {
            self.refuse(&path, ExclusionReason::ToolCache);
        }
        for (path, mode) in std::mem::take(&mut self.folder_modes) {
            self.refuse(&path, ExclusionReason::FolderMode { mode });
        }
    }

    pub(super) fn ignore(&mut self, path: &[u8], is_folder: bool) {
        let slash = if is_folder { "/" } else { "" };
        self.ignored.push(NAMES_MAX, || format!("{}{slash}", lossy(path)));
    }

    pub(super) fn see_outside(&mut self, path: &[u8]) {
        self.outside.push(OUTSIDE_MAX, || lossy(path));
    }
}

/// A list with a maximum length that counts the entries it leaves out.
pub(super) struct CappedList<T> {
    pub some: Vec<T>,
    pub more: usize,
}

impl<T> Default for CappedList<T> {
    fn default() -> Self {
        Self { some: Vec::new(), more: 0 }
    }
}

impl<T> CappedList<T> {
    fn push(&mut self, most: usize, item: impl FnOnce() -> T) {
        match self.some.len() < most {
            true => self.some.push(item()),
            false => self.more += 1,
        }
    }

    pub(super) fn count(&self) -> usize {
        self.some.len() + self.more
    }
}

/// The result of the globs and git's rules for a path and everything in it.
#[derive(Clone, Copy, Default)]
pub(super) struct Rule {
    pub is_touched: bool,
    pub is_protected: bool,
    /// Length of the prefix of the path that git ignores.
    pub ignored: Option<usize>,
}
