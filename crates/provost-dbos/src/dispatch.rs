//! What follows from events, as statements of the transaction that writes them.

use provost_core::chain::PlanId;
use provost_core::item::Item;
use provost_engine::site;
use provost_store::Effect;
use provost_store::postgres::{Dispatch, Param, Statement};

/// Between the plan and the item in a key. No plan is named so.
const APART: char = '\t';

/// Turns effects into calls of the functions in `schema.sql`.
pub(crate) struct Queues;

impl Dispatch for Queues {
    fn statements(&self, effect: &Effect) -> Vec<Statement> {
        vec![match effect {
            Effect::Wake(plan) => call("wake($1, NULL)", &[&plan.0]),
            // The time is one of the writer's clock: told as it is to a database whose clock is ahead, it would
            // have the plan looked at over and over until the clocks agree.
            Effect::WakeAt { plan, at, .. } => Statement {
                sql: "SELECT provost_cluster.wake($1, \
                      (extract(epoch FROM clock_timestamp()) * 1000)::bigint + $2)"
                    .to_owned(),
                params: vec![
                    Param::Text(Some(plan.0.clone())),
                    Param::Number(Some(at.0.saturating_sub(site::now().0).cast_signed())),
                ],
            },
            Effect::Enqueue { pool, plan, key, body, .. } => {
                call("offer($1, $2, $3, $4)", &[&plan.0, key, pool, body])
            }
            Effect::Cancel { key } => {
                let (plan, item) = key.split_once(APART).unwrap_or_default();
                call("finish($1, $2)", &[plan, item])
            }
        }]
    }
}

fn call(function: &str, params: &[&str]) -> Statement {
    Statement {
        sql: format!("SELECT provost_cluster.{function}"),
        params: params.iter().map(|text| Param::Text(Some((*text).to_owned()))).collect(),
    }
}

/// The item is over.
pub(crate) fn finish(plan: &PlanId, item: Item) -> Effect {
    Effect::Cancel { key: format!("{plan}{APART}{item}") }
}
