//! Runs the SDK on its own thread, which is paused while its queues have nothing for this worker.
//!
//! The SDK polls its queues and cannot be told that nothing waits, so its runtime is driven only while
//! something does. While it is paused its timers and tasks do not run; those that are due run first when a
//! wake-up ([`crate::wakeup`]) resumes it. Whether it may be paused is checked while it is paused, so that
//! nothing can start in between.
//!
//! **Invariant:** it is never left paused within a transaction, with a row that it has claimed and not
//! started, or with a row that is done and not written.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

use dbos::{Config, DBOS, QueueConflict, QueueOptions};
use provost_store::postgres::{DatabaseAddress, DatabaseProject};
use sqlx::ConnectOptions as _;
use sqlx::postgres::PgConnectOptions;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;

use crate::error::{ErrorContext as _, with_causes};
use crate::wire::{APPLICATION, Args, JUDGE, Look, Piece, SCHEMA, TICKS};
use crate::worker_context::{Crew, more_connections};
use crate::{Error, item, tick, wire};

/// Number of plans that one process schedules at a time.
const LOOKS: i32 = 16;
/// Time without a wake-up before it is paused.
const MOMENT: Duration = Duration::from_millis(300);
/// Time it runs again if it was paused in the middle of something.
const BREATH: Duration = Duration::from_millis(20);
/// The SDK starts with this poll interval and shortens it by a tenth each time, down to the configured one.
const AT_FIRST: Duration = Duration::from_secs(1);
/// Longest time for starting the SDK after an outage; then it is started anew.
const LAUNCH: Duration = Duration::from_secs(10);
/// The same when a worker joins, on a machine that may be busy.
const FIRST_LAUNCH: Duration = Duration::from_secs(120);
/// Pause before a tick is retried when the database is unreachable.
const AGAIN: Duration = Duration::from_secs(1);

/// Queue options of a worker.
pub(crate) struct WorkerQueue {
    /// Roles it works for; `None` for all.
    pub pools: Option<Vec<String>>,
    pub jobs: usize,
    pub poll: Duration,
}

/// Joins the queues, on a thread that ends when the worker leaves.
pub(crate) async fn join(
    wanted: WorkerQueue,
    database: DatabaseAddress,
    crew: Arc<Crew>,
) -> Result<JoinHandle<()>, Error> {
    let (tell, joined) = oneshot::channel();
    let thread = std::thread::Builder::new().name("provost-queues".to_owned()).spawn(move || {
        let mut running = match start(&wanted, &database, &crew, FIRST_LAUNCH) {
            Err(error) => return drop(tell.send(Err(error))),
            Ok(running) => running,
        };
        let _ = tell.send(Ok(()));
        while pace(&running, &crew, &wanted, database.has_pooler()) == PaceEnd::Again {
            // The old one sleeps for as long as the database was away.
            running.0.shutdown_background();
            running = match start_again(&wanted, &database, &crew) {
                Some(running) => running,
                None => return,
            };
        }
        running.0.block_on(running.1.shutdown());
    });
    let thread = thread.map_err(Error::Runtime)?;
    match joined.await {
        Ok(joined) => joined.map(|()| thread),
        Err(_) => Err(Error::Queues { attempted: "joined", why: "their thread ended".to_owned() }),
    }
}

/// Starts the SDK on a runtime of its own.
fn start(
    wanted: &WorkerQueue,
    database: &DatabaseAddress,
    crew: &Arc<Crew>,
    patience: Duration,
) -> Result<(Runtime, DBOS), Error> {
    let runtime = Builder::new_current_thread().enable_all().build().map_err(Error::Runtime)?;
    // The SDK retries by itself, after pauses that grow up to a minute and a half.
    let launched =
        runtime.block_on(async { tokio::time::timeout(patience, launch(wanted, database, crew)).await });
    let slow = |_| Err(Error::Queues { attempted: "joined", why: "the database did not answer".to_owned() });
    match launched.unwrap_or_else(slow) {
        Ok(dbos) => Ok((runtime, dbos)),
        Err(error) => {
            runtime.shutdown_background();
            Err(error)
        }
    }
}

/// Starts the SDK again after the database was away; `None` if the worker leaves.
fn start_again(
    wanted: &WorkerQueue,
    database: &DatabaseAddress,
    crew: &Arc<Crew>,
) -> Option<(Runtime, DBOS)> {
    loop {
        match start(wanted, database, crew, LAUNCH) {
            Ok(running) => return Some(running),
            Err(error) => (crew.told)(&with_causes(&error)),
        }
        if crew.leaves() {
            return None;
        }
        std::thread::sleep(AGAIN);
    }
}

