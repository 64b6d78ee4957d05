//! Tests the permissions of the database roles: which events a connection can write, whatever it sends.

use provost_core::model::event::{Approver, Event, Revision};
use provost_core::model::hash::Hash;
use provost_core::model::timestamp::Timestamp;

use super::super::cluster::{Cluster, address};
use super::super::*;
use crate::suite;

/// Creates a log with one user per role: `walter`, `hanna`, `petra`, `rita`, `agnes` and `gerda` (worker,
/// harness, person, reader, agents, gateway); `nemo` has no role.
pub(super) fn with_people(cluster: &Cluster) -> String {
    let url = cluster.database();
    Postgres::open(&address(&url)).expect("a log");
    let users = [
        ("walter", "worker"),
        ("hanna", "harness"),
        ("petra", "person"),
        ("rita", "reader"),
        ("agnes", "agents"),
        ("gerda", "gateway"),
        ("nemo", ""),
    ];
    for (user, role) in users {
        // Other tests may have created the user already.
        let _ = cluster.try_sql(&url, &format!("CREATE ROLE {user} LOGIN"));
        if !role.is_empty() {
            let _ = cluster.try_sql(&url, &format!("GRANT provost_{role} TO {user}"));
        }
    }
    url
}

pub(super) fn as_user(url: &str, user: &str) -> String {
    url.replacen(super::super::cluster::USER, user, 1)
}

pub(super) fn approved(by: Approver) -> Event {
    Event::Approved { revision: Revision("r".to_owned()), by, modifications: Vec::new(), missing: 0 }
}

fn person() -> Event {
    approved(Approver::Person("petra".to_owned()))
}

pub(super) fn policy() -> Event {
    approved(Approver::Policy {
        name: "docs".to_owned(),
        digest: "c0de".to_owned(),
        unread: false,
        trusted: Vec::new(),
    })
}

#[test]
fn each_role_says_what_it_may_and_nothing_else() {
    let Some(cluster) = Cluster::shared() else { return };
    let url = with_people(cluster);
    let cases = [
        ("walter", suite::started(1), true),
        ("walter", person(), false),
        ("walter", policy(), false),
        ("hanna", suite::started(1), true),
        ("hanna", policy(), false),
        ("hanna", person(), false),
        ("petra", person(), true),
        ("petra", policy(), true),
        ("petra", suite::started(1), false),
        ("gerda", person(), true),
        ("rita", suite::started(1), false),
        ("agnes", suite::started(1), true),
        ("agnes", person(), false),
    ];
    for (user, event, may) in cases {
        let log = Postgres::open(&address(&as_user(&url, user))).expect("a log that is there");
        let before = log.head(&suite::plan("a")).expect("a head").seq;
        let lease = log.lease("plan a", &suite::someone()).ok();
        let entry = crate::LogEntry { event: &event, task_name: None };
        let written = log.append(Append {
            plan: &suite::plan("a"),
            expected_seq: before,
            at: Timestamp(1),
            fence: lease.as_ref().map(crate::Lease::fence),
            events: &[entry],
            effects: &[],
        });
        match (may, &written) {
            (true, Ok(_)) | (false, Err(Error::NotAllowed { .. })) => {}
            _ => panic!("{user} says {}: {written:?}", event.name()),
        }
        assert_eq!(log.head(&suite::plan("a")).expect("a head").seq, before + u64::from(may));
    }
    // An append with an allowed and a forbidden event is refused as a whole.
    let log = Postgres::open(&address(&as_user(&url, "walter"))).expect("a log");
    let seq = log.head(&suite::plan("a")).expect("a head").seq;
    let written = suite::write(&log, "a", seq, 1, &[suite::started(2), person()]);
    assert!(matches!(written, Err(Error::NotAllowed { .. })));
    assert_eq!(log.head(&suite::plan("a")).expect("a head").seq, seq);
}

