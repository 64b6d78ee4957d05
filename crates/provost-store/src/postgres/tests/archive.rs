//! Tests which login archives, that nothing else leaves the log, and that a verdict in a cold file counts as in the
//! log.

use std::fs;

use provost_core::model::event::Event;
use provost_core::model::proof::ProofKey;
use provost_core::model::timestamp::Timestamp;

use super::super::cluster::{Cluster, address};
use super::super::*;
use super::doors::{as_user, with_people};
use crate::archive::{ArchivableLog as _, archive};
use crate::suite;

#[test]
fn only_the_owner_archives() {
    let Some(cluster) = Cluster::shared() else { return };
    let (url, folder) = (with_people(cluster), tempfile::tempdir().unwrap());
    let log = Postgres::open(&address(&url)).expect("a log");
    suite::append_steps(&log, "a", 3);
    let before = suite::all(&log, Query::default());
    for user in ["walter", "hanna", "petra", "rita", "agnes", "gerda"] {
        let log = Postgres::open(&address(&as_user(&url, user))).expect("a log");
        let refused = archive(&log, folder.path(), &[suite::plan("a")], Timestamp(1), &mut |_| Ok(()));
        let refused = refused.expect_err(user).to_string();
        assert!(refused.contains("only its owner archives") && refused.contains(user), "{refused}");
        for attempt in [
            "SELECT provost.archive('f', '/f', '{\"\\\"a\\\"\"}', '{1}', '{3}', ARRAY[''::bytea], ARRAY[''::bytea],
             '{0}', '{1}', ARRAY[''::bytea], NULL)",
            "INSERT INTO provost.archived SELECT id, 1, 3, hash, hash, 1, 0, 1, hash FROM provost.plan",
            "DELETE FROM provost.event",
            "UPDATE provost.plan SET archived_seq = 3",
        ] {
            let refused = cluster.try_sql(&as_user(&url, user), attempt).expect_err(attempt);
            assert!(refused.to_string().contains("permission denied"), "{user}: {attempt}: {refused}");
        }
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "nothing was written for them");
    assert_eq!(suite::all(&log, Query::default()), before);
    suite::archive_plans(&log, folder.path(), &["a"]);
    // Everybody reads it, as far as the file can be read.
    for user in ["walter", "petra", "rita"] {
        let log = Postgres::open(&address(&as_user(&url, user))).expect("a log");
        assert_eq!(suite::all(&log, Query::plan(&suite::plan("a"))), before);
        assert_eq!(log.cursor().unwrap().0, 4);
    }
}

#[test]
fn not_even_the_owner_removes_events_that_are_not_recorded() {
    let Some(cluster) = Cluster::shared() else { return };
    let (url, folder) = (cluster.database(), tempfile::tempdir().unwrap());
    let log = Postgres::open(&address(&url)).expect("a log");
    suite::append_steps(&log, "a", 3);
    suite::append_steps(&log, "b", 3);
    suite::archive_plans(&log, folder.path(), &["a"]);
    let record = |last: u32, hash: &str| {
        format!(
            "BEGIN; INSERT INTO provost.archived SELECT id, 1, {last}, hash, {hash}, 1, 0, 1, hash FROM provost.plan
             WHERE name = '\"b\"'; DELETE FROM provost.event; COMMIT"
        )
    };
    for attempt in [
        "DELETE FROM provost.event".to_owned(),
        "TRUNCATE provost.event".to_owned(),
        "UPDATE provost.event SET seq = 9".to_owned(),
        "DELETE FROM provost.archived".to_owned(),
        "UPDATE provost.archived SET digest = ''".to_owned(),
        "TRUNCATE provost.archived".to_owned(),
        "UPDATE provost.archive_file SET name = 'other'".to_owned(),
        "DELETE FROM provost.archive_file".to_owned(),
        record(2, "hash"),
        record(3, "''"),
    ] {
        let refused = cluster.try_sql(&url, &attempt).expect_err(&attempt);
        assert!(refused.to_string().contains("append-only"), "{attempt}: {refused}");
    }
    assert_eq!(suite::all(&log, Query::default()).len(), 3);
    assert_eq!(suite::all(&log, Query::plan(&suite::plan("a"))).len(), 3);
}

