//! The parsed form of a plan.
//!
//! All of it is plain data with the byte span it was read from, so that a diagnostic can point at it and an
//! edit can replace exactly it.
//!
//! **Invariant:** a `Plan` holds nothing that is invisible in the rendered Markdown.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::model::named_check::NamedCheck;
use crate::model::pass::Pass;

mod expectation;

pub use expectation::{Expectation, Stream};

/// The known keys of a plan's frontmatter.
pub const FRONTMATTER_KEYS: [&str; 6] = ["type", "status", "owner", "depends_on", "touches", "require_red"];
/// The allowed values of `status`; provost writes it.
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

    /// Returns the empty span before byte `at`, for something that is missing there.
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

/// The number in a step's heading, counted from 1.
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
    /// The `status` value of the frontmatter, which provost owns; the span is the bytes between its quotes.
    pub status: Option<Spanned<String>>,
    pub owner: Option<Spanned<String>>,
    pub depends_on: Vec<Spanned<String>>,
    /// `None`: not declared, so the plan is never assumed safe to run beside other plans.
    pub touches: Option<Vec<Spanned<String>>>,
    /// A contract that holds before the work goes to a person before an agent works on the step.
    pub require_red: Option<Spanned<bool>>,
    pub context: Option<String>,
    pub priority: Option<String>,
    pub budget: Option<Spanned<Budget>>,
    pub steps: Vec<Step>,
    pub postconditions: Vec<Postcondition>,
    /// Checks of the configuration that contracts use, after their names were replaced by their commands.
    pub named_checks: BTreeMap<String, NamedCheck>,
}

impl Plan {
    pub fn step(&self, number: StepNumber) -> Option<&Step> {
        // Steps are numbered consecutively from 1 in every plan that verifies; search only if they are not.
        match self.steps.get((number.0 as usize).wrapping_sub(1)) {
            Some(step) if step.number == number => Some(step),
            _ => self.steps.iter().find(|step| step.number == number),
        }
    }

