//! The state of a plan: the fold of its events, and questions about it.
//!
//! [`Run::apply`] is the only thing that changes a run, and it only ever looks at an event. Reading a
//! log from its start gives the same run on every machine and after every crash.
//!
//! **Invariant:** `apply` decides nothing. If two runs differ, their logs differ.

use std::collections::BTreeSet;

use crate::chain::{Hash, Timestamp};
use crate::event::{
    Approver, AttemptEnd, Breach, Choice, Event, FailureClass, Revision, RunOutcome, Scope, Subject, Summary,
};
use crate::law::{self, Binding};
use crate::ledger::Ledger;
use crate::parse;
use crate::plan::{Budget, Check, Mark, Needs, OnFail, Plan, Shell, Step, StepNumber};
use crate::usage::Amount;
use crate::verdict::{Excerpt, Isolation, Outcome, Verdict};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
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

    /// As it stands in the frontmatter and in `--json`.
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

/// A plan as the log knows it.
#[derive(Clone, Debug, Default)]
pub struct Run {
    /// The sequence number of the last event that was applied.
    pub seq: u64,
    pub text: String,
    pub plan: Plan,
    pub law: Option<Hash>,
    pub revision: Revision,
    pub binding: Binding,
    pub stage: Stage,
    pub approved_by: Option<Approver>,
    /// The revision the gate was last opened for.
    pub requested: Option<Revision>,
    pub question: Option<String>,
    pub rejection: Option<(Revision, String)>,
    /// The level the last run attested.
    pub isolation: Option<Isolation>,
    pub require_red: bool,
    /// The tree the last step that passed left; the next step's base.
    pub tree: Option<String>,
    /// Some contract is kept from agents.
    pub hides: bool,
    /// A step was let go, or confirmed by a person, since that tree was seen: there may be more to see.
    unseen_work: bool,
    /// How often a step has passed: what was found finally before the last time is worth nothing.
    passes: u32,
    /// No step before this one has to be looked at finally.
    final_from: usize,
    /// The checks that held on `tree`, by their digest.
    held_on_tree: Vec<Hash>,
    /// Steps an agent was given and whose attempt has not ended in the log, whatever became of the law.
    pub at_work: BTreeSet<StepNumber>,
    /// The first event that somebody else than the harness wrote into the log, once that was found.
    pub forged_from: Option<u64>,
    /// A person leaves the plan failed, though a postcondition could be looked at again.
    pub given_up: bool,
    /// Roles that have nothing left to spend, until a person says otherwise.
    pub halted: BTreeSet<String>,
    /// What was spent and is held, and for how long the harness was at work.
    pub ledger: Ledger,
    /// How often something was tried again.
    retries: u32,
    steps: Vec<StepRun>,
    postconditions: Vec<PostState>,
    ready: Ready,
}

/// What happened to a step.
#[derive(Clone, Debug)]
pub struct StepRun {
    pub state: StepState,
    /// Attempts dispatched in all.
    pub attempts: u32,
    /// Attempts whose contract did not hold since the last fresh start.
    pub failures: u32,
    /// Attempts lost to crashes in a row.
    pub losses: u32,
    /// What the judge saw last; output only where it did not hold.
    pub verdict: Option<Verdict>,
    /// What the agent said last.
    pub claim: Option<String>,
    pub precondition_held: bool,
    /// Whether the contract held before any work was done, once that was looked at.
    pub held_before: Option<bool>,
    /// How many passes there had been when the contract was last seen to hold at the end.
    finally: Option<u32>,
    /// How many tests it ran then, where that is known.
    pub tests_before: Option<u32>,
    /// How the last attempt ended, and the agent's last words where they are no claim.
    pub ended: Option<(AttemptEnd, String)>,
    /// Of what kind the last failure was, and its fingerprint.
    pub failed_as: Option<FailureClass>,
    pub fingerprint: Option<String>,
    /// The recipe that was applied last, and how often in a row.
    pub recipe: Option<(String, u32)>,
    /// Nothing is tried before this is over.
    pub wait: Option<Wait>,
    /// The role that carries it out, where that is not its own.
    pub role: Option<String>,
    /// It waits because a budget ran out: its own, or the plan's.
    pub over_budget: Option<Box<Breach>>,
    digest: Hash,
}

