//! The state of a plan: folded from its events, with queries on it.
//!
//! Only events change a run: [`Run::apply`] applies one, `tick` adds the time it became durable. Reading a
//! log from its start gives the same run on every machine and after every crash.
//!
//! **Invariant:** `apply` decides nothing. If two runs differ, their logs differ.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::Serialize;

use crate::language::parse;
use crate::model::approved_spec::{self, Binding};
use crate::model::check_author::CheckAuthor;
use crate::model::escalation::EscalationCause;
use crate::model::event::{Approver, Event, OutsidePath, Revision, Summary};
use crate::model::hash::Hash;
use crate::model::pass::Pass;
use crate::model::plan::{Check, Mark, OnFail, Plan, Shell, Step, StepNumber};
use crate::model::run_policy::Quorum;
use crate::model::timestamp::Timestamp;
use crate::model::verdict::{CheckEnvironment, Isolation, Verdict};
use crate::state::spending::UsageLedger;

mod area;
mod fold;
mod passes;
mod ready;
mod sent_trees;
mod since_approval;
mod step_run;

use area::Areas;
pub(crate) use fold::CONFIRMED;
use ready::ReadySteps;
pub use sent_trees::RemoteWork;
use sent_trees::SentTrees;
pub use step_run::{Conversation, StepRun, StepState, Wait};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    #[default]
    Draft,
    Verified,
    Approved,
    InProgress,
    Done,
    Failed,
}

impl Stage {
    pub const ALL: [Stage; 6] =
        [Stage::Draft, Stage::Verified, Stage::Approved, Stage::InProgress, Stage::Done, Stage::Failed];

    /// Returns the word used in the frontmatter and in `--json`.
    pub fn word(self) -> &'static str {
        match self {
            Stage::Draft => "draft",
            Stage::Verified => "verified",
            Stage::Approved => "approved",
            Stage::InProgress => "in-progress",
            Stage::Done => "done",
            Stage::Failed => "failed",
        }
    }
}

impl Run {
    /// Returns whether this text has the spec of the run.
    pub fn has_spec(&self, text: &str) -> bool {
        has_spec(self.law, &self.text, &self.plan, text)
    }
}

/// Returns whether `other` has the spec with this digest, which is that of `text`.
pub fn has_spec(law: Option<Hash>, text: &str, plan: &Plan, other: &str) -> bool {
    let statuses = Stage::ALL.map(Stage::word);
    law.is_some()
        && (approved_spec::is_marked(text, plan, other, &statuses)
            || law == Some(approved_spec::digest(other, &parse::plan(other).plan)))
}

/// A question of a person about one step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepQuestion {
    pub step: StepNumber,
    pub question: String,
    pub by: String,
    /// The revision that was asked about.
    pub revision: Revision,
}

/// The state of a plan according to its log.
#[derive(Clone, Debug, Default)]
pub struct Run {
    /// Sequence number of the last applied event.
    pub seq: u64,
    /// Times of the first and the last applied event, if the log has one.
    pub begun: Option<Timestamp>,
    pub moved: Option<Timestamp>,
    pub text: String,
    pub plan: Arc<Plan>,
    pub law: Option<Hash>,
    pub revision: Revision,
    pub binding: Binding,
    pub stage: Stage,
    /// The approver whose vote completed the quorum.
    pub approved_by: Option<Approver>,
    /// No person approved the plan, and the agent that does the work wrote its checks.
    pub checks_unread: bool,
    /// Digests of those checks that a person trusts anyway.
    trusted_checks: Vec<String>,
    /// Authors of the checks that no person wrote, by the digests of the checks.
    check_authors: BTreeMap<String, CheckAuthor>,
    /// All approvers of this revision, whether or not they complete the quorum.
    pub approvals: Vec<Approver>,
    /// The author of the text, if the log names one.
    pub author: Option<String>,
    /// Quorum that applied to the last approved revision.
    pub(crate) held_to: Option<Quorum>,
    /// The revision for which approval was last requested.
    pub requested: Option<Revision>,
    pub question: Option<String>,
    /// Questions about single steps, oldest first; also those about earlier revisions.
    pub step_questions: Vec<StepQuestion>,
    pub rejection: Option<(Revision, String)>,
    /// The isolation level that the last run attested.
    pub isolation: Option<Isolation>,
    pub require_red: bool,
    /// The agent works in its own client, outside of any sandbox.
    pub agent_outside: bool,
    /// The tree left by the last step that passed; the base of the next step.
    pub tree: Option<String>,
    /// Trees on a git remote, if trees are sent between machines.
    sent: SentTrees,
    /// The last attempt in the workspace: the trees it began with and left.
    pub last: Option<LastAttempt>,
    /// Some contract is hidden from agents.
    pub hides: bool,
    /// Some step declares `touches` and may run in its own worktree.
    pub has_areas: bool,
    /// A step was waived, or confirmed by a person, since provost last recorded that tree: there may be newer
    /// work.
    unseen_work: bool,
    /// The round of final checks. Each pass and each new spec begins a new round, in which all of them run again.
    final_round: u32,
    /// No step before this index still needs its final check.
    final_from: usize,
    /// Digests of the checks that held on `tree`.
    held_on_tree: Vec<Hash>,
    /// Steps with a dispatched attempt whose end is not in the log, even if the spec changed since.
    pub at_work: BTreeSet<StepNumber>,
    /// The first event that another process wrote into the log, if provost found one.
    pub forged_from: Option<u64>,
    /// Differences between the plan file and the approved spec that stopped a run.
    pub law_changed: Option<Vec<String>>,
    /// Changes of agents outside of `touches` since the last approval, by step and attempt.
    pub outside: Vec<(StepNumber, u32, OutsidePath)>,
    /// The binding of the revision that was approved last.
    pub approved: Option<Binding>,
    /// A person leaves the plan failed, although a postcondition could be checked again.
    pub given_up: bool,
    /// Roles whose quota is exhausted, until a person lets them continue.
    pub halted: BTreeSet<String>,
    /// Spent and reserved amounts, and how long provost worked.
    pub ledger: UsageLedger,
    /// The branch and the commit as which it landed, since it was last done.
    pub landed: Option<LandedCommit>,
    /// Number of retries.
    retries: u32,
    /// Number of attempts that the plan may still make.
    attempts_left: u64,
    /// The environment of the last check that is remembered.
    environment: Option<Arc<CheckEnvironment>>,
    /// The tree the first attempt began with, since the base was last approved.
    pub began_with: Option<String>,
    steps: Vec<StepRun>,
    postconditions: Vec<PostState>,
    ready: ReadySteps,
    areas: Areas,
}

