//! The main loop of a run: schedule → commit → perform → decide → apply.
//!
//! Resuming means folding the log and entering the same loop; there is no separate resume code. With one job
//! the loop performs tasks on its own thread. With several jobs each task has its own thread, and the loop
//! waits for the first one that ends.
//!
//! If several processes share a plan, the loop is split (`run_loop/shared.rs`, with the feature `cluster`): one
//! process decides what to do and publishes it, and the process that takes an item performs it.
//!
//! **Invariant:** nothing is performed before every event it depends on is durable.

pub mod world;
#[cfg(feature = "cluster")]
mod shared;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc;
use std::thread::Scope;

use provost_core::model::chain::{Head, PlanId};
use provost_core::model::event::{AttemptEnd, CheckSubject, EndedAttempt, Event};
use provost_core::model::plan::StepNumber;
use provost_core::model::timestamp::Timestamp;
use provost_core::rules::command::HarnessCommand;
use provost_core::rules::decide;
use provost_core::rules::recover::RecoveryInput;
use provost_core::rules::schedule::{self, Action, InHand};
use provost_core::state::run::Run;
use provost_store::{Fence, Log};

use crate::journal::{Commit, Journal, Watch};
use crate::run_loop::world::{TaskOutcome, World};
use crate::{Error, journal};

#[cfg(feature = "cluster")]
pub use self::shared::{Continues, Effects, Follows};

/// Maximum number of final verdicts in one append; a batch is also written after `BATCH_MS`.
const BATCH: usize = 64;
const BATCH_MS: u64 = 200;

/// Everything needed to drive a plan.
pub struct Drive<'a, W: World> {
    pub log: &'a dyn Log,
    pub plan: &'a PlanId,
    pub fence: Option<Fence>,
    pub world: &'a W,
    pub jobs: usize,
    pub watch: Watch<'a>,
}

/// Reason why the loop stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rest {
    /// Nothing is left to do: the plan is done or failed, or waits for a person. The run's stage says which.
    Nothing,
    /// The plan file differs from the approved spec.
    LawChanged(Vec<String>),
    /// A budget of all plans is used up; the text says which, and how to raise it.
    OverBudget(String),
    Interrupted,
}

impl<W: World> Drive<'_, W> {
    pub fn run(self) -> Result<(Run, Rest), Error> {
        let (run, head) = journal::replay(self.log, self.plan, &mut |_, _, _| {})?;
        self.go_on(run, head)
    }

    /// Continues from `run`, which the caller read from the log up to `head` while it held the lease.
    pub fn go_on(self, run: Run, head: Head) -> Result<(Run, Rest), Error> {
        let mut state = Loop::new(self, run, head);
        let channel = mpsc::channel();
        std::thread::scope(|scope| {
            loop {
                // Schedule, and decide what starts now.
                let due = state.start_due()?;
                // Commit: the starts are durable before any effect.
                if !state.commit_before(&due)? {
                    state.abandon(due);
                    continue;
                }
                // Perform, until a task ends or a waiting step may be retried.
                match state.next_outcome(due, scope, &channel)? {
                    Next::Done(action, outcomes) => state.record(action, outcomes),
                    Next::Again => {}
                    Next::Idle(rest) => return Ok((state.run, rest)),
                }
            }
        })
    }
}

/// Tasks to perform, and whether anything was decided beside them.
struct Due<W: World> {
    tasks: Vec<(Action, W::Order)>,
    decided: bool,
}

/// Result of a decision.
struct Decided {
    /// The rules allowed the command.
    is_allowed: bool,
    /// Events followed from it.
    progress: bool,
}

/// What follows after the due tasks were started.
enum Next {
    Done(Action, Vec<TaskOutcome>),
    /// The scheduler must look again.
    Again,
    Idle(Rest),
}

struct Loop<'a, W: World> {
    world: &'a W,
    jobs: usize,
    journal: Journal<'a>,
    run: Run,
    in_hand: InHand,
    /// Outcomes of the last tasks until their events are durable; after a conflict they are decided again.
    outcomes: Vec<TaskOutcome>,
    rest: Option<Rest>,
    /// Why the last scheduling pass began no attempt, if a budget of all plans is used up.
    over_budget: Option<String>,
    /// Time of the last scheduling pass; a step that was not due then must still be waited for.
    scheduled_at: Timestamp,
}

