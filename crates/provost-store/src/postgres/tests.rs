//! Runs the suite on a real server, and tests what only a server does: many processes, leases by its clock,
//! effects in the transaction of their events.

use std::process::Command;
use std::sync::Arc;
use std::time::Instant;

use provost_core::model::timestamp::Timestamp;

use super::cluster::{Cluster, address};
use super::*;
use crate::suite::Handles;
use crate::{Memory, suite};

mod archive;
mod budget;
mod doors;
mod growth;
mod outage;
mod projects;
mod scale;
mod tls;
mod trust;
mod trouble;
mod writers;

fn fresh() -> Handles {
    let Some(cluster) = Cluster::shared() else {
        // Without Postgres the tests are reported as skipped, but the suite still needs a log.
        let log = Memory::new();
        return Box::new(move || Arc::new(log.clone()));
    };
    let url = cluster.database();
    Box::new(move || Arc::new(Postgres::open(&address(&url)).expect("a log")))
}

crate::every_log_must!(fresh);

#[test]
fn ten_processes_append_to_one_plan_without_a_gap_or_a_fork() {
    let Some(cluster) = Cluster::shared() else { return };
    let url = cluster.database();
    let log = Postgres::open(&address(&url)).expect("a log");
    let writers: Vec<_> = (0..10)
        .map(|_| {
            Command::new(std::env::current_exe().expect("this program"))
                .args(["--ignored", "--exact", "postgres::tests::a_writer_of_its_own_process"])
                .env("PROVOST_TEST_LOG", &url)
                .output_later()
        })
        .collect();
    for writer in writers {
        let output = writer.wait_with_output().expect("a writer");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }
    assert_eq!(log.head(&suite::plan("shared")).expect("a head").seq, 10 * WRITES);
    assert_eq!(log.cursor().expect("an end"), Cursor(2 * 10 * WRITES));
    suite::verify_chains(&log);
}

const WRITES: u64 = 30;

trait OutputLater {
    fn output_later(&mut self) -> std::process::Child;
}

impl OutputLater for Command {
    fn output_later(&mut self) -> std::process::Child {
        self.stdout(std::process::Stdio::piped()).spawn().expect("a process")
    }
}

