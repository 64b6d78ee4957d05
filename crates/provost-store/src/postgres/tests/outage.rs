//! Tests with servers that are restarted or killed while the log is in use.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use super::super::cluster::{Cluster, address};
use super::super::wire::Wire;
use super::super::*;
use crate::suite;

#[test]
fn a_restart_of_the_server_is_waited_for_by_writers_and_followers() {
    let Some(cluster) = Cluster::start() else { return };
    let url = cluster.database();
    let (log, follower) =
        (Postgres::open(&address(&url)).expect("a log"), Postgres::open(&address(&url)).expect("a log"));
    suite::append_steps(&log, "a", 1);
    let after = follower.wait(Cursor(0), Duration::from_secs(10)).expect("an event");
    cluster.stop();
    std::thread::scope(|scope| {
        scope.spawn(|| cluster.run());
        let waiting = scope.spawn(|| follower.wait(after, Duration::from_secs(60)).expect("an event"));
        suite::append_steps(&log, "a", 1);
        assert_eq!(waiting.join().expect("a follower"), Cursor(2));
    });
    suite::verify_chains(&log);
}

#[test]
fn nothing_that_was_acknowledged_is_lost_when_the_server_is_killed() {
    let Some(cluster) = Cluster::start() else { return };
    let url = cluster.database();
    let done = AtomicBool::new(false);
    let acknowledged: [AtomicU64; 4] = Default::default();
    std::thread::scope(|scope| {
        for (who, count) in acknowledged.iter().enumerate() {
            let log = Postgres::open(&address(&url)).expect("a log");
            let (done, name) = (&done, format!("plan {who}"));
            scope.spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    let seq = count.load(Ordering::Relaxed);
                    // Expects the sequence number it knows, so an append that was written but not answered
                    // must be found.
                    suite::write(&log, &name, seq, seq, &[suite::started(1)]).expect("written in the end");
                    count.store(seq + 1, Ordering::Relaxed);
                }
            });
        }
        for _ in 0..3 {
            let begun: u64 = acknowledged.iter().map(|count| count.load(Ordering::Relaxed)).sum();
            wait_until(|| {
                acknowledged.iter().map(|count| count.load(Ordering::Relaxed)).sum::<u64>() > begun + 50
            });
            cluster.kill();
            cluster.run();
        }
        done.store(true, Ordering::Relaxed);
    });
    let log = Postgres::open(&address(&url)).expect("a log");
    for (who, count) in acknowledged.iter().enumerate() {
        let head = log.head(&suite::plan(&format!("plan {who}"))).expect("a head");
        assert_eq!(head.seq, count.load(Ordering::Relaxed), "plan {who}");
    }
    suite::verify_chains(&log);
}

fn wait_until(is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < deadline, "it does not go on");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_notification_that_is_lost_is_made_up_for() {
    let Some(cluster) = Cluster::shared() else { return };
    let url = cluster.database();
    let (log, follower) =
        (Postgres::open(&address(&url)).expect("a log"), Postgres::open(&address(&url)).expect("a log"));
    suite::append_steps(&log, "a", 1);
    follower.wait(Cursor(0), Duration::from_secs(10)).expect("an event");
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| follower.wait(Cursor(1), Duration::from_secs(20)).expect("an event"));
        let killed = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                      WHERE datname = current_database() AND query LIKE 'LISTEN%'";
        wait_until(|| !cluster.sql(&url, killed).is_empty());
        suite::append_steps(&log, "a", 1);
        assert_eq!(waiting.join().expect("a follower"), Cursor(2));
    });
}

#[test]
fn a_log_can_be_used_from_within_a_runtime() {
    let Some(cluster) = Cluster::shared() else { return };
    let log = cluster.log();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().expect("a runtime");
    runtime.block_on(async {
        tokio::spawn(async move {
            suite::append_steps(&log, "a", 1);
            let lease = log.lease("a", &suite::someone()).expect("free");
            drop(lease);
            assert_eq!(log.holder("a").expect("a look"), None);
        })
        .await
        .expect("no panic");
    });
}

fn database_of(url: &str) -> &str {
    let path = url.split('?').next().unwrap_or(url);
    path.rsplit('/').next().unwrap_or(path)
}

fn number(cluster: &Cluster, url: &str, question: &str) -> i64 {
    cluster.sql(url, question)[0].get(0)
}

#[test]
fn an_append_that_still_waited_for_its_turn_when_it_was_looked_for_is_found() {
    let Some(cluster) = Cluster::shared() else { return };
    let url = cluster.database();
    let wire = Wire::to(cluster);
    let log = Postgres::open(&address(&wire.url(database_of(&url)))).expect("a log");
    suite::append_steps(&log, "a", 1);
    let waiting = "SELECT count(*) FROM pg_locks WHERE relation = 'provost.turn'::regclass AND NOT granted";
    let taken = "SELECT count(*) FROM pg_locks WHERE relation = 'provost.turn'::regclass AND granted";
    let until_two_wait = format!(
        "SET statement_timeout = '60s'; BEGIN; LOCK TABLE provost.turn IN EXCLUSIVE MODE;
         DO $$ BEGIN WHILE ({waiting}) < 2 LOOP PERFORM pg_sleep(0.02); END LOOP; END $$; COMMIT"
    );
    std::thread::scope(|scope| {
        scope.spawn(|| cluster.sql(&url, &until_two_wait));
        wait_until(|| number(cluster, &url, taken) == 1);
        let writing = scope.spawn(|| suite::write(&log, "a", 1, 1, &[suite::started(1)]));
        wait_until(|| number(cluster, &url, waiting) == 1);
        wire.cut_unheard();
        writing.join().expect("a writer").expect("both tries are one append");
    });
    assert_eq!(log.head(&suite::plan("a")).expect("a head").seq, 2);
    suite::verify_chains(&log);
}

#[test]
fn a_lease_outlasts_connections_that_went_silent() {
    let Some(cluster) = Cluster::shared() else { return };
    let url = cluster.database();
    let wire = Wire::to(cluster);
    let log = Postgres::open(&address(&wire.url(database_of(&url)))).expect("a log");
    let log = log.with_lease_ttl(Duration::from_secs(3));
    let expires = || -> String { cluster.sql(&url, "SELECT expires::text FROM provost.lease")[0].get(0) };
    let held = log.lease("a", &suite::someone()).expect("free");
    let is_renewed = |before: String| {
        wait_until(|| {
            let left = "SELECT count(*) FROM provost.lease WHERE expires > clock_timestamp()";
            assert_eq!(number(cluster, &url, left), 1, "it ran out");
            expires() != before
        })
    };
    is_renewed(expires());
    wire.hold_those_there();
    is_renewed(expires());
    is_renewed(expires());
    assert_eq!(held.fence().epoch, 1);
    suite::append_steps(&log, "a", 1);
    wire.cut();
}

#[test]
fn a_connection_may_say_nothing_for_as_long_as_a_lease_lasts() {
    let Some(cluster) = Cluster::shared() else { return };
    let url = cluster.database();
    let wire = Wire::to(cluster);
    let address = address(&wire.url(database_of(&url)));
    let log = Postgres::open(&address).expect("a log").with_lease_ttl(Duration::from_secs(7));
    log.expect_answers();
    let end = format!(":{:04X} ", address.options().get_port());
    let ours = std::fs::read_to_string("/proc/self/net/tcp").expect("the kernel's table");
    // The timer field starts with 02 for a connection with keep-alive probes.
    let asked =
        ours.lines().filter_map(|line| line.split_once(&end)).filter(|(_, rest)| rest.contains(" 02:"));
    assert!(asked.count() > 0, "{ours}");
}