impl<'a, W: World> Loop<'a, W> {
    fn new(drive: Drive<'a, W>, run: Run, head: Head) -> Self {
        let Drive { log, plan, fence, world, jobs, watch } = drive;
        Self {
            world,
            jobs,
            journal: Journal::new(log, plan, fence, world, watch, head),
            run,
            in_hand: InHand::default(),
            outcomes: Vec::new(),
            rest: None,
            over_budget: None,
            scheduled_at: Timestamp::default(),
        }
    }

    /// Decides which tasks start now. A started attempt is in the log before it is performed.
    fn start_due(&mut self) -> Result<Due<W>, Error> {
        let mut due = Due { tasks: Vec::new(), decided: false };
        if self.rest.is_none() && self.world.interrupted() {
            self.rest = Some(Rest::Interrupted);
        }
        self.over_budget = None;
        if self.rest.is_some() {
            return Ok(due);
        }
        self.scheduled_at = self.world.now();
        let jobs = if self.has_room() { self.jobs } else { self.in_hand.len() + 1 };
        for action in schedule::next(&self.run, &self.in_hand, jobs, self.scheduled_at) {
            if self.is_left_to_others(action) || self.waits_for_another(action) || self.lacks_room(action) {
                continue;
            }
            match action {
                Action::End if self.world.ends() => due.decided |= self.decide(HarnessCommand::End).progress,
                Action::Hold { step } => due.decided |= self.decide(HarnessCommand::Hold { step }).progress,
                Action::OverBudget { step } => {
                    due.decided |= self.decide(HarnessCommand::OverBudget { step }).progress;
                }
                Action::Dispatch { step } => {
                    let dispatched = self.dispatch(step)?;
                    due.decided |= dispatched.progress;
                    if dispatched.is_allowed {
                        self.begin(action, &mut due);
                    }
                    if self.rest.is_some() {
                        break;
                    }
                }
                Action::End | Action::Judge { .. } | Action::JudgeLost { .. } | Action::TakeUp { .. } => {
                    self.begin(action, &mut due);
                }
            }
        }
        Ok(due)
    }

    /// Returns whether an external agent does this and reports it, because nothing is dispatched here.
    fn is_left_to_others(&self, action: Action) -> bool {
        let concerns_agents = match action {
            Action::Dispatch { .. }
            | Action::Hold { .. }
            | Action::OverBudget { .. }
            | Action::JudgeLost { .. }
            | Action::TakeUp { .. } => true,
            Action::End | Action::Judge { .. } => false,
        };
        concerns_agents && !self.world.dispatches()
    }

    /// Returns whether another task must end first. Several processes that share a plan perform one task at a
    /// time, because each holds the plan's lease, and beside it any number of agents in trees of their own.
    fn waits_for_another(&self, action: Action) -> bool {
        let is_task = match action {
            Action::Hold { .. } | Action::OverBudget { .. } => false,
            Action::End => !self.world.ends(),
            Action::Dispatch { .. }
            | Action::Judge { .. }
            | Action::JudgeLost { .. }
            | Action::TakeUp { .. } => true,
        };
        let holds_plan = |action: Action| !action.is_apart(&self.run);
        self.journal.is_shared && is_task && holds_plan(action) && self.in_hand.iter().any(holds_plan)
    }

    /// Returns whether a task may begin that begins a step. Several processes may have more tasks in hand than
    /// they have room for, after one of them has died.
    fn has_room(&self) -> bool {
        !self.journal.is_shared || self.in_hand.len() < self.jobs
    }

    /// Returns whether the action needs room that there is not: what an agent has left is judged all the same.
    fn lacks_room(&self, action: Action) -> bool {
        let is_under_way = |step: StepNumber| self.run.under_way().any(|other| other == step);
        let needs_room = match action {
            Action::Judge { subject: CheckSubject::Contract(step) | CheckSubject::Control(step) } => {
                !is_under_way(step)
            }
            Action::JudgeLost { .. } | Action::TakeUp { .. } => false,
            _ => true,
        };
        needs_room && !self.has_room()
    }