#[test]
#[ignore = "one of ten that another test starts"]
fn a_writer_of_its_own_process() {
    let url = std::env::var("PROVOST_TEST_LOG").expect("where to write");
    let log = Postgres::open(&address(&url)).expect("a log");
    let own = format!("of {}", std::process::id());
    let mut written = 0;
    while written < WRITES {
        let seq = log.head(&suite::plan("shared")).expect("a head").seq;
        match suite::write(&log, "shared", seq, 1, &[suite::started(1)]) {
            Ok(_) => {
                suite::append_steps(&log, &own, 1);
                written += 1;
            }
            Err(Error::Conflict { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn effects_are_dispatched_in_the_transaction_of_their_events() {
    struct Jobs;
    impl Dispatch for Jobs {
        fn statements(&self, effect: &Effect) -> Vec<SqlStatement> {
            let Effect::Enqueue { key, body, .. } = effect else { return Vec::new() };
            let params = vec![Param::Text(Some(key.clone())), Param::Text(Some(body.clone()))];
            vec![SqlStatement { sql: "INSERT INTO job VALUES ($1, $2::json)".to_owned(), params }]
        }
    }
    let Some(cluster) = Cluster::shared() else { return };
    let url = cluster.database();
    cluster.sql(&url, "CREATE TABLE job (key text PRIMARY KEY, body json)");
    let log = Postgres::open(&address(&url)).expect("a log").with_dispatch(Arc::new(Jobs));
    let (plan, event) = (suite::plan("a"), suite::started(1));
    let entries = [crate::LogEntry { event: &event, task_name: None }];
    let work = |key: &str| Effect::Enqueue {
        pool: "coders".to_owned(),
        plan: plan.clone(),
        key: key.to_owned(),
        body: "{\"step\":1}".to_owned(),
        priority: 0,
    };
    let append = |expected_seq, effects: &[Effect]| {
        log.append(Append {
            plan: &plan,
            expected_seq,
            at: Timestamp(1),
            fence: None,
            events: &entries,
            effects,
        })
    };
    append(0, &[work("first")]).expect("written");
    assert!(matches!(append(0, &[work("stale")]), Err(Error::Conflict { found: 1, .. })));
    let jobs = cluster.sql(&url, "SELECT key FROM job");
    assert_eq!(jobs.iter().map(|row| row.get::<String, _>(0)).collect::<Vec<_>>(), ["first"]);
    append(1, &[work("second")]).expect("the connection is of use after a refusal");
}

#[test]
fn a_lease_runs_out_by_the_clock_of_the_database_and_its_old_fence_is_refused() {
    let Some(cluster) = Cluster::shared() else { return };
    let url = cluster.database();
    let ttl = Duration::from_secs(300);
    let open = || Postgres::open(&address(&url)).expect("a log").with_lease_ttl(ttl);
    let (log, other) = (open(), open());
    let held = log.lease("a", &suite::someone()).expect("free");
    assert!(matches!(other.lease("a", &suite::someone()), Err(Error::LeaseHeld { .. })));
    assert!(other.lapsed().expect("a look").is_empty());
    cluster.sql(&url, "UPDATE provost.lease SET expires = now() - interval '1 second'");
    assert_eq!(other.lapsed().expect("a look")[0].fence, *held.fence());
    assert_eq!(other.holder("a").expect("a look"), None);
    log.renew(held.fence()).expect("late, and nobody was faster");
    assert!(matches!(other.lease("a", &suite::someone()), Err(Error::LeaseHeld { .. })));
    cluster.sql(&url, "UPDATE provost.lease SET expires = now() - interval '1 second'");
    let taken = other.lease("a", &suite::someone()).expect("it ran out");
    assert_eq!(taken.fence().epoch, held.fence().epoch + 1);
    assert!(matches!(log.renew(held.fence()), Err(Error::Fenced { held: 1, current: 2, .. })));
    // Another process holds the lease now, so giving it back changes nothing.
    drop(held);
    assert_eq!(other.holder("a").expect("a look"), Some(suite::someone()));
}

#[test]
fn a_lease_is_renewed_while_it_is_held() {
    let Some(cluster) = Cluster::shared() else { return };
    let url = cluster.database();
    let log = Postgres::open(&address(&url)).expect("a log").with_lease_ttl(Duration::from_millis(600));
    let expires = || -> String { cluster.sql(&url, "SELECT expires::text FROM provost.lease")[0].get(0) };
    let held = log.lease("a", &suite::someone()).expect("free");
    let first = expires();
    let deadline = Instant::now() + Duration::from_secs(20);
    while expires() == first {
        assert!(Instant::now() < deadline, "nobody renews it");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(held.fence().epoch, 1);
    // Many leases are renewed on one connection, and one that was lost does not keep the others from it.
    let many: Vec<_> =
        (0..20).map(|n| log.lease(&format!("b{n}"), &suite::someone()).expect("free")).collect();
    cluster.sql(&url, "UPDATE provost.lease SET epoch = 9 WHERE name = '\"b0\"'");
    let renewed = "SELECT count(*) FILTER (WHERE expires > clock_timestamp()) FROM provost.lease";
    cluster.sql(&url, "UPDATE provost.lease SET expires = clock_timestamp()");
    while cluster.sql(&url, renewed)[0].get::<i64, _>(0) < 20 {
        assert!(Instant::now() < deadline + Duration::from_secs(60), "the leases were not renewed");
        std::thread::sleep(Duration::from_millis(20));
    }
    let open = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()";
    let connections = cluster.sql(&url, open)[0].get::<i64, _>(0);
    assert!(connections <= 3, "{connections} connections for {} leases", many.len() + 1);
}
