//! A worker process: joins, schedules plans, performs offered items, and leaves in order.
//!
//! **Invariant:** its name is unique and new at each start, because the SDK gives the work of one process to
//! any other with the same name.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use provost_core::fleet::labels::Label;
use provost_core::model::chain::PlanId;
use provost_core::model::proof::{ProofKey, PublicKey};
use provost_core::model::timestamp::Timestamp;
use provost_engine::journal::log_locator;
use provost_engine::plan::prove::Prover;
use provost_engine::settings::EngineSettings;
use provost_store::postgres::DatabaseAddress;
use provost_store::{Holder, Postgres, archive};
use sqlx::{Connection as _, PgConnection};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;

use crate::agent_reaper::Keeper;
use crate::dispatch::Queues;
use crate::error::{ErrorContext as _, with_causes};
use crate::health::WorkerHealth;
use crate::heartbeat::Pulse;
use crate::queues::WorkerQueue;
use crate::reaper::Badge;
use crate::wakeup::Bell;
use crate::wire::{END, JUDGE, TICKS};
use crate::worker_context::{Crew, more_connections};
use crate::{Error, queues, reaper, remote, schema, sweep, wire, work_items};

/// Longest time of hearing for new work until the request to leave is checked.
const EAR: Duration = Duration::from_millis(50);

/// Pause between two sweeps of the disk and the git remote.
const SWEEP: Duration = Duration::from_secs(3600);

/// Pause before the next heartbeat while the database is away.
const AGAIN: Duration = Duration::from_secs(1);

pub struct WorkerOptions {
    /// Settings of the harness of each plan; plans are searched in its folder.
    pub settings: EngineSettings,
    /// Roles it works for; `None` for all.
    pub roles: Option<Vec<String>>,
    pub jobs: usize,
    pub labels: Vec<Label>,
    /// It only schedules plans.
    pub looks_only: bool,
    /// It schedules no plans; only with `roles`.
    pub looks_never: bool,
    /// It runs no checks; only with `roles`.
    pub checks_never: bool,
    /// Git remote for the trees, if the workers share no disk.
    pub remote: Option<String>,
    /// Time without a heartbeat after which others take over its work.
    pub ttl: Duration,
    /// Poll interval of queues that have work.
    pub poll: Duration,
    /// Set when it must take nothing new, and leave when its work is done.
    pub drain: Arc<AtomicBool>,
    /// Time in which it finishes its items when it leaves; it then ends what still runs. `None` for any time.
    pub grace: Option<Duration>,
    /// Where it notes how it is, for probes.
    pub health: Arc<WorkerHealth>,
}

/// Runs the worker until it receives a signal to leave. Calls `joined` with its name, and `told` with each
/// message for people.
pub fn run(
    options: WorkerOptions,
    joined: impl FnOnce(&str),
    told: impl Fn(&str) + Send + Sync + 'static,
) -> Result<(), Error> {
    let address = log_locator::database(&options.settings.state)?.ok_or(Error::NotShared)?;
    let key = checker_key(&options.settings)?;
    // The command has looked into the log before it became a worker.
    log_locator::close_unused();
    let log = Postgres::open(&address)?
        .with_connections(1 + more_connections(options.jobs) as usize)
        .with_dispatch(Arc::new(Queues))
        .with_lease_ttl(options.ttl)
        .with_leases_renewed_by_caller()
        .with_cold_folder(options.settings.state.join(archive::FOLDER));
    may_judge(&options, &log, &key.public())?;
    let log = log.with_signer(key);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(Error::Runtime)?;
    let ended = runtime.block_on(work(&options, &address, Arc::new(log), joined, Box::new(told)));
    runtime.shutdown_timeout(Duration::from_secs(1));
    work_items::leave();
    ended
}

/// Returns the key of this machine, which signs the verdicts of its checks.
fn checker_key(settings: &EngineSettings) -> Result<ProofKey, Error> {
    let prover = Prover::new(&settings.state, &PlanId(String::new()), None);
    Ok(prover.secret()?.key())
}

