//! The executor in the real world: gives work to agents (`executor/attempt.rs`) and runs checks
//! (`executor/check.rs`).
//!
//! An order holds everything a task needs and is built from the run on the loop's thread. Performing it
//! touches the machine, never the run.

mod step_worktree;
mod attempt;
mod check;
mod check_facts;
mod check_in_sight;
mod start;
mod merged;
mod own_tests;
mod proved;
pub(crate) mod varied;
mod workplace;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use provost_core::model::event::{CheckSubject, Event, StartTree};
use provost_core::model::plan::StepNumber;
use provost_core::model::timestamp::Timestamp;
use provost_core::model::usage::Amount;
use provost_core::model::verdict::Isolation;
use provost_core::rules::budget;
use provost_core::rules::command::HarnessCommand;
use provost_core::rules::recover::recipe::Recipes;
use provost_core::rules::schedule::Action;
use provost_core::state::run::Run;
use provost_host::exec::environment::ExecEnv;
use provost_host::process::Survivor;

use self::attempt::AttemptOrder;
use self::check::CheckOrder;
use self::step_worktree::told;
use crate::exec::metering::RunMetering;
use crate::plan::plan_context::{self, PlanContext};
use crate::plan::subplan::{ParentContext, SubplanRequest, SubplanRunner};
use crate::plan::tamper_watch::TamperWatch;
use crate::run_loop::world::{TaskOutcome, World};
use crate::workplace::{LocalWorkplace, Workplace};

/// Interval at which signals are polled while a step waits.
const EAR: Duration = Duration::from_millis(100);

pub struct Executor<'a> {
    site: &'a PlanContext,
    ground: ExecEnv,
    /// Tamper watch over provost's own files; set if agents are given work.
    watch: Option<&'a TamperWatch>,
    /// Work is given to agents here; if not, an external session does it.
    dispatches: bool,
    /// Steps whose attempt left processes running that could not be killed.
    haunted: Mutex<BTreeMap<StepNumber, Vec<Survivor>>>,
    /// Steps this process has already run; no orphans of a crashed process can remain.
    attended: Mutex<BTreeSet<StepNumber>>,
    metering: RunMetering,
    session: Option<Looking>,
    /// Several agents may work at the same time.
    side_by_side: bool,
    /// Last event that the workspace was brought up to, and the paths that were left alone in it.
    at_home: Mutex<(u64, Vec<String>)>,
    /// Runs the sub-plans of steps.
    carrier: Option<&'a dyn SubplanRunner>,
    /// Context of the parent plan, if this plan is a sub-plan.
    within: Option<&'a ParentContext>,
    /// Where agents work.
    workplace: &'a dyn Workplace,
    /// Epoch of the plan's lease.
    epoch: u64,
}

/// A session that provost did not start; each check of its work runs once.
struct Looking {
    client: String,
    looked: Mutex<Vec<CheckSubject>>,
    /// A check failed or a person is needed: the session must act next.
    is_over: AtomicBool,
}

impl Looking {
    /// Returns whether this subject was not checked before. A subject that is due again so soon did not hold;
    /// the look then ends.
    fn is_new(&self, subject: CheckSubject) -> bool {
        let mut looked = self.looked.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = !looked.contains(&subject);
        match is_new {
            true => looked.push(subject),
            false => self.end(),
        }
        is_new
    }

    fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

/// Input of one task.
pub enum TaskInput {
    Attempt(Box<AttemptOrder>),
    Errand(Box<SubplanRequest>),
    Check(Box<CheckOrder>),
    Nothing,
}

impl<'a> Executor<'a> {
    pub fn new(site: &'a PlanContext, ground: ExecEnv) -> Self {
        Self {
            site,
            ground,
            watch: None,
            dispatches: true,
            haunted: Mutex::default(),
            attended: Mutex::default(),
            metering: RunMetering::default(),
            session: None,
            side_by_side: false,
            at_home: Mutex::default(),
            carrier: None,
            within: None,
            workplace: &LocalWorkplace,
            epoch: 0,
        }
    }

    pub fn delegating(self, carrier: &'a dyn SubplanRunner) -> Self {
        Self { carrier: Some(carrier), ..self }
    }

    pub fn within(self, within: Option<&'a ParentContext>) -> Self {
        Self { within, ..self }
    }

    /// Returns the tree that the previous steps left, of this plan or of its parent.
    fn tree(&self, run: &Run) -> Option<String> {
        run.tree.clone().or_else(|| self.within?.tree.clone())
    }

    /// Returns the tree that a step with a worktree of its own begins with, and is checked on. A worktree has only
    /// the changes of its step. Under a new revision, what passed before it is therefore taken from the tree of that
    /// time; checks of the workspace find it there. If trees are sent between machines, the workplace does this.
    fn tree_beside(&self, run: &Run) -> Option<String> {
        let earlier = run.last_passed().filter(|_| self.workplace.is_workspace());
        self.tree(run).or_else(|| earlier.map(str::to_owned))
    }

    /// Returns the sub-plan request of a step, if a plan carries it out.
    fn errand(&self, run: &Run, number: StepNumber) -> Option<SubplanRequest> {
        let plan = run.carried_by(number)?.to_owned();
        let wall_ms = run.ledger.held(number).and_then(|held| held.wall_ms);
        Some(SubplanRequest {
            step: number,
            attempt: run.step(number).map_or(1, |step| step.attempts),
            plan,
            tree: self.tree(run),
            limit: Amount { wall_ms, ..budget::allows(run, number) },
            timeout: run.plan.step(number)?.timeout.as_ref().map(|timeout| timeout.value),
        })
    }

