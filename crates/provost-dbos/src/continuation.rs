//! Sticky continuation: the worker that ends an item decides what is next, and may take it at once.
//!
//! The next item is decided, offered and, if nothing prevents it, taken in the transaction that ends the last
//! one. Such an item is on no queue; if its worker dies, it is found by its lease.
//!
//! **Invariant:** a worker that does not schedule plans, or is about to leave, does not continue with any.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use provost_core::fleet::labels::{self, Label};
use provost_core::fleet::work_item::WorkItem;
use provost_core::model::chain::PlanId;
use provost_core::state::run::Run;
use provost_engine::plan::harness::Harness;
use provost_engine::run_loop::Continues;
use provost_store::{Effect, Fence};
use tokio::runtime::Handle;

use crate::dispatch::By;
use crate::worker_context::Crew;
use crate::{dispatch, tick};

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
    begun: Instant,
    stop: Arc<AtomicBool>,
    in_hand: Arc<Mutex<InHand>>,
}

/// The running item with its id and its lease.
pub(crate) struct InHand {
    pub id: String,
    pub item: WorkItem,
    pub fence: Option<Fence>,
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
        Self { crew, runtime, harness, plan, begun: Instant::now(), stop, in_hand }
    }

    /// Takes an item that came from a queue.
    pub(crate) fn take(&self, fence: &Fence) -> bool {
        let mut in_hand = self.in_hand.lock().unwrap_or_else(PoisonError::into_inner);
        in_hand.fence = Some(fence.clone());
        let taken = self.runtime.block_on(take(self.crew, &in_hand.id, fence));
        if taken {
            self.crew.keep(self.plan, in_hand.item);
        }
        taken
    }

    /// Returns whether this worker may also perform the next item; the database checks the limits.
    fn may_have(&self, _done: WorkItem, pool: &str, asked: &str) -> bool {
        let asked: Vec<Label> = asked.split(',').filter_map(|label| label.parse().ok()).collect();
        self.crew.listens_to(&crate::wire::queue(pool))
            && labels::lacking(&self.crew.labels, &asked).is_none()
    }

    fn by(&self) -> Option<By<'_>> {
        let in_hand = self.in_hand.lock().unwrap_or_else(PoisonError::into_inner);
        in_hand.fence.clone().map(|fence| By { worker: &self.crew.id, fence })
    }
}

impl Continues for Stint<'_> {
    fn goes_on(&self) -> bool {
        let is_wanted = !self.crew.leaves() && !self.stop.load(Ordering::Relaxed);
        // If trees travel, another machine judges what this one made.
        self.crew.looks && self.crew.carries.is_none() && is_wanted && self.begun.elapsed() < FAIR
    }

    fn offers(&self, run: &Run, done: WorkItem, begun: WorkItem) -> Vec<Effect> {
        let asked = |role: &str| tick::asked(self.harness, role);
        let Effect::Enqueue { pool, plan, key, body, priority } = tick::offer(self.plan, run, begun, &asked)
        else {
            return self.ends(done);
        };
        let body = match self.by().filter(|_| self.may_have(done, &pool, &body)) {
            Some(by) => by.taking(&body),
            None => body,
        };
        vec![dispatch::finish(self.plan, done), Effect::Enqueue { pool, plan, key, body, priority }]
    }

    fn has(&self, begun: WorkItem) -> bool {
        let mut in_hand = self.in_hand.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(fence) = in_hand.fence.clone() else { return false };
        let Some(id) = self.runtime.block_on(ours(self.crew, self.plan, begun, &fence)) else { return false };
        let mut busy = self.crew.busy();
        if let Some(was) = busy.remove(&in_hand.id) {
            busy.insert(id.clone(), was);
        }
        drop(busy);
        self.crew.keep(self.plan, begun);
        self.crew.keep_no_more(self.plan, in_hand.item);
        *in_hand = InHand { id, item: begun, fence: Some(fence) };
        true
    }

    fn ends(&self, item: WorkItem) -> Vec<Effect> {
        vec![dispatch::finish(self.plan, item), Effect::Wake(self.plan.clone())]
    }

    fn is_over(&self, item: WorkItem) -> Vec<Effect> {
        vec![dispatch::finish(self.plan, item)]
    }
}

async fn take(crew: &Crew, id: &str, fence: &Fence) -> bool {
    let taken = sqlx::query_scalar::<_, bool>("SELECT provost_cluster.take($1, $2, $3, $4)")
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
        let found = sqlx::query_scalar(
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
