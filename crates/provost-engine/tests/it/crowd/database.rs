//! A model of the database that the workers share: the log with its leases, the offered items, and the rows
//! of the queues. It has one clock, which is no worker's clock.
//!
//! It behaves like `provost-store/src/postgres/migrations` and `provost-dbos/src/schema.sql`. The log is
//! the same as in the other simulations and refuses stale fences itself; this model also records who held
//! which lease.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use provost_core::fleet::work_item::WorkItem;
use provost_core::model::chain::{Head, PlanId, SealedEvent};
use provost_core::model::plan::StepNumber;
use provost_core::model::timestamp::Timestamp;
use provost_engine::plan::harness::step_lease;
use provost_store::{Append, Cursor, Effect, Error, Fence, Holder, Lease, Log, Memory, Query};

use crate::sim::die;

/// Time without a heartbeat after which other workers take over, in milliseconds.
pub(super) const TTL: u64 = 30_000;

/// Name of a worker; new each time it starts.
pub(super) type Name = u64;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Work {
    Look,
    Item(WorkItem),
}

#[derive(Clone, Debug)]
pub(super) struct Row {
    pub plan: usize,
    pub work: Work,
    pub not_before: u64,
    pub claimed: Option<Name>,
}

#[derive(Clone, Debug)]
pub(super) struct Offered {
    pub row: u64,
    taken: Option<(Name, Fence)>,
}

struct Holding {
    epoch: u64,
    holder: Option<Name>,
    expires: u64,
}

pub(super) struct Plan {
    pub id: PlanId,
    pub log: Memory,
    pub offered: BTreeMap<String, Offered>,
    /// Its level has trees of their own for agents.
    pub has_trees: bool,
}

#[derive(Default)]
pub(super) struct Database {
    pub now: u64,
    pub plans: Vec<Plan>,
    pub rows: BTreeMap<u64, Row>,
    /// Time of each worker's last heartbeat.
    pub seen: BTreeMap<Name, u64>,
    leases: BTreeMap<String, Holding>,
    numbers: u64,
}

impl Database {
    pub(super) fn offered(&self, plan: usize) -> Vec<WorkItem> {
        self.plans[plan].offered.keys().map(|name| name.parse().unwrap()).collect()
    }

    /// Returns whether an item was taken under the plan's lease.
    pub(super) fn is_held(&self, plan: usize) -> bool {
        let Plan { id, offered, .. } = &self.plans[plan];
        let name = format!("plan {id}");
        offered.values().any(|offered| offered.taken.as_ref().is_some_and(|(_, fence)| fence.name == name))
    }

    pub(super) fn lease(&mut self, plan: usize, worker: Name) -> Option<Fence> {
        let name = format!("plan {}", self.plans[plan].id);
        self.take_lease(plan, name, worker)
    }

    pub(super) fn step_lease(&mut self, plan: usize, step: StepNumber, worker: Name) -> Option<Fence> {
        let name = step_lease(&self.plans[plan].id, step);
        self.take_lease(plan, name, worker)
    }

    fn take_lease(&mut self, plan: usize, name: String, worker: Name) -> Option<Fence> {
        let log = &self.plans[plan].log;
        let held = self.leases.get(&name);
        if held.is_some_and(|held| held.holder.is_some() && held.expires > self.now) {
            return None;
        }
        let holder = Holder {
            pid: 1,
            host: String::new(),
            what: name,
            since: Timestamp(0),
            pid_namespace: None,
            checks_session: false,
            is_run: false,
        };
        let fence = log.lease(&holder.what, &holder).unwrap().fence().clone();
        let holding = Holding { epoch: fence.epoch, holder: Some(worker), expires: self.now + TTL };
        self.leases.insert(fence.name.clone(), holding);
        Some(fence)
    }

    pub(super) fn renew(&mut self, fence: &Fence) -> bool {
        let now = self.now;
        let held = self.leases.get_mut(&fence.name);
        let held = held.filter(|held| held.epoch == fence.epoch && held.holder.is_some());
        held.map(|held| held.expires = now + TTL).is_some()
    }

