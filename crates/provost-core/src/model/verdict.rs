//! Verdicts: the results of checks.
//!
//! Every possible ending is in the type: a check that broke, timed out, was killed or never started has its
//! own variant, and each is handled differently.
//!
//! **Invariant:** only `Held` can pass a step, and only the judge creates verdicts.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use crate::model::check_environment::{CheckEnvironment, ToolVersion};
use crate::model::proof_map::ProvedShare;
use crate::model::test_results::TestSummary;
use crate::model::usage::Usage;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    pub outcome: CheckOutcome,
    /// The isolation level at which the check ran.
    pub isolation: Isolation,
    pub duration_ms: u64,
    /// The expectations that were not met, as written in the plan.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unmet: Vec<String>,
    #[serde(default, skip_serializing_if = "Excerpt::is_empty")]
    pub stdout: Excerpt,
    #[serde(default, skip_serializing_if = "Excerpt::is_empty")]
    pub stderr: Excerpt,
    /// The tree it ran on, if that was provost's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tree: Option<Box<Tree>>,
    /// Not run again: the same check already held on the same tree.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cached: bool,
    /// Dependencies that provost installed for this check alone, because the step changed a lock file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub provisioned: Vec<String>,
    /// Number of tests that its runner reported, if it starts a runner that reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tests: Option<u32>,
    /// Results of single tests, if its runners report them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test_results: Option<Box<TestSummary>>,
    /// Result of the negative control: whether the check notices a failing test.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub teeth: Option<Box<Teeth>>,
    /// Names of the test runners that reported themselves during the check.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub runners: Vec<String>,
    /// Why no negative control showed that the held check can fail.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uncontrolled: Option<String>,
    /// Result of a postcondition before the work, if provost checked that. For steps, the verdict of the
    /// control check has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_before: Option<bool>,
    /// The test files that the work changed, added or deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tests_changed: Option<Box<ChangedTests>>,
    /// Configuration of a test runner that the work changed as the plan allows, and without which the check
    /// does not hold.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rests_on: Vec<String>,
    /// A model judged it, not a command alone: the weaker kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judged: Option<Box<ModelJudgement>>,
    /// Usage of the model calls, also if no answer counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Box<Usage>>,
    /// The environment that provided the check's programs; mostly the same for all checks of a plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment: Option<Arc<CheckEnvironment>>,
    /// Share of the change that the contract proves, if the step demands one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proved: Option<Box<ProvedShare>>,
    /// What a test that the agent wrote notices when provost breaks the code, if the step has the agent write
    /// tests. Without it, the pass is self-checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tests_notice: Option<String>,
}

/// The result of a negative control: provost plants a failing test to see whether the check can fail.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Teeth {
    /// The place of the planted failing test, or the runner whose tests were changed; `None` if neither was
    /// possible.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub planted: Option<String>,
    /// The planted test made the check fail.
    pub bit: bool,
    /// Why nothing could be planted, or how the tests of the runner were changed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
}

/// Writes one line for people.
impl fmt::Display for Teeth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.planted, self.bit) {
            (Some(_), true) if !self.note.is_empty() => write!(f, "{}, and the check failed", self.note),
            (Some(_), false) if !self.note.is_empty() => write!(f, "{}, and the check still held", self.note),
            (Some(place), true) => write!(f, "a failing test planted in {place} made the check fail"),
            (Some(place), false) => {
                write!(f, "a failing test was planted in {place}, and the check still held")
            }
            (None, _) => write!(f, "no failing test could be planted: {}", self.note),
        }
    }
}

/// The tree of a check: the approved base, or what earlier steps made of it, with the agent's changes on top.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tree {
    pub base: String,
    /// The digest of the whole tree.
    pub id: String,
    /// The files imported from the agent, deletions included; a long list is cut.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
    /// Number of files beyond the list.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub files_more: u64,
    /// Files that were not imported, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<String>,
    /// The tree the attempt began with, if another process changed something since `base`. `files` are those
    /// that differ from it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<String>,
    /// Files in the tree that another process changed, not the attempt.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<String>,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub refused_more: u64,
    /// Paths inside `touches` that git ignores and that were not imported; a folder ends with a slash.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ignored: Vec<String>,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub ignored_more: u64,
}

/// Number of names shown in one line.
const NAMES_SHOWN: usize = 3;

impl Tree {
    /// Lists the work that did not get into the check, and what to do about it, one line each.
    pub fn left_behind(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if !self.refused.is_empty() {
            let some = listed(&self.refused, self.refused_more, "; ");
            lines.push(format!("not taken over: {some}"));
        }
        if !self.ignored.is_empty() {
            let some = listed(&self.ignored, self.ignored_more, ", ");
            lines.push(format!(
                "ignored by git, so not part of the check: {some}; name what the check needs in `touches`"
            ));
        }
        lines
    }
}

