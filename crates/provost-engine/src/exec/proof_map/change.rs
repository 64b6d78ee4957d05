//! Reads the change of a step from its two kept trees, and cuts it into hunks.

use std::path::{Path, PathBuf};
use std::time::Duration;

use provost_core::language::hunks::{self, ChangedRun, FileTexts, Hunk};
use provost_core::model::proof_map::{HunkMark, HunkProof};
use provost_core::state::run::Run;
use provost_host::exec::environment::KeptPair;
use provost_host::tree::Base;
use similar::{DiffTag, TextDiff};

use crate::Error;
use crate::plan::harness::Harness;
use crate::plan::{kept_trees, step_changes};

/// Longest file that is cut into hunks.
const FILE_BYTES: u64 = 1 << 20;
/// Time limit for comparing two texts.
const PATIENCE: Duration = Duration::from_secs(2);

/// The files that a step changed, in the order of their paths.
pub struct Change {
    pub(super) files: Vec<ChangedFile>,
}

pub(super) struct ChangedFile {
    path: String,
    old: Option<String>,
    new: Option<String>,
    pub hunks: Vec<Hunk>,
    /// Why the file has no hunks, for example because it is no text.
    pub unread: Option<&'static str>,
}

impl Change {
    pub fn read(harness: &Harness, run: &Run, before: &str, after: &str) -> Result<Self, Error> {
        Ok(Self::between(&step_changes::kept_pair(harness, run, before, after)?))
    }

    /// Takes whole files as a change of an empty tree, so that all of their code is tried. If some of it
    /// defines one of these names, only that code is.
    pub fn of_files(empty: Base, tree: Base, paths: Vec<PathBuf>, names: &[String]) -> Self {
        let mut change = Self::between(&KeptPair { before: empty, after: tree, paths });
        let defining: Vec<Vec<Hunk>> = change.files.iter().map(|file| file.defining(names)).collect();
        if defining.iter().any(|hunks| !hunks.is_empty()) {
            change.files.iter_mut().zip(defining).for_each(|(file, hunks)| file.hunks = hunks);
            change.files.retain(|file| !file.hunks.is_empty());
        }
        change
    }

    pub fn between(KeptPair { before, after, paths }: &KeptPair) -> Self {
        Self { files: paths.iter().map(|path| ChangedFile::read(path, before, after)).collect() }
    }
}

impl ChangedFile {
    fn read(path: &Path, before: &Base, after: &Base) -> Self {
        let name = path.to_string_lossy().into_owned();
        let unread =
            |why| Self { path: name.clone(), old: None, new: None, hunks: Vec::new(), unread: Some(why) };
        if path.to_str().is_none() {
            return unread("its name is no text");
        }
        let text = |base: &Base| kept_trees::text(base, path, FILE_BYTES);
        let (old, new) = match (text(before), text(after)) {
            (Ok(old), Ok(new)) => (old, new),
            (Err(why), _) | (_, Err(why)) => return unread(why),
        };
        let texts = FileTexts { path: &name, old: old.as_deref(), new: new.as_deref() };
        let runs = changed_runs(texts.old.unwrap_or_default(), texts.new.unwrap_or_default());
        if runs.is_empty() {
            return unread("only its mode changed, or it is empty");
        }
        let hunks = hunks::of_file(&texts, &runs);
        Self { path: name, old, new, hunks, unread: None }
    }

    /// Returns the hunks that define one of these names.
    fn defining(&self, names: &[String]) -> Vec<Hunk> {
        let texts = self.texts();
        self.hunks.iter().filter(|hunk| hunk.defines(&texts, names)).cloned().collect()
    }

    pub(super) fn texts(&self) -> FileTexts<'_> {
        FileTexts { path: &self.path, old: self.old.as_deref(), new: self.new.as_deref() }
    }

    /// Returns the entry of the whole file in a map, for a file without hunks.
    pub(super) fn without_hunks(&self, why: &str) -> HunkProof {
        HunkProof {
            path: self.path.clone(),
            first_line: 1,
            last_line: 1,
            added_lines: 0,
            removed_lines: 0,
            is_code: false,
            mark: HunkMark::NotTried,
            why: why.to_owned(),
            runs: Vec::new(),
            cached: false,
        }
    }
}

fn changed_runs(old: &str, new: &str) -> Vec<ChangedRun> {
    let diff = TextDiff::configure().timeout(PATIENCE).diff_lines(old, new);
    let changed = diff.ops().iter().filter(|op| op.tag() != DiffTag::Equal);
    let mut runs: Vec<ChangedRun> = Vec::new();
    for op in changed {
        let (old, new) = (op.old_range(), op.new_range());
        // Runs that touch are one: a line was removed and others were added at its place.
        match runs.last_mut().filter(|last| last.old.end == old.start && last.new.end == new.start) {
            Some(last) => (last.old.end, last.new.end) = (old.end, new.end),
            None => runs.push(ChangedRun { old, new }),
        }
    }
    runs
}
