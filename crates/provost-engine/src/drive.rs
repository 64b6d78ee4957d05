//! The main loop of a run: schedule → perform → decide → append → apply.
//!
//! Resuming means folding the log and entering the same loop; there is no separate resume code. With one job
//! the loop performs tasks on its own thread. With several jobs each task has its own thread, and the loop
//! waits for the first one that ends.
//!
//! If several processes share a plan, the loop is split: [`Drive::announce`] decides what to do and publishes
//! it, and the process that takes an item calls [`Drive::items`].
//!
//! **Invariant:** nothing is performed before every event it depends on is durable.
//! **Invariant:** an event that another process wrote is accepted only if a permitted command can have
//! produced it. Otherwise the run stops, and the log records from which event on it cannot be trusted.

mod shared;

use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc;
use std::thread::Scope;

use provost_core::model::chain::{Auditor, Head, PlanId, SealedEvent};
use provost_core::model::event::{AttemptEnd, CheckSubject, EndedAttempt, Event};
use provost_core::model::hash::Hash;
use provost_core::model::plan::StepNumber;
use provost_core::model::timestamp::Timestamp;
use provost_core::rules::command::HarnessCommand;
use provost_core::rules::recover::RecoveryInput;
use provost_core::rules::schedule::{self, Action, InHand};
use provost_core::rules::{decide, foreign_events};
use provost_core::state::run::Run;
use provost_store::{Append, Effect, Fence, Log, LogEntry, Query};

use crate::Error;
use crate::world::{TaskOutcome, World};

pub use self::shared::{Continues, Effects};

/// Attempts to record that the log cannot be trusted, if other writers keep appending first.
const RACES: usize = 16;
/// Maximum number of final verdicts in one append; a batch is also written after `TOGETHER_MS`.
const TOGETHER: usize = 64;
const TOGETHER_MS: u64 = 200;
const REPLACED: &str = "the log is another than the one that was written";

/// Everything needed to drive a plan.
pub struct Drive<'a, W: World> {
    pub log: &'a dyn Log,
    pub plan: &'a PlanId,
    pub fence: Option<Fence>,
    pub world: &'a W,
    pub jobs: usize,
    /// Called with every event once it is durable, and with the run as it is after that event.
    pub watch: &'a mut dyn FnMut(&Run, &SealedEvent, &Event),
}

/// Reason why the loop stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rest {
    /// Nothing is left to do: the plan is done or failed, or waits for a person. The run's stage says which.
    Nothing,
    /// The plan file differs from the approved spec.
    LawChanged(Vec<String>),
    Interrupted,
}

impl<W: World> Drive<'_, W> {
    pub fn run(self) -> Result<(Run, Rest), Error> {
        let (run, head) = retell(self.log, self.plan, &mut |_, _, _| {})?;
        self.go_on(run, head)
    }

    /// Continues from `run`, which the caller read from the log up to `head` while it held the lease.
    pub fn go_on(self, run: Run, head: Head) -> Result<(Run, Rest), Error> {
        let mut state = Loop::new(self, run, head);
        let channel = mpsc::channel();
        std::thread::scope(|scope| {
            loop {
                let known = state.events.len();
                let orders = state.next();
                // A decision about one step may allow another step to start.
                let decided = state.events.len() > known;
                if !state.may_wait(&orders) && !state.flush()? {
                    state.drop_orders(orders);
                    continue;
                }
                if orders.is_empty() && state.in_hand.is_empty() {
                    if (state.moved()? || decided) && state.rest.is_none() {
                        continue;
                    }
                    if let Some(until) = state.wakes() {
                        state.drive.world.wait(until);
                        continue;
                    }
                    let rest = state.rest.take().unwrap_or(Rest::Nothing);
                    return Ok((state.run, rest));
                }
                let Some((action, said)) = state.perform(orders, scope, &channel) else { continue };
                state.in_hand.done(action);
                state.decide_all(&said);
                state.results.extend(said);
            }
        })
    }
}

/// Folds a plan's whole log; returns an error at the first event that does not verify.
pub fn read(log: &dyn Log, plan: &PlanId) -> Result<Run, Error> {
    retell(log, plan, &mut |_, _, _| {}).map(|(run, _)| run)
}

/// Folds a plan's whole log like [`read`], and calls `watch` for every event as a drive would.
pub fn retell(
    log: &dyn Log,
    plan: &PlanId,
    watch: &mut dyn FnMut(&Run, &SealedEvent, &Event),
) -> Result<(Run, Head), Error> {
    let mut run = Run::default();
    let head = verified(log, plan, &mut |sealed, event| {
        run.apply_at(&event, sealed.at);
        watch(&run, sealed, &event);
    })?;
    match run.forged_from {
        None => Ok((run, head)),
        Some(from) => disbelieved(log, plan, from),
    }
}