/// Joins the first names and the number of the others.
fn listed(names: &[String], uncounted: u64, between: &str) -> String {
    let plain = |name: &String| name.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
    let some: Vec<String> = names.iter().take(NAMES_SHOWN).map(plain).collect();
    let more = names.len().saturating_sub(NAMES_SHOWN) as u64 + uncounted;
    match more {
        0 => some.join(between),
        more => format!("{} and {more} more", some.join(between)),
    }
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl Verdict {
    pub fn held(&self) -> bool {
        matches!(self.outcome, CheckOutcome::Held)
    }

    /// Creates a verdict for a check that never ran.
    pub fn not_run(isolation: Isolation, reason: impl Into<String>) -> Self {
        Self::bare(isolation, CheckOutcome::NotRun { reason: reason.into() })
    }

    /// Creates a verdict with an outcome and nothing else.
    pub fn bare(isolation: Isolation, outcome: CheckOutcome) -> Self {
        Self {
            outcome,
            isolation,
            duration_ms: 0,
            unmet: Vec::new(),
            stdout: Excerpt::default(),
            stderr: Excerpt::default(),
            tree: None,
            cached: false,
            provisioned: Vec::new(),
            tests: None,
            test_results: None,
            teeth: None,
            runners: Vec::new(),
            uncontrolled: None,
            held_before: None,
            tests_changed: None,
            rests_on: Vec::new(),
            judged: None,
            usage: None,
            environment: None,
            proved: None,
            tests_notice: None,
        }
    }

    /// Creates a verdict for a check that already held on this tree and is not run again.
    pub fn known(isolation: Isolation, tree: &str) -> Self {
        let (base, id) = (tree.to_owned(), tree.to_owned());
        let tree = Tree { base, id, ..Tree::default() };
        Self { tree: Some(Box::new(tree)), cached: true, ..Self::bare(isolation, CheckOutcome::Held) }
    }

    /// Lists what a person should know about a pass, one fragment each. A missing control is reported
    /// elsewhere.
    pub fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        if !self.held() {
            return remarks;
        }
        remarks.extend(self.tests_changed.iter().map(|changed| changed.to_string()));
        if !self.rests_on.is_empty() {
            let names = first_names(&self.rests_on, self.rests_on.len());
            remarks.push(format!("it does not hold without the agent's {names}"));
        }
        remarks.extend(self.test_results.iter().flat_map(|results| results.remarks()));
        remarks.extend(self.proved.iter().map(|share| share.to_string()));
        remarks.extend(self.tests_notice.clone());
        remarks
    }

    /// Returns the id of the tree the check ran on, if that was provost's own.
    pub fn tree_id(&self) -> Option<&str> {
        self.tree.as_ref().map(|tree| tree.id.as_str())
    }

    /// Returns the id of the tree that the work was put on.
    pub fn base_id(&self) -> Option<&str> {
        self.tree.as_ref().map(|tree| tree.base.as_str())
    }

    /// Returns whether the verdict concerns the check and not the work; only the check is repeated then.
    pub fn is_of_the_check(&self) -> bool {
        matches!(self.outcome, CheckOutcome::Killed { .. } | CheckOutcome::Flaky { .. })
    }
}

/// The test files among the changed files.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangedTests {
    pub count: u32,
    /// The first of them; new and deleted files are labelled as such.
    pub files: Vec<String>,
}

/// Writes one fragment for people.
impl fmt::Display for ChangedTests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let files = if self.count == 1 { "file" } else { "files" };
        let names = first_names(&self.files, self.count as usize);
        write!(f, "the agent changed {} test {files}: {names}", self.count)
    }
}

/// Joins the first names and the number of the others.
fn first_names(names: &[String], count: usize) -> String {
    const SHOWN: usize = 5;
    let shown = names
        .iter()
        .take(SHOWN)
        .map(|name| crate::model::quote::one_line(name))
        .collect::<Vec<_>>()
        .join(", ");
    match count.saturating_sub(SHOWN.min(names.len())) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum CheckOutcome {
    Held,
    /// The check ran to its end and an expectation was not met.
    Broke {
        exit_code: i32,
    },
    TimedOut {
        after_ms: u64,
    },
    /// A signal that provost did not send ended it.
    Killed {
        signal: i32,
    },
    /// provost could not start it, or its environment was gone.
    NotRun {
        reason: String,
    },
    /// It held before any work was done, although it must not.
    Vacuous {
        reason: String,
    },
    /// A second run on the same inputs gave another result.
    Flaky {
        reason: String,
    },
    /// A protected file, the spec or provost itself was changed.
    Tampered {
        what: String,
    },
    /// It held on the tree of the attempt, but another step changed the same files meanwhile.
    Conflict {
        files: Vec<String>,
    },
}

impl CheckOutcome {
    /// Returns whether the outcome says something about the tree: the check ran, and nothing killed it.
    pub fn is_result(&self) -> bool {
        !matches!(self, CheckOutcome::NotRun { .. } | CheckOutcome::Killed { .. })
    }

    /// Returns the name for people and for `--json`.
    pub fn word(&self) -> &'static str {
        match self {
            CheckOutcome::Held => "held",
            CheckOutcome::Broke { .. } => "broke",
            CheckOutcome::TimedOut { .. } => "timed_out",
            CheckOutcome::Killed { .. } => "killed",
            CheckOutcome::NotRun { .. } => "not_run",
            CheckOutcome::Vacuous { .. } => "vacuous",
            CheckOutcome::Flaky { .. } => "flaky",
            CheckOutcome::Tampered { .. } => "tampered",
            CheckOutcome::Conflict { .. } => "conflict",
        }
    }
}

