//! Status of the cluster for people and programs: who works, what waits and for how long, what went wrong.
//! Also the settings a person may change: the limits of a queue, and a wake-up of a plan.

use std::time::Duration;

use provost_core::model::proof::PublicKey;
use provost_engine::journal::log_locator;
use provost_engine::settings::EngineSettings;
use provost_store::Postgres;
pub use provost_store::postgres::TrustedKey;
use provost_store::postgres::{DatabaseAddress, DatabaseProject};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sqlx::postgres::PgArguments;
use sqlx::{Connection as _, PgConnection, Row as _};

use crate::error::ErrorContext as _;
use crate::{Error, schema, wire};

/// Time after which a silent database counts as unreachable.
const AWAY: Duration = Duration::from_secs(1);

#[derive(Debug, Serialize)]
pub struct ClusterStatus {
    /// Wire version of the queued work.
    pub wire: String,
    pub workers: Vec<Worker>,
    pub queues: Vec<Queue>,
    /// Offered items that are not done, oldest first.
    pub items: Vec<QueuedItem>,
    /// Offered items whose role no running worker serves.
    pub unserved: Vec<UnservedItem>,
    /// Plans that make no progress, and why.
    pub troubles: Vec<Trouble>,
    /// The newest late reports, newest first.
    pub refused: Vec<RefusedItem>,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct Worker {
    pub id: String,
    pub host: String,
    pub pid: i64,
    /// `None` for any role.
    pub roles: Option<Vec<String>>,
    pub jobs: i32,
    pub busy: i64,
    pub labels: Vec<String>,
    pub version: String,
    pub joined_ms: i64,
    /// Time since its last heartbeat.
    pub seen_ms: i64,
    pub drains: bool,
    /// Its last heartbeat is older than its lifetime.
    pub missing: bool,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct Queue {
    pub name: String,
    /// Rows that no worker has taken.
    pub waiting: i64,
    /// Rows that wait for their time.
    pub delayed: i64,
    pub running: i64,
    /// Age of the oldest waiting row.
    pub lag_ms: i64,
    pub concurrency: Option<i32>,
    pub per_worker: Option<i32>,
    pub rate: Option<i32>,
    pub rate_period_ms: Option<i64>,
    /// Rows that wait for a program with another wire version.
    pub foreign: i64,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct QueuedItem {
    pub plan: String,
    pub item: String,
    pub pool: String,
    pub labels: Vec<String>,
    pub worker: Option<String>,
    pub epoch: Option<i64>,
    pub age_ms: i64,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct UnservedItem {
    pub plan: String,
    pub item: String,
    pub role: String,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct Trouble {
    pub plan: String,
    pub what: String,
    pub worker: String,
    pub age_ms: i64,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct RefusedItem {
    pub plan: String,
    pub item: String,
    pub worker: String,
    pub what: String,
    pub age_ms: i64,
}

impl UnservedItem {
    /// Returns what to do.
    pub fn says(&self) -> String {
        let Self { item, role, .. } = self;
        format!(
            "{item} is only offered: no running worker serves the role `{role}`; start one with `provost \
             worker --roles {role}`"
        )
    }
}

const WORKERS: &str = "
SELECT id, host, pid, roles, jobs, labels, program AS version, drains,
    (SELECT count(*) FROM provost_cluster.item i WHERE i.worker = w.id) AS busy,
    (extract(epoch FROM clock_timestamp() - joined) * 1000)::bigint AS joined_ms,
    (extract(epoch FROM clock_timestamp() - seen) * 1000)::bigint AS seen_ms,
    seen < clock_timestamp() - ttl_ms * interval '1 millisecond' AS missing
FROM provost_cluster.worker w ORDER BY joined, id";

pub(crate) const QUEUES: &str = "
SELECT q.name, q.concurrency, q.worker_concurrency AS per_worker, q.rate_limit_max AS rate,
    (q.rate_limit_period_sec * 1000)::bigint AS rate_period_ms,
    count(*) FILTER (WHERE s.status = 'ENQUEUED') AS waiting,
    count(*) FILTER (WHERE s.status = 'DELAYED') AS delayed,
    count(*) FILTER (WHERE s.status = 'PENDING') AS running,
    count(*) FILTER (WHERE s.status = 'ENQUEUED' AND s.application_version <>
        (SELECT version FROM provost_cluster.wire)) AS foreign,
    coalesce(greatest(max((extract(epoch FROM clock_timestamp()) * 1000)::bigint - s.created_at)
        FILTER (WHERE s.status = 'ENQUEUED'), 0), 0) AS lag_ms
FROM dbos.queues q LEFT JOIN dbos.workflow_status s
    ON s.queue_name = q.name AND s.status IN ('ENQUEUED', 'DELAYED', 'PENDING')
WHERE q.application_name = 'provost'
GROUP BY q.queue_id ORDER BY q.name";

const ITEMS: &str = "
SELECT plan, name AS item, pool, labels, worker, epoch,
    (extract(epoch FROM clock_timestamp() - coalesce(taken, offered)) * 1000)::bigint AS age_ms
FROM provost_cluster.item ORDER BY offered, plan, name";

const UNSERVED: &str = "
SELECT i.plan, i.name AS item, i.pool AS role FROM provost_cluster.item i
WHERE i.worker IS NULL AND i.pool NOT IN ('judge', 'end') AND NOT EXISTS (
    SELECT FROM provost_cluster.worker w
    WHERE NOT w.drains AND w.seen >= clock_timestamp() - w.ttl_ms * interval '1 millisecond'
        AND (w.roles IS NULL OR i.pool = ANY (w.roles)))
ORDER BY i.offered, i.plan, i.name";

const TROUBLES: &str = "
SELECT plan, what, worker, (extract(epoch FROM clock_timestamp() - at) * 1000)::bigint AS age_ms
FROM provost_cluster.trouble ORDER BY at";

const REFUSED: &str = "
SELECT plan, item, worker, what, (extract(epoch FROM clock_timestamp() - at) * 1000)::bigint AS age_ms
FROM provost_cluster.refused ORDER BY id DESC LIMIT 20";

/// Runs one of the queries above and returns its rows.
pub(crate) async fn rows<T: DeserializeOwned>(
    project: &DatabaseProject,
    database: &mut PgConnection,
    question: &str,
) -> Result<Vec<T>, Error> {
    let all = format!("SELECT coalesce(json_agg(t), '[]')::text FROM ({question}) t");
    let row = project.composed(all, PgArguments::default()).fetch_one(database).await;
    let text: String = row.and_then(|row| row.try_get(0)).attempted("read the status of the cluster")?;
    serde_json::from_str(&text).map_err(|error| sqlx::Error::Decode(error.into())).attempted("be understood")
}

/// Access to the cluster from outside of a worker.
pub struct ClusterView {
    address: DatabaseAddress,
    runtime: tokio::runtime::Runtime,
}

impl ClusterView {
    pub fn open(settings: &EngineSettings) -> Result<Self, Error> {
        let address = log_locator::database(&settings.state)?.ok_or(Error::NotShared)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        Ok(Self { address, runtime: runtime.map_err(Error::Runtime)? })
    }

    pub fn status(&self) -> Result<ClusterStatus, Error> {
        self.runtime.block_on(async {
            let mut database = self.connect().await?;
            let wire: String = self
                .project()
                .query_scalar("SELECT version FROM provost_cluster.wire")
                .fetch_one(&mut database)
                .await
                .attempted("read the protocol version of the cluster")?;
            Ok(ClusterStatus {
                workers: rows(self.project(), &mut database, WORKERS).await?,
                queues: rows(self.project(), &mut database, QUEUES).await?,
                items: rows(self.project(), &mut database, ITEMS).await?,
                unserved: rows(self.project(), &mut database, UNSERVED).await?,
                troubles: rows(self.project(), &mut database, TROUBLES).await?,
                refused: rows(self.project(), &mut database, REFUSED).await?,
                wire,
            })
        })
    }

    /// Returns why the plan waits: for a worker that takes its offered items, or for the budget. One line each.
    pub fn waits(&self, plan: &str) -> Result<Vec<String>, Error> {
        let (items, unserved, is_over_budget) = self.ask(async |database| {
            let items: Vec<QueuedItem> = rows(self.project(), database, ITEMS).await?;
            let unserved: Vec<UnservedItem> = rows(self.project(), database, UNSERVED).await?;
            let sql = "SELECT EXISTS (SELECT FROM provost.budget_wait WHERE plan = to_json($1::text)::text)";
            let waits = self.project().query_scalar::<bool>(sql).bind(plan).fetch_one(database).await;
            Ok((items, unserved, waits.attempted("read which plans wait for the budget")?))
        })?;
        let waiting = items.iter().filter(|item| item.plan == plan && item.worker.is_none());
        let why = |item: &QueuedItem| {
            let is_unserved = |each: &&UnservedItem| each.plan == item.plan && each.item == item.item;
            match unserved.iter().find(is_unserved) {
                Some(each) => each.says(),
                None => format!("{} is offered, and no worker has taken it yet", item.item),
            }
        };
        let over_budget = match is_over_budget {
            true => Some(Postgres::open(&self.address)?.budget()?.budget.refusal()),
            false => None,
        };
        Ok(waiting.map(why).chain(over_budget).collect())
    }

    /// Sets how many items of a role may run at once in the cluster, and how many may start in a period.
    /// `None` removes a limit.
    pub fn limit(
        &self,
        role: &str,
        concurrency: Option<i32>,
        rate: Option<(i32, Duration)>,
    ) -> Result<(), Error> {
        self.runtime.block_on(async {
            let mut database = self.connect().await?;
            let changed = self.project().query(
                "UPDATE dbos.queues SET concurrency = $2, rate_limit_max = $3, rate_limit_period_sec = $4, \
                 worker_concurrency = least(worker_concurrency, $2) WHERE name = $1",
            )
            .bind(wire::queue(role))
            .bind(concurrency)
            .bind(rate.map(|(most, _)| most))
            .bind(rate.map(|(_, period)| period.as_secs_f64()))
            .execute(&mut database)
            .await
            .attempted("set the limits of a queue")?;
            match changed.rows_affected() {
                0 => Err(Error::NoQueue { role: role.to_owned() }),
                _ => Ok(()),
            }
        })
    }

    /// Takes a lease away from its holder, and returns who that was.
    pub fn break_lease(&self, name: &str) -> Result<String, Error> {
        let log = Postgres::open(&self.address)?;
        log.break_lease(name)?.ok_or_else(|| Error::LeaseNotHeld { name: name.to_owned() })
    }

    /// Returns the keys of workers whose checks count.
    pub fn trusted_keys(&self) -> Result<Vec<TrustedKey>, Error> {
        Ok(Postgres::open(&self.address)?.checkers()?)
    }

    /// Lets the checks count that this key signs, or lets them count no longer.
    pub fn trust(&self, key: &str, name: &str, is_trusted: bool) -> Result<(), Error> {
        let public = PublicKey::read(key).map_err(|_| Error::NotAKey { key: key.to_owned() })?;
        let log = Postgres::open(&self.address)?;
        if is_trusted {
            return Ok(log.trust_checker(&public, name)?);
        }
        match log.distrust_checker(&public)? {
            true => Ok(()),
            false => Err(Error::NotTrusted { key: key.to_owned() }),
        }
    }

    /// Schedules a tick of the plan.
    pub fn wake(&self, plan: &str) -> Result<(), Error> {
        self.runtime.block_on(async {
            let mut database = self.connect().await?;
            self.project()
                .query("SELECT provost_cluster.wake($1, NULL)")
                .bind(plan)
                .execute(&mut database)
                .await
                .attempted("wake a plan")?;
            Ok(())
        })
    }

    /// Runs one query on its own connection, with a short timeout for an unreachable database.
    pub(crate) fn ask<T>(
        &self,
        question: impl AsyncFnOnce(&mut PgConnection) -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.runtime.block_on(async {
            let connecting = tokio::time::timeout(AWAY, self.connect());
            let silent = |_| Err(sqlx::Error::PoolTimedOut).attempted("be reached");
            let mut database = connecting.await.unwrap_or_else(silent)?;
            question(&mut database).await
        })
    }

    pub(crate) fn project(&self) -> &DatabaseProject {
        self.address.project()
    }

    async fn connect(&self) -> Result<PgConnection, Error> {
        let mut database =
            PgConnection::connect_with(self.address.options()).await.attempted("be reached")?;
        match schema::is_there(self.project(), &mut database).await? {
            true => Ok(database),
            false => Err(Error::NoCluster { at: self.address.to_string() }),
        }
    }
}
