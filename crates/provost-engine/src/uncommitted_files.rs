//! Files of the workspace that are not in the base commit, and the texts about them.

use std::fmt;
use std::path::Path;

use provost_core::model::event::IncludedFile;
use provost_core::state::run::{Run, Stage};
use provost_host::tree;
use provost_host::tree::ChangeKind;

/// Maximum number of files named in a message; the rest are counted.
const NAMED: usize = 20;

/// A file that differs from the base commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UncommittedFile {
    pub path: String,
    pub change: ChangeKind,
    pub whose: Whose,
    pub(crate) sha256: Option<String>,
}

/// Origin of the file, as far as its bytes show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Whose {
    Yours,
    /// A plan whose tree has exactly these bytes.
    Plan {
        name: String,
        stage: Stage,
    },
}

impl Whose {
    fn done_plan(&self) -> Option<&str> {
        match self {
            Whose::Plan { name, stage: Stage::Done } => Some(name),
            _ => None,
        }
    }
}

impl fmt::Display for Whose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Whose::Yours => f.write_str("yours"),
            Whose::Plan { name, stage } => {
                write!(f, "left by plan {name}, {}, not committed yet", stage.word())
            }
        }
    }
}

impl fmt::Display for UncommittedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}, {})", self.path, self.change.word(), self.whose)
    }
}

/// Files that are not in the base commit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UncommittedFiles {
    /// Inside `touches`: to be committed, stashed or included before approval.
    pub inside: Vec<UncommittedFile>,
    /// Outside of `touches`: they take part in no check.
    pub outside: Vec<UncommittedFile>,
}

impl UncommittedFiles {
    /// Returns one line per file, for the person at the gate.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if !self.inside.is_empty() {
            lines.push(
                "not committed and inside `touches`; no agent is credited with these files (commit \
                 them, stash them, or make them part of the base with `--include-uncommitted`):"
                    .to_owned(),
            );
            lines.extend(named(&self.inside).into_iter().map(|file| format!("  {file}")));
        }
        if !self.outside.is_empty() {
            lines.push(
                "not committed and outside of `touches`; no check uses these files (commit those that \
                 a check needs):"
                    .to_owned(),
            );
            lines.extend(named(&self.outside).into_iter().map(|file| format!("  {file}")));
        }
        lines
    }

    pub fn included(&self) -> Vec<IncludedFile> {
        let each =
            |file: &UncommittedFile| IncludedFile { path: file.path.clone(), sha256: file.sha256.clone() };
        self.inside.iter().map(each).collect()
    }
}

/// Returns why a plan cannot be approved because of these files.
pub(crate) fn refusal(files: &[UncommittedFile]) -> String {
    let (count, are) = match files.len() {
        1 => ("1 file".to_owned(), "is"),
        many => (format!("{many} files"), "are"),
    };
    let named = named(files).join(", ");
    format!("{count} inside `touches` {are} not committed and would be credited to the agent: {named}")
}

/// Returns what a person can do about them.
pub fn ways_out(files: &[UncommittedFile], branch: Option<&str>) -> String {
    let mut plans: Vec<&str> = files.iter().filter_map(|file| file.whose.done_plan()).collect();
    plans.sort_unstable();
    plans.dedup();
    let short = |branch: &str| branch.strip_prefix("refs/heads/").unwrap_or(branch).to_owned();
    let onto = branch.map(|branch| format!(" --branch {}", short(branch))).unwrap_or_default();
    let commits: String = plans
        .iter()
        .map(|plan| format!("`provost commit {plan}{onto}` commits the work of plan `{plan}`. "))
        .collect();
    format!(
        "Nothing was changed. {commits}Commit them (`git add`, `git commit`) or stash them (`git stash -u`). To make \
         them part of what you approve, `provost show --include-uncommitted`, then `provost approve \
         --include-uncommitted`."
    )
}

fn named(files: &[UncommittedFile]) -> Vec<String> {
    let more = files.len().saturating_sub(NAMED);
    let first = files.iter().take(NAMED).map(ToString::to_string);
    first.chain((more > 0).then(|| format!("and {more} more"))).collect()
}

/// Returns the included files that are still as approved; before the run starts, as they are now.
pub(crate) fn still_included(workspace: &Path, run: &Run) -> Vec<IncludedFile> {
    let paths: Vec<String> = run.binding.included.iter().map(|file| file.path.clone()).collect();
    let now = tree::digests(workspace, &paths);
    let each = run.binding.included.iter().zip(now);
    if run.started() {
        each.filter(|(file, now)| file.sha256 == *now).map(|(file, _)| file.clone()).collect()
    } else {
        each.map(|(file, now)| IncludedFile { path: file.path.clone(), sha256: now }).collect()
    }
}
