//! A worker, as ticks and items know it: its name, its log, and how it comes to the plans it is given.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use provost_core::fleet::labels::Label;
use provost_core::fleet::work_item::Item;
use provost_core::model::chain::PlanId;
use provost_engine::carry::Carrying;
use provost_engine::harness::{Harness, Settings};
use provost_engine::keeper::Keeper;
use provost_engine::{carry, drive, keeper, places};
use provost_store::Postgres;
use sqlx::PgPool;
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, oneshot};

use crate::Error;
use crate::bell::Bell;
use crate::error::Attempted as _;

pub(crate) struct Crew {
    pub id: String,
    pub settings: Settings,
    pub log: Arc<Postgres>,
    pub pool: PgPool,
    pub labels: Vec<Label>,
    /// Where trees travel: the address of the remote, and which machine this is.
    pub carries: Option<(String, String)>,
    pub permits: Semaphore,
    /// Items that are being done here, by their numbers.
    pub busy: Mutex<BTreeMap<String, Busy>>,
    /// Knows what to end when this process cannot.
    pub keeper: Option<Keeper>,
    /// Threads that are at work for a tick or an item.
    pub threads: Arc<()>,
    pub told: Box<dyn Fn(&str) + Send + Sync>,
    /// It looks at plans, and may go on with one.
    pub looks: bool,
    /// The queues it listens to; nothing: all there are.
    pub listens: Option<Vec<String>>,
    /// Set when it takes nothing new.
    pub drain: Arc<AtomicBool>,
    pub bell: Bell,
    /// What never stands still.
    pub runtime: Handle,
    /// Rows of the queues that were begun here and are not ended.
    pub rows: Mutex<BTreeSet<String>>,
}

/// A row of a queue that was begun here. When it is dropped, what came of it is to be written down.
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
    /// Ends the agent.
    pub stop: Arc<AtomicBool>,
    /// It is ours, by our lease.
    pub taken: bool,
    /// It was not ours any more at the last look: it may just be over.
    pub missed: bool,
}

impl Crew {
    /// The plan's harness, on the shared log: by what is in the log where trees travel, else where its file is.
    pub fn harness(
        &self,
        plan: &PlanId,
        stop: Arc<AtomicBool>,
        runtime: &Handle,
    ) -> Result<Harness, provost_engine::Error> {
        let Some((address, machine)) = &self.carries else { return self.at_home(plan, stop) };
        let remote = carry::remote(address)?;
        let settings = Settings { stop: stop.clone(), ..self.settings.clone() };
        let open = || {
            let carrying = Carrying::new(remote.clone(), machine.clone(), self.teller(plan, runtime));
            carry::open(settings.clone(), self.log.clone(), plan, carrying)
        };
        match open() {
            // It may be this machine that has what nobody has sent yet.
            Err(error @ provost_engine::Error::NotCarried { .. }) => {
                let sent = self
                    .at_home(plan, stop)
                    .and_then(|harness| carry::send_base(&harness, &drive::read(&*self.log, plan)?, &remote));
                sent.map_or(Err(error), |()| open())
            }
            opened => opened,
        }
    }

    /// Tells why a plan waits, from a thread that does nothing else meanwhile.
    fn teller(&self, plan: &PlanId, runtime: &Handle) -> carry::Told {
        let (pool, id, plan, runtime) = (self.pool.clone(), self.id.clone(), plan.0.clone(), runtime.clone());
        Arc::new(move |what| drop(runtime.block_on(note_trouble(&pool, &id, &plan, what))))
    }

    fn at_home(&self, plan: &PlanId, stop: Arc<AtomicBool>) -> Result<Harness, provost_engine::Error> {
        let not_there = || provost_engine::Error::NotThere { plan: plan.clone() };
        let find = || places::find(&self.settings.state, plan).filter(places::Place::is_there);
        let look_around = || {
            // Somebody on another machine may have made it known; here it lies at the same path.
            let _ = places::keep_all(&self.settings.state, &self.settings.cwd);
            find()
        };
        let place = find().or_else(look_around).ok_or_else(not_there)?;
        let settings = Settings {
            cwd: place.workspace.clone(),
            plan: Some(place.path.display().to_string()),
            stop,
            ..self.settings.clone()
        };
        let harness = Harness::open_on(settings, self.log.clone())?;
        if harness.id() == plan { Ok(harness) } else { Err(not_there()) }
    }

