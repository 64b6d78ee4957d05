//! Performs one offered item that a worker got from a queue, and continues with what follows
//! ([`crate::continuation`]).
//!
//! **Invariant:** an item is taken once, under a held lease, before anything starts; an item that was taken
//! and not finished is never started again, but judged.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use provost_core::fleet::labels::{self, Label};
use provost_core::fleet::work_item::WorkItem;
use provost_core::model::chain::PlanId;
use provost_core::model::event::CheckSubject;
use provost_core::model::plan::StepNumber;
use provost_engine::journal;
use provost_store::Error as StoreError;
use sqlx::Row as _;

use crate::continuation::{InHand, Stint};
use crate::error::{ErrorContext as _, with_causes};
use crate::wire::Piece;
use crate::work_items::{self, ItemResult};
use crate::worker_context::{Busy, Crew};
use crate::{Error, open_items};

/// Time to wait for a free job slot of this worker.
const PATIENCE: Duration = Duration::from_millis(300);
/// Delay before an item is offered again: `SOON` if it does not fit here or another process holds its plan,
/// `LATER` after an error.
const SOON: Duration = Duration::from_millis(500);
const LATER: Duration = Duration::from_secs(5);
/// Delay before an item that needs another worker is offered again: `OTHERS` if such a worker is running,
/// `PARKED` if none is.
const OTHERS: Duration = Duration::from_secs(1);
const PARKED: Duration = Duration::from_secs(60);
/// Time that a tree waits for a machine that did not make it, if there is one.
const ANOTHER: Duration = Duration::from_secs(60);

pub(crate) async fn carry(crew: Arc<Crew>, piece: Piece) -> Result<&'static str, Error> {
    let Ok(item) = piece.item.parse::<WorkItem>() else {
        crew.trouble(&piece.plan, &format!("this program does not know the work item `{}`", piece.item))
            .await?;
        give_back(&crew, &piece.id, LATER).await?;
        return Ok("not understood");
    };
    if let Some(result) = refusal(&crew, &piece, item).await? {
        return Ok(result);
    }
    let Ok(Ok(_permit)) = tokio::time::timeout(PATIENCE, crew.permits.acquire()).await else {
        give_back(&crew, &piece.id, SOON).await?;
        return Ok("no hand is free");
    };
    if crew.leaves() {
        give_back(&crew, &piece.id, Duration::ZERO).await?;
        return Ok("it leaves");
    }
    if crew.is_stale.load(Ordering::Relaxed) {
        give_back(&crew, &piece.id, SOON).await?;
        return Ok("its heartbeat is too old");
    }
    perform(&crew, piece, item).await
}

/// Returns why this worker does not take the item, if so; the item is then offered again.
async fn refusal(crew: &Arc<Crew>, piece: &Piece, item: WorkItem) -> Result<Option<&'static str>, Error> {
    let Some(asked) = asked(crew, &piece.id).await? else { return Ok(Some("not wanted any more")) };
    if let Some(lacking) = labels::lacking(&crew.labels, &asked) {
        let is_served = another_fits(crew, &piece.id).await?;
        let none = if is_served { "" } else { "; no running worker has it" };
        crew.trouble(&piece.plan, &format!("{item} waits for a worker with the label {lacking}{none}"))
            .await?;
        // The first heartbeat of a worker brings items back that wait for one.
        give_back(crew, &piece.id, if is_served { OTHERS } else { PARKED }).await?;
        return Ok(Some("does not fit"));
    }
    if let WorkItem::Judge { subject: CheckSubject::Contract(step) } = item
        && another_is_to_judge(crew, piece, step).await?
    {
        give_back(crew, &piece.id, SOON).await?;
        return Ok(Some("another machine judges it"));
    }
    Ok(None)
}

/// Performs the item, and returns the result for its queue row.
async fn perform(crew: &Arc<Crew>, piece: Piece, item: WorkItem) -> Result<&'static str, Error> {
    let stop = Arc::new(AtomicBool::new(false));
    crew.busy().insert(piece.id.clone(), Busy { stop: stop.clone(), taken: false, missed: false });
    let plan = PlanId(piece.plan.clone());
    let first = InHand { id: piece.id.clone(), item, fence: None, step: None };
    let in_hand = Arc::new(Mutex::new(first));
    let shared = in_hand.clone();
    let done = crew.apart(move |crew, runtime| {
        let open = crew.open(&plan, stop.clone(), runtime)?;
        let stint = Stint::new(crew, runtime, &open.harness, &plan, stop, shared);
        let jobs = runtime.block_on(open_items::ask(crew, &plan)).map_or(1, |open| open.jobs);
        work_items::carry_out_item(&open, item, jobs, &stint)
    });
    let done = done.await;
    // It may have continued with another item since.
    let (id, item) = {
        let in_hand = in_hand.lock().unwrap_or_else(PoisonError::into_inner);
        (in_hand.id.clone(), in_hand.item)
    };
    crew.keep_no_more(&PlanId(piece.plan.clone()), item);
    let taken = crew.busy().remove(&id).is_some_and(|busy| busy.taken);
    let piece = Piece { item: item.to_string(), id, ..piece };
    report(crew, &piece, item, taken, done).await
}

