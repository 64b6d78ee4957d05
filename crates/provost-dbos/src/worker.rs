//! A process that takes part: joins, looks at plans, does what is offered, and leaves in order.
//!
//! **Invariant:** the name it has among the others is its own and new each time it starts: the SDK gives what
//! one process had to whoever else has its name.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use dbos::{Config, DBOS, QueueConflict, QueueOptions};
use provost_core::chain::Timestamp;
use provost_core::labels::Label;
use provost_engine::harness::Settings;
use provost_engine::{carry, logbook, share};
use provost_store::{Holder, Postgres};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{ConnectOptions as _, Connection as _, PgConnection};
use tokio::sync::Semaphore;

use crate::Error;
use crate::dispatch::Queues;
use crate::error::Attempted as _;
use crate::place::Crew;
use crate::sweep::{self, Badge};
use crate::wire::{self, APPLICATION, Args, END, JUDGE, Look, Piece, TICKS};
use crate::{item, schema, tick};

/// So many plans are looked at at a time by one process.
const LOOKS: i32 = 4;
/// When a look is tried again that the database was away for.
const AGAIN: Duration = Duration::from_secs(1);
/// How often the end is asked for.
const EAR: Duration = Duration::from_millis(50);

pub struct Options {
    /// How the harness works for each plan; its folder is where plans are looked for.
    pub settings: Settings,
    /// Whose work it does; nothing: everybody's.
    pub roles: Option<Vec<String>>,
    pub jobs: usize,
    pub labels: Vec<Label>,
    /// It looks at plans, and does nothing else.
    pub looks_only: bool,
    /// It looks at no plans; only for one that says whose work it does.
    pub looks_never: bool,
    /// It runs no checks; only for one that says whose work it does.
    pub checks_never: bool,
    /// The git remote by which trees travel, where workers share no disk.
    pub remote: Option<String>,
    /// After how long without a sign others take over what it had.
    pub ttl: Duration,
    /// How often queues are asked.
    pub poll: Duration,
    /// Set when it is to take nothing new, and to leave when it is done.
    pub drain: Arc<AtomicBool>,
}

/// Works until it is told to leave. `told` hears what people may want to know, `joined` under which name.
pub fn run(
    options: Options,
    joined: impl FnOnce(&str),
    told: impl Fn(&str) + Send + Sync + 'static,
) -> Result<(), Error> {
    let address = logbook::database(&options.settings.state)?.ok_or(Error::NotShared)?;
    let log = Postgres::open(&address)?.with_dispatch(Arc::new(Queues)).with_lease_ttl(options.ttl);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(Error::Runtime)?;
    let ended = runtime.block_on(work(&options, address.options(), Arc::new(log), joined, Box::new(told)));
    runtime.shutdown_timeout(Duration::from_secs(1));
    share::leave();
    ended
}

async fn work(
    options: &Options,
    database: &PgConnectOptions,
    log: Arc<Postgres>,
    joined: impl FnOnce(&str),
    told: Box<dyn Fn(&str) + Send + Sync>,
) -> Result<(), Error> {
    let holder = Holder::here("worker", Timestamp(0));
    let carries = carries(options)?;
    let id = format!("{}-{}-{}", holder.host, holder.pid, unique());
    let mut first = PgConnection::connect_with(database).await.attempted("be reached")?;
    schema::make(&mut first, async || migrate(database, &id).await).await?;
    drop(first);
    let pool = PgPoolOptions::new()
        .max_connections(8)
        .acquire_timeout(Duration::from_secs(5))
        .connect_with(database.clone())
        .await
        .attempted("be reached")?;
    let crew = Arc::new(Crew {
        id: id.clone(),
        settings: options.settings.clone(),
        log,
        pool: pool.clone(),
        labels: options.labels.clone(),
        carries: carries.clone(),
        permits: Semaphore::new(options.jobs),
        busy: Mutex::default(),
        threads: Arc::new(()),
        told,
    });
    let badge = Badge {
        id: id.clone(),
        host: holder.host,
        pid: holder.pid,
        roles: options.roles.clone(),
        jobs: options.jobs,
        labels: options.labels.iter().map(ToString::to_string).chain(judges(options, carries)).collect(),
        ttl_ms: i64::try_from(options.ttl.as_millis()).unwrap_or(i64::MAX),
    };
    // Known to the others before it takes anything.
    sweep::beat(&pool, &badge, false).await?;
    let dbos = launch(options, database, &crew).await?;
    joined(&id);
    take_part(options, &crew, &badge).await;
    (crew.told)("takes nothing new; what is under way is finished first");
    dbos.shutdown().await;
    while Arc::strong_count(&crew.threads) > 1 {
        let _ = beat(&crew, &badge, true).await;
        tokio::time::sleep(EAR).await;
    }
    sweep::leave(&pool, &id).await?;
    pool.close().await;
    Ok(())
}