/// Why the SDK is no longer driven.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PaceEnd {
    Leaves,
    /// It must be started again.
    Again,
}

enum Stillness {
    /// Pause until a wake-up, at most for this time.
    Until(Option<Duration>),
    /// There is something to do.
    Stirs,
    /// It is in the middle of something.
    Cut,
}

fn pace((sdk, dbos): &(Runtime, DBOS), crew: &Arc<Crew>, wanted: &WorkerQueue, has_pooler: bool) -> PaceEnd {
    // Let the SDK reach its configured poll interval first; a later wake-up would otherwise be slow.
    let mut time = MOMENT.max(AT_FIRST.saturating_sub(wanted.poll) * 11);
    while let Some(rings) = sdk.block_on(crew.bell.calm(time)) {
        if crew.was_away.swap(false, Ordering::Relaxed) {
            return PaceEnd::Again;
        }
        if has_pooler && !sdk.block_on(rests(dbos)) {
            time = BREATH;
            continue;
        }
        time = match crew.runtime.block_on(may_stand_still(crew)) {
            Ok(Stillness::Until(until)) => {
                crew.bell.sleep(rings, until);
                MOMENT
            }
            Ok(Stillness::Cut) => BREATH,
            // Operations that need the database report that it is unreachable.
            Ok(Stillness::Stirs) | Err(_) => MOMENT,
        };
    }
    PaceEnd::Leaves
}

/// Returns whether the SDK's only connection is in no transaction, and stays so while it is paused.
///
/// A pooler hides what its connection does: a transaction that waits for a session of the server is not among
/// the sessions, and would begin while the SDK is paused. But only one task has the connection at a time, and
/// a paused runtime gives it to no other after this look at a queue.
async fn rests(dbos: &DBOS) -> bool {
    tokio::time::timeout(MOMENT, dbos.queue(TICKS)).await.is_ok_and(|found| found.is_ok())
}

async fn may_stand_still(crew: &Crew) -> Result<Stillness, Error> {
    let (stirs, next, cut): (bool, Option<i64>, bool) = crew
        .project()
        .query_as(
            "SELECT s.stirs, s.next_ms, EXISTS (SELECT FROM pg_stat_activity WHERE application_name = $5 AND \
         datname = current_database() AND state <> 'idle') FROM provost_cluster.stirs($1, $2, $3, $4) s",
        )
        .bind(&crew.id)
        .bind(&crew.listens)
        .bind(crew.begun_rows())
        .bind(crew.is_full())
        .bind(known_as(&crew.id))
        .fetch_one(&crew.pool)
        .await
        .attempted("check whether anything waits")?;
    Ok(match (stirs, cut) {
        (true, _) => Stillness::Stirs,
        (false, true) => Stillness::Cut,
        (false, false) => Stillness::Until(next.map(|ms| Duration::from_millis(ms.max(0).cast_unsigned()))),
    })
}

/// Returns the connection name of the SDK, cut to the allowed length.
fn known_as(id: &str) -> String {
    let end = id.char_indices().rev().map(|(at, _)| at).take(40).last().unwrap_or(0);
    format!("provost {}", &id[end..])
}

/// Makes the tables of the SDK.
pub(crate) async fn migrate(database: &DatabaseAddress, id: &str) -> Result<(), Error> {
    let config = Config {
        listen_queues: Some(Vec::new()),
        migrate: true,
        ..config(database.project(), database.direct(), id)
    };
    let dbos = DBOS::new(config);
    dbos.launch().await.attempted("made ready")?;
    dbos.shutdown().await;
    Ok(())
}

/// Returns the address in the form that the SDK takes.
fn address(database: &PgConnectOptions, id: &str) -> String {
    let mut address = database.to_url_lossy();
    // The driver writes `file: PATH` for a certificate, and does not read that form.
    let pairs: Vec<(String, String)> = address
        .query_pairs()
        .map(|(name, value)| {
            let path = value.strip_prefix("file: ").filter(|_| name.starts_with("ssl"));
            (name.to_string(), path.unwrap_or(&value).to_owned())
        })
        .collect();
    address.query_pairs_mut().clear().extend_pairs(pairs).append_pair("application_name", &known_as(id));
    address.to_string()
}

