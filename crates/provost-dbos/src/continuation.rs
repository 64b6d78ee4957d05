//! Sticky continuation: the worker that ends an item decides what is next, and may take it at once.
//!
//! The next item is decided, offered and, if nothing prevents it, taken in the transaction that ends the last
//! one. Such an item is on no queue; if its worker dies, it is found by its lease.
//!
//! **Invariant:** a worker that does not schedule plans, or is about to leave, does not continue with any.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use provost_core::fleet::labels::{self, Label};
use provost_core::fleet::work_item::WorkItem;
use provost_core::model::chain::PlanId;
use provost_core::rules::schedule;
use provost_core::state::run::Run;
use provost_engine::plan::harness::Harness;
use provost_engine::run_loop::{Continues, Follows};
use provost_store::{Effect, Fence, Lease};
use tokio::runtime::Handle;

use crate::dispatch::By;
use crate::worker_context::Crew;
use crate::{dispatch, open_items};

/// For fairness: after this time the next item of the plan goes through its queue.
const FAIR: Duration = Duration::from_secs(5);
/// Number of retries while the database is unreachable.
const PATIENCE: usize = 60;
const AGAIN: Duration = Duration::from_millis(500);

pub(crate) struct Stint<'a> {
    crew: &'a Crew,
    runtime: &'a Handle,
    harness: &'a Harness,
    plan: &'a PlanId,
    /// Since when this worker holds the plan.
    begun: Cell<Instant>,
    stop: Arc<AtomicBool>,
    in_hand: Arc<Mutex<InHand>>,
}

/// The running item with its id.
pub(crate) struct InHand {
    pub id: String,
    pub item: WorkItem,
    /// The plan's lease, while this worker holds it.
    pub fence: Option<Fence>,
    /// The lease of the step, if the item needs it. An attempt is then taken under it.
    pub step: Option<Lease>,
}

impl InHand {
    /// Returns the lease that the item was taken under, if it is not the plan's.
    fn own(&self) -> Option<&Fence> {
        let is_attempt = matches!(self.item, WorkItem::Attempt { .. });
        self.step.as_ref().map(Lease::fence).filter(|_| is_attempt)
    }
}

impl<'a> Stint<'a> {
    pub(crate) fn new(
        crew: &'a Crew,
        runtime: &'a Handle,
        harness: &'a Harness,
        plan: &'a PlanId,
        stop: Arc<AtomicBool>,
        in_hand: Arc<Mutex<InHand>>,
    ) -> Self {
        Self { crew, runtime, harness, plan, begun: Cell::new(Instant::now()), stop, in_hand }
    }

    fn item(&self) -> MutexGuard<'_, InHand> {
        self.in_hand.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes an item that came from a queue, under the plan's lease or under that of its step.
    pub(crate) fn take(&self, plan: &Fence, step: Option<Lease>) -> bool {
        let mut in_hand = self.item();
        (in_hand.fence, in_hand.step) = (Some(plan.clone()), step);
        let taken = self.runtime.block_on(take(self.crew, &in_hand.id, in_hand.own().unwrap_or(plan)));
        if taken {
            self.crew.keep(self.plan, in_hand.item);
        }
        taken
    }

    /// Returns whether the item was taken under the lease of its step.
    pub(crate) fn is_aside(&self) -> bool {
        self.item().own().is_some()
    }

    /// Notes that this worker holds the plan's lease again, to report the item.
    pub(crate) fn holds(&self, plan: &Fence) {
        self.item().fence = Some(plan.clone());
        self.begun.set(Instant::now());
    }

    /// Returns the effect that ends the item.
    fn finish(&self, item: WorkItem) -> Effect {
        let in_hand = self.item();
        dispatch::finish(self.plan, item, in_hand.own().filter(|_| in_hand.item == item))
    }