    /// Decides whether the step may begin now.
    fn dispatch(&mut self, step: StepNumber) -> Result<Decided, Error> {
        if let Some(changes) = self.world.law_changes(&self.run) {
            let decided = self.decide(HarnessCommand::LawChanged { changes: changes.clone() });
            self.rest = Some(Rest::LawChanged(changes));
            return Ok(Decided { is_allowed: false, ..decided });
        }
        if let Some(reason) = self.world.held_up(&self.run, step) {
            let decided = self.decide(HarnessCommand::PlanWaits { step, reason });
            return Ok(Decided { is_allowed: false, ..decided });
        }
        if self.world.starts_agents() && self.is_over_budget()? {
            return Ok(Decided { is_allowed: false, progress: false });
        }
        // An external session has started by itself. A start may also leave too little budget for the next
        // step.
        Ok(match self.world.starts_agents() {
            true => self.start(step),
            false => Decided { is_allowed: true, progress: false },
        })
    }

    /// Returns whether a budget of all plans is used up; asked once in a scheduling pass.
    fn is_over_budget(&mut self) -> Result<bool, Error> {
        if self.over_budget.is_none() {
            self.over_budget = self.journal.waits_for_budget()?;
        }
        Ok(self.over_budget.is_some())
    }

    /// Records the start of an attempt with its start tree; the attempt is credited with the difference from
    /// it. If no start tree can be made, records that the attempt did not start.
    fn start(&mut self, step: StepNumber) -> Decided {
        match self.world.start(&self.run, step) {
            Ok(Some(start)) => self.decide(HarnessCommand::StartFrom { step, start }),
            Ok(None) => self.decide(HarnessCommand::Start { step }),
            Err(reason) => {
                let attempt = self.run.step(step).map_or(1, |step| step.attempts + 1);
                let end = AttemptEnd::NotStarted { reason };
                let started = self.decide(HarnessCommand::Start { step });
                if started.is_allowed {
                    self.decide(HarnessCommand::AttemptEnded(EndedAttempt::new(step, attempt, end)));
                }
                Decided { is_allowed: false, ..started }
            }
        }
    }

    /// Returns when a waiting step may be retried; `None` if the loop is about to stop.
    fn wakes(&self) -> Option<Timestamp> {
        if self.rest.is_some() || !self.world.dispatches() {
            return None;
        }
        schedule::wakes(&self.run, self.scheduled_at)
    }

    fn begin(&mut self, action: Action, due: &mut Due<W>) {
        self.in_hand.take(action);
        due.tasks.push((action, self.world.order(&self.run, action)));
    }

    /// Decides a command that the scheduler asked for. A refusal means that the state has changed; the
    /// scheduler will ask again.
    fn decide(&mut self, command: HarnessCommand) -> Decided {
        // Use the time of the scheduling pass; with a later time less of the budget would be left.
        let input = RecoveryInput { now: self.scheduled_at, ..self.recovery_input() };
        let decision = decide::harness_with(&self.run, &input, command);
        let is_allowed = decision.is_ok();
        let progress = self.journal.take(&mut self.run, decision.unwrap_or_default());
        Decided { is_allowed, progress }
    }

