//! Tests what only a cluster has: machines that join and leave, rights in the database, queues that can be
//! lost.

use std::time::Instant;

use super::suite::{STALLS, TWO, WAITS};
use super::{Fleet, PATIENCE, Worker};
use crate::env::HONEST;

#[test]
fn a_person_decides_on_one_machine_and_another_does_the_work() {
    let Some(fleet) = Fleet::new(1, &TWO, HONEST) else { return };
    let other = fleet.env.folder().join("other-state");
    let joins = fleet.command(0, &["migrate", "--to", &fleet.url]).env("PROVOST_STATE", &other).output();
    crate::env::answer(joins.expect("provost")).exits(0);
    fleet.approve(0);
    let _worker = fleet.worker_of(&other, &[]);
    fleet.until_done(PATIENCE);
    fleet.is_sound(0, 2);
}

#[test]
fn a_plan_that_is_not_here_is_told_and_one_that_is_over_is_left_alone() {
    let Some(fleet) = Fleet::new(2, &["test -e out/1"], HONEST) else { return };
    let worker = fleet.worker(&[]);
    fleet.approve(0);
    fleet.until("done", PATIENCE, || fleet.stage(0) == "done");
    drop(worker);
    fleet.approve(1);
    let gone = fleet.places.iter().map(|place| place.join("PLAN.md"));
    gone.clone().for_each(|plan| std::fs::rename(&plan, plan.with_extension("away")).expect("moved"));
    fleet.cluster.sql(
        &fleet.url,
        "SELECT provost_cluster.wake(name::json #>> '{}', NULL) FROM provost.plan ORDER BY id",
    );
    let _next = fleet.worker_of(&fleet.env.state(), &[]);
    let troubles = || {
        let status = fleet.env.provost(&["cluster", "status", "--json"]).exits(0).json();
        status["troubles"].as_array().cloned().unwrap_or_default()
    };
    let deadline = Instant::now() + PATIENCE;
    while troubles().is_empty() {
        assert!(Instant::now() < deadline, "it is not told");
    }
    assert_eq!(troubles().len(), 1, "{:?}", troubles());
    gone.for_each(|plan| std::fs::rename(plan.with_extension("away"), &plan).expect("back"));
    fleet.until_done(PATIENCE);
}

#[test]
fn queues_can_be_lost_and_the_log_is_enough() {
    let Some(fleet) = Fleet::new(1, &TWO, STALLS) else { return };
    let mut first = fleet.worker(&[]);
    fleet.approve(0);
    fleet.until("begun", PATIENCE, || fleet.has("begun"));
    first.kill();
    fleet.cluster.sql(&fleet.url, "DROP SCHEMA dbos CASCADE; DROP SCHEMA provost_cluster CASCADE");
    let _next = fleet.worker(&[]);
    fleet.until_done(PATIENCE);
    fleet.is_sound(0, 2);
    fleet.gave_nothing_twice();
}

#[test]
fn two_who_join_at_once_make_the_tables_once() {
    let Some(fleet) = Fleet::new(1, &TWO, HONEST) else { return };
    fleet.approve(0);
    let workers: Vec<Worker> = std::thread::scope(|scope| {
        let joining: Vec<_> = (0..3).map(|_| scope.spawn(|| fleet.worker(&[]))).collect();
        joining.into_iter().map(|worker| worker.join().expect("joined")).collect()
    });
    fleet.until_done(PATIENCE);
    fleet.is_sound(0, 2);
    assert_eq!(fleet.workers(), workers.len());
}

#[test]
fn whoever_is_told_to_leave_finishes_what_it_has_in_hand() {
    let Some(fleet) = Fleet::new(1, &TWO, WAITS) else { return };
    let mut worker = fleet.worker(&[]);
    fleet.approve(0);
    fleet.until("begun", PATIENCE, || fleet.has("begun"));
    worker.signal("TERM");
    fleet.until("it says so", PATIENCE, || fleet.status()["workers"][0]["drains"] == true);
    assert!(!worker.has_left());
    fleet.go();
    fleet.until("it has left", PATIENCE, || worker.has_left());
    assert_eq!(worker.child.wait().expect("ended").code(), Some(0), "{}", fleet.said());
    assert_eq!(fleet.workers(), 0);
    assert_eq!(fleet.ledger().len(), 1, "it took nothing new");
    let _next = fleet.worker(&[]);
    fleet.until_done(PATIENCE);
    fleet.is_sound(0, 2);
    fleet.gave_nothing_twice();
}

#[test]
fn work_goes_to_a_machine_that_has_what_it_asks_for() {
    let text = crate::env::plan(&["test -e out/1"], "abort");
    let Some(fleet) = Fleet::with(1, &text, HONEST, "labels = [\"gpu\", \"os=linux\"]\n") else { return };
    let _plain = fleet.worker(&["--label", "os=linux"]);
    fleet.approve(0);
    fleet.until("it says what is lacking", PATIENCE, || {
        fleet.status()["troubles"][0]["what"].as_str().is_some_and(|what| what.contains("gpu"))
    });
    assert_eq!(fleet.stage(0), "in-progress");
    let _fitting = fleet.worker(&["--label", "gpu=big", "--label", "os=linux"]);
    fleet.until_done(PATIENCE);
    fleet.is_sound(0, 1);
}

#[test]
fn a_worker_joins_over_tls_with_an_authority_of_its_own() {
    use provost_store::postgres::cluster::{Cluster, PASSWORD};
    let Some(cluster) = Cluster::start() else { return };
    let cluster: &'static Cluster = Box::leak(Box::new(cluster));
    let plain = cluster.database();
    let authority = cluster.use_tls();
    let text = crate::env::plan(&["test -e out/1"], "abort");
    let fleet = Fleet::at(cluster, plain, 1, &text, HONEST, "");
    let tls = cluster.tcp_url(fleet.database()).replacen("127.0.0.1", "localhost", 1);
    let tls = format!("{tls}?sslmode=verify-full&sslrootcert={}", authority.display());
    let other = fleet.env.folder().join("other-state");
    let mut joins = fleet.command(0, &["migrate", "--to", &tls]);
    joins.env("PROVOST_STATE", &other).env("PGPASSWORD", PASSWORD);
    crate::env::answer(joins.output().expect("provost")).exits(0);
    let mut worker = fleet.worker_command(&other, &[]);
    worker.env("PGPASSWORD", PASSWORD);
    let _worker = fleet.join(worker);
    fleet.approve(0);
    fleet.until_done(PATIENCE);
}
