//! Status of the cluster for people and programs: who works, what waits and for how long, what went wrong.
//! Also the settings a person may change: the limits of a queue, and a wake-up of a plan.

use std::time::Duration;

use provost_engine::journal::log_locator;
use provost_engine::settings::EngineSettings;
use provost_store::postgres::DatabaseAddress;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sqlx::{AssertSqlSafe, Connection as _, PgConnection};

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

const TROUBLES: &str = "
SELECT plan, what, worker, (extract(epoch FROM clock_timestamp() - at) * 1000)::bigint AS age_ms
FROM provost_cluster.trouble ORDER BY at";

const REFUSED: &str = "
SELECT plan, item, worker, what, (extract(epoch FROM clock_timestamp() - at) * 1000)::bigint AS age_ms
FROM provost_cluster.refused ORDER BY id DESC LIMIT 20";

/// Runs one of the queries above and returns its rows.
pub(crate) async fn rows<T: DeserializeOwned>(
    database: &mut PgConnection,
    question: &str,
) -> Result<Vec<T>, Error> {
    let all = format!("SELECT coalesce(json_agg(t), '[]')::text FROM ({question}) t");
    let text: String = sqlx::query_scalar(AssertSqlSafe(all))
        .fetch_one(database)
        .await
        .attempted("read the status of the cluster")?;
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
            let wire: String = sqlx::query_scalar("SELECT version FROM provost_cluster.wire")
                .fetch_one(&mut database)
                .await
                .attempted("read the protocol version of the cluster")?;
            Ok(ClusterStatus {
                workers: rows(&mut database, WORKERS).await?,
                queues: rows(&mut database, QUEUES).await?,
                items: rows(&mut database, ITEMS).await?,
                troubles: rows(&mut database, TROUBLES).await?,
                refused: rows(&mut database, REFUSED).await?,
                wire,
            })
        })
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
            let changed = sqlx::query(
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

    /// Schedules a tick of the plan.
    pub fn wake(&self, plan: &str) -> Result<(), Error> {
        self.runtime.block_on(async {
            let mut database = self.connect().await?;
            sqlx::query("SELECT provost_cluster.wake($1, NULL)")
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

    async fn connect(&self) -> Result<PgConnection, Error> {
        let mut database =
            PgConnection::connect_with(self.address.options()).await.attempted("be reached")?;
        match schema::is_there(&mut database).await? {
            true => Ok(database),
            false => Err(Error::NoCluster { at: self.address.to_string() }),
        }
    }
}
