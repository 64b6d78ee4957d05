//! Servers that are restarted or killed while the log is in use.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::super::cluster::{Cluster, address};
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
                    // On what it knows: an append that was written and not answered must be found.
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
