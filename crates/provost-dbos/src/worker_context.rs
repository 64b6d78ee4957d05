//! The worker context for ticks and items: its name, its log, and how it opens plans.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use provost_core::fleet::labels::Label;
use provost_core::fleet::work_item::WorkItem;
use provost_core::model::chain::PlanId;
use provost_engine::journal;
use provost_engine::plan::harness::Harness;
use provost_engine::plan::plan_registry;
use provost_engine::settings::EngineSettings;
use provost_store::Postgres;
use provost_store::postgres::{DatabaseProject, LogConnections};
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, oneshot};

use crate::agent_reaper::{self, Keeper};
use crate::error::ErrorContext as _;
use crate::health::WorkerHealth;
use crate::outpost::{Outpost, WaitListener};
use crate::sweep::WorkspaceUse;
use crate::wakeup::Bell;
use crate::{Error, outpost_workspace, remote, remote_base};

/// Returns how many connections a worker with many jobs may add to those of the log, and to those of the SDK.
/// Together with the one for signs of life it needs at most 3 + jobs/8.
pub(crate) fn more_connections(jobs: usize) -> u32 {
    u32::try_from(jobs / 16).unwrap_or(u32::MAX)
}

pub(crate) struct Crew {
    pub id: String,
    pub settings: EngineSettings,
    pub log: Arc<Postgres>,
    /// The connections of the log, for single statements.
    pub pool: LogConnections,
    pub labels: Vec<Label>,
    /// Address of the remote and identifier of this machine, if trees travel.
    pub carries: Option<(String, String)>,
    pub permits: Semaphore,
    /// Items running here, by id.
    pub busy: Mutex<BTreeMap<String, Busy>>,
    /// The reaper, which kills the agents if this process is killed.
    pub keeper: Option<Keeper>,
    /// Counts the threads that work for a tick or an item.
    pub threads: Arc<()>,
    pub told: Box<dyn Fn(&str) + Send + Sync>,
    /// It schedules plans, and may continue with one.
    pub looks: bool,
    /// Queues it listens to; `None` for all.
    pub listens: Option<Vec<String>>,
    /// Set when it takes nothing new.
    pub drain: Arc<AtomicBool>,
    pub bell: Bell,
    /// Runtime that is never paused.
    pub runtime: Handle,
    /// Set when the database answers again after it was away for longer than the SDK should wait.
    pub was_away: AtomicBool,
    /// The last heartbeat is too old to take anything: it would be ended at once.
    pub is_stale: AtomicBool,
    /// Queue rows that were started here and have not ended.
    pub rows: Mutex<BTreeSet<String>>,
    pub health: Arc<WorkerHealth>,
}

/// A plan that this worker has opened.
pub(crate) struct OpenPlan {
    pub harness: Harness,
    /// Set if this machine does not have the workspace of the plan.
    pub outpost: Option<Arc<Outpost>>,
    /// Keeps the workspace that was made for the plan.
    pub _in_use: Option<WorkspaceUse>,
}

/// A queue row that was started here. Dropping it means that its result must be written.
pub(crate) struct Row {
    crew: Arc<Crew>,
    id: String,
    _held: Arc<()>,
}

impl Drop for Row {
    fn drop(&mut self) {
        self.crew.rows().remove(&self.id);
        self.crew.bell.ring();
    }
}

pub(crate) struct Busy {
    /// Stops the agent.
    pub stop: Arc<AtomicBool>,
    /// This worker has taken it, by its lease.
    pub taken: bool,
    /// It was not this worker's at the last heartbeat; it may just be over.
    pub missed: bool,
}

impl Crew {
    /// Opens the plan on the shared log: from the log if trees travel, otherwise from its file.
    pub(crate) fn open(
        &self,
        plan: &PlanId,
        stop: Arc<AtomicBool>,
        runtime: &Handle,
    ) -> Result<OpenPlan, provost_engine::Error> {
        let Some((address, machine)) = &self.carries else {
            return Ok(OpenPlan { harness: self.at_home(plan, stop)?, outpost: None, _in_use: None });
        };
        let remote = remote::remote(address)?.until(stop.clone());
        let settings = EngineSettings { stop: stop.clone(), ..self.settings.clone() };
        let open = || {
            let outpost = Arc::new(Outpost::new(remote.clone(), machine.clone(), self.teller(plan, runtime)));
            let opened = outpost_workspace::open(settings.clone(), self.log.clone(), plan, outpost.clone())?;
            let (harness, in_use) = opened;
            Ok(OpenPlan { harness, outpost: Some(outpost), _in_use: Some(in_use) })
        };
        match open() {
            // This machine may have the base that was not sent yet.
            Err(error @ provost_engine::Error::NotCarried { .. }) => {
                let sent = self.at_home(plan, stop).and_then(|harness| {
                    remote_base::push_to(&harness, &journal::read(&*self.log, plan)?, &remote)
                });
                sent.map_or(Err(error), |()| open())
            }
            opened => opened,
        }
    }

    /// Returns a callback that records why a plan waits, from a thread that may block.
    fn teller(&self, plan: &PlanId, runtime: &Handle) -> WaitListener {
        let (project, pool, runtime) = (self.project().clone(), self.pool.clone(), runtime.clone());
        let (id, plan) = (self.id.clone(), plan.0.clone());
        Arc::new(move |what| drop(runtime.block_on(note_trouble(&project, &pool, &id, &plan, what))))
    }

