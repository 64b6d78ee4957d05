//! What a plan is, once its text has been read.
//!
//! Everything here is plain data with the byte span it was read from, so that a diagnostic can
//! point at it and an edit can touch exactly it.
//!
//! **Invariant:** a `Plan` holds nothing a reader of the rendered Markdown could not see.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::model::pass::Pass;

/// The keys a plan's frontmatter knows.
pub const FRONTMATTER_KEYS: [&str; 6] = ["type", "status", "owner", "depends_on", "touches", "require_red"];
/// The words `status` may be; the harness writes it.
pub const STATUSES: [&str; 6] = ["draft", "verified", "approved", "in-progress", "done", "failed"];

/// A range of bytes in the plan's text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Span {
    pub start: usize,
    pub end: usize,
}

impl Span {
    pub fn new(start: usize, end: usize) -> Self {
        Self { start, end }
    }

    /// The empty span before byte `at`: where something is missing.
    pub fn at(at: usize) -> Self {
        Self { start: at, end: at }
    }

    pub fn is_empty(&self) -> bool {
        self.start >= self.end
    }

    pub fn of<'t>(&self, text: &'t str) -> &'t str {
        text.get(self.start..self.end).unwrap_or("")
    }
}

impl From<std::ops::Range<usize>> for Span {
    fn from(range: std::ops::Range<usize>) -> Self {
        Self { start: range.start, end: range.end }
    }
}

/// A value and the bytes it was read from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spanned<T> {
    pub value: T,
    pub span: Span,
}

impl<T> Spanned<T> {
    pub fn new(value: T, span: Span) -> Self {
        Self { value, span }
    }
}

/// The number a step carries in its heading, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct StepNumber(pub u32);

impl fmt::Display for StepNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    pub title: String,
    /// The `status` scalar of the frontmatter, which the harness owns: the bytes between its quotes.
    pub status: Option<Spanned<String>>,
    pub owner: Option<Spanned<String>>,
    pub depends_on: Vec<Spanned<String>>,
    /// `None`: not declared, so never assumed safe beside other plans.
    pub touches: Option<Vec<Spanned<String>>>,
    /// Red first: a contract that holds before the work is shown to a person before an agent works on it.
    pub require_red: Option<Spanned<bool>>,
    pub context: Option<String>,
    pub priority: Option<String>,
    pub budget: Option<Spanned<Budget>>,
    pub steps: Vec<Step>,
    pub postconditions: Vec<Postcondition>,
}