/// Refuses a worker whose checks would count for nothing.
fn may_judge(options: &WorkerOptions, log: &Postgres, key: &PublicKey) -> Result<(), Error> {
    if options.looks_only || options.checks_never {
        return Ok(());
    }
    let rights = log.rights()?;
    if !rights.may_judge {
        return Err(Error::MayNotJudge { login: rights.login });
    }
    let key = key.to_string();
    if rights.must_sign && !log.checkers()?.iter().any(|trusted| trusted.key == key) {
        return Err(Error::KeyNotTrusted { login: rights.login, key });
    }
    Ok(())
}

/// Makes the tables of the log and of the cluster, or brings them up to date. The login must own the database;
/// workers can then join with fewer rights.
pub fn prepare(settings: &EngineSettings) -> Result<(), Error> {
    let address = log_locator::database(&settings.state)?.ok_or(Error::NotShared)?;
    drop(Postgres::open(&address)?);
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Error::Runtime)?;
    runtime.block_on(make_tables(&address, &format!("prepare-{}", unique())))
}

/// Uses a session of its own: its lock belongs to the session, and no pooler may give that to another.
async fn make_tables(database: &DatabaseAddress, id: &str) -> Result<(), Error> {
    let mut first = PgConnection::connect_with(database.direct()).await.attempted("be reached")?;
    schema::make(database.project(), &mut first, async || queues::migrate(database, id).await).await
}

async fn work(
    options: &WorkerOptions,
    database: &DatabaseAddress,
    log: Arc<Postgres>,
    joined: impl FnOnce(&str),
    told: Box<dyn Fn(&str) + Send + Sync>,
) -> Result<(), Error> {
    let holder = Holder::here("worker", Timestamp(0));
    let carries = carries(options)?;
    let id = format!("{}-{}-{}", holder.host, holder.pid, unique());
    make_tables(database, &id).await?;
    let pools = pools(options);
    let crew = Arc::new(crew(options, id.clone(), log, carries.clone(), told));
    let badge = Badge {
        id: id.clone(),
        host: holder.host,
        pid: holder.pid,
        // A worker that only schedules serves no role.
        roles: if options.looks_only { Some(Vec::new()) } else { options.roles.clone() },
        jobs: options.jobs,
        labels: options.labels.iter().map(ToString::to_string).chain(judges(options, carries)).collect(),
        ttl_ms: i64::try_from(options.ttl.as_millis()).unwrap_or(i64::MAX),
    };
    // Register before taking anything.
    let mut pulse = Pulse::new(database.clone(), options.ttl);
    pulse.beat(&crew, &badge, false).await?;
    let wanted = WorkerQueue { pools, jobs: options.jobs, poll: options.poll };
    let queues = queues::join(wanted, database.clone(), crew.clone()).await?;
    let sweeper = tokio::spawn(sweep_regularly(crew.clone()));
    joined(&id);
    take_part(&crew, &badge, &mut pulse, false, || !crew.leaves()).await;
    (crew.told)("takes no new work, and finishes what is running first");
    let deadline = options.grace.map(|grace| tokio::time::Instant::now() + grace);
    crew.health.leaves();
    crew.bell.leave();
    sweeper.abort();
    let queues = tokio::task::spawn_blocking(move || queues.join());
    take_part(&crew, &badge, &mut pulse, true, || !queues.is_finished()).await;
    take_part(&crew, &badge, &mut pulse, true, || {
        if deadline.is_some_and(|deadline| tokio::time::Instant::now() >= deadline) {
            crew.end_all("the time to finish is over");
        }
        Arc::strong_count(&crew.threads) > 1
    })
    .await;
    reaper::leave(&crew).await
}

/// Removes what ended plans left behind, when the worker has joined and then regularly.
async fn sweep_regularly(crew: Arc<Crew>) {
    let Some((address, _)) = crew.carries.clone() else { return };
    loop {
        let address = address.clone();
        crew.apart(move |crew, _| sweep_once(crew, &address)).await;
        tokio::time::sleep(SWEEP).await;
    }
}