    /// Gives no work to agents: a session of this client does it.
    pub(crate) fn for_a_session(self, client: &str) -> Self {
        let session =
            Looking { client: client.to_owned(), looked: Mutex::default(), is_over: AtomicBool::new(false) };
        Self { session: Some(session), ..self }
    }

    pub fn watched(self, watch: &'a TamperWatch) -> Self {
        // Only at `clean` can provost's files inside the workspace be protected from agents.
        watch.behind_a_fence(self.ground.level == Isolation::Clean);
        Self { watch: Some(watch), ..self }
    }

    /// Runs several steps at a time, each in its own worktree.
    pub fn side_by_side(self, side_by_side: bool) -> Self {
        Self { side_by_side, ..self }
    }

    /// Dispatches no work: an external session does it and reports.
    pub(crate) fn without_dispatch(self) -> Self {
        Self { dispatches: false, ..self }
    }

    fn haunted(&self) -> MutexGuard<'_, BTreeMap<StepNumber, Vec<Survivor>>> {
        self.haunted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether a check of a crashed process may still run. In bubblewrap it died with that process.
    fn is_strange(&self, step: StepNumber) -> bool {
        let mut attended = self.attended.lock().unwrap_or_else(PoisonError::into_inner);
        attended.insert(step) && self.ground.level != Isolation::Clean
    }

    fn tag(&self, step: StepNumber, attempt: u32) -> String {
        format!("{}/{step}/{attempt}", self.site.id)
    }

    /// Runs `work` and reports changes made to provost's own files meanwhile.
    fn watched_over(&self, step: StepNumber, work: impl FnOnce() -> Vec<TaskOutcome>) -> Vec<TaskOutcome> {
        self.watch.inspect(|watch| watch.enter());
        let mut said = work();
        let found = self.watch.map(TamperWatch::leave).unwrap_or_default();
        let tampered = |what| HarnessCommand::Tampered { step: Some(step), what };
        said.extend(found.into_iter().map(|what| TaskOutcome::Harness(tampered(what))));
        said
    }
}

impl World for Executor<'_> {
    type Order = TaskInput;

    fn now(&self) -> Timestamp {
        plan_context::now()
    }

    fn wait(&self, until: Timestamp) {
        if let Some(session) = &self.session {
            return session.end();
        }
        let left = Duration::from_millis(until.0.saturating_sub(plan_context::now().0));
        std::thread::sleep(left.min(EAR));
    }

    fn recipes(&self) -> &Recipes {
        &self.site.config.recipes
    }

    fn law_changes(&self, run: &Run) -> Option<Vec<String>> {
        self.site.law_changes(run)
    }

    fn starts_agents(&self) -> bool {
        self.session.is_none()
    }

    fn held_up(&self, run: &Run, step: StepNumber) -> Option<String> {
        let plan = run.carried_by(step).filter(|_| self.session.is_none())?;
        self.carrier?.held_up(plan)
    }

    fn start(&self, run: &Run, step: StepNumber) -> Result<Option<StartTree>, String> {
        self.start(run, step).map_err(|error| told(&error))
    }

    fn interrupted(&self) -> bool {
        if self.within.is_some_and(|within| within.leash.is_at_its_end()) {
            return true;
        }
        let is_over = self.session.as_ref().is_some_and(|session| session.is_over.load(Ordering::Relaxed));
        is_over || self.site.stop.load(Ordering::Relaxed)
    }

    fn dispatches(&self) -> bool {
        self.dispatches
    }

    fn redacted(&self, event: Event) -> Event {
        self.metering.redacted(self.site.redactor.event(event))
    }

    fn order(&self, run: &Run, action: Action) -> TaskInput {
        if let Some(session) = &self.session {
            let subject = match action {
                Action::Dispatch { step } => Some(CheckSubject::Contract(step)),
                Action::Judge { subject } => Some(subject),
                // The session started it explicitly, and it was not checked yet.
                Action::JudgeLost { step, .. } => Some(CheckSubject::Contract(step)),
                // A session cannot perform this.
                Action::TakeUp { .. } => {
                    session.end();
                    return TaskInput::Nothing;
                }
                Action::Hold { .. } | Action::OverBudget { .. } | Action::End => None,
            };
            let carried = |step| run.carried_by(step).is_some();
            match subject {
                Some(CheckSubject::Contract(step)) if carried(step) => {
                    session.end();
                    return TaskInput::Nothing;
                }
                Some(subject) if session.is_new(subject) => return self.check_order(run, subject, false),
                Some(_) => return TaskInput::Nothing,
                None => {}
            }
        }
        match action {
            Action::Dispatch { step } | Action::TakeUp { step, .. } => self.attempt_order(run, step),
            Action::Judge { subject } => self.check_order(run, subject, false),
            Action::JudgeLost { step, .. } => self.check_order(run, CheckSubject::Contract(step), true),
            Action::Hold { .. } | Action::OverBudget { .. } | Action::End => TaskInput::Nothing,
        }
    }

    /// Copies the workspace into the tree that the agent will work in. This process still holds the lease of the
    /// workspace, so no other process changes it meanwhile.
    fn set_out(&self, order: TaskInput) -> TaskInput {
        match order {
            TaskInput::Attempt(mut order) => {
                order.folder = Some(self.folder_of(&order));
                TaskInput::Attempt(order)
            }
            other => other,
        }
    }

    fn perform(&self, order: TaskInput) -> Vec<TaskOutcome> {
        match order {
            TaskInput::Attempt(order) => self.watched_over(order.step, || self.attempt(&order)),
            TaskInput::Errand(errand) => {
                let carrier = self.carrier;
                self.watched_over(errand.step, || {
                    carrier.map(|carrier| carrier.carry_out(&errand)).unwrap_or_default()
                })
            }
            TaskInput::Check(order) => self.check(&order),
            TaskInput::Nothing => Vec::new(),
        }
    }
}
