//! Measures a log of up to 100 million events, and what archiving gives back.

use std::time::{Duration, Instant};

use provost_core::model::timestamp::Timestamp;

use super::super::cluster::{Cluster, address};
use super::super::*;
use super::scale::{compare, queries};
use crate::archive::archive;
use crate::suite;

/// Events of a plan, and plans that run at the same time.
const EACH: u64 = 100;
const AT_ONCE: u64 = 1000;
/// Plans and events with valid seals, which are archived.
const SEALED_PLANS: u64 = 10_000;
const SEALED_EACH: u64 = 50;

/// Fills the log with events as runs would write them, but with dummy hashes. Indexes are made afterwards.
fn fill(cluster: &Cluster, url: &str, events: u64) {
    let begun = Instant::now();
    cluster.sql(
        url,
        &format!(
            "INSERT INTO provost.plan (name, seq, hash)
                SELECT '\"plan ' || n || '\"', {EACH}, sha256('x') FROM generate_series(1, {}) n;
             ALTER TABLE provost.event SET (autovacuum_enabled = off);
             ALTER TABLE provost.event DROP CONSTRAINT event_pkey, DROP CONSTRAINT event_plan_seq_key;
             DROP INDEX provost.event_time, provost.event_unusual",
            events / EACH
        ),
    );
    let block = AT_ONCE * EACH * 20;
    for first in (0..events).step_by(block as usize) {
        let last = (first + block).min(events) - 1;
        cluster.sql(
            url,
            &format!(
                "SET synchronous_commit = off;
                 INSERT INTO provost.event SELECT n + 1, n / {} * {AT_ONCE} + n % {AT_ONCE} + 1, n / {AT_ONCE} % {EACH} + 1,
                    n * 10, CASE WHEN n % 1000 = 0 THEN 'GATE_APPROVED' WHEN n % 2 = 0 THEN 'TASK_STARTED'
                    ELSE 'TASK_COMPLETED' END, n % 50, '\"a title\"', '{{\"text\":\"' || repeat('x', 200) || '\"}}',
                    sha256('x'), sha256('x') FROM generate_series({first}::bigint, {last}) n",
                AT_ONCE * EACH
            ),
        );
    }
    eprintln!("{events} events written after {:?}", begun.elapsed());
    cluster.sql(
        url,
        "SET maintenance_work_mem = '1GB'; ALTER TABLE provost.event ADD PRIMARY KEY (id), ADD UNIQUE (plan, seq);
         CREATE INDEX event_time ON provost.event (at_ms, id);
         CREATE INDEX event_unusual ON provost.event (name, id) WHERE name NOT IN
            ('TASK_STARTED', 'STEP_CLAIMED', 'ATTEMPT_ENDED', 'CONTRACT_JUDGED', 'TASK_COMPLETED');
         ALTER TABLE provost.event RESET (autovacuum_enabled)",
    );
    cluster.sql(url, "VACUUM (ANALYZE) provost.event");
    cluster.sql(url, "ANALYZE provost.plan");
    eprintln!("and their indexes after {:?}; they take {}", begun.elapsed(), size(cluster, url));
}

/// Adds plans whose chains verify, from `first` on.
fn seal_plans(cluster: &Cluster, url: &str, first: u64) {
    cluster.sql(
        url,
        &format!(
            "DO $$
             DECLARE row bigint; place bigint := provost.log_end(); hash bytea; next bytea; at bigint;
                 details text := '{{\"text\":\"' || repeat('x', 200) || '\"}}';
             BEGIN
                 FOR n IN {first} .. {} LOOP
                     hash := decode(repeat('00', 32), 'hex');
                     INSERT INTO provost.plan (name, seq, hash) VALUES ('\"sealed ' || n || '\"', {SEALED_EACH}, hash)
                         RETURNING id INTO row;
                     FOR s IN 1 .. {SEALED_EACH} LOOP
                         place := place + 1; at := place * 10;
                         next := sha256(convert_to(provost.object('\"sealed ' || n || '\"', s, at, 'TASK_STARTED', 1,
                             '\"a title\"', details, hash), 'UTF8'));
                         INSERT INTO provost.event VALUES (place, row, s, at, 'TASK_STARTED', 1, '\"a title\"', details,
                             hash, next);
                         hash := next;
                     END LOOP;
                     UPDATE provost.plan p SET hash = next WHERE id = row;
                 END LOOP;
             END $$",
            first + SEALED_PLANS - 1
        ),
    );
}

