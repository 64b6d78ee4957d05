//! A worker that goes on with a plan: whoever ends an item decides what is next, and may take it at once.
//!
//! What is next is decided and offered in the transaction that ends the last item, and is taken in it, where
//! nothing is in the way. No queue knows of such an item; if its worker dies, it is found by its lease.
//!
//! **Invariant:** whoever does not look at plans, or is about to leave, goes on with none.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use provost_core::fleet::labels::{self, Label};
use provost_core::fleet::work_item::Item;
use provost_core::model::chain::PlanId;
use provost_core::state::run::Run;
use provost_engine::drive::Next;
use provost_engine::harness::Harness;
use provost_store::{Effect, Fence};
use tokio::runtime::Handle;

use crate::dispatch::By;
use crate::place::Crew;
use crate::{dispatch, tick};

/// Others want to get on, too: after this time the next item of the plan goes by its queue.
const FAIR: Duration = Duration::from_secs(5);
/// How often a database that is away is asked again.
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

/// The item that is being done, by its number, and under which lease.
pub(crate) struct InHand {
    pub id: String,
    pub item: Item,
    pub fence: Option<Fence>,
}

impl<'a> Stint<'a> {
    pub fn new(
        crew: &'a Crew,
        runtime: &'a Handle,
        harness: &'a Harness,
        plan: &'a PlanId,
        stop: Arc<AtomicBool>,
        in_hand: Arc<Mutex<InHand>>,
    ) -> Self {
        Self { crew, runtime, harness, plan, begun: Instant::now(), stop, in_hand }
    }

    /// Takes the item that came by a queue.
    pub fn take(&self, fence: &Fence) -> bool {
        let mut in_hand = self.in_hand.lock().unwrap_or_else(PoisonError::into_inner);
        in_hand.fence = Some(fence.clone());
        let taken = self.runtime.block_on(take(self.crew, &in_hand.id, fence));
        if taken {
            self.crew.keep(self.plan, in_hand.item);
        }
        taken
    }

    /// Whether what follows from `done` may be done here as well; whether there is a limit is asked by the
    /// database.
    fn may_have(&self, _done: Item, pool: &str, asked: &str) -> bool {
        let asked: Vec<Label> = asked.split(',').filter_map(|label| label.parse().ok()).collect();
        self.crew.listens_to(&crate::wire::queue(pool))
            && labels::lacking(&self.crew.labels, &asked).is_none()
    }

    fn by(&self) -> Option<By<'_>> {
        let in_hand = self.in_hand.lock().unwrap_or_else(PoisonError::into_inner);
        in_hand.fence.clone().map(|fence| By { worker: &self.crew.id, fence })
    }
}

impl Next for Stint<'_> {
    fn goes_on(&self) -> bool {
        let is_wanted = !self.crew.leaves() && !self.stop.load(Ordering::Relaxed);
        // Where trees travel, another machine judges what this one made.
        self.crew.looks && self.crew.carries.is_none() && is_wanted && self.begun.elapsed() < FAIR
    }

    fn offers(&self, run: &Run, done: Item, begun: Item) -> Vec<Effect> {
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

    fn has(&self, begun: Item) -> bool {
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

    fn ends(&self, item: Item) -> Vec<Effect> {
        vec![dispatch::finish(self.plan, item), Effect::Wake(self.plan.clone())]
    }

    fn is_over(&self, item: Item) -> Vec<Effect> {
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

/// The number of an item that was offered to us. What was, and cannot be asked for in all that time, is found by
/// its lease.
async fn ours(crew: &Crew, plan: &PlanId, item: Item, fence: &Fence) -> Option<String> {
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