#[test]
fn raw_sql_of_a_workers_connection_gets_nowhere() {
    let Some(cluster) = Cluster::shared() else { return };
    let url = with_people(cluster);
    let log = Postgres::open(&address(&url)).expect("a log");
    suite::append_steps(&log, "a", 3);
    let before = suite::all(&log, Query::default());
    let append = |name: &str, details: &str, hash: &str| {
        format!(
            "SELECT provost.append('\"a\"', 3, NULL, NULL, '{{1}}', '{{{name}}}', '{{NULL}}', '{{NULL}}',
             ARRAY['{details}'], ARRAY['{hash}'::bytea], '{{}}')"
        )
    };
    let person = seal(&suite::plan("a"), log.head(&suite::plan("a")).unwrap(), Timestamp(1), &person(), None);
    let attempts = [
        "INSERT INTO provost.event SELECT id + 100, plan, seq + 100, at_ms, 'GATE_APPROVED', step, task_name, details,
         prev, hash FROM provost.event"
            .to_owned(),
        "UPDATE provost.event SET details = '{}'".to_owned(),
        "DELETE FROM provost.event".to_owned(),
        "TRUNCATE provost.event".to_owned(),
        "UPDATE provost.plan SET seq = 0".to_owned(),
        "UPDATE provost.lease SET epoch = 0".to_owned(),
        "DROP TABLE provost.event".to_owned(),
        "ALTER TABLE provost.event DISABLE TRIGGER ALL".to_owned(),
        "LOCK TABLE provost.turn IN EXCLUSIVE MODE".to_owned(),
        "CREATE TABLE provost.mine ()".to_owned(),
        "CREATE OR REPLACE FUNCTION provost.may_say(event text, details text) RETURNS boolean
         LANGUAGE sql AS 'SELECT true'"
            .to_owned(),
        "SELECT provost.take_wakes()".to_owned(),
        "SET ROLE olga".to_owned(),
        "SET SESSION AUTHORIZATION petra; SELECT 1".to_owned(),
        "SET session_replication_role = replica".to_owned(),
        "GRANT provost_person TO walter".to_owned(),
        // A valid hash, but an event that a worker may not write.
        append("GATE_APPROVED", &person.details, &format!("\\x{}", person.hash)),
        // An event that a worker may write, with a wrong hash.
        append("TASK_FAILED", "{}", &format!("\\x{}", Hash::NONE)),
        // A second object, injected into the details.
        append("TASK_FAILED", "{}},\"event\":\"GATE_APPROVED\",\"x\":{", &format!("\\x{}", Hash::NONE)),
    ];
    for attempt in attempts {
        let done = cluster.try_sql(&as_user(&url, "walter"), &attempt);
        assert!(done.is_err(), "a worker did this: {attempt}");
    }
    assert_eq!(suite::all(&log, Query::default()), before);
    suite::verify_chains(&log);
}

#[test]
fn not_even_the_owner_changes_or_removes_an_event() {
    let Some(cluster) = Cluster::shared() else { return };
    let url = cluster.database();
    let log = Postgres::open(&address(&url)).expect("a log");
    suite::append_steps(&log, "a", 2);
    for attempt in [
        "UPDATE provost.event SET name = 'TASK_COMPLETED'",
        "DELETE FROM provost.event WHERE seq = 2",
        "TRUNCATE provost.event",
        "DELETE FROM provost.plan",
    ] {
        let refused = cluster.try_sql(&url, attempt).expect_err(attempt);
        assert!(refused.to_string().contains("append-only"), "{attempt}: {refused}");
    }
    assert_eq!(suite::all(&log, Query::default()).len(), 2);
}

#[test]
fn a_plan_has_one_name() {
    let Some(cluster) = Cluster::shared() else { return };
    let url = cluster.database();
    Postgres::open(&address(&url)).expect("a log");
    let quoted = |said: &str| -> bool {
        let rows = cluster.try_sql(&url, &format!("SELECT provost.is_quoted('{said}')"));
        rows.is_ok_and(|rows| rows[0].get(0))
    };
    for one in ["", "ein Plän", "nul\0inside", "\\u0000", "\\\0", "🦀\u{7f}\n\t\u{1}\"/"] {
        assert!(quoted(&rows::quoted(one)), "{one:?}");
    }
    for other in ["\"\\u0061\"", "\"\\/\"", "\"\\u000A\"", "1", "a", "\"a\" ", "\"\\u0000\\u0061\""] {
        assert!(!quoted(other), "{other}");
    }
}

#[test]
fn who_has_no_role_is_told_so() {
    let Some(cluster) = Cluster::shared() else { return };
    let url = with_people(cluster);
    let Err(refused) = Postgres::open(&address(&as_user(&url, "nemo"))) else { panic!("nemo is nobody") };
    assert!(matches!(refused, Error::NotAllowed { .. }), "{refused}");
    assert!(refused.to_string().contains("docs/postgres.md"), "{refused}");
}

#[test]
fn a_lease_that_is_held_is_no_workers_to_take() {
    let Some(cluster) = Cluster::shared() else { return };
    let url = with_people(cluster);
    let log = Postgres::open(&address(&url)).expect("a log");
    let held = log.lease("a", &suite::someone()).expect("free");
    let take = "SELECT taken FROM provost.take_lease('\"a\"', '{}', 1000, 1)";
    let taken = |user: &str| -> Option<i64> { cluster.sql(&as_user(&url, user), take)[0].get(0) };
    assert_eq!(taken("walter"), None);
    assert_eq!(taken("hanna"), None, "the lease is another login's");
    log.renew(held.fence()).expect("ours");
    drop(held);
    let harness = Postgres::open(&address(&as_user(&url, "hanna"))).expect("a log");
    let held = harness.lease("a", &suite::someone()).expect("free");
    let take = take.replace(", 1)", &format!(", {})", held.fence().epoch));
    let again: Option<i64> = cluster.sql(&as_user(&url, "hanna"), &take)[0].get(0);
    assert_eq!(again, Some(3), "a harness is believed that another process of its login is dead");
    assert!(harness.renew(held.fence()).is_err());
}