fn size(cluster: &Cluster, url: &str) -> String {
    let sql = "SELECT pg_relation_size('provost.event') / 1000000 || ' MB and '
               || pg_indexes_size('provost.event') / 1000000 || ' MB of indexes'";
    cluster.sql(url, sql)[0].get(0)
}

/// `PROVOST_EVENTS=100000000 cargo test -p provost-store --features cluster --lib -- --ignored --nocapture a_log_grows`
#[test]
#[ignore = "takes half an hour and half a kilobyte of disk per event, and is for people to read"]
fn a_log_grows() {
    let Some(cluster) = Cluster::shared() else { return };
    let many = std::env::var("PROVOST_EVENTS").ok().and_then(|text| text.parse().ok()).unwrap_or(10_000_000);
    let logs = [1_000_000, many].map(|events: u64| {
        let url = cluster.database();
        let log = Postgres::open(&address(&url)).expect("a log");
        fill(cluster, &url, events);
        (log, events, url)
    });
    let [small, large] = logs;
    let urls = [small.2, large.2];
    let logs = [(small.0, small.1), (large.0, large.1)];
    for place in 0..queries(1000).len() {
        let what = queries(1000)[place].0;
        compare(what, &logs, |log, end| drop(suite::all(log, queries(end)[place].1.clone())));
    }
    compare("append to a plan", &logs, |log, _| suite::append_steps(log, "mine", 1));
    compare("follow: from an append to its wake-up", &logs, |log, _| {
        let after = log.cursor().expect("an end");
        std::thread::scope(|scope| {
            scope.spawn(|| suite::append_steps(log, "mine", 1));
            log.wait(after, Duration::from_secs(10)).expect("woken");
        });
    });
    compare("8 writers, 10 appends each", &logs, |log, _| {
        std::thread::scope(|scope| {
            for who in 0..8 {
                scope
                    .spawn(move || (0..10).for_each(|_| suite::append_steps(log, &format!("mine {who}"), 1)));
            }
        });
    });
    for ((log, events), url) in logs.iter().zip(&urls) {
        let folder = tempfile::tempdir_in("/tmp").expect("a folder");
        seal_plans(cluster, url, 1);
        eprintln!("{events} events and {} sealed ones: {}", SEALED_PLANS * SEALED_EACH, size(cluster, url));
        let plans: Vec<_> = (1..=SEALED_PLANS).map(|n| suite::plan(&format!("sealed {n}"))).collect();
        let begun = Instant::now();
        let result = archive(log, folder.path(), &plans, Timestamp(1), &mut |_| Ok(())).expect("archived");
        let took = begun.elapsed().as_secs_f64();
        assert_eq!((result.plans, result.left.len()), (SEALED_PLANS, 0));
        eprintln!(
            "archived {} events of {} plans in {took:.1} s ({:.0} a second) into {} files, {} bytes an event",
            result.events,
            result.plans,
            result.events as f64 / took,
            result.files.len(),
            result.bytes / result.events
        );
        let one = Instant::now();
        assert_eq!(suite::all(log, Query::plan(&plans[7])).len() as u64, SEALED_EACH);
        eprintln!("read an archived plan in {:?}; {}", one.elapsed(), size(cluster, url));
        let begun = Instant::now();
        cluster.sql(url, "VACUUM provost.event");
        eprintln!("vacuum took {:?}: {}", begun.elapsed(), size(cluster, url));
        seal_plans(cluster, url, SEALED_PLANS + 1);
        eprintln!("and after as many new events: {}", size(cluster, url));
        assert_eq!(log.archived(&plans[0]).expect("parts").len(), 1);
    }
    compare("one plan, after that", &logs, |log, end| drop(suite::all(log, queries(end)[0].1.clone())));
    compare("append, after that", &logs, |log, _| suite::append_steps(log, "mine", 1));
}