    fn at_home(&self, plan: &PlanId, stop: Arc<AtomicBool>) -> Result<Harness, provost_engine::Error> {
        let not_there = || provost_engine::Error::NotThere { plan: plan.clone() };
        let find =
            || plan_registry::find(&self.settings.state, plan).filter(plan_registry::PlanLocation::is_there);
        let look_around = || {
            // Another machine may have registered it; here it is at the same path.
            let _ = plan_registry::keep_all(&self.settings.state, &self.settings.cwd);
            find()
        };
        let place = find().or_else(look_around).ok_or_else(not_there)?;
        let settings = EngineSettings {
            cwd: place.workspace.clone(),
            plan: Some(place.path.display().to_string()),
            stop,
            ..self.settings.clone()
        };
        let harness = Harness::open_on(settings, self.log.clone())?;
        if harness.id() == plan { Ok(harness) } else { Err(not_there()) }
    }

    pub(crate) fn listens_to(&self, queue: &str) -> bool {
        self.listens.as_ref().is_none_or(|queues| queues.iter().any(|known| known == queue))
    }

    /// Returns the project of the database that this worker works for.
    pub(crate) fn project(&self) -> &DatabaseProject {
        self.log.project()
    }

    pub(crate) fn leaves(&self) -> bool {
        self.drain.load(Ordering::Relaxed)
    }

    /// Returns whether no job slot is free.
    pub(crate) fn is_full(&self) -> bool {
        self.permits.available_permits() == 0
    }

    pub(crate) fn begin_row(self: &Arc<Self>, id: String) -> Row {
        self.rows().insert(id.clone());
        Row { crew: self.clone(), id, _held: self.threads.clone() }
    }

    pub(crate) fn begun_rows(&self) -> Vec<String> {
        self.rows().iter().cloned().collect()
    }

    fn rows(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn busy(&self) -> MutexGuard<'_, BTreeMap<String, Busy>> {
        self.busy.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stops the agents of items that another worker has taken over.
    pub(crate) fn keep_only(&self, ours: &[String]) {
        for (id, busy) in self.busy().iter_mut().filter(|(_, busy)| busy.taken) {
            if ours.contains(id) {
                busy.missed = false;
            } else if std::mem::replace(&mut busy.missed, true) && !busy.stop.swap(true, Ordering::Relaxed) {
                (self.told)(&format!("another worker took over {id}; this worker ends its processes"));
            }
        }
    }

    /// Stops everything that runs here, because the database was silent so long that others may soon take
    /// over.
    pub(crate) fn let_go(&self) {
        self.end_all("the database did not answer for most of a lease");
    }

    /// Stops everything that runs here.
    pub(crate) fn end_all(&self, why: &str) {
        let all: Vec<String> = self.busy().keys().cloned().collect();
        self.end(&all, why);
    }

    /// Stops these items, if this worker has taken them.
    pub(crate) fn end(&self, items: &[String], why: &str) {
        for (id, busy) in self.busy().iter().filter(|(id, busy)| busy.taken && items.contains(id)) {
            if !busy.stop.swap(true, Ordering::Relaxed) {
                (self.told)(&format!("{why}; this worker ends the processes of {id}"));
            }
        }
    }

    /// Tells the reaper to kill the item's agent if this process is killed.
    pub(crate) fn keep(&self, plan: &PlanId, item: WorkItem) {
        self.tell_keeper(plan, item, Keeper::taken);
    }

    pub(crate) fn keep_no_more(&self, plan: &PlanId, item: WorkItem) {
        self.tell_keeper(plan, item, Keeper::over);
    }

    fn tell_keeper(&self, plan: &PlanId, item: WorkItem, tell: impl Fn(&Keeper, &str)) {
        if let (Some(keeper), Some(attempt)) = (&self.keeper, agent_reaper::attempt(plan, item)) {
            tell(keeper, &attempt);
        }
    }

    /// Records why a plan makes no progress, for people.
    pub(crate) async fn trouble(&self, plan: &str, what: &str) -> Result<(), Error> {
        (self.told)(&format!("{plan}: {what}"));
        note_trouble(self.project(), &self.pool, &self.id, plan, what).await
    }

    /// Schedules a tick of the plan after this time.
    pub(crate) async fn wake_in(&self, plan: &str, time: Duration) -> Result<(), Error> {
        self.project().query(
            "SELECT provost_cluster.wake($1, (extract(epoch FROM clock_timestamp()) * 1000)::bigint + $2)",
        )
        .bind(plan)
        .bind(i64::try_from(time.as_millis()).unwrap_or(i64::MAX))
        .execute(&self.pool)
        .await
        .attempted("schedule a plan again")?;
        Ok(())
    }

    /// Runs blocking work on its own thread; `None` if it panicked.
    pub(crate) async fn apart<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Crew, &Handle) -> T + Send + 'static,
    ) -> Option<T> {
        let (done, wait) = oneshot::channel();
        let (crew, runtime, held) = (self.clone(), Handle::current(), self.threads.clone());
        let started = std::thread::Builder::new().name("provost-item".to_owned()).spawn(move || {
            let _ = done.send(work(&crew, &runtime));
            drop(held);
        });
        started.ok()?;
        wait.await.ok()
    }
}

async fn note_trouble(
    project: &DatabaseProject,
    pool: &LogConnections,
    worker: &str,
    plan: &str,
    what: &str,
) -> Result<(), Error> {
    project
        .query(
            "INSERT INTO provost_cluster.trouble (plan, worker, what) VALUES ($1, $2, $3) ON CONFLICT (plan) \
         DO UPDATE SET at = clock_timestamp(), worker = excluded.worker, what = excluded.what",
        )
        .bind(plan)
        .bind(worker)
        .bind(what)
        .execute(pool)
        .await
        .attempted("record why a plan cannot continue")?;
    Ok(())
}
