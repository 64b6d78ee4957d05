//! The log in memory, with the same guarantees, for tests and simulation.
//!
//! A clone is another handle to the same log. A [`Memory::snapshot`] is the state after a crash: every
//! event and every epoch, but no held lease.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use provost_core::model::chain::{Head, PlanId, SealedEvent, seal};
use provost_core::model::timestamp::Timestamp;

use crate::archive::cold_read::{ColdRead, matches};
use crate::archive::{ArchivableLog, ColdEvent, ColdPart, ColdSource, check_part};
use crate::{Append, Cursor, Effect, Error, Fence, Holder, Lease, Log, Query};

#[derive(Clone, Default)]
pub struct Memory {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    appended: Condvar,
}

#[derive(Default)]
struct State {
    /// In the order of writing; the cursor of an event is its position, counted from 1. An archived event, and
    /// the place that an archiving takes, is `None`.
    events: Vec<Option<SealedEvent>>,
    parts: BTreeMap<PlanId, Vec<ColdPart>>,
    archivings: u64,
    heads: BTreeMap<PlanId, Head>,
    wakes: BTreeSet<PlanId>,
    epochs: BTreeMap<String, u64>,
    holders: BTreeMap<String, Holder>,
}

impl Memory {
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns an independent copy, in the state that a crash at this moment would leave.
    pub fn snapshot(&self) -> Self {
        let state = self.lock();
        let copy = State {
            events: state.events.clone(),
            parts: state.parts.clone(),
            archivings: state.archivings,
            heads: state.heads.clone(),
            wakes: state.wakes.clone(),
            epochs: state.epochs.clone(),
            holders: BTreeMap::new(),
        };
        Self { shared: Arc::new(Shared { state: Mutex::new(copy), appended: Condvar::new() }) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.shared.lock()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn head(&self, plan: &PlanId) -> Head {
        self.heads.get(plan).copied().unwrap_or(Head::START)
    }

    fn cursor(&self) -> Cursor {
        Cursor(self.events.len() as u64)
    }

    fn note_archiving(&mut self) {
        self.events.push(None);
        self.archivings += 1;
    }

    fn check(&self, append: &Append<'_>) -> Result<Head, Error> {
        if let Some(fence) = append.fence {
            let current = self.epochs.get(&fence.name).copied().unwrap_or(0);
            if current != fence.epoch {
                return Err(Error::Fenced { name: fence.name.clone(), held: fence.epoch, current });
            }
        }
        let head = self.head(append.plan);
        if head.seq != append.expected_seq {
            let plan = append.plan.clone();
            return Err(Error::Conflict { plan, expected: append.expected_seq, found: head.seq });
        }
        Ok(head)
    }
}

impl Log for Memory {
    fn append(&self, append: Append<'_>) -> Result<Vec<SealedEvent>, Error> {
        let mut state = self.lock();
        let mut head = state.check(&append)?;
        let mut written = Vec::with_capacity(append.events.len());
        for entry in append.events {
            let sealed = seal(append.plan, head, append.at, entry.event, entry.task_name);
            head = Head { seq: sealed.seq, hash: sealed.hash };
            written.push(sealed);
        }
        if !written.is_empty() {
            state.heads.insert(append.plan.clone(), head);
            state.events.extend(written.iter().cloned().map(Some));
        }
        for effect in append.effects {
            if let Effect::Wake(plan) = effect {
                state.wakes.insert(plan.clone());
            }
        }
        self.shared.appended.notify_all();
        Ok(written)
    }

    fn head(&self, plan: &PlanId) -> Result<Head, Error> {
        Ok(self.lock().head(plan))
    }

    fn read_placed(
        &self,
        query: &Query,
        each: &mut dyn FnMut(Cursor, SealedEvent) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        let parts = match &query.plan {
            Some(plan) => self.archived(plan)?,
            None => Vec::new(),
        };
        let cold = ColdRead { parts: &parts, folder: None, doubt: &|_| None };
        cold.each(query, &mut |each| self.read_live(query, each), each)
    }

    fn wait(&self, after: Cursor, timeout: Duration) -> Result<Cursor, Error> {
        let deadline = Instant::now() + timeout;
        let mut state = self.lock();
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if state.cursor() > after || left.is_zero() {
                return Ok(state.cursor());
            }
            (state, _) =
                self.shared.appended.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn cursor(&self) -> Result<Cursor, Error> {
        Ok(self.lock().cursor())
    }

    fn unarchived_plans(&self) -> Result<Vec<PlanId>, Error> {
        let state = self.lock();
        let mut plans: Vec<PlanId> = Vec::new();
        let mut seen = BTreeSet::new();
        for event in state.events.iter().flatten() {
            if seen.insert(&event.plan) {
                plans.push(event.plan.clone());
            }
        }
        Ok(plans)
    }

    fn archived_plans(&self) -> Result<Vec<PlanId>, Error> {
        let state = self.lock();
        let is_over = |(plan, parts): &(&PlanId, &Vec<ColdPart>)| {
            parts.last().is_some_and(|last| last.end() == state.head(plan))
        };
        Ok(state.parts.iter().filter(is_over).map(|(plan, _)| plan.clone()).collect())
    }

    fn archived(&self, plan: &PlanId) -> Result<Vec<ColdPart>, Error> {
        Ok(self.lock().parts.get(plan).cloned().unwrap_or_default())
    }

    fn archivings(&self) -> Result<u64, Error> {
        Ok(self.lock().archivings)
    }

    fn take_wakes(&self) -> Result<Vec<PlanId>, Error> {
        Ok(std::mem::take(&mut self.lock().wakes).into_iter().collect())
    }

    fn lease(&self, name: &str, holder: &Holder) -> Result<Lease, Error> {
        let mut state = self.lock();
        if let Some(holder) = state.holders.get(name) {
            return Err(Error::LeaseHeld { name: name.to_owned(), holder: Some(holder.clone()) });
        }
        state.holders.insert(name.to_owned(), holder.clone());
        let epoch = state.epochs.entry(name.to_owned()).or_default();
        *epoch += 1;
        let fence = Fence { name: name.to_owned(), epoch: *epoch };
        Ok(Lease::new(fence, Held { shared: self.shared.clone(), name: name.to_owned() }))
    }

    fn holder(&self, name: &str) -> Result<Option<Holder>, Error> {
        Ok(self.lock().holders.get(name).cloned())
    }
}

struct Held {
    shared: Arc<Shared>,
    name: String,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.shared.lock().holders.remove(&self.name);
    }
}

impl Memory {
    fn read_live(
        &self,
        query: &Query,
        each: &mut dyn FnMut(Cursor, SealedEvent) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        let end = self.lock().events.len();
        for step in 0..end {
            let place = if query.newest_first { end - 1 - step } else { step };
            let cursor = Cursor(place as u64 + 1);
            // The lock is not held while `each` runs, because `each` may use the log.
            let event = self.lock().events.get(place).cloned().flatten();
            let Some(event) = event.filter(|event| matches(query, cursor, event)) else { continue };
            if each(cursor, event).is_break() {
                break;
            }
        }
        Ok(())
    }
}

impl ArchivableLog for Memory {
    fn read_sources(
        &self,
        plan: &PlanId,
        after: u64,
        each: &mut dyn FnMut(ColdEvent) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        let query = Query { after_seq: Some(after), ..Query::plan(plan) };
        self.read_live(&query, &mut |place, sealed| {
            each(ColdEvent { place, sealed, source: ColdSource::default() })
        })
    }

    fn remove_archived(&self, parts: &[ColdPart], _at: Timestamp) -> Result<(), Error> {
        let mut state = self.lock();
        for part in parts {
            let archived =
                state.parts.get(&part.plan).and_then(|parts| parts.last()).map_or(Head::START, ColdPart::end);
            check_part(part, archived, state.head(&part.plan))?;
        }
        for part in parts {
            for event in &mut state.events {
                event.take_if(|event| event.plan == part.plan);
            }
            state.parts.entry(part.plan.clone()).or_default().push(part.clone());
        }
        state.note_archiving();
        self.shared.appended.notify_all();
        Ok(())
    }

    fn keep_archived(&self, parts: &[ColdPart], _at: Timestamp, through: Cursor) -> Result<(), Error> {
        let mut state = self.lock();
        while state.cursor() < through {
            state.events.push(None);
        }
        for part in parts {
            check_part(part, state.head(&part.plan), part.end())?;
            state.heads.insert(part.plan.clone(), part.end());
            state.parts.entry(part.plan.clone()).or_default().push(part.clone());
        }
        state.note_archiving();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::Memory;
    use crate::suite;
    use crate::suite::Handles;

    fn fresh() -> Handles {
        let log = Memory::new();
        Box::new(move || Arc::new(log.clone()))
    }

    crate::every_log_must!(fresh);

    #[test]
    fn a_snapshot_keeps_events_and_epochs_and_forgets_who_held_what() {
        use crate::{Holder, Log as _};
        let log = Memory::new();
        suite::append_steps(&log, "a", 3);
        let lease = log.lease("a", &Holder::here("run", Default::default())).unwrap();
        let after_crash = log.snapshot();
        assert_eq!(after_crash.cursor().unwrap(), log.cursor().unwrap());
        assert_eq!(after_crash.holder("a").unwrap(), None);
        let again = after_crash.lease("a", &Holder::here("run", Default::default())).unwrap();
        assert_eq!(again.fence().epoch, lease.fence().epoch + 1);
        suite::append_steps(&after_crash, "b", 1);
        assert_eq!(log.unarchived_plans().unwrap().len(), 1);
    }
}
