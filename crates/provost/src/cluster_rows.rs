//! Rows about a cluster: its workers, queues, items and leases, for `provost cluster status` and the page.

use std::time::Duration;

use provost_server::http::PageTable;

/// Returns what the cluster page shows: the same rows, the leases, and why plans are stuck.
pub(crate) fn tables(
    status: &provost_dbos::status::ClusterStatus,
    gauges: &[provost_dbos::metrics::ClusterMetric],
) -> Vec<PageTable> {
    let leases = gauges.iter().filter(|gauge| gauge.name == "provost_cluster_leases");
    let leases = leases.flat_map(|gauge| &gauge.samples).map(|(labels, count)| {
        vec![labels.iter().map(|(_, value)| value.clone()).collect::<Vec<_>>().join(", "), count.to_string()]
    });
    let stuck = status.troubles.iter();
    let stuck = stuck.map(|stuck| vec![stuck.plan.clone(), stuck.what.clone(), time(stuck.age_ms)]);
    let late = status.refused.iter();
    let late =
        late.map(|late| vec![late.plan.clone(), late.item.clone(), late.worker.clone(), time(late.age_ms)]);
    let table = |title, heads, if_empty, rows| PageTable { title, heads, rows, if_empty };
    vec![
        table(
            "Workers",
            &["Worker", "Busy", "Seen", "Roles", "Labels"],
            "No worker is running. Start one with `provost worker`.",
            status.workers.iter().map(worker).collect(),
        ),
        table(
            "Queues",
            &["Queue", "Waiting", "Running", "Later", "Longest wait", "Limits"],
            "There are no queues yet.",
            status.queues.iter().map(queue).collect(),
        ),
        table(
            "Work that is not done",
            &["Plan", "Item", "Pool", "Age", "Worker"],
            "No work waits.",
            status.items.iter().map(item).collect(),
        ),
        table("Stuck plans", &["Plan", "Reason", "Since"], "No plan is stuck.", stuck.collect()),
        table("Leases", &["State", "Number"], "There are no leases.", leases.collect()),
        table(
            "Reports that came too late",
            &["Plan", "Item", "Worker", "Age"],
            "No report was refused.",
            late.collect(),
        ),
    ]
}

pub(crate) fn item(item: &provost_dbos::status::QueuedItem) -> Vec<String> {
    let who = item.worker.clone().unwrap_or_else(|| "-".to_owned());
    vec![item.plan.clone(), item.item.clone(), item.pool.clone(), time(item.age_ms), who]
}

pub(crate) fn worker(worker: &provost_dbos::status::Worker) -> Vec<String> {
    let state = match (worker.missing, worker.drains) {
        (true, _) => " (missing)",
        (false, true) => " (leaving)",
        (false, false) => "",
    };
    vec![
        worker.id.clone(),
        format!("{} of {}", worker.busy, worker.jobs),
        format!("{} ago{state}", time(worker.seen_ms)),
        match worker.roles.as_deref() {
            None => "any".to_owned(),
            Some([]) => "none".to_owned(),
            Some(roles) => roles.join(","),
        },
        worker.labels.join(","),
    ]
}

pub(crate) fn queue(queue: &provost_dbos::status::Queue) -> Vec<String> {
    let mut limits = Vec::new();
    limits.extend(queue.concurrency.map(|most| format!("{most} at once")));
    limits.extend(queue.rate.map(|most| format!("{most} in {}", time(queue.rate_period_ms.unwrap_or(0)))));
    limits.extend(
        (queue.foreign > 0).then(|| format!("{} wait for a worker of another version", queue.foreign)),
    );
    vec![
        queue.name.clone(),
        queue.waiting.to_string(),
        queue.running.to_string(),
        queue.delayed.to_string(),
        time(queue.lag_ms),
        limits.join(", "),
    ]
}

pub(crate) fn time(ms: i64) -> String {
    let ms = ms.max(0).cast_unsigned();
    let rounded = if ms < 10_000 { ms } else { ms / 1000 * 1000 };
    humantime::format_duration(Duration::from_millis(rounded)).to_string()
}
