//! What the judge saw.
//!
//! The whole space of endings is in the type: a check that broke, one that ran out of time, one that
//! was killed and one that never started are different things and are answered differently.
//!
//! **Invariant:** only `Held` can pass a step, and nothing but the judge makes a verdict.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::model::usage::Usage;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    pub outcome: Outcome,
    /// Where and behind which fence the check ran.
    pub isolation: Isolation,
    pub duration_ms: u64,
    /// The expectations that were not met, as written in the plan.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unmet: Vec<String>,
    #[serde(default, skip_serializing_if = "Excerpt::is_empty")]
    pub stdout: Excerpt,
    #[serde(default, skip_serializing_if = "Excerpt::is_empty")]
    pub stderr: Excerpt,
    /// What it ran against, where that was a tree of the harness's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tree: Option<Box<Tree>>,
    /// Not run again: the same check held on the very same tree a moment ago.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cached: bool,
    /// What was put in place for this check alone, because the step changed a lock file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub provisioned: Vec<String>,
    /// How many tests its runner said were run, where it starts one that says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tests: Option<u32>,
    /// Whether it would have noticed a failing test, where that was tried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub teeth: Option<Box<Teeth>>,
    /// The test runners that reported themselves while it ran, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub runners: Vec<String>,
    /// It held, and no control showed that it can fail: why not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uncontrolled: Option<String>,
    /// Whether a postcondition held before the work too, where that was looked at. For steps the verdict of
    /// their control says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_before: Option<bool>,
    /// The test files that the work changed, added or deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tests_changed: Option<Box<TestsChanged>>,
    /// Configuration of a test runner that the work changed, as the plan allows by name, and without which
    /// the check does not hold.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rests_on: Vec<String>,
    /// A model judged, and no command alone: the weaker kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judged: Option<Box<Judgement>>,
    /// What asking the model used, also where no answer of it counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Box<Usage>>,
    /// Where the check found its programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment: Option<Box<Environment>>,
}

/// Where a check found its programs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Environment {
    /// Digest of the variables, and of the names, sizes and times of the files in these folders.
    pub sha256: String,
    /// The entries of `PATH`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub path: Vec<String>,
    /// Folders that a check sees beside the system's, for these programs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub folders: Vec<String>,
}

impl Environment {
    /// What differs between two, in a few words; nothing where they are the same.
    pub fn difference(&self, other: &Environment) -> Option<String> {
        if self.sha256 == other.sha256 {
            return None;
        }
        let only = |these: &Environment, those: &Environment| {
            let folders = these.path.iter().filter(|folder| !those.path.contains(folder));
            folders.cloned().collect::<Vec<_>>().join(", ")
        };
        Some(match (only(self, other), only(other, self)) {
            (gone, come) if gone.is_empty() && come.is_empty() => {
                "programs on `PATH` were changed, or `PATH` has another order".to_owned()
            }
            (gone, come) if come.is_empty() => format!("`PATH` no longer has {gone}"),
            (gone, come) if gone.is_empty() => format!("`PATH` also has {come}"),
            (gone, come) => format!("`PATH` no longer has {gone}, and also has {come}"),
        })
    }
}

/// A check that cannot fail is no check: what was tried to make it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Teeth {
    /// Where a failing test was planted, or the runner whose tests were changed; nothing, if none could be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub planted: Option<String>,
    /// The planted test turned the check red.
    pub bit: bool,
    /// Why nothing could be planted; or what was done to the tests of the runner.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
}

/// One line for people.
impl fmt::Display for Teeth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.planted, self.bit) {
            (Some(_), true) if !self.note.is_empty() => write!(f, "{}, and it broke", self.note),
            (Some(_), false) if !self.note.is_empty() => write!(f, "{}, and it held all the same", self.note),
            (Some(place), true) => write!(f, "a failing test planted in {place} turned it red"),
            (Some(place), false) => {
                write!(f, "a failing test was planted in {place} and it held all the same")
            }
            (None, _) => write!(f, "no failing test could be planted: {}", self.note),
        }
    }
}

/// The base a person approved, or what the steps before left of it, and what the agent put on top.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tree {
    pub base: String,
    /// The digest of the whole tree.
    pub id: String,
    /// The files taken over from the agent, deletions included; a long list is cut.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
    /// How many more there are than the list has.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub files_more: u64,
    /// What was not taken over, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<String>,
    /// The tree the attempt began with, where somebody else had changed something since `base`. The files are
    /// those that differ from it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<String>,
    /// What somebody else had changed: in the tree, and not of the attempt's doing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<String>,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub refused_more: u64,
    /// What git ignores inside `touches`, and was not taken over; a folder ends with a slash.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ignored: Vec<String>,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub ignored_more: u64,
}

/// So many names stand in a line for people.
const NAMES_SHOWN: usize = 3;

