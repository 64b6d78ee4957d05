//! The SDK, on a thread of its own that stands still while its queues have nothing for this worker.
//!
//! The SDK asks its queues again and again, and cannot be told that nothing waits. So its runtime is driven only
//! while something does. Else its timers and tasks stand still, and those whose time has come meanwhile are the
//! first to go on: whoever rings ([`crate::bell`]) is heard at once. Whether it may stand still is asked while it
//! does, so that nothing can begin in between.
//!
//! **Invariant:** it stays still neither within a transaction, nor with a row that it has claimed and not begun,
//! nor with one that is done and not written down.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use dbos::{Config, DBOS, QueueConflict, QueueOptions};
use sqlx::ConnectOptions as _;
use sqlx::postgres::PgConnectOptions;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;

use crate::error::Attempted as _;
use crate::place::Crew;
use crate::wire::{APPLICATION, Args, JUDGE, Look, Piece, TICKS};
use crate::{Error, item, tick, wire};

/// So many plans are looked at at a time by one process.
const LOOKS: i32 = 16;
/// For how long nobody must have rung before it stands still.
const MOMENT: Duration = Duration::from_millis(300);
/// How long it goes on that stood still in the middle of something.
const BREATH: Duration = Duration::from_millis(20);
/// The SDK begins by asking once in this time, and a tenth sooner each time, until it asks as often as it was told.
const AT_FIRST: Duration = Duration::from_secs(1);
/// When a look is tried again that the database was away for.
const AGAIN: Duration = Duration::from_secs(1);

/// What a worker wants of the queues.
pub(crate) struct Wanted {
    /// Whose work it does; nothing: everybody's.
    pub pools: Option<Vec<String>>,
    pub jobs: usize,
    pub poll: Duration,
}

/// Joins, on a thread that ends when the worker's bell says that it leaves.
pub(crate) async fn join(
    wanted: Wanted,
    database: PgConnectOptions,
    crew: Arc<Crew>,
) -> Result<JoinHandle<()>, Error> {
    let (tell, joined) = oneshot::channel();
    let thread = std::thread::Builder::new().name("provost-queues".to_owned()).spawn(move || {
        let launched = Builder::new_current_thread().enable_all().build().map_err(Error::Runtime);
        let launched = launched.and_then(|runtime| {
            let dbos = runtime.block_on(launch(&wanted, &database, &crew))?;
            Ok((runtime, dbos))
        });
        match launched {
            Err(error) => drop(tell.send(Err(error))),
            Ok((runtime, dbos)) => {
                let _ = tell.send(Ok(()));
                pace(&runtime, &crew, wanted.poll);
                runtime.block_on(dbos.shutdown());
            }
        }
    });
    let thread = thread.map_err(Error::Runtime)?;
    match joined.await {
        Ok(joined) => joined.map(|()| thread),
        Err(_) => Err(Error::Queues { attempted: "joined", why: "their thread ended".to_owned() }),
    }
}

enum Stillness {
    /// Until somebody rings, and no longer than this.
    Until(Option<Duration>),
    /// There is something to do.
    Stirs,
    /// It stands in the middle of something.
    Cut,
}

fn pace(sdk: &Runtime, crew: &Arc<Crew>, poll: Duration) {
    // Else whoever rings later would be heard no sooner than at first.
    let mut time = MOMENT.max(AT_FIRST.saturating_sub(poll) * 11);
    while let Some(rings) = sdk.block_on(crew.bell.calm(time)) {
        time = match crew.runtime.block_on(may_stand_still(crew)) {
            Ok(Stillness::Until(until)) => {
                crew.bell.sleep(rings, until);
                MOMENT
            }
            Ok(Stillness::Cut) => BREATH,
            // A database that is away is missed by those who ask it for something.
            Ok(Stillness::Stirs) | Err(_) => MOMENT,
        };
    }
}

async fn may_stand_still(crew: &Crew) -> Result<Stillness, Error> {
    let (stirs, next, cut): (bool, Option<i64>, bool) = sqlx::query_as(
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
    .attempted("say whether anything waits")?;
    Ok(match (stirs, cut) {
        (true, _) => Stillness::Stirs,
        (false, true) => Stillness::Cut,
        (false, false) => Stillness::Until(next.map(|ms| Duration::from_millis(ms.max(0).cast_unsigned()))),
    })
}

/// What the connections of the SDK are called, in as many bytes as a name of a connection may have.
fn known_as(id: &str) -> String {
    let end = id.char_indices().rev().map(|(at, _)| at).take(40).last().unwrap_or(0);
    format!("provost {}", &id[end..])
}

/// The tables of the SDK.
pub(crate) async fn migrate(database: &PgConnectOptions, id: &str) -> Result<(), Error> {
    let config = Config { listen_queues: Some(Vec::new()), migrate: true, ..config(database, id) };
    let dbos = DBOS::new(config);
    dbos.launch().await.attempted("made ready")?;
    dbos.shutdown().await;
    Ok(())
}

fn config(database: &PgConnectOptions, id: &str) -> Config {
    let mut address = database.to_url_lossy();
    address.query_pairs_mut().append_pair("application_name", &known_as(id));
    Config {
        executor_id: Some(id.to_owned()),
        app_version: Some(wire::VERSION.to_owned()),
        use_listen_notify: false,
        // Whoever makes the tables may do more than whoever works.
        migrate: false,
        max_connections: 6,
        ..Config::new(APPLICATION, address.as_str())
    }
}

async fn launch(wanted: &Wanted, database: &PgConnectOptions, crew: &Arc<Crew>) -> Result<DBOS, Error> {
    let dbos = DBOS::new(Config { listen_queues: crew.listens.clone(), ..config(database, &crew.id) });
    // Every program knows every form of work: what it does not listen to can still be handed to it.
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

/// Does it where nothing stands still; the SDK only waits for it.
async fn beside(
    crew: Arc<Crew>,
    work: impl Future<Output = String> + Send + 'static,
) -> Result<String, dbos::Error> {
    let begun = crew.begin_row(dbos::workflow_id().unwrap_or_default());
    let (done, wait) = oneshot::channel();
    crew.runtime.spawn(async move {
        let _ = done.send(work.await);
        // Now it is to be written down.
        drop(begun);
    });
    Ok(wait.await.unwrap_or_else(|_| "ended before it was done".to_owned()))
}

/// A plan is looked at however often the database is away meanwhile: nobody else was asked to.
async fn look_stubbornly(crew: &Arc<Crew>, look: &Look) -> &'static str {
    loop {
        match tick::look(crew, &look.plan).await {
            Ok(said) => return said,
            Err(error) => (crew.told)(&tick::said(&error)),
        }
        // What a worker had in hand that leaves is looked at by the next.
        if crew.leaves() {
            return "left";
        }
        tokio::time::sleep(AGAIN).await;
    }
}

/// Limits that somebody set stay; only nobody is kept from using the hands it has.
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

/// What came of it, for whoever looks at the queue's rows. What failed here is found by the sweep.
fn tell(crew: &Crew, said: Result<&'static str, Error>) -> String {
    match said {
        Ok(said) => said.to_owned(),
        Err(error) => {
            let text = tick::said(&error);
            (crew.told)(&text);
            text
        }
    }
}
