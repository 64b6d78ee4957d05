//! Tests that the cost of a query depends on what it returns, not on the size of the log.

use std::time::Instant;

use provost_core::model::plan::StepNumber;
use provost_core::model::timestamp::Timestamp;

use super::super::cluster::{Cluster, address};
use super::super::*;
use crate::suite;

/// Fills the log with events as runs would write them, but with dummy hashes.
fn fill(cluster: &Cluster, url: &str, plans: u32, each: u32) {
    let sql = format!(
        "INSERT INTO provost.plan (name, seq, hash)
            SELECT '\"plan ' || n || '\"', {each}, sha256('x') FROM generate_series(1, {plans}) n;
         INSERT INTO provost.event SELECT n + 1, n % {plans} + 1, n / {plans} + 1, n * 10,
            CASE WHEN n % 1000 = 0 THEN 'GATE_APPROVED' WHEN n % 2 = 0 THEN 'TASK_STARTED' ELSE 'TASK_COMPLETED' END,
            n % 50, '\"a title\"', '{{\"text\":\"' || repeat('x', 200) || '\"}}', sha256('x'), sha256('x')
            FROM generate_series(0, {plans}::bigint * {each} - 1) n;
         ANALYZE provost.plan; ANALYZE provost.event"
    );
    cluster.sql(url, &sql);
}

pub(super) fn queries(end: u64) -> [(&'static str, Query); 7] {
    let approvals = || vec!["GATE_APPROVED".to_owned(), "PLAN_LANDED".to_owned()];
    let tail = Query { newest_first: true, limit: Some(20), ..Query::default() };
    [
        ("one plan", Query::plan(&suite::plan("plan 7"))),
        ("one step of a plan", Query { step: Some(StepNumber(7)), ..Query::plan(&suite::plan("plan 7")) }),
        ("the tail", tail.clone()),
        ("after a cursor", Query { after: Some(Cursor(end - 100)), ..Query::default() }),
        ("the last approvals", Query { names: approvals(), ..tail.clone() }),
        ("the last passed steps", Query { names: vec!["TASK_COMPLETED".to_owned()], ..tail.clone() }),
        ("the last seconds", Query { since: Some(Timestamp(end * 10 - 1000)), ..tail }),
    ]
}

#[test]
fn no_query_reads_the_whole_log() {
    let Some(cluster) = Cluster::shared() else { return };
    let url = cluster.database();
    let log = Postgres::open(&address(&url)).expect("a log");
    fill(cluster, &url, 100, 300);
    for (what, query) in queries(30_000) {
        let plan = select::explained(&log, &query);
        assert!(plan.contains("Index") && !plan.contains("Seq Scan on event"), "{what}:\n{plan}");
    }
}

/// `cargo test -p provost-store --features postgres --lib -- --ignored --nocapture a_million`; with `PROVOST_FULL`
/// ten million.
#[test]
#[ignore = "takes a minute, and is for people to read"]
fn a_million_events_cost_what_ten_thousand_do() {
    let Some(cluster) = Cluster::shared() else { return };
    let many = if std::env::var_os("PROVOST_FULL").is_some() { 100_000 } else { 10_000 };
    let logs = [100, many].map(|plans| {
        let url = cluster.database();
        let log = Postgres::open(&address(&url)).expect("a log");
        fill(cluster, &url, plans, 100);
        let size = cluster.sql(&url, "SELECT pg_size_pretty(pg_total_relation_size('provost.event'))");
        eprintln!("{} events take {}", plans * 100, size[0].get::<String, _>(0));
        (log, u64::from(plans) * 100)
    });
    for place in 0..queries(1000).len() {
        let what = queries(1000)[place].0;
        compare(what, &logs, |log, end| drop(suite::all(log, queries(end)[place].1.clone())));
    }
    compare("append to a plan", &logs, |log, _| suite::append_steps(log, "mine", 1));
    compare("8 writers, 10 appends each", &logs, |log, _| {
        std::thread::scope(|scope| {
            for who in 0..8 {
                scope
                    .spawn(move || (0..10).for_each(|_| suite::append_steps(log, &format!("mine {who}"), 1)));
            }
        });
    });
}

/// Compares the median times. The two logs are measured alternately, so that other load affects both.
pub(super) fn compare(what: &str, logs: &[(Postgres, u64); 2], work: impl Fn(&Postgres, u64)) {
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..41 {
        for ((log, end), times) in logs.iter().zip(&mut times) {
            let begun = Instant::now();
            work(log, *end);
            times.push(begun.elapsed().as_secs_f64() * 1000.0);
        }
    }
    let [few, many] = times.map(|mut times| {
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    });
    eprintln!("{what:<28} {few:>8.3} ms {many:>8.3} ms   {:.2}", many / few);
}
