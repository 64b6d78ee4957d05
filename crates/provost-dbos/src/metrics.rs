//! Metrics of the cluster: how much waits and for how long, which workers exist, what went wrong.
//!
//! **Invariant:** no plan name is in the metrics, and the query takes bounded time.

use std::time::Duration;

use provost_store::postgres::DatabaseProject;
use serde::Deserialize;
use sqlx::PgConnection;

use crate::Error;
use crate::status::{ClusterView, QUEUES, Queue, rows};

/// Time limit for the query.
const PATIENCE: Duration = Duration::from_secs(2);

/// A metric family: samples with their labels.
#[derive(Clone, Debug)]
pub struct ClusterMetric {
    pub name: &'static str,
    pub kind: &'static str,
    pub help: &'static str,
    pub samples: Vec<(Vec<(&'static str, String)>, f64)>,
}

#[derive(Deserialize)]
struct Workers {
    alive: i64,
    missing: i64,
    leaving: i64,
    jobs: i64,
    busy: i64,
}

#[derive(Deserialize)]
struct Pool {
    pool: String,
    offered: i64,
    taken: i64,
    offered_s: f64,
    taken_s: f64,
}

#[derive(Deserialize)]
struct Wait {
    pool: String,
    labels: String,
    wait_s: f64,
}

#[derive(Deserialize)]
struct Rest {
    troubles: i64,
    refused: i64,
    held: i64,
    lapsed: i64,
    overdue_s: f64,
}

/// What all plans may use and have used, in the log's own units.
#[derive(Deserialize)]
struct Budget {
    tokens: Option<i64>,
    micro_usd: Option<i64>,
    used_tokens: f64,
    used_micro_usd: f64,
    waiting: i64,
}

const WORKERS: &str = "
SELECT count(*) FILTER (WHERE NOT missing AND NOT drains) AS alive, count(*) FILTER (WHERE missing) AS missing,
    count(*) FILTER (WHERE NOT missing AND drains) AS leaving,
    coalesce(sum(jobs) FILTER (WHERE NOT missing), 0) AS jobs,
    (SELECT count(*) FROM provost_cluster.item WHERE worker IS NOT NULL) AS busy
FROM (SELECT jobs, drains, seen < clock_timestamp() - ttl_ms * interval '1 millisecond' AS missing
      FROM provost_cluster.worker) w";

const POOLS: &str = "
SELECT pool, count(*) FILTER (WHERE worker IS NULL) AS offered, count(worker) AS taken,
    coalesce(extract(epoch FROM max(clock_timestamp() - offered) FILTER (WHERE worker IS NULL)), 0) AS offered_s,
    coalesce(extract(epoch FROM max(clock_timestamp() - taken)), 0) AS taken_s
FROM provost_cluster.item GROUP BY pool ORDER BY pool";

/// Waits since the offer, also while the item is given back and offered again: no worker has what it requires, or
/// all are busy.
const WAITS: &str = "
SELECT pool, array_to_string(labels, ',') AS labels,
    greatest(extract(epoch FROM max(clock_timestamp() - offered)), 0) AS wait_s
FROM provost_cluster.item WHERE worker IS NULL GROUP BY 1, 2
UNION ALL
SELECT queue_name, '', greatest(max(extract(epoch FROM clock_timestamp())
    - greatest(created_at, delay_until_epoch_ms) / 1000.0), 0)
FROM dbos.workflow_status
WHERE queue_name = 'ticks' AND application_name = 'provost' AND (status = 'ENQUEUED'
    OR status = 'DELAYED' AND delay_until_epoch_ms <= extract(epoch FROM clock_timestamp()) * 1000)
GROUP BY 1
ORDER BY 1, 2";

const REST: &str = "
SELECT (SELECT count(*) FROM provost_cluster.trouble) AS troubles,
    (SELECT coalesce(max(id), 0) FROM provost_cluster.refused) AS refused,
    count(*) FILTER (WHERE expires > clock_timestamp()) AS held,
    count(*) FILTER (WHERE expires <= clock_timestamp()) AS lapsed,
    coalesce(extract(epoch FROM max(clock_timestamp() - expires) FILTER (WHERE expires <= clock_timestamp())), 0)
        AS overdue_s
FROM provost.lease WHERE holder IS NOT NULL";

/// Nothing, if there is no budget: the use is counted only for one.
const BUDGET: &str = "
SELECT b.tokens, b.micro_usd, u.tokens AS used_tokens, u.micro_usd AS used_micro_usd,
    (SELECT count(*) FROM provost.budget_wait) AS waiting
FROM (SELECT * FROM provost.budget ORDER BY id DESC LIMIT 1) b, provost.used u
WHERE b.tokens IS NOT NULL OR b.micro_usd IS NOT NULL";

impl ClusterView {
    /// Returns all metric families. An unreachable database is reported as a metric; empty if no worker has
    /// ever joined.
    pub fn gauges(&self) -> Vec<ClusterMetric> {
        let asked = self.ask(async |database| {
            tokio::time::timeout(PATIENCE, all(self.project(), database))
                .await
                .unwrap_or_else(|_| Ok(Vec::new()))
        });
        let (is_up, families) = match asked {
            Err(Error::NoCluster { .. }) => return Vec::new(),
            Ok(families) if !families.is_empty() => (1.0, families),
            Ok(_) | Err(_) => (0.0, Vec::new()),
        };
        let up = ClusterMetric {
            name: "cluster_up",
            kind: "gauge",
            help: "1 if the database of the cluster answered, else 0.",
            samples: vec![(Vec::new(), is_up)],
        };
        std::iter::once(up).chain(families).map(|family| of_project(self.project(), family)).collect()
    }
}

async fn all(project: &DatabaseProject, database: &mut PgConnection) -> Result<Vec<ClusterMetric>, Error> {
    let queues: Vec<Queue> = rows(project, database, QUEUES).await?;
    let workers: Vec<Workers> = rows(project, database, WORKERS).await?;
    let pools: Vec<Pool> = rows(project, database, POOLS).await?;
    let rest: Vec<Rest> = rows(project, database, REST).await?;
    let waits: Vec<Wait> = rows(project, database, WAITS).await?;
    let budget: Vec<Budget> = rows(project, database, BUDGET).await?;
    Ok([
        vec![of_waits(&queues, &waits)],
        of_queues(&queues),
        of_workers(&workers),
        of_pools(&pools),
        of_the_rest(&rest),
        of_budget(&budget),
    ]
    .concat())
}

/// Adds the name of the project to each sample, if the database has several.
fn of_project(project: &DatabaseProject, mut family: ClusterMetric) -> ClusterMetric {
    if let Some(name) = project.name() {
        family.samples.iter_mut().for_each(|(labels, _)| labels.push(("project", name.to_owned())));
    }
    family
}

fn gauge(
    name: &'static str,
    help: &'static str,
    samples: Vec<(Vec<(&'static str, String)>, f64)>,
) -> ClusterMetric {
    ClusterMetric { name, kind: "gauge", help, samples }
}

/// The wait by pool and labels. A pool in which nothing waits has 0, so that an autoscaler has a value.
fn of_waits(queues: &[Queue], waits: &[Wait]) -> ClusterMetric {
    let sample = |pool: &str, labels: &str, wait| {
        (vec![("pool", pool.to_owned()), ("labels", labels.to_owned())], wait)
    };
    let is_idle = |pool: &&str| !waits.iter().any(|wait| wait.pool == *pool && wait.labels.is_empty());
    let pools = queues.iter().map(|queue| queue.name.strip_prefix("items ").unwrap_or(&queue.name));
    let idle = pools.filter(is_idle).map(|pool| sample(pool, "", 0.0));
    gauge(
        "queue_wait_seconds",
        "Age of the oldest item that is ready and that no worker has taken.",
        waits.iter().map(|wait| sample(&wait.pool, &wait.labels, wait.wait_s)).chain(idle).collect(),
    )
}

fn of_queues(queues: &[Queue]) -> Vec<ClusterMetric> {
    let by_queue = |value: &dyn Fn(&Queue) -> f64| {
        queues.iter().map(|queue| (vec![("queue", queue.name.clone())], value(queue))).collect()
    };
    vec![
        gauge(
            "cluster_queue_waiting",
            "Queue rows that wait for a worker.",
            by_queue(&|queue| queue.waiting as f64),
        ),
        gauge(
            "cluster_queue_delayed",
            "Queue rows that wait for their start time.",
            by_queue(&|queue| queue.delayed as f64),
        ),
        gauge(
            "cluster_queue_running",
            "Queue rows that a worker has taken.",
            by_queue(&|queue| queue.running as f64),
        ),
        gauge(
            "cluster_queue_foreign",
            "Queue rows that wait for a program with another protocol version.",
            by_queue(&|queue| queue.foreign as f64),
        ),
        gauge(
            "cluster_queue_lag_seconds",
            "Age of the oldest queue row that waits.",
            by_queue(&|queue| queue.lag_ms as f64 / 1e3),
        ),
    ]
}

fn of_workers(workers: &[Workers]) -> Vec<ClusterMetric> {
    let Some(workers) = workers.first() else { return Vec::new() };
    let state = |word: &str, count: i64| (vec![("state", word.to_owned())], count as f64);
    let states = vec![
        state("alive", workers.alive),
        state("leaving", workers.leaving),
        state("missing", workers.missing),
    ];
    vec![
        gauge("cluster_workers", "Workers by state.", states),
        gauge(
            "cluster_jobs",
            "Items that all live workers can run at once.",
            vec![(Vec::new(), workers.jobs as f64)],
        ),
        gauge(
            "cluster_jobs_busy",
            "Items that workers are running.",
            vec![(Vec::new(), workers.busy as f64)],
        ),
    ]
}

fn of_pools(pools: &[Pool]) -> Vec<ClusterMetric> {
    let by_state = |values: &dyn Fn(&Pool) -> (f64, f64)| {
        let sample = |pool: &Pool, state: &str, value| {
            (vec![("pool", pool.pool.clone()), ("state", state.to_owned())], value)
        };
        pools
            .iter()
            .flat_map(|pool| {
                let (offered, taken) = values(pool);
                [sample(pool, "offered", offered), sample(pool, "taken", taken)]
            })
            .collect()
    };
    vec![
        gauge(
            "cluster_items",
            "Items that are offered and not done, by whether a worker has taken them.",
            by_state(&|pool| (pool.offered as f64, pool.taken as f64)),
        ),
        gauge(
            "cluster_items_oldest_seconds",
            "Age of the oldest of these items.",
            by_state(&|pool| (pool.offered_s, pool.taken_s)),
        ),
    ]
}

fn of_the_rest(rest: &[Rest]) -> Vec<ClusterMetric> {
    let Some(rest) = rest.first() else { return Vec::new() };
    let state = |word: &str, count: i64| (vec![("state", word.to_owned())], count as f64);
    let single = |value| vec![(Vec::new(), value)];
    let refused = ClusterMetric {
        kind: "counter",
        ..gauge(
            "cluster_refused_reports_total",
            "Reports that came after another worker had taken over.",
            single(rest.refused as f64),
        )
    };
    vec![
        gauge("cluster_troubled_plans", "Plans that cannot continue.", single(rest.troubles as f64)),
        refused,
        gauge(
            "cluster_leases",
            "Leases that are held, and leases that expired and were not taken over yet.",
            vec![state("held", rest.held), state("lapsed", rest.lapsed)],
        ),
        gauge(
            "cluster_lease_overdue_seconds",
            "Time since the first of the expired leases expired.",
            single(rest.overdue_s),
        ),
    ]
}

fn of_budget(budget: &[Budget]) -> Vec<ClusterMetric> {
    let Some(budget) = budget.first() else { return Vec::new() };
    let dollars = |micro_usd: f64| micro_usd / 1e6;
    let limits = [
        ("tokens", budget.tokens.map(|tokens| tokens as f64), budget.used_tokens),
        ("dollars", budget.micro_usd.map(|limit| dollars(limit as f64)), dollars(budget.used_micro_usd)),
    ];
    let sample = |resource: &str, value| (vec![("resource", resource.to_owned())], value);
    let limited = |of: &dyn Fn(f64, f64) -> f64| {
        let of = |(name, limit, used): &(&str, Option<f64>, f64)| Some(sample(name, of((*limit)?, *used)));
        limits.iter().filter_map(of).collect()
    };
    vec![
        gauge("cluster_budget", "Limit on the use of all plans together.", limited(&|limit, _| limit)),
        gauge(
            "cluster_budget_used",
            "Use and reservations of all plans, of a limited resource.",
            limited(&|_, used| used),
        ),
        gauge(
            "cluster_budget_waiting_plans",
            "Plans that wait until the budget is raised.",
            vec![(Vec::new(), budget.waiting as f64)],
        ),
    ]
}