    pub(super) fn release(&mut self, fence: &Fence) {
        if let Some(held) = self.leases.get_mut(&fence.name)
            && held.epoch == fence.epoch
        {
            held.holder = None;
        }
    }

    /// Gives back the lease of a step, if this worker has it.
    pub(super) fn release_step(&mut self, plan: usize, step: StepNumber, worker: Name) {
        let held = self.leases.get_mut(&step_lease(&self.plans[plan].id, step));
        if let Some(held) = held.filter(|held| held.holder == Some(worker)) {
            held.holder = None;
        }
    }

    /// Returns whether no other worker has taken over this lease.
    pub(super) fn is_last(&self, fence: &Fence) -> bool {
        self.leases.get(&fence.name).is_some_and(|held| held.epoch == fence.epoch)
    }

    fn is_live(&self, fence: &Fence) -> bool {
        let live = |held: &Holding| held.holder.is_some() && held.expires > self.now;
        self.is_last(fence) && self.leases.get(&fence.name).is_some_and(live)
    }

    pub(super) fn wake(&mut self, plan: usize, not_before: u64) {
        self.enqueue(Row { plan, work: Work::Look, not_before, claimed: None });
    }

    fn enqueue(&mut self, row: Row) -> u64 {
        self.numbers += 1;
        self.rows.insert(self.numbers, row);
        self.numbers
    }

    /// Offers an item. A plan has at most one item at a time beside agents in trees of their own, and an offered
    /// one is not replaced.
    fn offer(&mut self, plan: usize, name: &str) {
        let has_trees = self.plans[plan].has_trees;
        let is_alone = |name: &str| !has_trees || !name.starts_with("attempt");
        let others = self.plans[plan].offered.keys().filter(|other| *other != name);
        let others: Vec<&String> = others.filter(|other| is_alone(name) && is_alone(other)).collect();
        assert!(others.is_empty(), "{name} is offered beside {others:?}");
        if self.plans[plan].offered.contains_key(name) {
            return;
        }
        let work = Work::Item(name.parse().unwrap());
        let row = self.enqueue(Row { plan, work, not_before: 0, claimed: None });
        self.plans[plan].offered.insert(name.to_owned(), Offered { row, taken: None });
    }

    pub(super) fn is_offered(&self, plan: usize, item: WorkItem, row: u64) -> bool {
        let offered = self.plans[plan].offered.get(&item.to_string());
        offered.is_some_and(|offered| offered.row == row && offered.taken.is_none())
    }

    pub(super) fn take(&mut self, plan: usize, item: WorkItem, row: u64, by: (Name, Fence)) -> bool {
        let is_free = self.is_offered(plan, item, row);
        if let (true, Some(offered)) = (is_free, self.plans[plan].offered.get_mut(&item.to_string())) {
            offered.taken = Some(by);
        }
        is_free
    }

    /// Returns whether the item is recorded under this lease, and no other worker has taken the lease since.
    pub(super) fn is_own(&self, plan: usize, item: &str, fence: &Fence) -> bool {
        let taken = self.plans[plan].offered.get(item).and_then(|offered| offered.taken.as_ref());
        taken.is_some_and(|(_, own)| own == fence) && self.is_last(fence)
    }

    pub(super) fn give_back(&mut self, plan: usize, item: WorkItem, row: u64, delay: u64) {
        if self.is_offered(plan, item, row) {
            let (work, not_before) = (Work::Item(item), self.now + delay);
            let row = self.enqueue(Row { plan, work, not_before, claimed: None });
            self.plans[plan].offered.insert(item.to_string(), Offered { row, taken: None });
        }
    }