fn config(project: &DatabaseProject, database: &PgConnectOptions, id: &str) -> Config {
    let address = address(database, id);
    Config {
        executor_id: Some(id.to_owned()),
        app_version: Some(wire::VERSION.to_owned()),
        use_listen_notify: false,
        // The login that makes the tables may have more rights than a worker's.
        migrate: false,
        max_connections: 1,
        schema: project.sql(SCHEMA).into_owned(),
        ..Config::new(project.sql(APPLICATION), address.as_str())
    }
}

async fn launch(wanted: &WorkerQueue, database: &DatabaseAddress, crew: &Arc<Crew>) -> Result<DBOS, Error> {
    let dbos = DBOS::new(Config {
        listen_queues: crew.listens.clone(),
        // Behind a pooler it has one, so that `rests` knows about all of them.
        max_connections: if database.has_pooler() { 1 } else { 1 + more_connections(wanted.jobs) },
        ..config(database.project(), database.options(), &crew.id)
    });
    // Every program registers every kind of work: rows of other queues can still be handed to it.
    let looker = crew.clone();
    dbos.register_workflow("tick", move |args: Args<Look>| {
        let crew = looker.clone();
        beside(looker.clone(), async move {
            match args.first() {
                Some(look) => look_stubbornly(&crew, &look).await.to_owned(),
                None => "nothing was said".to_owned(),
            }
        })
    })
    .attempted("told of ticks")?;
    let carrier = crew.clone();
    dbos.register_workflow("item", move |args: Args<Piece>| {
        let crew = carrier.clone();
        beside(carrier.clone(), async move {
            let said = match args.first() {
                Some(piece) => item::carry(crew.clone(), piece).await,
                None => Ok("nothing was said"),
            };
            tell(&crew, said)
        })
    })
    .attempted("told of items")?;
    dbos.launch().await.attempted("joined")?;
    let looks = QueueOptions {
        partition_concurrency: Some(1),
        worker_concurrency: Some(LOOKS),
        polling_interval: wanted.poll,
        ..QueueOptions::default()
    };
    dbos.register_queue(TICKS, looks, QueueConflict::AlwaysUpdate).await.attempted("made")?;
    for pool in wanted.pools.iter().flatten().map(String::as_str).chain([JUDGE]) {
        open_queue(&dbos, pool, wanted.jobs, wanted.poll).await?;
    }
    Ok(dbos)
}

/// Runs the work on the runtime that is never paused; the SDK only waits for it.
async fn beside(
    crew: Arc<Crew>,
    work: impl Future<Output = String> + Send + 'static,
) -> Result<String, dbos::Error> {
    let begun = crew.begin_row(dbos::workflow_id().unwrap_or_default());
    let (done, wait) = oneshot::channel();
    crew.runtime.spawn(async move {
        let _ = done.send(work.await);
        // The result must be written now.
        drop(begun);
    });
    Ok(wait.await.unwrap_or_else(|_| "ended before it was done".to_owned()))
}

/// Schedules a plan and retries as long as the database is unreachable, because no other worker was asked to.
async fn look_stubbornly(crew: &Arc<Crew>, look: &Look) -> &'static str {
    loop {
        match tick::look(crew, &look.plan).await {
            Ok(said) => return said,
            Err(error) => (crew.told)(&with_causes(&error)),
        }
        // The next worker takes over what a leaving worker held.
        if crew.leaves() {
            return "left";
        }
        tokio::time::sleep(AGAIN).await;
    }
}

/// Registers a queue. Limits that a person set stay; the per-worker limit is raised to this worker's job
/// slots.
async fn open_queue(dbos: &DBOS, pool: &str, jobs: usize, poll: Duration) -> Result<(), Error> {
    let name = wire::queue(pool);
    let jobs = i32::try_from(jobs).unwrap_or(i32::MAX);
    let limits =
        QueueOptions { worker_concurrency: Some(jobs), polling_interval: poll, ..QueueOptions::default() };
    let queue = dbos.register_queue(&name, limits, QueueConflict::NeverUpdate).await.attempted("made")?;
    if queue.worker_concurrency().is_some_and(|most| most < jobs) && queue.concurrency().is_none() {
        let change =
            dbos::QueueChange { worker_concurrency: dbos::Change::Set(Some(jobs)), ..Default::default() };
        dbos.update_queue(&name, change).await.attempted("widened")?;
    }
    Ok(())
}

/// Returns the result as text for the queue row. The reaper finds what failed here.
fn tell(crew: &Crew, said: Result<&'static str, Error>) -> String {
    match said {
        Ok(said) => said.to_owned(),
        Err(error) => {
            let text = with_causes(&error);
            (crew.told)(&text);
            text
        }
    }
}