/// The remote, and which machine this is.
fn carries(options: &Options) -> Result<Option<(String, String)>, Error> {
    let Some(address) = &options.remote else { return Ok(None) };
    carry::remote(address)?;
    Ok(Some((address.clone(), carry::machine(&options.settings.state)?)))
}

/// How others know that this machine judges what they made.
fn judges(options: &Options, carries: Option<(String, String)>) -> Option<String> {
    let is_idle = options.looks_only || options.checks_never;
    carries.filter(|_| !is_idle).map(|(_, machine)| format!("trees={machine}"))
}

/// The tables of the SDK.
async fn migrate(database: &PgConnectOptions, id: &str) -> Result<(), Error> {
    let config = Config { listen_queues: Some(Vec::new()), migrate: true, ..config(database, id) };
    let dbos = DBOS::new(config);
    dbos.launch().await.attempted("made ready")?;
    dbos.shutdown().await;
    Ok(())
}

fn config(database: &PgConnectOptions, id: &str) -> Config {
    Config {
        executor_id: Some(id.to_owned()),
        app_version: Some(wire::VERSION.to_owned()),
        use_listen_notify: false,
        // Whoever makes the tables may do more than whoever works.
        migrate: false,
        max_connections: 6,
        ..Config::new(APPLICATION, database.to_url_lossy().as_str())
    }
}

async fn launch(options: &Options, database: &PgConnectOptions, crew: &Arc<Crew>) -> Result<DBOS, Error> {
    let pools = pools(options);
    let ticks = (!options.looks_never).then(|| TICKS.to_owned());
    let listen =
        pools.as_ref().map(|pools| pools.iter().map(|pool| wire::queue(pool)).chain(ticks).collect());
    let dbos = DBOS::new(Config { listen_queues: listen, ..config(database, &crew.id) });
    // Every program knows every form of work: what it does not listen to can still be handed to it.
    let looker = crew.clone();
    dbos.register_workflow("tick", move |args: Args<Look>| {
        let crew = looker.clone();
        async move {
            let said = match args.first() {
                Some(look) => look_stubbornly(&crew, &look).await,
                None => "nothing was said",
            };
            Ok::<_, dbos::Error>(said.to_owned())
        }
    })
    .attempted("told of ticks")?;
    let carrier = crew.clone();
    dbos.register_workflow("item", move |args: Args<Piece>| {
        let crew = carrier.clone();
        async move {
            let said = match args.first() {
                Some(piece) => item::carry(crew.clone(), piece).await,
                None => Ok("nothing was said"),
            };
            Ok::<_, dbos::Error>(tell(&crew, said))
        }
    })
    .attempted("told of items")?;
    dbos.launch().await.attempted("joined")?;
    let looks = QueueOptions {
        partition_concurrency: Some(1),
        worker_concurrency: Some(LOOKS),
        polling_interval: options.poll,
        ..QueueOptions::default()
    };
    dbos.register_queue(TICKS, looks, QueueConflict::AlwaysUpdate).await.attempted("made")?;
    for pool in pools.into_iter().flatten().chain([JUDGE.to_owned()]) {
        open_queue(&dbos, &pool, options.jobs, options.poll).await?;
    }
    Ok(dbos)
}

/// A plan is looked at however often the database is away meanwhile: nobody else was asked to.
async fn look_stubbornly(crew: &Arc<Crew>, look: &Look) -> &'static str {
    loop {
        match tick::look(crew, &look.plan).await {
            Ok(said) => return said,
            Err(error) => (crew.told)(&tick::said(&error)),
        }
        tokio::time::sleep(AGAIN).await;
    }
}

/// Whose queues it listens to; nothing: all there are.
fn pools(options: &Options) -> Option<Vec<String>> {
    let mut pools = if options.looks_only { Vec::new() } else { options.roles.clone()? };
    if !options.looks_only && !options.checks_never {
        pools.push(JUDGE.to_owned());
    }
    if !options.looks_never {
        pools.push(END.to_owned());
    }
    Some(pools)
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

/// Says that it is there and looks after the others, until it is told to leave.
async fn take_part(options: &Options, crew: &Arc<Crew>, badge: &Badge) {
    let pause = (options.ttl / 5).min(Duration::from_secs(5));
    let mut next = tokio::time::Instant::now();
    while !options.drain.load(Ordering::Relaxed) {
        if tokio::time::Instant::now() >= next {
            if let Err(error) = beat(crew, badge, false).await {
                (crew.told)(&tick::said(&error));
            }
            next = tokio::time::Instant::now() + pause;
        }
        tokio::time::sleep(EAR).await;
    }
}

async fn beat(crew: &Arc<Crew>, badge: &Badge, drains: bool) -> Result<(), Error> {
    let ours = sweep::beat(&crew.pool, badge, drains).await?;
    crew.keep_only(&ours);
    sweep::sweep(crew).await?;
    Ok(())
}

/// Another each time, also for a process that got the number of an earlier one.
fn unique() -> String {
    use std::hash::{BuildHasher as _, RandomState};
    format!("{:08x}", RandomState::new().hash_one(std::time::SystemTime::now()) as u32)
}