fn sweep_once(crew: &Crew, address: &str) {
    let state = crew.settings.state_folder();
    sweep::sweep_disk(&state, &*crew.log);
    let Ok(remote) = remote::remote(address) else { return };
    let remote = remote.until(crew.drain.clone());
    if crew.looks
        && let Err(error) = sweep::sweep_remote(&state, &*crew.log, &remote)
    {
        (crew.told)(&format!("provost could not remove old trees from the git remote: {error}"));
    }
}

/// Makes the context that ticks and items share.
fn crew(
    options: &WorkerOptions,
    id: String,
    log: Arc<Postgres>,
    carries: Option<(String, String)>,
    told: Box<dyn Fn(&str) + Send + Sync>,
) -> Crew {
    Crew {
        id,
        settings: options.settings.clone(),
        pool: log.connections(),
        log,
        labels: options.labels.clone(),
        carries,
        permits: Semaphore::new(options.jobs),
        busy: Mutex::default(),
        keeper: keeper(options, &told),
        threads: Arc::new(()),
        told,
        looks: !options.looks_never,
        listens: pools(options).map(|pools| {
            let ticks = (!options.looks_never).then(|| TICKS.to_owned());
            pools.iter().map(|pool| wire::queue(pool)).chain(ticks).collect()
        }),
        drain: options.drain.clone(),
        bell: Bell::default(),
        runtime: Handle::current(),
        rows: Mutex::default(),
        was_away: AtomicBool::new(false),
        is_stale: AtomicBool::new(false),
        health: options.health.clone(),
    }
}

/// Returns the remote and the identifier of this machine.
fn carries(options: &WorkerOptions) -> Result<Option<(String, String)>, Error> {
    let Some(address) = &options.remote else { return Ok(None) };
    remote::remote(address)?;
    Ok(Some((address.clone(), remote::machine(&options.settings.state)?)))
}

/// Returns the label by which others know that this machine judges their trees.
fn judges(options: &WorkerOptions, carries: Option<(String, String)>) -> Option<String> {
    let is_idle = options.looks_only || options.checks_never;
    carries.filter(|_| !is_idle).map(|(_, machine)| format!("trees={machine}"))
}

/// Starts the reaper; `None` if it is not needed or cannot be started.
fn keeper(options: &WorkerOptions, told: &dyn Fn(&str)) -> Option<Keeper> {
    let program = options.settings.launcher.first().filter(|_| !options.looks_only)?;
    let started = Keeper::start(program);
    if let Err(error) = &started {
        told(&format!("if this worker is killed, its agents keep running: {error}"));
    }
    started.ok()
}

/// Returns the pools it listens to; `None` for all.
fn pools(options: &WorkerOptions) -> Option<Vec<String>> {
    let mut pools = if options.looks_only { Vec::new() } else { options.roles.clone()? };
    if !options.looks_only && !options.checks_never {
        pools.push(JUDGE.to_owned());
    }
    if !options.looks_never {
        pools.push(END.to_owned());
    }
    Some(pools)
}

/// Sends heartbeats and reaps dead workers as long as `is_there` holds.
async fn take_part(
    crew: &Arc<Crew>,
    badge: &Badge,
    pulse: &mut Pulse,
    drains: bool,
    is_there: impl Fn() -> bool,
) {
    let pause = (pulse.ttl() / 5).min(Duration::from_secs(5));
    let mut next = tokio::time::Instant::now();
    while is_there() {
        if tokio::time::Instant::now() >= next {
            let beaten = pulse.beat(crew, badge, drains).await;
            if let Err(error) = &beaten {
                (crew.told)(&with_causes(error));
            }
            // While the database is away it is asked more often, so that work goes on soon after it is back.
            let pause = if beaten.is_ok() { pause } else { pause.min(AGAIN) };
            next = tokio::time::Instant::now() + pause;
        }
        pulse.look(crew);
        crew.health.turns();
        if pulse.listen(crew, EAR).await {
            next = next.min(tokio::time::Instant::now() + AGAIN);
        }
    }
}

/// Returns a new suffix each time, also for a process that reuses a pid.
fn unique() -> String {
    use std::hash::{BuildHasher as _, RandomState};
    format!("{:08x}", RandomState::new().hash_one(std::time::SystemTime::now()) as u32)
}