    /// Removes what dead workers left, and schedules the affected plans again.
    pub(super) fn sweep(&mut self) -> usize {
        let dead: BTreeSet<Name> =
            self.seen.iter().filter(|(_, seen)| **seen + TTL < self.now).map(|(name, _)| *name).collect();
        let is_there = |name: &Name| self.seen.contains_key(name) && !dead.contains(name);
        let mut woken = BTreeSet::new();
        let mut lost = Vec::new();
        for (place, plan) in self.plans.iter().enumerate() {
            for (name, offered) in &plan.offered {
                let is_kept = match &offered.taken {
                    Some((_, fence)) => self.is_live(fence),
                    None => self
                        .rows
                        .get(&offered.row)
                        .is_some_and(|row| row.claimed.as_ref().is_none_or(is_there)),
                };
                if !is_kept {
                    lost.push((place, name.clone()));
                    woken.insert(place);
                }
            }
        }
        let left: Vec<u64> = self
            .rows
            .iter()
            .filter(|(_, row)| row.claimed.as_ref().is_some_and(|by| !is_there(by)))
            .map(|(number, _)| *number)
            .collect();
        for number in left {
            if let Some(Row { plan, work: Work::Look, .. }) = self.rows.remove(&number) {
                woken.insert(plan);
            }
        }
        lost.iter().for_each(|(plan, name)| drop(self.plans[*plan].offered.remove(name)));
        self.seen.retain(|name, _| !dead.contains(name));
        woken.into_iter().for_each(|plan| self.wake(plan, 0));
        lost.len()
    }

    /// Executes an effect. `written` and the times in the effect are from the writer's clock.
    fn follow(&mut self, plan: usize, effect: &Effect, written: Timestamp) {
        match effect {
            Effect::Used(_) => {}
            Effect::Wake(_) => self.wake(plan, 0),
            Effect::WakeAt { at, .. } => self.wake(plan, self.now + at.0.saturating_sub(written.0)),
            Effect::Enqueue { key, .. } => self.offer(plan, key),
            Effect::Cancel { key } => {
                let (item, _) = ended(key);
                self.plans[plan].offered.remove(item);
            }
        }
    }
}

/// Returns the effect that ends an item, only under its own lease if it has one.
pub(super) fn end(item: WorkItem, own: Option<&Fence>) -> Effect {
    let own = own.map(|own| format!("\t{}\t{}", own.name, own.epoch)).unwrap_or_default();
    Effect::Cancel { key: format!("{item}{own}") }
}

fn ended(key: &str) -> (&str, Option<Fence>) {
    match key.split('\t').collect::<Vec<_>>()[..] {
        [item, name, epoch] => {
            (item, Some(Fence { name: name.to_owned(), epoch: epoch.parse().expect("an epoch") }))
        }
        _ => (key, None),
    }
}

/// The database as one worker accesses it for one plan. The worker may die before and after a write.
pub(super) struct Line<'a> {
    pub database: &'a Mutex<Database>,
    pub plan: usize,
    pub log: Memory,
    pub dies: (bool, bool),
}

impl Line<'_> {
    fn lock(&self) -> MutexGuard<'_, Database> {
        self.database.lock().unwrap()
    }
}

impl Log for Line<'_> {
    fn append(&self, append: Append<'_>) -> Result<Vec<SealedEvent>, Error> {
        if self.dies.0 {
            die();
        }
        let (fence, effects, at) = (append.fence.cloned(), append.effects, append.at);
        for effect in effects {
            if let Effect::Cancel { key } = effect
                && let (item, Some(own)) = ended(key)
                && !self.lock().is_own(self.plan, item, &own)
            {
                return Err(Error::Fenced { name: own.name, held: own.epoch, current: 0 });
            }
        }
        let sealed = self.log.append(append)?;
        let mut database = self.lock();
        let fence = fence.expect("whoever works for a cluster writes under a lease");
        assert!(database.is_last(&fence), "{fence:?} was taken over, and wrote");
        effects.iter().for_each(|effect| database.follow(self.plan, effect, at));
        drop(database);
        if self.dies.1 {
            die();
        }
        Ok(sealed)
    }

    handed_on_to!(log);

    fn lease(&self, _name: &str, _holder: &Holder) -> Result<Lease, Error> {
        unreachable!("leases are taken on the clock of the database")
    }
}