impl Tree {
    /// What of the work did not get into the check, and the way out, in a line each.
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

/// The first names, and how many more there are.
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
        matches!(self.outcome, Outcome::Held)
    }

    /// A check that never ran.
    pub fn not_run(isolation: Isolation, reason: impl Into<String>) -> Self {
        Self::bare(isolation, Outcome::NotRun { reason: reason.into() })
    }

    /// An outcome with nothing seen beside it.
    pub fn bare(isolation: Isolation, outcome: Outcome) -> Self {
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
            teeth: None,
            runners: Vec::new(),
            uncontrolled: None,
            held_before: None,
            tests_changed: None,
            rests_on: Vec::new(),
            judged: None,
            usage: None,
            environment: None,
        }
    }

    /// The same check held on this very tree before, and is not run again.
    pub fn known(isolation: Isolation, tree: &str) -> Self {
        let (base, id) = (tree.to_owned(), tree.to_owned());
        let tree = Tree { base, id, ..Tree::default() };
        Self { tree: Some(Box::new(tree)), cached: true, ..Self::bare(isolation, Outcome::Held) }
    }

    /// What a person should know about a pass beside that it held, a fragment for each. That it is
    /// uncontrolled is said apart.
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
        remarks
    }

    /// The id of the tree it was found on, where that was the harness's own.
    pub fn tree_id(&self) -> Option<&str> {
        self.tree.as_ref().map(|tree| tree.id.as_str())
    }

    /// The id of the tree that the work was put on.
    pub fn base_id(&self) -> Option<&str> {
        self.tree.as_ref().map(|tree| tree.base.as_str())
    }

    /// It says something about the check, not about the work: the check is tried again, not the agent.
    pub fn is_of_the_check(&self) -> bool {
        matches!(self.outcome, Outcome::Killed { .. } | Outcome::Flaky { .. })
    }
}

/// Test files among the files that the work changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TestsChanged {
    pub count: u32,
    /// The first of them; what is new or deleted says so.
    pub files: Vec<String>,
}

/// One fragment for people.
impl fmt::Display for TestsChanged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let files = if self.count == 1 { "file" } else { "files" };
        let names = first_names(&self.files, self.count as usize);
        write!(f, "the agent changed {} test {files}: {names}", self.count)
    }
}

/// The first names, and how many more there are.
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
pub enum Outcome {
    Held,
    /// It ran to its end and an expectation was not met.
    Broke {
        exit_code: i32,
    },
    TimedOut {
        after_ms: u64,
    },
    /// A signal the harness did not send ended it.
    Killed {
        signal: i32,
    },
    /// It could not be started, or its surroundings were gone.
    NotRun {
        reason: String,
    },
    /// It held before any work was done, where it must not.
    Vacuous {
        reason: String,
    },
    /// A second run on the same inputs disagreed with the first.
    Flaky {
        reason: String,
    },
    /// A protected file, the law or the harness was touched.
    Tampered {
        what: String,
    },
    /// It held where the work was made, and another step changed the same files meanwhile.
    Conflict {
        files: Vec<String>,
    },
}

impl Outcome {
    /// The name people see and `--json` prints.
    pub fn word(&self) -> &'static str {
        match self {
            Outcome::Held => "held",
            Outcome::Broke { .. } => "broke",
            Outcome::TimedOut { .. } => "timed_out",
            Outcome::Killed { .. } => "killed",
            Outcome::NotRun { .. } => "not_run",
            Outcome::Vacuous { .. } => "vacuous",
            Outcome::Flaky { .. } => "flaky",
            Outcome::Tampered { .. } => "tampered",
            Outcome::Conflict { .. } => "conflict",
        }
    }
}

/// One line for people.
impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Outcome::Held => write!(f, "held"),
            Outcome::Broke { exit_code } => write!(f, "broke: exit code {exit_code}"),
            Outcome::TimedOut { after_ms } => write!(f, "timed out after {:.1} s", *after_ms as f64 / 1000.0),
            Outcome::Killed { signal } => write!(f, "killed by signal {signal}"),
            Outcome::NotRun { reason } => write!(f, "could not be run: {reason}"),
            Outcome::Vacuous { reason } => write!(f, "vacuous: {reason}"),
            Outcome::Flaky { reason } => write!(f, "flaky: {reason}"),
            Outcome::Tampered { what } => write!(f, "tampered: {what}"),
            Outcome::Conflict { files } => {
                write!(f, "conflict: another step changed {} meanwhile", files.join(", "))
            }
        }
    }
}

/// How far the check was out of the agent's reach, strongest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Isolation {
    /// A clean tree behind bubblewrap.
    #[serde(rename = "clean")]
    Clean,
    #[serde(rename = "landlock")]
    Landlock,
    #[serde(rename = "uid")]
    Uid,
    /// A clean tree, no kernel fence.
    #[serde(rename = "guard+clean")]
    GuardClean,
    /// A process of its own in the agent's workspace.
    #[serde(rename = "in-place")]
    InPlace,
    #[serde(rename = "none")]
    None,
}

impl Isolation {
    /// The check ran in a tree of the harness's own, made of the approved base.
    pub fn has_clean_tree(self) -> bool {
        match self {
            Isolation::Clean | Isolation::Landlock | Isolation::Uid | Isolation::GuardClean => true,
            Isolation::InPlace | Isolation::None => false,
        }
    }

    /// The kernel keeps the agent from the log, the key and the doors of people.
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

/// The beginning and the end of an output, and how long it really was.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Excerpt {
    pub head: String,
    /// Empty when nothing was left out.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub tail: String,
    pub bytes: u64,
}

impl Excerpt {
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Nothing was left out.
    pub fn whole(text: impl Into<String>) -> Self {
        let head = text.into();
        let bytes = head.len() as u64;
        Self { head, tail: String::new(), bytes }
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
pub struct Judgement {
    pub role: String,
    /// The model, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<String>,
    /// The harness found each of these quotations in its file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub citations: Vec<Citation>,
}

impl Judgement {
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
