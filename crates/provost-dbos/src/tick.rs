//! One look at a plan: what is to be done next is decided and offered, in one transaction.
//!
//! **Invariant:** what was offered is read while the plan's lease is held: what another is given meanwhile is
//! never taken for work that was lost.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use provost_core::fleet::labels;
use provost_core::fleet::work_item::Item;
use provost_core::model::chain::PlanId;
use provost_core::model::timestamp::Timestamp;
use provost_core::state::run::{Run, Stage};
use provost_engine::drive;
use provost_engine::harness::Harness;
use provost_engine::share::Turn;
use provost_store::Effect;

use crate::Error;
use crate::place::Crew;
use crate::wire::{END, JUDGE};

/// How often somebody may be faster, or have it in hand, before the plan is left to the next look.
const RACES: usize = 30;
const MOMENT: Duration = Duration::from_millis(50);
/// When a plan is looked at again that somebody has in hand.
const SOON: Duration = Duration::from_secs(1);
/// When a plan is looked at again that is not to be reached from here: by another, with some luck.
const ELSEWHERE: Duration = Duration::from_secs(3);
/// When a plan is looked at again that something is wrong with.
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
                return Ok("somebody else is to look");
            }
            // A plan whose log is not to be believed rests until a person has looked at it.
            Err(error @ (provost_engine::Error::Forged { .. } | provost_engine::Error::Broken { .. })) => {
                crew.trouble(plan, &error.to_string()).await?;
                return Ok("not to be believed");
            }
            Err(error) => {
                crew.trouble(plan, &said(&error)).await?;
                crew.wake_in(plan, LATER).await?;
                return Ok("in trouble");
            }
        };
        match turn {
            Turn::Moved => {}
            // Whoever has brought what this look is about may be about to let go.
            Turn::Busy => tokio::time::sleep(MOMENT).await,
            Turn::Offered => return Ok("offered"),
            Turn::Idle => return Ok("idle"),
            Turn::LawChanged => {
                crew.trouble(plan, "the plan file is not what was approved").await?;
                return Ok("law changed");
            }
        }
    }
    crew.wake_in(plan, SOON).await?;
    Ok("busy")
}

async fn once(crew: &Arc<Crew>, plan: &str) -> Result<Result<Turn, provost_engine::Error>, Error> {
    let plan = PlanId(plan.to_owned());
    let looked = crew.apart(move |crew, runtime| {
        // Nothing is fetched for it.
        if crew.carries.is_some() && is_at_rest(crew, &plan)? {
            return Ok(Turn::Idle);
        }
        let harness = match crew.harness(&plan, Arc::new(AtomicBool::new(false)), runtime) {
            Err(provost_engine::Error::NotThere { .. }) if is_at_rest(crew, &plan)? => return Ok(Turn::Idle),
            found => found?,
        };
        let asked = |role: &str| asked(&harness, role);
        let in_hand = || runtime.block_on(in_hand(crew, &plan));
        harness.turn(&in_hand, &mut |run, items, wake| offers(&plan, run, items, wake, &asked))
    });
    // A look that panicked is told as one that was not done.
    Ok(looked.await.unwrap_or(Ok(Turn::Busy)))
}

/// What was offered and is not done; nothing, while the database is away.
async fn in_hand(crew: &Crew, plan: &PlanId) -> Option<Vec<Item>> {
    let names = sqlx::query_scalar("SELECT name FROM provost_cluster.item WHERE plan = $1")
        .bind(&plan.0)
        .fetch_all(&crew.pool);
    let names: Vec<String> = names.await.ok()?;
    Some(names.iter().filter_map(|name| name.parse().ok()).collect())
}

/// Nobody needs the file of a plan that is over, or was never approved.
fn is_at_rest(crew: &Crew, plan: &PlanId) -> Result<bool, provost_engine::Error> {
    let run = drive::read(&*crew.log, plan)?;
    Ok(!matches!(run.stage, Stage::Approved | Stage::InProgress))
}

/// What a role asks of the machine that its work is done on.
pub(crate) fn asked(harness: &Harness, role: &str) -> Option<String> {
    Some(labels::joined(&harness.config().agents.get(role)?.labels))
}

fn offers(
    plan: &PlanId,
    run: &Run,
    items: &[Item],
    wake: Option<Timestamp>,
    asked: &dyn Fn(&str) -> Option<String>,
) -> Vec<Effect> {
    let wake = wake.map(|at| Effect::WakeAt { plan: plan.clone(), at, key: at.0.to_string() });
    items.iter().map(|item| offer(plan, run, *item, asked)).chain(wake).collect()
}

pub(crate) fn offer(plan: &PlanId, run: &Run, item: Item, asked: &dyn Fn(&str) -> Option<String>) -> Effect {
    let role = item.role(run);
    let others = if item == Item::End { END } else { JUDGE };
    Effect::Enqueue {
        pool: role.unwrap_or(others).to_owned(),
        plan: plan.clone(),
        key: item.to_string(),
        body: role.and_then(asked).unwrap_or_default(),
        priority: 0,
    }
}

/// With what is behind it.
pub(crate) fn said(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(&format!(": {cause}"));
        source = cause.source();
    }
    text
}
