//! Shows what the work of a step changed, file by file: the difference between the tree its attempt started
//! with and the one it left.
//!
//! Both are trees that provost kept; later changes of the workspace do not matter.
//!
//! **Invariant:** secrets are removed, as from everything that is shown.

use std::path::Path;
use std::time::Duration;

use provost_core::model::plan::StepNumber;
use provost_core::rules::command::Refusal;
use provost_core::state::run::Run;
use provost_host::exec::environment::{self, KeptPair};
use provost_host::tree::Base;
use similar::TextDiff;

use crate::Error;
use crate::plan::harness::Harness;
use crate::plan::{commit, kept_trees};

/// Maximum size of a file that is shown.
const FILE_BYTES: u64 = 256 * 1024;
/// Time limit for comparing two texts.
const PATIENCE: Duration = Duration::from_millis(300);

/// A file before and after. A side is `None` if the file does not exist there, is no text, or is too long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileComparison {
    pub path: String,
    pub old: Option<String>,
    pub new: Option<String>,
    /// Why it is not shown.
    pub unshown: Option<&'static str>,
    pub kind: FileChange,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileChange {
    Added,
    Changed,
    Deleted,
}

impl FileChange {
    pub fn word(self) -> &'static str {
        match self {
            FileChange::Added => "added",
            FileChange::Changed => "changed",
            FileChange::Deleted => "deleted",
        }
    }
}

impl FileComparison {
    /// Returns the diff in the format of `diff -u`, or why it cannot be shown.
    pub fn unified(&self) -> String {
        if let Some(why) = self.unshown {
            return format!("{} {}: {why}\n", self.kind.word(), self.path);
        }
        let side = |letter: &str, is_there: bool| match is_there {
            true => format!("{letter}/{}", self.path),
            false => "/dev/null".to_owned(),
        };
        let (old, new) = (self.old.as_deref().unwrap_or_default(), self.new.as_deref().unwrap_or_default());
        let (from, to) =
            (side("a", self.kind != FileChange::Added), side("b", self.kind != FileChange::Deleted));
        let diff = TextDiff::configure().timeout(PATIENCE).diff_lines(old, new);
        let text = diff.unified_diff().header(&from, &to).to_string();
        match text.is_empty() {
            true => format!("--- {from}\n+++ {to}\n"),
            false => text,
        }
    }

    /// Returns the numbers of added and removed lines.
    pub fn count(&self) -> (usize, usize) {
        let text = self.unified();
        let lines = text.lines().skip(2);
        let begins = |letter: char| lines.clone().filter(|line| line.starts_with(letter)).count();
        if self.unshown.is_some() { (0, 0) } else { (begins('+'), begins('-')) }
    }
}

/// Changes of a step, and changes that others had made before it started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StepChanges {
    pub files: Vec<FileComparison>,
    /// Files of the tree that others changed.
    pub others: Vec<String>,
    /// Files that were not taken over, and why.
    pub refused: Vec<String>,
}

impl StepChanges {
    /// Returns a line for each file: those of the step with their numbers of lines, then the others.
    pub fn lines(&self) -> Vec<String> {
        let nothing = self.files.is_empty().then(|| "no file changed".to_owned());
        let files = self.files.iter().map(|file| {
            let (more, less) = file.count();
            format!("{} {} (+{more} -{less})", file.kind.word(), file.path)
        });
        let others = self
            .others
            .iter()
            .map(|path| format!("not part of this step: {path} was changed by others before the step began"));
        let refused = self.refused.iter().map(|refused| format!("left out: {refused}"));
        nothing.into_iter().chain(files).chain(others).chain(refused).collect()
    }
}

/// Returns the files that a step changed.
pub fn of_step(harness: &Harness, number: StepNumber) -> Result<Vec<FileComparison>, Error> {
    look(harness, number).map(|work| work.files)
}

/// Returns what a step changed: for a passed step, in the tree its contract held on; for any other, what its
/// last attempt left.
pub fn look(harness: &Harness, number: StepNumber) -> Result<StepChanges, Error> {
    let run = harness.run()?;
    let step = run.step(number).ok_or(Refusal::NoSuchStep { step: number })?;
    let Some((before, after)) = commit::step_trees(step, run.confirmed_by_person(number)) else {
        return Err(match step.attempts {
            0 => Refusal::NotTried { step: number }.into(),
            _ => Refusal::NoTree.into(),
        });
    };
    let KeptPair { before, after, paths } = kept_pair(harness, &run, before, after)?;
    let seen = commit::judged(step);
    let others = match (seen, &step.start) {
        (Some(tree), _) if !tree.others.is_empty() => tree.others.clone(),
        (_, Some(start)) => start.others.clone(),
        _ => Vec::new(),
    };
    Ok(StepChanges {
        files: paths.iter().map(|path| clean(harness, changed(path, &before, &after))).collect(),
        others,
        refused: seen.map(|tree| tree.refused.clone()).unwrap_or_default(),
    })
}

/// Returns the files in which two kept trees differ.
pub fn between(harness: &Harness, before: &str, after: &str) -> Result<Vec<FileComparison>, Error> {
    let KeptPair { before, after, paths } = kept_pair(harness, &harness.run()?, before, after)?;
    Ok(paths.iter().map(|path| clean(harness, changed(path, &before, &after))).collect())
}

/// Returns two kept trees and the paths in which they differ.
pub(crate) fn kept_pair(harness: &Harness, run: &Run, before: &str, after: &str) -> Result<KeptPair, Error> {
    let trees = environment::trees_of(&harness.place().workspace, harness.state())?;
    // The tree that the first step started with is rebuilt here if no machine has sent it.
    if let (true, Some(commit)) = (run.sends_trees(), run.binding.base.as_deref()) {
        commit::trees(harness, run, commit)?;
    }
    let kept =
        |id: &str| kept_trees::find(harness, run, &trees, id)?.ok_or_else(|| Error::from(Refusal::NoTree));
    let (before, after) = (kept(before)?, kept(after)?);
    let paths = trees.differing_paths(&before, &after).map_err(environment::Error::from)?;
    Ok(KeptPair { before, after, paths })
}

fn clean(harness: &Harness, changed: FileComparison) -> FileComparison {
    let clean = |text: Option<String>| text.map(|text| harness.redactor().text(&text).into_owned());
    FileComparison { old: clean(changed.old), new: clean(changed.new), ..changed }
}

fn changed(path: &Path, before: &Base, after: &Base) -> FileComparison {
    let text = |base: &Base| kept_trees::text(base, path, FILE_BYTES);
    let (old, new) = (text(before), text(after));
    let unshown = old.as_ref().err().or(new.as_ref().err()).copied();
    let kind = match (before.has(path), after.has(path)) {
        (false, _) => FileChange::Added,
        (true, false) => FileChange::Deleted,
        (true, true) => FileChange::Changed,
    };
    let shown =
        |text: Result<Option<String>, &'static str>| text.ok().flatten().filter(|_| unshown.is_none());
    let path = path.to_string_lossy().into_owned();
    FileComparison { path, old: shown(old), new: shown(new), unshown, kind }
}