    /// Returns the commands of all checks: preconditions, contracts and postconditions.
    pub fn shells(&self) -> impl Iterator<Item = &Shell> {
        let of_steps = self.steps.iter().flat_map(|step| [&step.precondition, &step.contract]);
        let of_plan = self.postconditions.iter().map(|post| &post.contract);
        of_steps.chain(of_plan).flatten().filter_map(|contract| match &contract.check {
            Check::Shell(shell) => Some(shell),
            Check::Human | Check::Judge { .. } => None,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    pub number: StepNumber,
    /// The title without number, mark and "(depends on …)" note.
    pub title: String,
    /// The text of the heading, from the number to the end of the title.
    pub heading: Span,
    /// From the heading to the next step or section, or to the end of the plan.
    pub section: Span,
    pub mark: MarkPlace,
    pub target: Option<Spanned<String>>,
    pub needs: Needs,
    pub subscriptions: Vec<Spanned<Subscription>>,
    pub task: Option<Spanned<String>>,
    pub precondition: Option<Contract>,
    pub contract: Option<Contract>,
    /// Timeout of an attempt.
    pub timeout: Option<Spanned<Duration>>,
    /// Limit on what all attempts at the step use together.
    pub budget: Option<Spanned<Budget>>,
    /// Timeout of one run of the contract.
    pub contract_timeout: Option<Spanned<Duration>>,
    pub protect: Vec<Spanned<String>>,
    /// The part of the plan's `touches` that this step may change; all of it if not given. Two steps run in
    /// parallel only if both declare it and the globs cannot match a common path.
    pub touches: Option<Vec<Spanned<String>>>,
    pub network: Option<Spanned<bool>>,
    /// Names of the secrets that the checks of the step get.
    pub secrets: Vec<Spanned<String>>,
    /// Access rights of the agent of this step, if they differ from its role.
    pub agent_network: Option<Spanned<AgentNetwork>>,
    pub git: Option<Spanned<GitPolicy>>,
    pub hidden: Option<Spanned<bool>>,
    /// The kind of its own checks that the step is meant to write.
    pub writes: Option<Spanned<Writes>>,
    pub verify_runs: Option<Spanned<u32>>,
    /// `false`: the contract need not hold at the end of the plan. The default is `true`.
    pub lasting: Option<Spanned<bool>>,
    /// The contract is meant to hold before the work, and to keep holding.
    pub guard: Option<Spanned<bool>>,
    /// `true`: the contract has to prove all changed code. `false`: none, also if the configuration demands
    /// a share.
    pub prove: Option<Spanned<bool>>,
    /// The sub-plan that carries out the step.
    pub plan: Option<Spanned<String>>,
    /// Topics that its agent may publish to, for later steps.
    pub publishes: Vec<Spanned<String>>,
    pub on_fail: Option<Spanned<OnFail>>,
}

impl Step {
    /// Returns whether the contract is hidden from agents.
    pub fn is_hidden(&self) -> bool {
        self.hidden.as_ref().is_some_and(|hidden| hidden.value)
    }

    /// Returns whether a person decides the contract.
    pub fn is_confirmed_by_person(&self) -> bool {
        matches!(self.contract.as_ref().map(|contract| &contract.check), Some(Check::Human))
    }

    /// Returns the slug of the sub-plan that carries out the step, if there is one.
    pub fn carried_by(&self) -> Option<&str> {
        self.plan.as_ref().map(|plan| plan.value.as_str())
    }

    /// Returns whether the contract is meant to hold before the work too.
    pub fn is_guard(&self) -> bool {
        self.guard.as_ref().is_some_and(|guard| guard.value)
    }

    /// Returns the share of the changed code that the contract has to prove, in percent. `usual` is the
    /// share that the run policy demands.
    pub fn min_proved(&self, usual: Option<u8>) -> Option<u8> {
        match self.prove.as_ref().map(|prove| prove.value) {
            Some(true) => Some(100),
            Some(false) => None,
            None => usual,
        }
    }

    pub fn writes_tests(&self) -> bool {
        self.writes.as_ref().is_some_and(|writes| writes.value == Writes::Tests)
    }
}

/// Files that a step may write although its own contract depends on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writes {
    Tests,
}

/// The position of a step's mark in its heading, also if there is no mark yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MarkPlace {
    pub mark: Option<Mark>,
    /// The mark and the one space after it; empty if there is no mark.
    pub span: Span,
}

/// The mark that provost writes in front of a step's title.
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

/// The steps that a step waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Needs {
    /// Not given: all steps before it, so that a plan runs in the order it is written.
    Before,
    /// Exactly these; with an empty list (`**needs:** none`) the step may start at once.
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
    /// The whole field or list item.
    pub span: Span,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Check {
    Shell(Shell),
    /// A person confirms; a weaker kind, and shown as such.
    Human,
    /// A model of another role decides by this rubric; a weaker kind, and shown as such.
    Judge {
        rubric: String,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shell {
    /// The text passed to `bash -c`, with CRLF read as LF.
    pub command: String,
    /// The lines between the code fences.
    pub body: Span,
    /// All of these must be met. If none concerns the exit code, `exit_code == 0` is added.
    pub expectations: Vec<Spanned<Expectation>>,
}

impl Shell {
    /// Returns `unit` for the command `check:unit`, which means the command of `[checks.unit]`.
    pub fn check_name(&self) -> Option<&str> {
        let name = self.command.trim().strip_prefix("check:")?;
        let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        (!name.is_empty() && name.chars().all(is_word)).then_some(name)
    }

    /// Returns whether the contract holds if its command fails; a failing test then does not break it.
    pub fn is_meant_to_fail(&self) -> bool {
        self.expectations.iter().any(|each| match each.value {
            Expectation::ExitIs(code) => code != 0,
            Expectation::ExitIsNot(code) => code == 0,
            _ => false,
        })
    }

    /// Returns whether an expectation is about single tests.
    pub fn expects_tests(&self) -> bool {
        self.expectations.iter().any(|each| each.value.is_about_tests())
    }

    /// Returns whether tests may fail if they failed before the work.
    pub fn allows_earlier_failures(&self) -> bool {
        self.expectations
            .iter()
            .any(|each| matches!(each.value, Expectation::NoNewFailures | Expectation::TestsFixed { .. }))
    }

    /// Returns whether the contract expects a certain output, and so identifies the failure it means.
    pub fn names_its_failure(&self) -> bool {
        self.expectations.iter().any(|each| match &each.value {
            Expectation::Contains { text, .. } => !text.is_empty(),
            Expectation::Matches { pattern, .. } => !pattern.is_empty(),
            _ => false,
        })
    }
}

/// Recovery after an attempt's contract did not hold, in the written order.
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

/// Spending limits of a plan or a step; each part is optional.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Budget {
    pub tokens: Option<u64>,
    pub micro_usd: Option<u64>,
    pub wall: Option<Duration>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentNetwork {
    /// Only the API of the model, through provost's proxy.
    #[default]
    Model,
    On,
    Off,
}

impl AgentNetwork {
    pub const ALL: [AgentNetwork; 3] = [AgentNetwork::Model, AgentNetwork::On, AgentNetwork::Off];

    /// Returns the word used in plans and in the configuration.
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
    /// A clone with only the history of the base; commits made there are discarded with it.
    #[default]
    Clone,
    None,
    /// The repository itself, without the files from which git runs programs.
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