    pub fn listens_to(&self, queue: &str) -> bool {
        self.listens.as_ref().is_none_or(|queues| queues.iter().any(|known| known == queue))
    }

    pub fn leaves(&self) -> bool {
        self.drain.load(Ordering::Relaxed)
    }

    /// No hand is free.
    pub fn is_full(&self) -> bool {
        self.permits.available_permits() == 0
    }

    pub fn begin_row(self: &Arc<Self>, id: String) -> Row {
        self.rows().insert(id.clone());
        Row { crew: self.clone(), id, _held: self.threads.clone() }
    }

    pub fn begun_rows(&self) -> Vec<String> {
        self.rows().iter().cloned().collect()
    }

    fn rows(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn busy(&self) -> MutexGuard<'_, BTreeMap<String, Busy>> {
        self.busy.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the agents of items that are not ours any more.
    pub fn keep_only(&self, ours: &[String]) {
        for (id, busy) in self.busy().iter_mut().filter(|(_, busy)| busy.taken) {
            if ours.contains(id) {
                busy.missed = false;
            } else if std::mem::replace(&mut busy.missed, true) && !busy.stop.swap(true, Ordering::Relaxed) {
                (self.told)(&format!("{id} was taken over by another; what runs of it is ended"));
            }
        }
    }

    /// Ends whatever runs here: nothing was heard of the database for so long that others may soon have it.
    pub fn let_go(&self) {
        let all: Vec<String> = self.busy().keys().cloned().collect();
        self.end(&all, "nothing was heard of the database for most of a lease");
    }

    /// Ends what runs of these items, where it is ours.
    pub fn end(&self, items: &[String], why: &str) {
        for (id, busy) in self.busy().iter().filter(|(id, busy)| busy.taken && items.contains(id)) {
            if !busy.stop.swap(true, Ordering::Relaxed) {
                (self.told)(&format!("{why}; what runs of {id} is ended"));
            }
        }
    }

    /// From now on its agent is ended even if this process cannot.
    pub fn keep(&self, plan: &PlanId, item: Item) {
        self.tell_keeper(plan, item, Keeper::taken);
    }

    pub fn keep_no_more(&self, plan: &PlanId, item: Item) {
        self.tell_keeper(plan, item, Keeper::over);
    }

    fn tell_keeper(&self, plan: &PlanId, item: Item, tell: impl Fn(&Keeper, &str)) {
        if let (Some(keeper), Some(attempt)) = (&self.keeper, keeper::attempt(plan, item)) {
            tell(keeper, &attempt);
        }
    }

    /// Why a plan does not get on, for people to see.
    pub async fn trouble(&self, plan: &str, what: &str) -> Result<(), Error> {
        (self.told)(&format!("{plan}: {what}"));
        note_trouble(&self.pool, &self.id, plan, what).await
    }

    /// Looks at the plan again, in this time.
    pub async fn wake_in(&self, plan: &str, time: Duration) -> Result<(), Error> {
        sqlx::query(
            "SELECT provost_cluster.wake($1, (extract(epoch FROM clock_timestamp()) * 1000)::bigint + $2)",
        )
        .bind(plan)
        .bind(i64::try_from(time.as_millis()).unwrap_or(i64::MAX))
        .execute(&self.pool)
        .await
        .attempted("look at a plan again")?;
        Ok(())
    }

    /// Does what may take long on a thread of its own. Nothing, if it panicked.
    pub async fn apart<T: Send + 'static>(
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

async fn note_trouble(pool: &PgPool, worker: &str, plan: &str, what: &str) -> Result<(), Error> {
    sqlx::query(
        "INSERT INTO provost_cluster.trouble (plan, worker, what) VALUES ($1, $2, $3) ON CONFLICT (plan) \
         DO UPDATE SET at = clock_timestamp(), worker = excluded.worker, what = excluded.what",
    )
    .bind(plan)
    .bind(worker)
    .bind(what)
    .execute(pool)
    .await
    .attempted("note why a plan does not get on")?;
    Ok(())
}