/// A pause that is in the log: a harness that starts anew waits for what is left of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    pub until: Timestamp,
    pub whole_ms: u64,
}

impl Wait {
    /// Also where more is left than there was: the clock was set back, and nobody waits for that.
    pub fn over(self, now: Timestamp) -> bool {
        let left = self.until.0.saturating_sub(now.0);
        left == 0 || left > self.whole_ms
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StepState {
    Pending,
    /// An attempt was dispatched and its end is not in the log.
    Running {
        attempt: u32,
    },
    /// The agent is gone; the judge has the word.
    Ended {
        attempt: u32,
    },
    Passed,
    Failed,
    /// A person decides.
    Blocked {
        reason: String,
    },
    Waived {
        by: String,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PostState {
    Open,
    Held,
    Broke(Box<Verdict>),
}

/// Which pending steps have everything they need, kept up to date in constant time per event.
#[derive(Clone, Debug, Default)]
struct Ready {
    steps: BTreeSet<StepNumber>,
    /// Running or ended, not judged.
    under_way: BTreeSet<StepNumber>,
    /// How many needs of each step are still open.
    open_needs: Vec<u32>,
    /// Who waits for each step by name.
    waiters: Vec<Vec<u32>>,
    /// How many steps from the first on are over without a gap.
    prefix: usize,
    settled: u32,
    failed: u32,
    blocked: u32,
}

impl Run {
    /// Reads a whole log.
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

    /// Some attempt was dispatched under this or an earlier revision.
    pub fn started(&self) -> bool {
        self.steps.iter().any(|step| step.attempts > 0)
    }

    pub fn step(&self, number: StepNumber) -> Option<&StepRun> {
        self.steps.get((number.0 as usize).wrapping_sub(1))
    }

    pub fn steps(&self) -> impl Iterator<Item = (&crate::plan::Step, &StepRun)> {
        self.plan.steps.iter().zip(&self.steps)
    }

    pub fn postconditions(&self) -> impl Iterator<Item = (&crate::plan::Postcondition, &PostState)> {
        self.plan.postconditions.iter().zip(&self.postconditions)
    }

    pub fn postcondition(&self, number: u32) -> Option<&PostState> {
        self.postconditions.get((number as usize).wrapping_sub(1))
    }

    /// Pending steps whose needs are met, in order.
    pub fn ready(&self) -> impl Iterator<Item = StepNumber> {
        self.ready.steps.iter().copied()
    }

    /// Steps with an attempt that is not judged yet, in order.
    pub fn under_way(&self) -> impl Iterator<Item = StepNumber> {
        self.ready.under_way.iter().copied()
    }

    /// Every step has passed or was waived by a person.
    pub fn all_settled(&self) -> bool {
        !self.steps.is_empty() && self.ready.settled as usize == self.steps.len()
    }

    pub fn any_blocked(&self) -> bool {
        self.ready.blocked > 0
    }

    pub fn any_failed(&self) -> bool {
        self.ready.failed > 0
    }

    /// Passed or waived, of all.
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

    pub fn title(&self, number: StepNumber) -> Option<&str> {
        self.plan.step(number).map(|step| step.title.as_str())
    }

    pub fn summary(&self) -> Summary {
        let count = |wanted: fn(&StepState) -> bool| {
            self.steps.iter().filter(|step| wanted(&step.state)).count() as u32
        };
        Summary {
            completed: count(|state| matches!(state, StepState::Passed)),
            failed: count(|state| matches!(state, StepState::Failed)),
            skipped: count(|state| matches!(state, StepState::Waived { .. })),
            retries: self.retries,
            cost: self.ledger.cost(),
        }
    }

    /// Who carries the step out: its target, or the role that was chosen instead.
    pub fn role(&self, number: StepNumber) -> &str {
        if let Some(role) = self.step(number).and_then(|step| step.role.as_deref()) {
            return role;
        }
        let target = self.plan.step(number).and_then(|step| step.target.as_ref());
        target.map_or("", |target| target.value.as_str())
    }

    /// The contract of this step was seen to hold on what all steps left together, or says nothing there.
    pub fn is_final(&self, number: StepNumber) -> bool {
        let lasts = self.plan.step(number).is_some_and(|step| {
            let shell = matches!(step.contract.as_ref().map(|c| &c.check), Some(Check::Shell(_)));
            shell && step.lasting.as_ref().is_none_or(|lasting| lasting.value)
        });
        let step = self.step(number);
        let passed = step.is_some_and(|step| step.state == StepState::Passed);
        !lasts || !passed || step.is_some_and(|step| step.finally == Some(self.passes))
    }

    /// Steps whose contract has still to be seen to hold at the end, in order.
    pub fn to_be_final(&self) -> impl Iterator<Item = StepNumber> {
        let all = self.plan.steps.get(self.final_from..).unwrap_or_default();
        all.iter().map(|step| step.number).filter(|number| !self.is_final(*number))
    }

    /// What the agents left since the last tree that was seen takes part in the final checks.
    pub fn has_unseen_work(&self) -> bool {
        self.unseen_work || self.tree.is_none()
    }

    /// This very check held on the tree as it is now.
    pub fn held_on_tree(&self, check: &Shell) -> bool {
        self.tree.is_some()
            && !self.has_unseen_work()
            && self.held_on_tree.contains(&law::check_digest(check))
    }

    /// Checks run in a tree of the harness's own, so that there is a base to look at first.
    pub fn has_clean_tree(&self) -> bool {
        self.isolation.is_some_and(Isolation::has_clean_tree)
    }

    /// The step's check is a person's word.
    pub fn confirmed_by_person(&self, number: StepNumber) -> bool {
        let contract = self.plan.step(number).and_then(|step| step.contract.as_ref());
        matches!(contract.map(|contract| &contract.check), Some(Check::Human))
    }

    /// What stands in front of the step's title.
    pub fn mark(&self, number: StepNumber) -> Option<Mark> {
        match self.step(number)?.state {
            StepState::Pending => None,
            StepState::Running { .. } | StepState::Ended { .. } => Some(Mark::Running),
            StepState::Passed => Some(Mark::Passed),
            StepState::Failed => Some(Mark::Failed),
            StepState::Blocked { .. } => Some(Mark::Blocked),
            StepState::Waived { .. } => Some(Mark::Waived),
        }
    }

    /// As `--json` says it.
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

    /// An event and the time at which it became durable.
    pub fn apply_at(&mut self, event: &Event, at: Timestamp) {
        self.apply(event);
        self.tick(event, at);
    }

    /// An event that was applied became durable. Those of one append have one time.
    pub fn tick(&mut self, event: &Event, at: Timestamp) {
        let busy = self.is_busy();
        self.ledger.tick(event, at, busy);
    }

    /// There is something to do for the harness, and not only for a person.
    fn is_busy(&self) -> bool {
        let confirming = |number: &StepNumber| {
            let state = self.step(*number).map(|step| &step.state);
            self.confirmed_by_person(*number) && matches!(state, Some(StepState::Ended { .. }))
        };
        let open = matches!(self.stage, Stage::Approved | Stage::InProgress);
        let asked = self.any_failed() || self.any_blocked() || self.under_way().any(|step| confirming(&step));
        let at_work = !self.at_work.is_empty() || self.under_way().any(|step| !confirming(&step));
        let stopped = self.any_failed() || self.any_blocked() || self.ready.steps.is_empty();
        open && (at_work || !(asked && stopped))
    }

    pub fn apply(&mut self, event: &Event) {
        self.seq += 1;
        self.ledger.hear(event);
        match event {
            Event::PlanCreated { text, revision, base, files, terms, .. }
            | Event::PlanRewritten { text, revision, base, files, terms, .. } => {
                let binding = Binding { base: base.clone(), files: files.clone(), terms: terms.clone() };
                self.take_law(text, revision, binding);
            }
            Event::PlanVerified { .. } => self.stage = Stage::Verified,
            Event::ApprovalRequested { revision, .. } => self.requested = Some(revision.clone()),
            Event::Approved { by, .. } => {
                self.stage = if self.started() { Stage::InProgress } else { Stage::Approved };
                self.approved_by = Some(by.clone());
                self.question = None;
                self.rejection = None;
            }
            Event::Rejected { revision, reason, .. } => {
                self.rejection = Some((revision.clone(), reason.clone()));
                self.withdraw();
            }
            Event::QuestionAsked { question, .. } => {
                self.question = Some(question.clone());
                self.stage = self.stage.min(Stage::Verified);
                self.approved_by = None;
            }
            Event::IsolationAttested { level, require_red, .. } => {
                if self.isolation != Some(*level) {
                    self.held_on_tree.clear();
                }
                self.isolation = Some(*level);
                self.require_red = *require_red;
                // A new run: what an earlier one had begun is over, or is judged first.
                self.at_work.clear();
            }
            Event::StepStarted { step, attempt, .. } => {
                self.stage = Stage::InProgress;
                self.at_work.insert(*step);
                self.set_state(*step, StepState::Running { attempt: *attempt });
                if let Some(step) = self.step_mut(*step) {
                    step.attempts = *attempt;
                    step.claim = None;
                    step.ended = None;
                    step.wait = None;
                }
            }
            Event::StepClaimed { step, evidence } => {
                if let Some(step) = self.step_mut(*step) {
                    step.claim = Some(evidence.clone());
                }
            }
            Event::AttemptEnded { step, attempt, end, report, .. } => {
                self.at_work.remove(step);
                if let Some(step) = self.step_mut(*step) {
                    step.losses = 0;
                    step.ended = Some((end.clone(), report.clone()));
                }
                self.set_state(*step, StepState::Ended { attempt: *attempt });
            }
            Event::AttemptLost { step, cause, .. } => {
                self.at_work.remove(step);
                if let (Some(step), crate::event::LossCause::Crash) = (self.step_mut(*step), cause) {
                    step.losses += 1;
                }
                self.set_state(*step, StepState::Pending);
            }
            Event::Judged { subject, verdict, .. } => self.judged(*subject, verdict),
            Event::StepPassed { step, tree, .. } => {
                self.at_work.remove(step);
                self.set_state(*step, StepState::Passed);
                if let Some(step) = self.step_mut(*step) {
                    (step.ended, step.fingerprint, step.wait) = (None, None, None);
                }
                self.passes += 1;
                self.final_from = 0;
                self.unseen_work = tree.is_none();
                if tree.is_some() && *tree != self.tree {
                    self.tree.clone_from(tree);
                    self.held_on_tree.clear();
                }
                self.remember_held(Subject::Contract(*step));
            }
            Event::StepFailed { step, .. } => self.set_state(*step, StepState::Failed),
            Event::StepWaived { step, by, .. } => {
                self.set_state(*step, StepState::Waived { by: by.clone() });
                self.unseen_work = true;
            }
            Event::FailureDetected { step, fingerprint, .. } => {
                if let Some(step) = self.step_mut(*step) {
                    step.failures += 1;
                    step.fingerprint.clone_from(fingerprint);
                    step.wait = None;
                }
            }
            Event::FailureClassified { step, failure_type, halts, .. } => {
                self.halted.extend(halts.clone());
                if let Some(step) = self.step_mut(*step) {
                    step.failed_as = Some(*failure_type);
                }
            }
            Event::RecoveryApplied { step, recipe_name, not_before, wait_ms, check_again, role, .. } => {
                self.retries += 1;
                self.try_again(*step, *check_again);
                if let Some(step) = self.step_mut(*step) {
                    let before = step.recipe.as_ref().filter(|(name, _)| name == recipe_name);
                    step.recipe = Some((recipe_name.clone(), before.map_or(0, |(_, times)| *times) + 1));
                    step.wait = not_before.map(|until| Wait { until, whole_ms: *wait_ms });
                    if role.is_some() {
                        step.role.clone_from(role);
                    }
                }
            }
            Event::Escalated { step: Some(step), reason } => {
                self.set_state(*step, StepState::Blocked { reason: reason.clone() });
            }
            Event::BudgetExceeded { step, breach } => {
                self.set_state(*step, StepState::Blocked { reason: breach.to_string() });
                if let Some(step) = self.step_mut(*step) {
                    step.over_budget = Some(breach.clone());
                }
            }
            Event::Answered { step, choice, budget, .. } => {
                let over =
                    step.and_then(|number| Some((number, self.step(number)?.over_budget.as_ref()?.scope)));
                match over {
                    Some((number, scope)) => self.answered_budget(number, scope, *choice, *budget),
                    None => self.answered(*step, *choice),
                }
            }
            Event::RunEnded { outcome, .. } => {
                self.stage = match outcome {
                    RunOutcome::Done => Stage::Done,
                    RunOutcome::Failed => Stage::Failed,
                };
            }
            // Kept for people; they change nothing that is decided.
            Event::PermissionRequired { .. }
            | Event::Escalated { step: None, .. }
            | Event::LawChanged { .. }
            | Event::TamperDetected { from_seq: None, .. } => {}
            Event::TamperDetected { from_seq: Some(from), .. } => {
                self.forged_from = Some(self.forged_from.map_or(*from, |known| known.min(*from)));
            }
        }
    }

    /// An event that is not believed: it has its place in the log and no effect.
    pub fn pass_over(&mut self) {
        self.seq += 1;
    }

    fn withdraw(&mut self) {
        self.stage = Stage::Draft;
        self.approved_by = None;
        self.requested = None;
    }

    /// A new law. Steps whose own text is the same keep what they have achieved.
    fn take_law(&mut self, text: &str, revision: &Revision, binding: Binding) {
        let plan = parse::plan(text).plan;
        self.ledger.new_law(|scope| written(&self.plan, scope) != written(&plan, scope));
        let before = std::mem::take(&mut self.steps);
        self.steps = plan
            .steps
            .iter()
            .map(|step| {
                let digest = law::step_digest(text, step);
                let index = (step.number.0 as usize).wrapping_sub(1);
                match before.get(index) {
                    Some(known) if known.digest == digest => known.under_new_law(),
                    // Attempts are counted on, so that a late word of an old one fits no new one.
                    Some(known) => StepRun { attempts: known.attempts, ..StepRun::new(digest) },
                    None => StepRun::new(digest),
                }
            })
            .collect();
        self.postconditions = vec![PostState::Open; plan.postconditions.len()];
        self.law = Some(law::digest(text, &plan));
        self.text = text.to_owned();
        self.hides = plan.steps.iter().any(Step::is_hidden);
        self.plan = plan;
        self.revision = revision.clone();
        self.binding = binding;
        // The base is the newly approved one; what passed steps left is taken over from the workspace.
        self.tree = None;
        self.held_on_tree.clear();
        self.question = None;
        self.given_up = false;
        self.withdraw();
        self.ready = Ready::new(&self.plan, &self.steps);
    }

    fn judged(&mut self, subject: Subject, verdict: &Verdict) {
        match subject {
            Subject::Precondition(number) => {
                if let Some(step) = self.step_mut(number) {
                    step.precondition_held = verdict.held();
                    step.verdict = Some(remembered(verdict));
                }
            }
            Subject::Control(number) => {
                let ran = !matches!(verdict.outcome, Outcome::NotRun { .. });
                if let Some(step) = self.step_mut(number).filter(|_| ran) {
                    step.held_before = Some(verdict.held());
                    step.tests_before = verdict.tests;
                }
            }
            Subject::Contract(number) => {
                if let Some(step) = self.step_mut(number) {
                    step.verdict = Some(remembered(verdict));
                }
            }
            Subject::Final(number) => {
                let passes = self.passes;
                if let Some(step) = self.step_mut(number) {
                    if verdict.held() {
                        step.finally = Some(passes);
                    } else {
                        step.verdict = Some(remembered(verdict));
                    }
                }
                self.seen_finally(subject, verdict);
                while self.final_from < self.steps.len()
                    && self.is_final(StepNumber(self.final_from as u32 + 1))
                {
                    self.final_from += 1;
                }
            }
            Subject::Postcondition(number) => {
                let index = (number as usize).wrapping_sub(1);
                if let Some(post) = self.postconditions.get_mut(index) {
                    *post = if verdict.held() {
                        PostState::Held
                    } else {
                        PostState::Broke(Box::new(remembered(verdict)))
                    };
                }
                self.seen_finally(subject, verdict);
            }
        }
    }

    /// What held finally is the tree from now on.
    fn seen_finally(&mut self, subject: Subject, verdict: &Verdict) {
        let Some(tree) = verdict.tree_id().filter(|_| verdict.held()) else { return };
        self.unseen_work = false;
        if self.tree.as_deref() != Some(tree) {
            self.tree = Some(tree.to_owned());
            self.held_on_tree.clear();
        }
        self.remember_held(subject);
    }

    fn remember_held(&mut self, subject: Subject) {
        let contract = match subject {
            Subject::Contract(number) | Subject::Final(number) => {
                self.plan.step(number).and_then(|step| step.contract.as_ref())
            }
            Subject::Postcondition(number) => {
                let found = self.plan.postconditions.iter().find(|post| post.number == number);
                found.and_then(|post| post.contract.as_ref())
            }
            Subject::Precondition(_) | Subject::Control(_) => None,
        };
        if let (Some(Check::Shell(shell)), true) =
            (contract.map(|contract| &contract.check), self.tree.is_some())
        {
            self.held_on_tree.push(law::check_digest(shell));
        }
    }

    /// The check once more where the check was at fault, the agent otherwise.
    fn try_again(&mut self, number: StepNumber, check_again: bool) {
        let of_the_check = self.step(number).is_some_and(|step| {
            step.attempts > 0 && (check_again || step.verdict.as_ref().is_some_and(Verdict::is_of_the_check))
        });
        let attempt = self.step(number).map_or(0, |step| step.attempts);
        let state = if of_the_check { StepState::Ended { attempt } } else { StepState::Pending };
        self.set_state(number, state);
    }

    /// Nothing failed: with what a person allows, the step goes on where it stood.
    fn answered_budget(&mut self, number: StepNumber, scope: Scope, choice: Choice, limits: Amount) {
        let whose = match scope {
            Scope::Plan => None,
            Scope::Step => Some(number),
        };
        self.ledger.answered(whose, choice, limits);
        if let Some(step) = self.step_mut(number).filter(|_| choice != Choice::Revise) {
            step.over_budget = None;
        }
        match choice {
            Choice::Retry => self.set_state(number, StepState::Pending),
            Choice::Skip | Choice::Abort | Choice::Revise | Choice::Confirm => {
                self.answered(Some(number), choice);
            }
        }
    }

    fn answered(&mut self, step: Option<StepNumber>, choice: Choice) {
        match (choice, step) {
            (Choice::Retry, Some(number)) => {
                self.try_again(number, false);
                let role = self.role(number).to_owned();
                self.halted.remove(&role);
                if let Some(step) = self.step_mut(number) {
                    step.failures = 0;
                    step.losses = 0;
                    step.fingerprint = None;
                    step.recipe = None;
                    step.wait = None;
                    step.role = None;
                    step.precondition_held = false;
                    step.verdict = None;
                }
                self.stage = Stage::InProgress;
            }
            (Choice::Retry, None) => {
                for post in &mut self.postconditions {
                    *post = PostState::Open;
                }
                self.given_up = false;
                // A person may have mended it by hand: everything is looked at anew.
                self.unseen_work = true;
                self.passes += 1;
                self.final_from = 0;
                self.stage = Stage::InProgress;
            }
            (Choice::Skip, Some(_)) => self.stage = Stage::InProgress,
            (Choice::Revise, _) => self.withdraw(),
            (Choice::Abort, None) => self.given_up = true,
            (Choice::Skip, None) | (Choice::Abort, Some(_)) | (Choice::Confirm, _) => {}
        }
    }

    fn step_mut(&mut self, number: StepNumber) -> Option<&mut StepRun> {
        self.steps.get_mut((number.0 as usize).wrapping_sub(1))
    }

    fn set_state(&mut self, number: StepNumber, state: StepState) {
        let index = (number.0 as usize).wrapping_sub(1);
        let Some(step) = self.steps.get_mut(index) else { return };
        let before = std::mem::replace(&mut step.state, state);
        self.ready.moved(index, &before, &self.steps, &self.plan);
    }
}

impl StepRun {
    fn new(digest: Hash) -> Self {
        Self {
            state: StepState::Pending,
            attempts: 0,
            failures: 0,
            losses: 0,
            verdict: None,
            claim: None,
            precondition_held: false,
            held_before: None,
            finally: None,
            tests_before: None,
            ended: None,
            failed_as: None,
            fingerprint: None,
            recipe: None,
            wait: None,
            role: None,
            over_budget: None,
            digest,
        }
    }
}

impl StepRun {
    /// What was achieved or is under way stays; what failed or waited starts afresh, since a person
    /// has looked at the plan since.
    fn under_new_law(&self) -> Self {
        match self.state {
            StepState::Passed
            | StepState::Waived { .. }
            | StepState::Running { .. }
            | StepState::Ended { .. } => self.clone(),
            StepState::Pending | StepState::Failed | StepState::Blocked { .. } => {
                Self { attempts: self.attempts, ..Self::new(self.digest) }
            }
        }
    }
}

impl StepState {
    /// Over, in a way that lets others go on.
    fn settled(&self) -> bool {
        matches!(self, StepState::Passed | StepState::Waived { .. })
    }
}

/// The limits a plan has in its text for itself, or for one of its steps.
fn written(plan: &Plan, scope: Option<StepNumber>) -> Option<Budget> {
    let budget = match scope {
        None => plan.budget.as_ref(),
        Some(number) => plan.step(number).and_then(|step| step.budget.as_ref()),
    };
    budget.map(|budget| budget.value)
}

/// The output of a check that held is of no use to the next prompt.
fn remembered(verdict: &Verdict) -> Verdict {
    if !verdict.held() {
        return verdict.clone();
    }
    Verdict { stdout: Excerpt::default(), stderr: Excerpt::default(), ..verdict.clone() }
}

impl Ready {
    fn new(plan: &Plan, steps: &[StepRun]) -> Self {
        let count = steps.len();
        let mut ready =
            Ready { open_needs: vec![0; count], waiters: vec![Vec::new(); count], ..Ready::default() };
        for (index, step) in plan.steps.iter().enumerate() {
            let Needs::Steps(needs) = &step.needs else { continue };
            for need in needs {
                let needed = (need.value.0 as usize).wrapping_sub(1);
                if steps.get(needed).is_some_and(|step| !step.state.settled()) {
                    ready.open_needs[index] += 1;
                    ready.waiters[needed].push(index as u32);
                }
            }
        }
        ready.settled = steps.iter().filter(|step| step.state.settled()).count() as u32;
        ready.failed = steps.iter().filter(|step| step.state == StepState::Failed).count() as u32;
        ready.blocked = steps.iter().filter(|step| step.state.is_blocked()).count() as u32;
        ready.prefix = steps.iter().take_while(|step| step.state.settled()).count();
        for index in 0..count {
            ready.refresh(index, steps, plan);
        }
        ready
    }

    fn moved(&mut self, index: usize, before: &StepState, steps: &[StepRun], plan: &Plan) {
        let now = &steps[index].state;
        count(&mut self.settled, before.settled(), now.settled());
        count(&mut self.failed, *before == StepState::Failed, *now == StepState::Failed);
        count(&mut self.blocked, before.is_blocked(), now.is_blocked());
        self.refresh(index, steps, plan);
        if !now.settled() || before.settled() {
            return;
        }
        for waiter in std::mem::take(&mut self.waiters[index]) {
            let waiter = waiter as usize;
            self.open_needs[waiter] -= 1;
            self.refresh(waiter, steps, plan);
        }
        while steps.get(self.prefix).is_some_and(|step| step.state.settled()) {
            self.prefix += 1;
        }
        if self.prefix < steps.len() {
            self.refresh(self.prefix, steps, plan);
        }
    }

    fn refresh(&mut self, index: usize, steps: &[StepRun], plan: &Plan) {
        let needs_met = match plan.steps[index].needs {
            Needs::Before => self.prefix >= index,
            Needs::Steps(_) => self.open_needs[index] == 0,
        };
        let number = StepNumber(index as u32 + 1);
        if matches!(steps[index].state, StepState::Running { .. } | StepState::Ended { .. }) {
            self.under_way.insert(number);
        } else {
            self.under_way.remove(&number);
        }
        if needs_met && steps[index].state == StepState::Pending {
            self.steps.insert(number);
        } else {
            self.steps.remove(&number);
        }
    }
}

impl StepState {
    /// Nothing more is to be done for it.
    pub fn is_over(&self) -> bool {
        self.settled()
    }

    fn is_blocked(&self) -> bool {
        matches!(self, StepState::Blocked { .. })
    }
}

fn count(counter: &mut u32, before: bool, now: bool) {
    match (before, now) {
        (false, true) => *counter += 1,
        (true, false) => *counter -= 1,
        (true, true) | (false, false) => {}
    }
}