    /// Returns whether this worker may also perform the next item; the database checks the limits.
    fn may_have(&self, _done: WorkItem, pool: &str, asked: &str) -> bool {
        let asked: Vec<Label> = asked.split(',').filter_map(|label| label.parse().ok()).collect();
        self.crew.listens_to(&crate::wire::queue(pool))
            && labels::lacking(&self.crew.labels, &asked).is_none()
    }

    fn by(&self) -> Option<By<'_>> {
        self.item().fence.clone().map(|fence| By { worker: &self.crew.id, fence })
    }
}

impl Continues for Stint<'_> {
    fn goes_on(&self) -> bool {
        let is_wanted = !self.crew.leaves() && !self.stop.load(Ordering::Relaxed);
        // If trees travel, another machine judges what this one made.
        self.crew.looks && self.crew.carries.is_none() && is_wanted && self.begun.get().elapsed() < FAIR
    }

    fn in_hand(&self, done: WorkItem) -> Option<(schedule::InHand, usize)> {
        let open = self.runtime.block_on(open_items::ask(self.crew, self.plan))?;
        Some((open.in_hand(Some(done)), open.jobs))
    }

    fn offers(&self, run: &Run, done: WorkItem, follows: &Follows) -> Vec<Effect> {
        let asked = |role: &str| dispatch::asked(self.harness, role);
        let mut offers = dispatch::offers(self.plan, run, &follows.begun, follows.wake, &asked);
        for (item, offer) in follows.begun.iter().zip(&mut offers) {
            if let Effect::Enqueue { pool, body, .. } = offer
                && follows.own == Some(*item)
                && let Some(by) = self.by().filter(|_| self.may_have(done, pool, body))
            {
                *body = by.taking(body);
            }
        }
        std::iter::once(self.finish(done)).chain(offers).collect()
    }

    fn has(&self, begun: WorkItem) -> bool {
        let mut in_hand = self.item();
        let Some(fence) = in_hand.fence.clone() else { return false };
        let Some(id) = self.runtime.block_on(ours(self.crew, self.plan, begun, &fence)) else { return false };
        let mut busy = self.crew.busy();
        if let Some(was) = busy.remove(&in_hand.id) {
            busy.insert(id.clone(), was);
        }
        drop(busy);
        self.crew.keep(self.plan, begun);
        self.crew.keep_no_more(self.plan, in_hand.item);
        *in_hand = InHand { id, item: begun, fence: Some(fence), step: None };
        true
    }

    fn ends(&self, item: WorkItem) -> Vec<Effect> {
        vec![self.finish(item), Effect::Wake(self.plan.clone())]
    }

    fn is_over(&self, item: WorkItem) -> Vec<Effect> {
        vec![self.finish(item)]
    }
}

async fn take(crew: &Crew, id: &str, fence: &Fence) -> bool {
    let taken = crew
        .project()
        .query_scalar::<bool>("SELECT provost_cluster.take($1, $2, $3, $4)")
        .bind(id)
        .bind(&crew.id)
        .bind(dispatch::as_written(fence))
        .bind(fence.epoch.cast_signed())
        .fetch_one(&crew.pool)
        .await
        .unwrap_or(false);
    if taken && let Some(busy) = crew.busy().get_mut(id) {
        busy.taken = true;
    }
    taken
}

/// Returns the id of an item that this worker has taken. If the database stays unreachable, the item is found
/// later by its lease.
async fn ours(crew: &Crew, plan: &PlanId, item: WorkItem, fence: &Fence) -> Option<String> {
    for _ in 0..PATIENCE {
        let found = crew.project().query_scalar(
            "SELECT id FROM provost_cluster.item WHERE plan = $1 AND name = $2 AND worker = $3 AND epoch = $4",
        )
        .bind(&plan.0)
        .bind(item.to_string())
        .bind(&crew.id)
        .bind(fence.epoch.cast_signed())
        .fetch_optional(&crew.pool)
        .await;
        match found {
            Ok(found) => return found,
            Err(_) => tokio::time::sleep(AGAIN).await,
        }
    }
    None
}