impl Plan {
    pub fn step(&self, number: StepNumber) -> Option<&Step> {
        // Steps are consecutive from 1 in every plan that verifies; search only when they are not.
        match self.steps.get((number.0 as usize).wrapping_sub(1)) {
            Some(step) if step.number == number => Some(step),
            _ => self.steps.iter().find(|step| step.number == number),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    pub number: StepNumber,
    /// Without its number, its mark and a "(depends on …)" note.
    pub title: String,
    /// The heading's text on its line, from the number to the end of the title.
    pub heading: Span,
    /// From the heading to the next step, section or the end.
    pub section: Span,
    pub mark: MarkPlace,
    pub target: Option<Spanned<String>>,
    pub needs: Needs,
    pub subscriptions: Vec<Spanned<Subscription>>,
    pub task: Option<Spanned<String>>,
    pub precondition: Option<Contract>,
    pub contract: Option<Contract>,
    /// How long an attempt may take.
    pub timeout: Option<Spanned<Duration>>,
    /// What all attempts at the step may use together.
    pub budget: Option<Spanned<Budget>>,
    /// How long one run of the contract may take.
    pub contract_timeout: Option<Spanned<Duration>>,
    pub protect: Vec<Spanned<String>>,
    /// What of the plan's `touches` this step may change; all of it, where it says nothing. Two steps run
    /// side by side only where both say so and have no path in common.
    pub touches: Option<Vec<Spanned<String>>>,
    pub network: Option<Spanned<bool>>,
    /// Names of secrets its checks are given.
    pub secrets: Vec<Spanned<String>>,
    /// What the agent of this step may reach, where the step says otherwise than its role.
    pub agent_network: Option<Spanned<AgentNetwork>>,
    pub git: Option<Spanned<GitPolicy>>,
    pub hidden: Option<Spanned<bool>>,
    /// What of its own checks the step is there to write.
    pub writes: Option<Spanned<Writes>>,
    pub verify_runs: Option<Spanned<u32>>,
    /// Whether the contract still holds when the plan is done; it does, where nothing is said.
    pub lasting: Option<Spanned<bool>>,
    /// The contract is meant to hold before the work, and to go on holding.
    pub guard: Option<Spanned<bool>>,
    /// The step is carried out by this other plan.
    pub plan: Option<Spanned<String>>,
    /// Topics its agent may write to, for the steps after it.
    pub publishes: Vec<Spanned<String>>,
    pub on_fail: Option<Spanned<OnFail>>,
}

impl Step {
    /// The contract is kept from agents.
    pub fn is_hidden(&self) -> bool {
        self.hidden.as_ref().is_some_and(|hidden| hidden.value)
    }

    /// The check is a person's word.
    pub fn is_confirmed_by_person(&self) -> bool {
        matches!(self.contract.as_ref().map(|contract| &contract.check), Some(Check::Human))
    }

    /// The slug of the plan that carries the step out, where one does.
    pub fn carried_by(&self) -> Option<&str> {
        self.plan.as_ref().map(|plan| plan.value.as_str())
    }

    /// The contract is meant to hold before the work too.
    pub fn is_guard(&self) -> bool {
        self.guard.as_ref().is_some_and(|guard| guard.value)
    }

    pub fn writes_tests(&self) -> bool {
        self.writes.as_ref().is_some_and(|writes| writes.value == Writes::Tests)
    }
}

/// What a step may write that its own contract rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writes {
    Tests,
}

/// Where a step's mark stands in its heading, or would stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MarkPlace {
    pub mark: Option<Mark>,
    /// The mark and the one space after it; empty when there is none.
    pub span: Span,
}

/// What the harness writes in front of a step's title.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mark {
    Passed(Pass),
    Failed,
    Blocked,
    Running,
    Waived,
}

impl Mark {
    pub const ALL: [Mark; 9] = [
        Mark::Passed(Pass::Verified),
        Mark::Passed(Pass::Confirmed),
        Mark::Passed(Pass::Judged),
        Mark::Passed(Pass::SelfChecked),
        Mark::Passed(Pass::HeldBefore),
        Mark::Failed,
        Mark::Blocked,
        Mark::Running,
        Mark::Waived,
    ];

    pub fn symbol(self) -> &'static str {
        match self {
            Mark::Passed(pass) => pass.mark(),
            Mark::Failed => "❌",
            Mark::Blocked => "⛔",
            Mark::Running => "⏳",
            Mark::Waived => "⏭",
        }
    }
}