/// Folds the log again without the events from `from` on, except recorded tampering.
fn disbelieved(log: &dyn Log, plan: &PlanId, from: u64) -> Result<(Run, Head), Error> {
    let mut run = Run::default();
    let head = verified(log, plan, &mut |sealed, event| match event {
        Event::TamperDetected { .. } => run.apply_at(&event, sealed.at),
        _ if sealed.seq >= from => run.pass_over(),
        _ => run.apply_at(&event, sealed.at),
    })?;
    Ok((run, head))
}

/// Calls `each` for every event of a plan and stops at the first one that does not verify.
fn verified(log: &dyn Log, plan: &PlanId, each: &mut dyn FnMut(&SealedEvent, Event)) -> Result<Head, Error> {
    let mut auditor = Auditor::default();
    let mut bad = Ok(());
    log.read(&Query::plan(plan), &mut |sealed| {
        bad = auditor
            .next(&sealed)
            .map_err(|found| Error::Broken { plan: plan.clone(), found })
            .and_then(|()| Ok(sealed.event()?))
            .map(|event| each(&sealed, event));
        if bad.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    bad.map(|()| auditor.head())
}

struct Loop<'a, W: World> {
    drive: Drive<'a, W>,
    run: Run,
    /// Last event known to be durable.
    head: Head,
    in_hand: InHand,
    /// Outcomes of the last tasks until their events are durable; after a conflict they are decided again.
    results: Vec<TaskOutcome>,
    /// Events that are decided and applied but not yet durable.
    events: Vec<Event>,
    /// Effects to write in the same transaction as these events.
    effects: Vec<Effect>,
    /// Several processes work on this run: after this one loses the lease, events of the others are
    /// legitimate.
    shared: bool,
    /// Time at which the first event of the pending batch was decided.
    begun: Timestamp,
    rest: Option<Rest>,
    /// Time of the last scheduling pass; a step that was not due then must still be waited for.
    looked_at: Timestamp,
}

impl<'a, W: World> Loop<'a, W> {
    fn new(drive: Drive<'a, W>, run: Run, head: Head) -> Self {
        Self {
            drive,
            run,
            head,
            in_hand: InHand::default(),
            results: Vec::new(),
            events: Vec::new(),
            effects: Vec::new(),
            shared: false,
            begun: Timestamp(0),
            rest: None,
            looked_at: Timestamp::default(),
        }
    }

    /// Decides which actions start now. A started attempt is in the log before it is performed.
    fn next(&mut self) -> Vec<(Action, W::Order)> {
        if self.rest.is_none() && self.drive.world.interrupted() {
            self.rest = Some(Rest::Interrupted);
        }
        let mut orders = Vec::new();
        if self.rest.is_some() {
            return orders;
        }
        self.looked_at = self.drive.world.now();
        for action in schedule::next(&self.run, &self.in_hand, self.drive.jobs, self.looked_at) {
            match action {
                Action::End if !self.drive.world.ends() => self.begin(action, &mut orders),
                Action::End => {
                    self.decide(HarnessCommand::End);
                }
                // No dispatch in this mode: an external agent does the work and reports it.
                Action::Dispatch { .. }
                | Action::Hold { .. }
                | Action::OverBudget { .. }
                | Action::JudgeLost { .. }
                | Action::TakeUp { .. }
                    if !self.drive.world.dispatches() => {}
                Action::Hold { step } => {
                    self.decide(HarnessCommand::Hold { step });
                }
                Action::OverBudget { step } => {
                    self.decide(HarnessCommand::OverBudget { step });
                }
                Action::Dispatch { step } => {
                    if let Some(changes) = self.drive.world.law_changes(&self.run) {
                        self.decide(HarnessCommand::LawChanged { changes: changes.clone() });
                        self.rest = Some(Rest::LawChanged(changes));
                        break;
                    }
                    if let Some(reason) = self.drive.world.held_up(&self.run, step) {
                        self.decide(HarnessCommand::PlanWaits { step, reason });
                        continue;
                    }
                    // An external session has started by itself. A start may also leave too little budget for
                    // the next step.
                    if !self.drive.world.starts_agents() || self.start(step) {
                        self.begin(action, &mut orders);
                    }
                }
                Action::Judge { .. } | Action::JudgeLost { .. } | Action::TakeUp { .. } => {
                    self.begin(action, &mut orders);
                }
            }
        }
        orders
    }

    /// Records the start of an attempt with its start tree; the attempt is credited with the difference from
    /// it. If no start tree can be made, records that the attempt did not start.
    fn start(&mut self, step: StepNumber) -> bool {
        match self.drive.world.start(&self.run, step) {
            Ok(Some(start)) => self.decide(HarnessCommand::StartFrom { step, start }),
            Ok(None) => self.decide(HarnessCommand::Start { step }),
            Err(reason) => {
                let attempt = self.run.step(step).map_or(1, |step| step.attempts + 1);
                let end = AttemptEnd::NotStarted { reason };
                if self.decide(HarnessCommand::Start { step }) {
                    self.decide(HarnessCommand::AttemptEnded(EndedAttempt::new(step, attempt, end)));
                }
                false
            }
        }
    }

    /// Returns when a waiting step may be retried; `None` if the loop is about to stop.
    fn wakes(&self) -> Option<Timestamp> {
        if self.rest.is_some() || !self.drive.world.dispatches() {
            return None;
        }
        schedule::wakes(&self.run, self.looked_at)
    }

    fn begin(&mut self, action: Action, orders: &mut Vec<(Action, W::Order)>) {
        self.in_hand.take(action);
        orders.push((action, self.drive.world.order(&self.run, action)));
    }

    /// Decides a command that the scheduler asked for. A refusal means that the state has changed; the
    /// scheduler will ask again.
    fn decide(&mut self, command: HarnessCommand) -> bool {
        // Use the time of the scheduling pass; with a later time less of the budget would be left.
        let means = RecoveryInput { now: self.looked_at, ..self.means() };
        let decision = decide::harness_with(&self.run, &means, command);
        let is_allowed = decision.is_ok();
        self.take(decision.unwrap_or_default());
        is_allowed
    }

    fn means(&self) -> RecoveryInput<'a> {
        RecoveryInput { recipes: self.drive.world.recipes(), now: self.drive.world.now() }
    }

    fn decide_all(&mut self, said: &[TaskOutcome]) {
        for said in said {
            let decision = match said.clone() {
                TaskOutcome::Agent(command) => decide::agent(&self.run, command),
                TaskOutcome::Harness(command) => decide::harness_with(&self.run, &self.means(), command),
            };
            // Refused: a person or a new spec came first, so this outcome is too late.
            if let Ok(events) = decision {
                self.take(events);
            }
        }
    }

    fn take(&mut self, events: Vec<Event>) {
        if self.events.is_empty() {
            self.begun = self.drive.world.now();
        }
        for event in events {
            let event = self.drive.world.redacted(event);
            self.run.apply(&event);
            self.events.push(event);
        }
    }

    /// Returns whether the pending events may wait for more: final verdicts that held are written in batches,
    /// because nothing happens before the last of them is known. Lost ones are checked again.
    fn may_wait(&self, orders: &[(Action, W::Order)]) -> bool {
        let is_last_look =
            |action: &Action| matches!(action, Action::Judge { subject: CheckSubject::Final(_) });
        let holds = |event: &Event| match event {
            Event::Judged { subject: CheckSubject::Final(_), verdict, .. } => verdict.held(),
            _ => false,
        };
        let since = self.drive.world.now().0.saturating_sub(self.begun.0);
        !orders.is_empty()
            && orders.iter().all(|(action, _)| is_last_look(action))
            && self.events.iter().all(holds)
            && self.events.len() < TOGETHER
            && since < TOGETHER_MS
    }

    /// Makes the decided events durable. Returns `false` if another process wrote first: outcomes were then
    /// decided again on the new state, and actions that were only started must be scheduled again.
    fn flush(&mut self) -> Result<bool, Error> {
        let mut clean = true;
        while !self.events.is_empty() || !self.effects.is_empty() {
            let known = self.head.hash;
            match self.append() {
                // The log has the expected length but another last event than the known one.
                Ok(before) if before != known => return Err(self.disbelieve(1, REPLACED.to_owned())),
                Ok(_) => self.results.clear(),
                Err(provost_store::Error::Conflict { .. }) => {
                    clean = false;
                    self.events.clear();
                    self.catch_up()?;
                    self.decide_all(&self.results.clone());
                }
                Err(error) => return Err(error.into()),
            }
        }
        self.results.clear();
        Ok(clean)
    }

    /// Appends the pending events and returns the hash of the event before them.
    fn append(&mut self) -> Result<Hash, provost_store::Error> {
        let run = &self.run;
        let entries: Vec<LogEntry<'_>> = self
            .events
            .iter()
            .map(|event| LogEntry { event, task_name: event.step().and_then(|step| run.title(step)) })
            .collect();
        let sealed = self.drive.log.append(Append {
            plan: self.drive.plan,
            expected_seq: run.seq - entries.len() as u64,
            at: self.drive.world.now(),
            fence: self.drive.fence.as_ref(),
            events: &entries,
            effects: &self.effects,
        })?;
        self.effects.clear();
        let before = sealed.first().map_or(self.head.hash, |first| first.prev);
        if before != self.head.hash {
            return Ok(before);
        }
        for (sealed, event) in sealed.iter().zip(std::mem::take(&mut self.events)) {
            self.head = Head { seq: sealed.seq, hash: sealed.hash };
            self.run.tick(&event, sealed.at);
            (self.drive.watch)(&self.run, sealed, &event);
        }
        Ok(before)
    }

    /// Returns whether the log has changed since the last read or write, and applies the new events.
    fn moved(&mut self) -> Result<bool, Error> {
        let moved = self.drive.log.head(self.drive.plan)? != self.head;
        if moved {
            self.catch_up()?;
        }
        Ok(moved)
    }

    /// Applies events that other processes wrote. The events known so far must still be there, and a
    /// permitted command must be able to have produced each new one.
    fn catch_up(&mut self) -> Result<(), Error> {
        let known = self.head;
        let mut run = Run::default();
        let mut there = known.seq == 0;
        let mut news: Vec<(SealedEvent, Event)> = Vec::new();
        verified(self.drive.log, self.drive.plan, &mut |sealed, event| {
            if sealed.seq <= known.seq {
                there |= (sealed.seq, sealed.hash) == (known.seq, known.hash);
                run.apply_at(&event, sealed.at);
            } else {
                news.push((sealed.clone(), event));
            }
        })?;
        if !there && self.shared {
            self.still_ours()?;
        }
        if !there {
            return Err(self.disbelieve(1, REPLACED.to_owned()));
        }
        let events: Vec<(Event, Timestamp)> =
            news.iter().map(|(sealed, event)| (event.clone(), sealed.at)).collect();
        if let Err(place) = foreign_events::made(&run, &events) {
            if self.shared {
                self.still_ours()?;
            }
            let (sealed, event) = &news[place];
            let what = format!("{} was written by somebody else than the harness", event.name());
            return Err(self.disbelieve(sealed.seq, what));
        }
        for (sealed, event) in news {
            run.apply_at(&event, sealed.at);
            self.head = Head { seq: sealed.seq, hash: sealed.hash };
            (self.drive.watch)(&run, &sealed, &event);
        }
        self.run = run;
        Ok(())
    }

    /// Records that nothing from this event on can be trusted. If this fails too, the proofs made so far are
    /// the only evidence.
    fn disbelieve(&self, from_seq: u64, what: String) -> Error {
        let Drive { log, plan, world, .. } = &self.drive;
        let event = Event::TamperDetected { step: None, what: what.clone(), from_seq: Some(from_seq) };
        let event = world.redacted(event);
        let entries = [LogEntry { event: &event, task_name: None }];
        for _ in 0..RACES {
            let Ok(head) = log.head(plan) else { break };
            let written = log.append(Append {
                plan,
                expected_seq: head.seq,
                at: world.now(),
                // The process that wrote to the log may also have changed the leases in it.
                fence: None,
                events: &entries,
                effects: &[],
            });
            if !matches!(written, Err(provost_store::Error::Conflict { .. })) {
                break;
            }
        }
        Error::Forged { plan: (*plan).clone(), from_seq, what }
    }

    fn drop_orders(&mut self, orders: Vec<(Action, W::Order)>) {
        for (action, _) in orders {
            self.in_hand.done(action);
        }
        self.rest = None;
    }

    /// Starts the orders and waits until one task is done or a waiting step may be retried.
    fn perform<'scope>(
        &self,
        mut orders: Vec<(Action, W::Order)>,
        scope: &'scope Scope<'scope, '_>,
        (sender, receiver): &(mpsc::Sender<Deed>, mpsc::Receiver<Deed>),
    ) -> Option<(Action, Vec<TaskOutcome>)>
    where
        'a: 'scope,
    {
        let world = self.drive.world;
        if self.drive.jobs == 1
            && let Some((action, order)) = orders.pop()
        {
            return Some((action, world.perform(order)));
        }
        for (action, order) in orders {
            let sender = sender.clone();
            scope.spawn(move || {
                let said = catch_unwind(AssertUnwindSafe(|| world.perform(order)));
                let _ = sender.send((action, said));
            });
        }
        let deed = loop {
            // The world's clock may differ from this machine's, so it is read again after each wait.
            let Some(until) = self.wakes() else { break receiver.recv().ok() };
            match receiver.try_recv() {
                Ok(deed) => break Some(deed),
                Err(_) => world.wait(until),
            }
            if schedule::wakes(&self.run, world.now()) != Some(until) {
                return None;
            }
        };
        match deed {
            Some((action, Ok(said))) => Some((action, said)),
            Some((_, Err(panic))) => resume_unwind(panic),
            None => unreachable!("this loop holds a sender itself"),
        }
    }
}

/// A finished task, or the panic that ended it.
type Deed = (Action, std::thread::Result<Vec<TaskOutcome>>);