/// Writes one line for people.
impl fmt::Display for CheckOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CheckOutcome::Held => write!(f, "held"),
            CheckOutcome::Broke { exit_code } => write!(f, "broke: exit code {exit_code}"),
            CheckOutcome::TimedOut { after_ms } => {
                write!(f, "timed out after {:.1} s", *after_ms as f64 / 1000.0)
            }
            CheckOutcome::Killed { signal } => write!(f, "killed by signal {signal}"),
            CheckOutcome::NotRun { reason } => write!(f, "could not be run: {reason}"),
            CheckOutcome::Vacuous { reason } => write!(f, "vacuous: {reason}"),
            CheckOutcome::Flaky { reason } => write!(f, "flaky: {reason}"),
            CheckOutcome::Tampered { what } => write!(f, "tampered: {what}"),
            CheckOutcome::Conflict { files } => {
                write!(f, "conflict: another step changed {} meanwhile", files.join(", "))
            }
        }
    }
}

/// The isolation of the check from the agent, strongest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Isolation {
    /// A clean tree in a bubblewrap sandbox.
    #[serde(rename = "clean")]
    Clean,
    #[serde(rename = "landlock")]
    Landlock,
    /// Another user; no longer available. Old logs have it.
    #[serde(rename = "uid")]
    Uid,
    /// A clean tree without a kernel sandbox.
    #[serde(rename = "guard+clean")]
    GuardClean,
    /// A separate process in the agent's workspace.
    #[serde(rename = "in-place")]
    InPlace,
    #[serde(rename = "none")]
    None,
}

impl Isolation {
    /// Returns whether the check ran in a tree of provost's own, made from the approved base.
    pub fn has_clean_tree(self) -> bool {
        match self {
            Isolation::Clean | Isolation::Landlock | Isolation::Uid | Isolation::GuardClean => true,
            Isolation::InPlace | Isolation::None => false,
        }
    }

    /// Returns whether the kernel keeps the agent from the log, the key and the commands for people.
    pub fn has_fence(self) -> bool {
        match self {
            Isolation::Clean | Isolation::Landlock | Isolation::Uid => true,
            Isolation::GuardClean | Isolation::InPlace | Isolation::None => false,
        }
    }
}

impl fmt::Display for Isolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Isolation::Clean => "clean",
            Isolation::Landlock => "landlock",
            Isolation::Uid => "uid",
            Isolation::GuardClean => "guard+clean",
            Isolation::InPlace => "in-place",
            Isolation::None => "none",
        })
    }
}

/// The beginning and the end of an output, and its full length.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Excerpt {
    pub head: String,
    /// Empty if nothing was cut.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub tail: String,
    pub bytes: u64,
}

impl Excerpt {
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Creates an excerpt of an uncut text.
    pub fn whole(text: impl Into<String>) -> Self {
        let head = text.into();
        Self { bytes: head.len() as u64, head, tail: String::new() }
    }
}

impl fmt::Display for Excerpt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.head)?;
        if !self.tail.is_empty() {
            let left_out = self.bytes.saturating_sub((self.head.len() + self.tail.len()) as u64);
            write!(f, "\n[… {left_out} bytes left out …]\n{}", self.tail)?;
        }
        Ok(())
    }
}

/// The judgement of a model: which one judged, and its reasons.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelJudgement {
    pub role: String,
    /// The model, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<String>,
    /// provost found each of these quotations in its file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub citations: Vec<Citation>,
}

impl ModelJudgement {
    /// Names the judge, for people.
    pub fn by(&self) -> String {
        match &self.model {
            Some(model) => format!("judged by a model ({}, {model})", self.role),
            None => format!("judged by a model ({})", self.role),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Citation {
    pub file: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lines: Option<serde_json::Value>,
    pub quote: String,
}
