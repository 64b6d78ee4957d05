//! The log of one plan: appends decided events, reads what other processes appended, and detects events that
//! no permitted command can have produced.
//!
//! **Invariant:** an event that another process wrote is accepted only if a permitted command can have
//! produced it. Otherwise the run stops, and the log records from which event on it cannot be trusted.

pub mod log_locator;
pub(crate) mod lease;
mod fold;

use provost_core::model::chain::{Head, PlanId, SealedEvent};
use provost_core::model::event::Event;
use provost_core::model::timestamp::Timestamp;
use provost_core::rules::command::HarnessCommand;
use provost_core::rules::{budget, decide, foreign_events};
use provost_core::state::run::Run;
use provost_store::{Append, Effect, Error as StoreError, Fence, Log, LogEntry};

use crate::Error;

pub use fold::{read, replay};

/// Attempts to record that the log cannot be trusted, if other writers keep appending first.
const RACES: usize = 16;
const REPLACED: &str = "the log was replaced by another one";

/// The clock and the redactor of a journal.
pub trait JournalContext {
    fn now(&self) -> Timestamp;

    /// Returns the event without secrets. Every event of a run passes through here before it is logged.
    fn redacted(&self, event: Event) -> Event;
}

/// Called with every event once it is durable, and with the run as it is after that event.
pub type Watch<'a> = &'a mut dyn FnMut(&Run, &SealedEvent, &Event);

/// The journal of a run: events that are decided and applied, and those known to be durable.
pub struct Journal<'a> {
    log: &'a dyn Log,
    plan: &'a PlanId,
    fence: Option<Fence>,
    context: &'a dyn JournalContext,
    watch: Watch<'a>,
    /// Last event known to be durable.
    head: Head,
    /// Events that are decided and applied but not yet durable.
    pending: Vec<Event>,
    /// Time at which the first pending event was decided.
    pending_since: Timestamp,
    /// Effects to write in the same transaction as the pending events.
    pub effects: Vec<Effect>,
    /// Several processes work on this run: after this one loses the lease, events of the others are
    /// legitimate.
    pub is_shared: bool,
}

/// Result of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Commit {
    Written,
    /// Another process wrote first: the caller decides again.
    Conflict,
}

impl<'a> Journal<'a> {
    pub fn new(
        log: &'a dyn Log,
        plan: &'a PlanId,
        fence: Option<Fence>,
        context: &'a dyn JournalContext,
        watch: Watch<'a>,
        head: Head,
    ) -> Self {
        let (pending, effects) = (Vec::new(), Vec::new());
        let pending_since = Timestamp::default();
        Self { log, plan, fence, context, watch, head, pending, pending_since, effects, is_shared: false }
    }

    /// Applies decided events; they are durable after the next commit. Returns whether there were any.
    pub fn take(&mut self, run: &mut Run, events: Vec<Event>) -> bool {
        if self.pending.is_empty() {
            self.pending_since = self.context.now();
        }
        let decided = !events.is_empty();
        for event in events {
            let event = self.context.redacted(event);
            run.apply(&event);
            self.pending.push(event);
        }
        decided
    }

    pub fn pending(&self) -> &[Event] {
        &self.pending
    }

    /// Returns how long the first pending event has waited, in milliseconds.
    pub fn pending_for(&self) -> u64 {
        self.context.now().0.saturating_sub(self.pending_since.0)
    }

    /// Returns why no attempt may begin, if a budget of all plans is used up.
    pub fn waits_for_budget(&self) -> Result<Option<String>, Error> {
        Ok(self.log.waits_for_budget(self.plan)?)
    }

    pub fn has_nothing_to_write(&self) -> bool {
        self.pending.is_empty() && self.effects.is_empty()
    }

    /// Makes the pending events and effects durable. After a conflict the run has the events of the other
    /// process, and the pending events are discarded.
    pub fn commit(&mut self, run: &mut Run) -> Result<Commit, Error> {
        let commit = self.try_commit(run)?;
        if commit == Commit::Conflict {
            self.pending.clear();
            self.catch_up(run)?;
        }
        Ok(commit)
    }

    /// Makes the pending events and effects durable; after a conflict nothing has changed.
    pub fn try_commit(&mut self, run: &mut Run) -> Result<Commit, Error> {
        let at = self.context.now();
        let fence = self.fence.as_ref();
        let sealed = match append(self.log, self.plan, run, at, fence, &self.pending, &self.effects) {
            Ok(sealed) => sealed,
            Err(StoreError::Conflict { .. }) => return Ok(Commit::Conflict),
            Err(error) => return Err(error.into()),
        };
        self.effects.clear();
        // The log has the expected length but another last event than the known one.
        if sealed.first().is_some_and(|first| first.prev != self.head.hash) {
            return Err(self.distrust(1, REPLACED.to_owned()));
        }
        for (sealed, event) in sealed.iter().zip(std::mem::take(&mut self.pending)) {
            self.head = Head { seq: sealed.seq, hash: sealed.hash };
            run.tick(&event, sealed.at);
            (self.watch)(run, sealed, &event);
        }
        Ok(Commit::Written)
    }