/// The branch and commit of a landed plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LandedCommit {
    pub target: String,
    pub commit: String,
}

/// The last attempt in the workspace, even if the plan changed since.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastAttempt {
    pub step: StepNumber,
    /// The tree it began with.
    pub start: String,
    /// The tree it left, after it ended.
    pub left: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PostState {
    Open,
    Held(Box<Verdict>),
    Broke(Box<Verdict>),
}

impl Run {
    /// Builds the state from a whole log.
    pub fn fold<'a>(events: impl IntoIterator<Item = &'a Event>) -> Self {
        let mut run = Run::default();
        for event in events {
            run.apply(event);
        }
        run
    }

    pub fn exists(&self) -> bool {
        self.law.is_some()
    }

    /// Returns whether any attempt was dispatched, under this or an earlier revision.
    pub fn started(&self) -> bool {
        self.steps.iter().any(|step| step.attempts > 0)
    }

    pub fn step(&self, number: StepNumber) -> Option<&StepRun> {
        self.steps.get((number.0 as usize).wrapping_sub(1))
    }

    pub fn steps(&self) -> impl Iterator<Item = (&Step, &StepRun)> {
        self.plan.steps.iter().zip(&self.steps)
    }

    pub fn postconditions(&self) -> impl Iterator<Item = (&crate::model::plan::Postcondition, &PostState)> {
        self.plan.postconditions.iter().zip(&self.postconditions)
    }

    pub fn postcondition(&self, number: u32) -> Option<&PostState> {
        self.postconditions.get((number as usize).wrapping_sub(1))
    }

    /// Returns pending steps whose needs are met, in plan order.
    pub fn ready(&self) -> impl Iterator<Item = StepNumber> {
        self.ready.steps.iter().copied()
    }

    /// Returns ready steps in critical-path order (longest remaining chain first).
    pub fn ready_by_length(&self) -> impl Iterator<Item = StepNumber> {
        self.ready.longest.iter().map(|(_, number)| *number)
    }

    pub fn is_ready(&self, number: StepNumber) -> bool {
        self.ready.steps.contains(&number)
    }

    /// Returns steps with an attempt that is not judged yet, in order.
    pub fn under_way(&self) -> impl Iterator<Item = StepNumber> {
        self.ready.under_way.iter().copied()
    }

    /// Returns whether every step has passed or was waived.
    pub fn all_settled(&self) -> bool {
        !self.steps.is_empty() && self.ready.settled as usize == self.steps.len()
    }

    pub fn any_blocked(&self) -> bool {
        self.ready.blocked > 0
    }

    pub fn any_failed(&self) -> bool {
        self.ready.failed > 0
    }

    /// Returns the number of passed or waived steps, and the number of all steps.
    pub fn progress(&self) -> (u32, u32) {
        (self.ready.settled, self.steps.len() as u32)
    }

    pub fn on_fail(&self, number: StepNumber) -> OnFail {
        self.plan
            .step(number)
            .and_then(|step| step.on_fail.as_ref())
            .map(|on_fail| on_fail.value.clone())
            .unwrap_or_default()
    }

    /// Returns how many attempts the plan may still make.
    pub fn attempts_left(&self) -> u64 {
        self.attempts_left
    }

    /// Returns how many attempts at a step the plan may still make.
    pub fn attempts_left_at(&self, number: StepNumber) -> u64 {
        let Some(state) = self.step(number) else { return 0 };
        let again = u64::from(self.on_fail(number).retries.saturating_sub(state.failures));
        match state.state {
            StepState::Passed | StepState::Waived { .. } => 0,
            StepState::Running { .. } | StepState::Ended { .. } => again,
            StepState::Pending | StepState::Failed | StepState::Blocked { .. } => again + 1,
        }
    }

    pub fn title(&self, number: StepNumber) -> Option<&str> {
        self.plan.step(number).map(|step| step.title.as_str())
    }

    pub fn summary(&self) -> Summary {
        let count = |wanted: fn(&StepState) -> bool| {
            self.steps.iter().filter(|step| wanted(&step.state)).count() as u32
        };
        let passes = self.passes_by_kind();
        Summary {
            completed: count(|state| matches!(state, StepState::Passed)),
            failed: count(|state| matches!(state, StepState::Failed)),
            skipped: count(|state| matches!(state, StepState::Waived { .. })),
            confirmed: passes.count(Pass::Confirmed),
            judged: passes.count(Pass::Judged),
            self_checked: passes.count(Pass::SelfChecked),
            held_before: passes.count(Pass::HeldBefore),
            uncontrolled: self.uncontrolled(),
            postconditions_held_before: self.postconditions_held_before(),
            retries: self.retries,
            cost: self.ledger.cost(),
        }
    }

    /// Returns the role that carries out the step: its target, or the role chosen instead.
    pub fn role(&self, number: StepNumber) -> &str {
        if let Some(role) = self.step(number).and_then(|step| step.role.as_deref()) {
            return role;
        }
        let target = self.plan.step(number).and_then(|step| step.target.as_ref());
        target.map_or("", |target| target.value.as_str())
    }

    /// Returns the sub-plan that carries out the step, if there is one.
    pub fn carried_by(&self, number: StepNumber) -> Option<&str> {
        self.plan.step(number).and_then(Step::carried_by)
    }

    /// Returns whether the step waits only for its sub-plan.
    pub fn waits_for_its_plan(&self, number: StepNumber) -> bool {
        let state = self.step(number).map(|step| &step.state);
        self.carried_by(number).is_some()
            && matches!(state, Some(StepState::Blocked { cause: EscalationCause::SubplanWaits, .. }))
    }

    /// Returns whether the step's contract held on the combined result of all steps, or needs no final check.
    pub fn is_final(&self, number: StepNumber) -> bool {
        let lasts = self.plan.step(number).is_some_and(|step| {
            let shell = matches!(step.contract.as_ref().map(|c| &c.check), Some(Check::Shell(_)));
            shell && step.lasting.as_ref().is_none_or(|lasting| lasting.value)
        });
        let step = self.step(number);
        let passed = step.is_some_and(|step| step.state == StepState::Passed);
        !lasts || !passed || step.is_some_and(|step| step.finally == Some(self.final_round))
    }

    /// Returns the steps whose final check has not held yet, in order.
    pub fn to_be_final(&self) -> impl Iterator<Item = StepNumber> {
        let all = self.plan.steps.get(self.final_from..).unwrap_or_default();
        all.iter().map(|step| step.number).filter(|number| !self.is_final(*number))
    }

    /// Returns whether work since the last recorded tree takes part in the final checks.
    pub fn has_unseen_work(&self) -> bool {
        self.unseen_work || self.tree.is_none()
    }

    /// Returns whether this check held on the current tree.
    pub fn held_on_tree(&self, check: &Shell) -> bool {
        self.tree.is_some()
            && !self.has_unseen_work()
            && self.held_on_tree.contains(&approved_spec::check_digest(check))
    }

    /// Returns whether the verdict is for another tree than the current one.
    pub fn is_behind(&self, verdict: &Verdict) -> bool {
        let base = verdict.base_id();
        self.tree.is_some() && base.is_some() && base != self.tree.as_deref()
    }

    pub fn is_held_apart(&self, number: StepNumber) -> bool {
        self.step(number).is_some_and(|step| step.held_apart)
    }

    /// Returns whether checks run in a tree of provost's own, so that the base can be checked first.
    pub fn has_clean_tree(&self) -> bool {
        self.isolation.is_some_and(Isolation::has_clean_tree)
    }

    /// Returns whether a person decides the step's contract.
    pub fn confirmed_by_person(&self, number: StepNumber) -> bool {
        self.plan.step(number).is_some_and(Step::is_confirmed_by_person)
    }

    /// Returns whether the agent has ended and only a person's confirmation is missing.
    pub fn is_being_confirmed(&self, number: StepNumber) -> bool {
        let state = self.step(number).map(|step| &step.state);
        self.confirmed_by_person(number) && matches!(state, Some(StepState::Ended { .. }))
    }

    /// Returns whether provost must still check if the contract held before the work.
    pub fn lacks_control(&self, number: StepNumber) -> bool {
        self.has_clean_tree()
            && self.checked_by_command(number)
            && self.step(number).is_some_and(|step| step.held_before.is_none())
    }

    /// Returns the trees that the last attempt at a step began with and left. Files in the left tree do not
    /// count as another process's changes.
    pub fn last_attempt(&self, number: StepNumber) -> Option<(&str, Option<&str>)> {
        let of_step = self.step(number).and_then(|step| Some((&step.start.as_ref()?.tree, &step.left)));
        // If the text of the step changed, only the run remembers its last attempt.
        let last = self.last.as_ref().filter(|last| last.step == number);
        let (start, left) = of_step.or_else(|| last.map(|last| (&last.start, &last.left)))?;
        Some((start, left.as_deref()))
    }

    /// Returns whether a command alone decides the step, neither a person nor a model.
    pub fn checked_by_command(&self, number: StepNumber) -> bool {
        let contract = self.plan.step(number).and_then(|step| step.contract.as_ref());
        !matches!(contract.map(|contract| &contract.check), Some(Check::Human | Check::Judge { .. }))
    }

    /// Returns whether a contract that holds before the work is not enough to pass this step.
    pub fn is_red_first(&self, number: StepNumber) -> bool {
        let written = self.plan.require_red.as_ref().is_some_and(|red| red.value);
        let wanted = self.require_red || self.binding.terms.require_red || written;
        let guards = self.plan.step(number).is_some_and(Step::is_guard);
        wanted && !guards && !self.step(number).is_some_and(|step| step.held_before_accepted)
    }

    /// Returns whether the step waits for a person because its contract already holds.
    pub fn holds_already(&self, number: StepNumber) -> bool {
        let state = self.step(number).map(|step| &step.state);
        matches!(state, Some(StepState::Blocked { cause: EscalationCause::HoldsAlready, .. }))
    }

    /// Returns whether the plan was approved although no person has read its checks, and a person may still
    /// do so.
    pub fn is_unread(&self) -> bool {
        let open = matches!(self.stage, Stage::Approved | Stage::InProgress);
        open && self.checks_unread && self.quorum().is_usual()
    }

    /// Returns the state of a step in words; for a weaker pass, its kind.
    pub fn word(&self, number: StepNumber) -> String {
        let weaker = self.pass(number).filter(|pass| *pass != Pass::Verified);
        let word = weaker.map_or_else(|| self.state_word(number), Pass::word);
        let is_uncontrolled = self.step(number).is_some_and(StepRun::is_uncontrolled);
        if is_uncontrolled { format!("{word}, uncontrolled") } else { word.to_owned() }
    }

    /// Returns the mark in front of the step's title.
    pub fn mark(&self, number: StepNumber) -> Option<Mark> {
        match self.step(number)?.state {
            StepState::Pending => None,
            StepState::Running { .. } | StepState::Ended { .. } => Some(Mark::Running),
            StepState::Passed => Some(Mark::Passed(self.pass(number).unwrap_or(Pass::Verified))),
            StepState::Failed => Some(Mark::Failed),
            StepState::Blocked { .. } => Some(Mark::Blocked),
            StepState::Waived { .. } => Some(Mark::Waived),
        }
    }

    /// Returns what passed steps published to a topic, in the order of the plan.
    pub fn posts<'r>(&'r self, topic: &'r str) -> impl Iterator<Item = (StepNumber, &'r str)> {
        let passed = self.steps().filter(|(_, step)| step.state == StepState::Passed);
        let posts = passed.flat_map(|(step, run)| run.posts.iter().map(move |post| (step.number, post)));
        posts.filter(move |(_, post)| post.topic == topic).map(|(number, post)| (number, post.text.as_str()))
    }

    /// Returns the state as `--json` writes it.
    pub fn state_word(&self, number: StepNumber) -> &'static str {
        match self.step(number).map(|step| &step.state) {
            None | Some(StepState::Pending) => "pending",
            Some(StepState::Ended { .. }) if self.confirmed_by_person(number) => "claimed",
            Some(StepState::Running { .. } | StepState::Ended { .. }) => "in_progress",
            Some(StepState::Passed) => "passed",
            Some(StepState::Failed) => "failed",
            Some(StepState::Blocked { .. }) => "blocked",
            Some(StepState::Waived { .. }) => "waived",
        }
    }
}