    fn recovery_input(&self) -> RecoveryInput<'a> {
        RecoveryInput { recipes: self.world.recipes(), now: self.world.now() }
    }

    /// Decides what follows from a finished task, and applies it.
    fn record(&mut self, action: Action, outcomes: Vec<TaskOutcome>) {
        self.in_hand.done(action);
        self.note(outcomes);
    }

    fn note(&mut self, outcomes: Vec<TaskOutcome>) {
        self.decide_outcomes(&outcomes);
        self.outcomes.extend(outcomes);
    }

    fn decide_outcomes(&mut self, outcomes: &[TaskOutcome]) {
        for outcome in outcomes {
            let decision = match outcome.clone() {
                TaskOutcome::Agent(command) => decide::agent(&self.run, command),
                TaskOutcome::Harness(command) => {
                    decide::harness_with(&self.run, &self.recovery_input(), command)
                }
            };
            // Refused: a person or a new spec came first, so this outcome is too late.
            if let Ok(events) = decision {
                self.journal.take(&mut self.run, events);
            }
        }
    }

    /// Makes everything decided durable, unless it may wait for more. Returns `false` if another process
    /// wrote first: the due tasks must be scheduled again.
    fn commit_before(&mut self, due: &Due<W>) -> Result<bool, Error> {
        if self.may_wait(due) { Ok(true) } else { self.commit() }
    }

    /// Returns whether the pending events may wait for more: final verdicts that held are written in batches,
    /// because nothing happens before the last of them is known. Lost ones are checked again.
    fn may_wait(&self, due: &Due<W>) -> bool {
        let is_final = |(action, _): &(Action, W::Order)| {
            matches!(action, Action::Judge { subject: CheckSubject::Final(_) })
        };
        let holds = |event: &Event| match event {
            Event::Judged { subject: CheckSubject::Final(_), verdict, .. } => verdict.held(),
            _ => false,
        };
        !due.tasks.is_empty()
            && due.tasks.iter().all(is_final)
            && self.journal.pending().iter().all(holds)
            && self.journal.pending().len() < BATCH
            && self.journal.pending_for() < BATCH_MS
    }

    /// Makes the decided events durable. Returns `false` if another process wrote first: outcomes were then
    /// decided again on the new state, and tasks that were only started must be scheduled again.
    fn commit(&mut self) -> Result<bool, Error> {
        let mut clean = true;
        while !self.journal.has_nothing_to_write() {
            match self.journal.commit(&mut self.run)? {
                Commit::Written => self.outcomes.clear(),
                Commit::Conflict => {
                    clean = false;
                    self.decide_outcomes(&self.outcomes.clone());
                }
            }
        }
        self.outcomes.clear();
        Ok(clean)
    }

    fn abandon(&mut self, due: Due<W>) {
        for (action, _) in due.tasks {
            self.in_hand.done(action);
        }
        self.rest = None;
    }

    /// Starts the due tasks and waits for the first one that ends. If there is nothing to wait for, says
    /// whether the loop goes on.
    fn next_outcome<'scope>(
        &mut self,
        due: Due<W>,
        scope: &'scope Scope<'scope, '_>,
        channel: &(mpsc::Sender<FinishedTask>, mpsc::Receiver<FinishedTask>),
    ) -> Result<Next, Error>
    where
        'a: 'scope,
    {
        if !due.tasks.is_empty() || !self.in_hand.is_empty() {
            let done = self.perform(due.tasks, scope, channel);
            return Ok(done.map_or(Next::Again, |(action, outcomes)| Next::Done(action, outcomes)));
        }
        // A decision about one step may allow another step to start.
        let moved = self.journal.refresh(&mut self.run)?;
        if (moved || due.decided) && self.rest.is_none() {
            return Ok(Next::Again);
        }
        if let Some(until) = self.wakes() {
            self.world.wait(until);
            return Ok(Next::Again);
        }
        Ok(Next::Idle(self.why_it_rests()))
    }

    /// Returns why nothing begins.
    fn why_it_rests(&mut self) -> Rest {
        let over_budget = self.over_budget.take().map(Rest::OverBudget);
        self.rest.take().or(over_budget).unwrap_or(Rest::Nothing)
    }

    /// Starts the tasks and waits until one is done or a waiting step may be retried.
    fn perform<'scope>(
        &self,
        mut tasks: Vec<(Action, W::Order)>,
        scope: &'scope Scope<'scope, '_>,
        (sender, receiver): &(mpsc::Sender<FinishedTask>, mpsc::Receiver<FinishedTask>),
    ) -> Option<(Action, Vec<TaskOutcome>)>
    where
        'a: 'scope,
    {
        let world = self.world;
        if self.jobs == 1
            && let Some((action, order)) = tasks.pop()
        {
            return Some((action, world.perform(order)));
        }
        for (action, order) in tasks {
            let sender = sender.clone();
            scope.spawn(move || {
                let outcomes = catch_unwind(AssertUnwindSafe(|| world.perform(order)));
                let _ = sender.send((action, outcomes));
            });
        }
        let finished = loop {
            // The world's clock may differ from this machine's, so it is read again after each wait.
            let Some(until) = self.wakes() else { break receiver.recv().ok() };
            match receiver.try_recv() {
                Ok(finished) => break Some(finished),
                Err(_) => world.wait(until),
            }
            if schedule::wakes(&self.run, world.now()) != Some(until) {
                return None;
            }
        };
        match finished {
            Some((action, Ok(outcomes))) => Some((action, outcomes)),
            Some((_, Err(panic))) => resume_unwind(panic),
            None => unreachable!("this loop holds a sender itself"),
        }
    }
}

/// A finished task, or the panic that ended it.
type FinishedTask = (Action, std::thread::Result<Vec<TaskOutcome>>);
