//! What is in hand of a plan: the items that were offered and are not done, and how many there may be.

use provost_core::fleet::work_item::WorkItem;
use provost_core::model::chain::PlanId;
use provost_core::rules::schedule::InHand;
use provost_store::Fence;

use crate::dispatch::as_written;
use crate::worker_context::Crew;

/// What is in hand of a plan.
#[derive(Clone, Debug)]
pub(crate) struct OpenItems {
    /// Items that were offered and are not done.
    pub items: Vec<WorkItem>,
    /// One of them was taken under the plan's lease; the plan is scheduled when it ends.
    pub is_held: bool,
    /// Number of items of a plan that may be in hand: as many as the running workers have slots for.
    pub jobs: usize,
}

impl OpenItems {
    /// Returns the tasks in hand, without those of `done`.
    pub(crate) fn in_hand(&self, done: Option<WorkItem>) -> InHand {
        let mut in_hand = InHand::default();
        let others = self.items.iter().filter(|item| Some(**item) != done);
        others.filter_map(|item| item.action()).for_each(|action| in_hand.take(action));
        in_hand
    }
}

/// Returns what is in hand of the plan; `None` while the database is unreachable.
pub(crate) async fn ask(crew: &Crew, plan: &PlanId) -> Option<OpenItems> {
    let lease = Fence { name: format!("plan {plan}"), epoch: 0 };
    let (names, is_held, slots): (Vec<String>, bool, i64) = crew
        .project()
        .query_as("SELECT items, is_held, slots FROM provost_cluster.in_hand($1, $2)")
        .bind(&plan.0)
        .bind(as_written(&lease))
        .fetch_one(&crew.pool)
        .await
        .ok()?;
    let slots = usize::try_from(slots).unwrap_or(usize::MAX);
    let items = names.iter().filter_map(|name| name.parse().ok()).collect();
    Some(OpenItems { items, is_held, jobs: slots.max(1) })
}