    /// Applies the events that other processes wrote since the last read or write. Returns whether there
    /// were any.
    pub fn refresh(&mut self, run: &mut Run) -> Result<bool, Error> {
        let moved = self.log.head(self.plan)? != self.head;
        if moved {
            self.catch_up(run)?;
        }
        Ok(moved)
    }

    /// Applies events that other processes wrote. The events known so far must still be there, and a
    /// permitted command must be able to have produced each new one.
    fn catch_up(&mut self, run: &mut Run) -> Result<(), Error> {
        let known = self.head;
        let mut folded = Run::default();
        let mut there = known.seq == 0;
        let mut news: Vec<(SealedEvent, Event)> = Vec::new();
        fold::verified(self.log, self.plan, &mut |sealed, event| {
            if sealed.seq <= known.seq {
                there |= (sealed.seq, sealed.hash) == (known.seq, known.hash);
                folded.apply_at(&event, sealed.at);
            } else {
                news.push((sealed.clone(), event));
            }
        })?;
        if !there {
            self.still_ours()?;
            return Err(self.distrust(1, REPLACED.to_owned()));
        }
        let events: Vec<(Event, Timestamp)> =
            news.iter().map(|(sealed, event)| (event.clone(), sealed.at)).collect();
        if let Err(place) = foreign_events::made(&folded, &events) {
            self.still_ours()?;
            let (sealed, event) = &news[place];
            let what = format!("{} was not written by provost", event.name());
            return Err(self.distrust(sealed.seq, what));
        }
        for (sealed, event) in news {
            folded.apply_at(&event, sealed.at);
            self.head = Head { seq: sealed.seq, hash: sealed.hash };
            (self.watch)(&folded, &sealed, &event);
        }
        *run = folded;
        Ok(())
    }

    /// Returns an error if several processes share the run and this one has lost its lease: events of its
    /// successor must not be taken for forged.
    fn still_ours(&self) -> Result<(), Error> {
        if !self.is_shared {
            return Ok(());
        }
        loop {
            let nothing = Append {
                plan: self.plan,
                expected_seq: self.log.head(self.plan)?.seq,
                at: self.context.now(),
                fence: self.fence.as_ref(),
                events: &[],
                effects: &[],
            };
            match self.log.append(nothing) {
                Err(StoreError::Conflict { .. }) => {}
                answered => return Ok(answered.map(|_| ())?),
            }
        }
    }

    /// Records that nothing from this event on can be trusted. If this fails too, the proofs made so far are
    /// the only evidence.
    fn distrust(&self, from_seq: u64, what: String) -> Error {
        let forged = HarnessCommand::Forged { from_seq, what: what.clone() };
        let events = decide::harness(&Run::default(), forged).unwrap_or_default();
        let events: Vec<Event> = events.into_iter().map(|event| self.context.redacted(event)).collect();
        let entries: Vec<LogEntry<'_>> =
            events.iter().map(|event| LogEntry { event, task_name: None }).collect();
        // The process that wrote to the log may also have changed the leases in it.
        let mut fence = None;
        for _ in 0..RACES {
            let Ok(head) = self.log.head(self.plan) else { break };
            let written = self.log.append(Append {
                plan: self.plan,
                expected_seq: head.seq,
                at: self.context.now(),
                fence,
                events: &entries,
                effects: &[],
            });
            match written {
                Err(StoreError::Conflict { .. }) => {}
                // A worker of a shared log writes nothing without its lease.
                Err(_) if fence.is_none() && self.fence.is_some() => fence = self.fence.as_ref(),
                _ => break,
            }
        }
        Error::Forged { plan: self.plan.clone(), from_seq, what }
    }
}

/// Makes events durable that are the last ones applied to `run`.
pub(crate) fn append(
    log: &dyn Log,
    plan: &PlanId,
    run: &Run,
    at: Timestamp,
    fence: Option<&Fence>,
    events: &[Event],
    effects: &[Effect],
) -> Result<Vec<SealedEvent>, StoreError> {
    let entries: Vec<LogEntry<'_>> = events
        .iter()
        .map(|event| LogEntry { event, task_name: event.step().and_then(|step| run.title(step)) })
        .collect();
    let expected_seq = run.seq - entries.len() as u64;
    let counts = log.counts_usage() && !events.is_empty();
    let used = counts.then(|| Effect::Used(budget::of_all_plans(run)));
    let effects: Vec<Effect> = effects.iter().cloned().chain(used).collect();
    log.append(Append { plan, expected_seq, at, fence, events: &entries, effects: &effects })
}