/// Records how the item ended, and returns the result for its queue row.
async fn report(
    crew: &Crew,
    piece: &Piece,
    item: WorkItem,
    taken: bool,
    done: Option<Result<ItemResult, provost_engine::Error>>,
) -> Result<&'static str, Error> {
    match done {
        Some(Ok(ItemResult::Done)) => Ok("done"),
        Some(Ok(ItemResult::PassedOver | ItemResult::Taken)) => Ok("not wanted any more"),
        Some(Ok(ItemResult::LawChanged)) => {
            crew.trouble(&piece.plan, "the plan file is not what was approved").await?;
            Ok("law changed")
        }
        Some(Err(provost_engine::Error::Store(error @ StoreError::Fenced { .. }))) => {
            refused(crew, piece, &error.to_string()).await?;
            Ok("refused")
        }
        // The reaper finds a taken item by its expired lease.
        Some(Err(error)) if taken => {
            crew.trouble(&piece.plan, &format!("{item}: {}", with_causes(&error))).await?;
            Ok("lost")
        }
        Some(Err(error)) => {
            let held = matches!(error, provost_engine::Error::Store(StoreError::LeaseHeld { .. }));
            if !held {
                crew.trouble(&piece.plan, &format!("{item}: {}", with_causes(&error))).await?;
            }
            give_back(crew, &piece.id, if held { SOON } else { LATER }).await?;
            Ok("given back")
        }
        None => {
            crew.trouble(&piece.plan, &format!("{item}: its thread ended before it was done")).await?;
            give_back(crew, &piece.id, LATER).await?;
            Ok("lost")
        }
    }
}

/// Returns whether a worker is running that has the labels of the item and serves its pool.
async fn another_fits(crew: &Crew, id: &str) -> Result<bool, Error> {
    crew.project().query_scalar(
        "SELECT EXISTS (SELECT FROM provost_cluster.item i JOIN provost_cluster.worker w \
             ON NOT w.drains AND w.seen > clock_timestamp() - w.ttl_ms * interval '1 millisecond' \
             AND provost_cluster.fits(w.labels, i.labels) AND (w.roles IS NULL OR i.pool = ANY (w.roles)) WHERE i.id = $1)",
    )
    .bind(id)
    .fetch_one(&crew.pool)
    .await
    .attempted("look for a worker with the labels of an item")
}

/// Returns whether the work of the step was made on this machine and another machine could judge it.
async fn another_is_to_judge(crew: &Arc<Crew>, piece: &Piece, step: StepNumber) -> Result<bool, Error> {
    let Some((_, machine)) = &crew.carries else { return Ok(false) };
    let is_there: bool = crew
        .project()
        .query_scalar(
            "SELECT EXISTS (SELECT FROM provost_cluster.item WHERE id = $1 \
             AND offered > clock_timestamp() - $3 * interval '1 millisecond') \
         AND EXISTS (SELECT FROM provost_cluster.worker w WHERE NOT w.drains \
             AND w.seen > clock_timestamp() - w.ttl_ms * interval '1 millisecond' \
             AND EXISTS (SELECT FROM unnest(w.labels) l WHERE l LIKE 'trees=%' AND l <> 'trees=' || $2))",
        )
        .bind(&piece.id)
        .bind(machine)
        .bind(i64::try_from(ANOTHER.as_millis()).unwrap_or(i64::MAX))
        .fetch_one(&crew.pool)
        .await
        .attempted("check whether another machine can judge")?;
    if !is_there {
        return Ok(false);
    }
    let (plan, own) = (PlanId(piece.plan.clone()), machine.clone());
    let made_here = crew.apart(move |crew, _| {
        let run = journal::read(&*crew.log, &plan)?;
        Ok::<_, provost_engine::Error>(run.work_to_judge(step).is_some_and(|work| work.left.machine == own))
    });
    Ok(made_here.await.transpose()?.unwrap_or(false))
}

/// Returns the labels the item requires; `None` if it was taken or is over.
async fn asked(crew: &Crew, id: &str) -> Result<Option<Vec<Label>>, Error> {
    let row = crew
        .project()
        .query("SELECT labels FROM provost_cluster.item WHERE id = $1 AND worker IS NULL")
        .bind(id)
        .fetch_optional(&crew.pool)
        .await
        .attempted("find the offered item")?;
    let Some(row) = row else { return Ok(None) };
    let labels: Vec<String> = row.try_get(0).attempted("read the labels of an item")?;
    Ok(Some(labels.iter().filter_map(|label| label.parse().ok()).collect()))
}

async fn give_back(crew: &Crew, id: &str, delay: Duration) -> Result<(), Error> {
    crew.project()
        .query("SELECT provost_cluster.give_back($1, $2)")
        .bind(id)
        .bind(i64::try_from(delay.as_millis()).unwrap_or(i64::MAX))
        .execute(&crew.pool)
        .await
        .attempted("give an item back")?;
    Ok(())
}

/// Records a late report of a worker whose item was taken over; the report itself is ignored.
async fn refused(crew: &Crew, piece: &Piece, what: &str) -> Result<(), Error> {
    (crew.told)(&format!("{}: the report about {} came too late: {what}", piece.plan, piece.item));
    crew.project()
        .query("INSERT INTO provost_cluster.refused (plan, item, worker, what) VALUES ($1, $2, $3, $4)")
        .bind(&piece.plan)
        .bind(&piece.item)
        .bind(&crew.id)
        .bind(what)
        .execute(&crew.pool)
        .await
        .attempted("record a late report")?;
    Ok(())
}