#[test]
fn a_plan_whose_lease_is_held_stays() {
    let Some(cluster) = Cluster::shared() else { return };
    let (url, folder) = (cluster.database(), tempfile::tempdir().unwrap());
    let log = Postgres::open(&address(&url)).expect("a log");
    suite::append_steps(&log, "a", 3);
    let lease = log.lease("plan a", &suite::someone()).expect("free");
    let run = |log: &Postgres| {
        archive(log, folder.path(), &[suite::plan("a")], Timestamp(1), &mut |_| Ok(())).expect("an answer")
    };
    assert_eq!(run(&log).left, [suite::plan("a")]);
    assert_eq!(log.unarchived_plans().unwrap(), [suite::plan("a")]);
    drop(lease);
    assert_eq!(run(&log).plans, 1);
}

/// A worker's verdict counts while its key is trusted, also in a cold file.
#[test]
fn a_verdict_in_a_cold_file_counts_while_its_key_is_trusted() {
    let Some(cluster) = Cluster::shared() else { return };
    let (url, folder) = (with_people(cluster), tempfile::tempdir().unwrap());
    let owner = Postgres::open(&address(&url)).expect("a log");
    let key = || ProofKey::new(&[7; 32]);
    owner.trust_checker(&key().public(), "build7").expect("trusted");
    let worker = Postgres::open(&address(&as_user(&url, "walter"))).expect("a log").with_signer(key());
    let lease = worker.lease("plan a", &suite::someone()).expect("free");
    let passed = Event::StepPassed {
        step: provost_core::model::plan::StepNumber(1),
        attempt: 1,
        result: "it held".to_owned(),
        tree: None,
        pass: None,
    };
    for (seq, event) in [suite::started(1), passed].iter().enumerate() {
        let entries = [crate::LogEntry { event, task_name: None }];
        let append = Append {
            plan: &suite::plan("a"),
            expected_seq: seq as u64,
            at: Timestamp(1),
            fence: Some(lease.fence()),
            events: &entries,
            effects: &[],
        };
        worker.append(append).expect("written");
    }
    drop(lease);
    let doubts = || {
        let events = suite::all(&owner, Query::plan(&suite::plan("a")));
        events.iter().map(|event| event.doubt.is_some()).collect::<Vec<_>>()
    };
    assert_eq!(doubts(), [false, false]);
    suite::archive_plans(&owner, folder.path(), &["a"]);
    assert_eq!(owner.unarchived_plans().unwrap(), []);
    assert_eq!(doubts(), [false, false]);
    owner.distrust_checker(&key().public()).expect("no longer");
    assert_eq!(doubts(), [false, true]);
}

#[test]
fn a_record_of_another_plan_is_refused_as_a_whole() {
    let Some(cluster) = Cluster::shared() else { return };
    let (url, folder) = (cluster.database(), tempfile::tempdir().unwrap());
    let log = Postgres::open(&address(&url)).expect("a log");
    suite::append_steps(&log, "a", 3);
    suite::append_steps(&log, "b", 3);
    suite::archive_plans(&log, folder.path(), &["a"]);
    let parts = log.archived(&suite::plan("a")).unwrap();
    assert!(matches!(log.keep_archived(&parts, Timestamp(1), Cursor(9)), Err(Error::Conflict { .. })));
    assert!(matches!(log.remove_archived(&parts, Timestamp(1)), Err(Error::Conflict { .. })));
    assert_eq!(log.archived(&suite::plan("a")).unwrap(), parts);
}

#[test]
fn the_space_of_archived_events_is_used_again_after_a_vacuum() {
    let Some(cluster) = Cluster::shared() else { return };
    let (url, folder) = (cluster.database(), tempfile::tempdir().unwrap());
    let log = Postgres::open(&address(&url)).expect("a log");
    let pages = || -> i64 {
        let size = "SELECT pg_relation_size('provost.event') / 8192";
        cluster.sql(&url, size)[0].get(0)
    };
    for name in ["a", "b", "c", "d"] {
        suite::append_steps(&log, name, 1000);
    }
    let full = pages();
    // Not the newest events: the table cannot be cut at its end.
    suite::archive_plans(&log, folder.path(), &["a", "b"]);
    cluster.sql(&url, "VACUUM provost.event");
    suite::append_steps(&log, "e", 1000);
    suite::append_steps(&log, "f", 1000);
    assert!(pages() <= full + full / 10, "{} pages, and {full} before", pages());
    suite::verify_chains(&log);
}