/// What a step waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Needs {
    /// Nothing was said: every step before it, so that a plan runs in the order it is written.
    Before,
    /// Exactly these; an empty list (`**needs:** none`) may start at once.
    Steps(Vec<Spanned<StepNumber>>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subscription {
    File(String),
    Topic(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Postcondition {
    pub number: u32,
    pub description: String,
    pub contract: Option<Contract>,
    pub span: Span,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contract {
    pub check: Check,
    /// The field, or the list item, as a whole.
    pub span: Span,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Check {
    Shell(Shell),
    /// A person confirms: weaker, and shown as weaker.
    Human,
    /// A model of another role decides by this rubric: weaker, and shown as weaker.
    Judge {
        rubric: String,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shell {
    /// What `bash -c` is given, with CRLF read as LF.
    pub command: String,
    /// The lines between the fences.
    pub body: Span,
    /// All of these must be met; `exit_code == 0` is meant where none speaks of the exit code.
    pub expectations: Vec<Spanned<Expectation>>,
}

impl Shell {
    /// The contract holds when its command fails, so a failing test does not turn it red.
    pub fn is_meant_to_fail(&self) -> bool {
        self.expectations.iter().any(|each| match each.value {
            Expectation::ExitIs(code) => code != 0,
            Expectation::ExitIsNot(code) => code == 0,
            Expectation::Contains { .. } | Expectation::Matches { .. } | Expectation::Empty { .. } => false,
        })
    }

    /// The contract expects a certain output, and so says which failure it means.
    pub fn names_its_failure(&self) -> bool {
        self.expectations.iter().any(|each| match &each.value {
            Expectation::Contains { text, .. } => !text.is_empty(),
            Expectation::Matches { pattern, .. } => !pattern.is_empty(),
            Expectation::ExitIs(_) | Expectation::ExitIsNot(_) | Expectation::Empty { .. } => false,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expectation {
    ExitIs(i32),
    ExitIsNot(i32),
    Contains {
        stream: Stream,
        text: String,
    },
    /// A regular expression that was compiled once by the parser and found valid.
    Matches {
        stream: Stream,
        pattern: String,
    },
    Empty {
        stream: Stream,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    Stdout,
    Stderr,
}

impl fmt::Display for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Stream::Stdout => "stdout",
            Stream::Stderr => "stderr",
        })
    }
}

/// As it is written in the plan.
impl fmt::Display for Expectation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Expectation::ExitIs(code) => write!(f, "exit_code == {code}"),
            Expectation::ExitIsNot(code) => write!(f, "exit_code != {code}"),
            Expectation::Contains { stream, text } => write!(f, "{stream} contains \"{text}\""),
            Expectation::Matches { stream, pattern } => write!(f, "{stream} matches /{pattern}/"),
            Expectation::Empty { stream } => write!(f, "{stream} is empty"),
        }
    }
}

/// What happens when an attempt's contract did not hold, in the order written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OnFail {
    pub retries: u32,
    pub then: Then,
}

impl Default for OnFail {
    fn default() -> Self {
        Self { retries: 2, then: Then::Escalate }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    Escalate,
    Abort,
    /// The person who approved the plan waived the step in advance.
    Skip,
}

impl fmt::Display for OnFail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.retries > 0 {
            write!(f, "retry({}), then ", self.retries)?;
        }
        f.write_str(match self.then {
            Then::Escalate => "escalate",
            Then::Abort => "abort",
            Then::Skip => "skip",
        })
    }
}

/// What a plan or a step may spend; each part is optional.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Budget {
    pub tokens: Option<u64>,
    pub micro_usd: Option<u64>,
    pub wall: Option<Duration>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentNetwork {
    /// The model's API and nothing else, through the harness's proxy.
    #[default]
    Model,
    On,
    Off,
}

impl AgentNetwork {
    pub const ALL: [AgentNetwork; 3] = [AgentNetwork::Model, AgentNetwork::On, AgentNetwork::Off];

    /// As it is written in plans and in the configuration.
    pub fn word(self) -> &'static str {
        match self {
            AgentNetwork::Model => "model",
            AgentNetwork::On => "on",
            AgentNetwork::Off => "off",
        }
    }

    pub fn named(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|each| each.word().eq_ignore_ascii_case(word))
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GitPolicy {
    /// A clone with the base's history alone; what is committed there goes with it.
    #[default]
    Clone,
    None,
    /// The repository itself, less what git would run from it.
    Shared,
}

impl GitPolicy {
    pub const ALL: [GitPolicy; 3] = [GitPolicy::Clone, GitPolicy::None, GitPolicy::Shared];

    pub fn word(self) -> &'static str {
        match self {
            GitPolicy::Clone => "clone",
            GitPolicy::None => "none",
            GitPolicy::Shared => "shared",
        }
    }

    pub fn named(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|each| each.word().eq_ignore_ascii_case(word))
    }
}
