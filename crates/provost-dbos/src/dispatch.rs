//! Turns the effects of events into statements of the transaction that writes the events.

use provost_core::fleet::labels;
use provost_core::fleet::work_item::WorkItem;
use provost_core::model::chain::PlanId;
use provost_core::model::timestamp::Timestamp;
use provost_core::state::run::Run;
use provost_engine::plan::harness::Harness;
use provost_engine::plan::plan_context;
use provost_store::postgres::{Dispatch, Param, SqlStatement};
use provost_store::{Effect, Fence};

use crate::wire::{END, JUDGE};

/// Separator of the parts of one text; no part contains it.
const APART: char = '\t';

/// Turns effects into calls of the functions in `schema.sql`.
pub(crate) struct Queues;

impl Dispatch for Queues {
    fn statements(&self, effect: &Effect) -> Vec<SqlStatement> {
        vec![match effect {
            // The log counts it itself.
            Effect::Used(_) => return Vec::new(),
            Effect::Wake(plan) => call("wake($1, NULL)", &[&plan.0]),
            // The time is from the writer's clock. A database whose clock is ahead would otherwise wake the
            // plan repeatedly until the clocks agree.
            Effect::WakeAt { plan, at, .. } => SqlStatement {
                sql: "SELECT provost_cluster.wake($1, \
                      (extract(epoch FROM clock_timestamp()) * 1000)::bigint + $2)"
                    .to_owned(),
                params: vec![
                    Param::Text(Some(plan.0.clone())),
                    Param::Number(Some(at.0.saturating_sub(plan_context::now().0).cast_signed())),
                ],
            },
            Effect::Enqueue { pool, plan, key, body, .. } => offer(pool, plan, key, body),
            Effect::Cancel { key } => match key.split(APART).collect::<Vec<_>>()[..] {
                [plan, item, lease, epoch] => {
                    call("finish_own($1, $2, $3, $4::text::bigint)", &[plan, item, lease, epoch])
                }
                [plan, item] => call("finish($1, $2)", &[plan, item]),
                _ => return Vec::new(),
            },
        }]
    }
}

fn call(function: &str, params: &[&str]) -> SqlStatement {
    SqlStatement {
        sql: format!("SELECT provost_cluster.{function}"),
        params: params.iter().map(|text| Param::Text(Some((*text).to_owned()))).collect(),
    }
}

/// Offers an item with its labels; if the body names a worker and a lease, that worker takes it at once.
fn offer(pool: &str, plan: &PlanId, item: &str, body: &str) -> SqlStatement {
    let said: Vec<&str> = body.split(APART).collect();
    match said[..] {
        [labels, worker, lease, epoch] => call(
            "offer_here($1, $2, $3, $4, $5, $6, $7::text::bigint)",
            &[&plan.0, item, pool, labels, worker, lease, epoch],
        ),
        _ => call("offer($1, $2, $3, $4)", &[&plan.0, item, pool, body]),
    }
}

/// Worker that takes an offered item at once, with its lease.
pub(crate) struct By<'a> {
    pub worker: &'a str,
    pub fence: Fence,
}

impl By<'_> {
    /// Returns the body of an offer: the labels, the worker and its lease.
    pub(crate) fn taking(&self, labels: &str) -> String {
        let (lease, epoch) = (as_written(&self.fence), self.fence.epoch.cast_signed().to_string());
        [labels, self.worker, &lease, &epoch].join(&APART.to_string())
    }
}

/// Returns the lease name in the form of the log.
pub(crate) fn as_written(fence: &Fence) -> String {
    serde_json::Value::from(fence.name.as_str()).to_string()
}

/// Returns the effect that ends an item. If the item has a lease of its own, nothing is written unless it is
/// still taken under that lease.
pub(crate) fn finish(plan: &PlanId, item: WorkItem, own: Option<&Fence>) -> Effect {
    let own = own.map(|own| format!("{APART}{}{APART}{}", as_written(own), own.epoch.cast_signed()));
    Effect::Cancel { key: format!("{plan}{APART}{item}{}", own.unwrap_or_default()) }
}

/// Returns the labels that a role requires of a machine.
pub(crate) fn asked(harness: &Harness, role: &str) -> Option<String> {
    Some(labels::joined(&harness.config().agents.get(role)?.labels))
}

pub(crate) fn offers(
    plan: &PlanId,
    run: &Run,
    items: &[WorkItem],
    wake: Option<Timestamp>,
    asked: &dyn Fn(&str) -> Option<String>,
) -> Vec<Effect> {
    let wake = wake.map(|at| Effect::WakeAt { plan: plan.clone(), at, key: at.0.to_string() });
    items.iter().map(|item| offer_to_all(plan, run, *item, asked)).chain(wake).collect()
}

fn offer_to_all(plan: &PlanId, run: &Run, item: WorkItem, asked: &dyn Fn(&str) -> Option<String>) -> Effect {
    let role = item.role(run);
    let others = if item == WorkItem::End { END } else { JUDGE };
    Effect::Enqueue {
        pool: role.unwrap_or(others).to_owned(),
        plan: plan.clone(),
        key: item.to_string(),
        body: role.and_then(asked).unwrap_or_default(),
        priority: 0,
    }
}

#[cfg(test)]
mod tests {
    use provost_core::fleet::work_item::WorkItem;
    use provost_core::model::chain::PlanId;
    use provost_store::Fence;
    use provost_store::postgres::{Dispatch as _, Param};

    use super::{By, Queues, finish, offer};

    #[test]
    fn what_is_offered_says_who_has_it_or_nobody() {
        let plan = PlanId("a".to_owned());
        let all = offer("coder", &plan, "attempt 1 1", "gpu,os=linux");
        assert_eq!((all.params.len(), all.sql.contains("offer_here")), (4, false), "{all:?}");
        let by = By { worker: "w", fence: Fence { name: "plan \"a\"".to_owned(), epoch: 7 } };
        let here = offer("coder", &plan, "attempt 1 1", &by.taking("gpu,os=linux"));
        assert!(here.sql.contains("offer_here"), "{here:?}");
        let said = |text: &str| Param::Text(Some(text.to_owned()));
        assert_eq!(here.params[3..], [said("gpu,os=linux"), said("w"), said(r#""plan \"a\"""#), said("7")]);
    }

    #[test]
    fn an_item_with_a_lease_of_its_own_ends_only_under_it() {
        let plan = PlanId("a".to_owned());
        let plain = Queues.statements(&finish(&plan, WorkItem::End, None));
        assert!(plain[0].sql.contains("finish($1, $2)"), "{plain:?}");
        let own = Fence { name: "plan a step 1".to_owned(), epoch: 7 };
        let fenced = Queues.statements(&finish(&plan, WorkItem::End, Some(&own)));
        assert!(fenced[0].sql.contains("finish_own"), "{fenced:?}");
        let said = |text: &str| Param::Text(Some(text.to_owned()));
        assert_eq!(fenced[0].params, [said("a"), said("end"), said(r#""plan a step 1""#), said("7")]);
    }
}
