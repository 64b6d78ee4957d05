//! One scheduling pass over a plan: decides the next items and offers them in one transaction.
//!
//! **Invariant:** the offered items are read while the plan's lease is held, so that an item given to another
//! worker is never taken for lost work.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use provost_core::model::chain::PlanId;
use provost_engine::journal;

use crate::error::{ErrorContext as _, with_causes};
use crate::work_items::{self, PassResult};
use crate::worker_context::Crew;
use crate::{Error, dispatch, open_items, sweep};

/// Number of retries if another process writes first or holds the plan, before the plan is left to the next
/// tick.
const RACES: usize = 30;
const MOMENT: Duration = Duration::from_millis(50);
/// Delay of the next tick if another process holds the plan.
const SOON: Duration = Duration::from_secs(1);
/// Delay of the next tick if this machine cannot reach the plan; another worker may take it.
const ELSEWHERE: Duration = Duration::from_secs(3);
/// Delay of the next tick if something is wrong with the plan.
const LATER: Duration = Duration::from_secs(15);

pub(crate) async fn look(crew: &Arc<Crew>, plan: &str) -> Result<&'static str, Error> {
    for _ in 0..RACES {
        let turn = match once(crew, plan).await? {
            Ok(turn) => turn,
            Err(
                error @ (provost_engine::Error::NotThere { .. } | provost_engine::Error::NotCarried { .. }),
            ) => {
                crew.trouble(plan, &format!("{error} on the machine of {}", crew.id)).await?;
                crew.wake_in(plan, ELSEWHERE).await?;
                return Ok("another worker looks");
            }
            // A plan with an untrusted log rests until a person has looked at it.
            Err(error @ (provost_engine::Error::Forged { .. } | provost_engine::Error::Broken { .. })) => {
                crew.trouble(plan, &error.to_string()).await?;
                return Ok("log not trusted");
            }
            Err(error) => {
                crew.trouble(plan, &with_causes(&error)).await?;
                crew.wake_in(plan, LATER).await?;
                return Ok("in trouble");
            }
        };
        match turn {
            PassResult::Moved => {}
            // The process whose result caused this tick may be about to release the plan.
            PassResult::Busy => tokio::time::sleep(MOMENT).await,
            PassResult::Offered => return Ok("offered"),
            PassResult::Idle => {
                withdraw(crew, plan).await?;
                return Ok("idle");
            }
            PassResult::OverBudget(why) => {
                crew.trouble(plan, &why).await?;
                return Ok("over budget");
            }
            PassResult::LawChanged => {
                crew.trouble(plan, "the plan file is not what was approved").await?;
                return Ok("law changed");
            }
        }
    }
    crew.wake_in(plan, SOON).await?;
    Ok("busy")
}

async fn once(crew: &Arc<Crew>, plan: &str) -> Result<Result<PassResult, provost_engine::Error>, Error> {
    let plan = PlanId(plan.to_owned());
    let looked = crew.apart(move |crew, runtime| {
        // Nothing needs to be fetched for a plan at rest.
        if crew.carries.is_some() && is_at_rest(crew, &plan)? {
            return Ok(PassResult::Idle);
        }
        let open = match crew.open(&plan, Arc::new(AtomicBool::new(false)), runtime) {
            Err(provost_engine::Error::NotThere { .. }) if is_at_rest(crew, &plan)? => {
                return Ok(PassResult::Idle);
            }
            open => open?,
        };
        let harness = &open.harness;
        let asked = |role: &str| dispatch::asked(harness, role);
        let in_hand = || runtime.block_on(open_items::ask(crew, &plan));
        work_items::turn(harness, &in_hand, &mut |run, items, wake| {
            dispatch::offers(&plan, run, items, wake, &asked)
        })
    });
    // A tick that panicked counts as not done.
    Ok(looked.await.unwrap_or(Ok(PassResult::Busy)))
}

/// Withdraws what was offered and not taken of a plan that a person has sent back.
async fn withdraw(crew: &Crew, plan: &str) -> Result<(), Error> {
    crew.project()
        .query(
            "DELETE FROM provost_cluster.item i USING provost.plan p WHERE i.plan = $1 AND i.worker IS NULL \
         AND p.name = to_json(i.plan)::text AND (SELECT e.name FROM provost.event e WHERE e.plan = p.id \
             AND e.name IN ('GATE_APPROVED', 'GATE_REJECTED') ORDER BY e.seq DESC LIMIT 1) = 'GATE_REJECTED'",
        )
        .bind(plan)
        .execute(&crew.pool)
        .await
        .attempted("withdraw items that are no longer wanted")?;
    Ok(())
}

/// Returns whether the plan is over or not approved; its file is not needed then.
fn is_at_rest(crew: &Crew, plan: &PlanId) -> Result<bool, provost_engine::Error> {
    Ok(sweep::is_at_rest(&journal::read(&*crew.log, plan)?))
}
