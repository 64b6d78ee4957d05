//! What a walk over a workspace has found so far.

use super::checkout::lossy;
use super::index::Leaf;
use super::{Refused, Why};

/// For a word to the user, not for a record.
const OUTSIDE_MAX: usize = 20;
/// Lists that people read; what is not in them is counted.
const NAMES_MAX: usize = 1_000;

#[derive(Default)]
pub struct Found {
    pub taken: Vec<(Vec<u8>, Leaf)>,
    pub removed: Vec<Vec<u8>>,
    /// Folders with nothing in them.
    pub folders: Vec<Vec<u8>>,
    /// When the files that were taken over were last written.
    pub written: Vec<((i64, i64), Vec<u8>)>,
    pub refused: Capped<Refused>,
    /// What git ignores; a folder stands for all that is in it, and ends with a slash.
    pub ignored: Capped<String>,
    pub protected: Vec<String>,
    pub outside: Capped<String>,
}

impl Found {
    pub fn refuse(&mut self, path: &[u8], why: Why) {
        self.refused.push(NAMES_MAX, || Refused { path: lossy(path), why });
    }

    pub fn ignore(&mut self, path: &[u8], is_folder: bool) {
        let slash = if is_folder { "/" } else { "" };
        self.ignored.push(NAMES_MAX, || format!("{}{slash}", lossy(path)));
    }

    pub fn see_outside(&mut self, path: &[u8]) {
        self.outside.push(OUTSIDE_MAX, || lossy(path));
    }
}

/// A list that is cut, and says how much is missing.
pub struct Capped<T> {
    pub some: Vec<T>,
    pub more: usize,
}

impl<T> Default for Capped<T> {
    fn default() -> Self {
        Self { some: Vec::new(), more: 0 }
    }
}

impl<T> Capped<T> {
    fn push(&mut self, most: usize, item: impl FnOnce() -> T) {
        match self.some.len() < most {
            true => self.some.push(item()),
            false => self.more += 1,
        }
    }

    pub fn count(&self) -> usize {
        self.some.len() + self.more
    }
}

/// What the globs and git say of a path and all that is in it.
#[derive(Clone, Copy, Default)]
pub struct Rule {
    pub is_touched: bool,
    pub is_protected: bool,
    /// How long the path is from which on git ignores everything.
    pub ignored: Option<usize>,
}
