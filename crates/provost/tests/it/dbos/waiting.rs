//! Tests what waits and why it is said: items that no worker serves, plans in trouble, a database that was away.

use std::time::{Duration, Instant};

use provost_store::postgres::cluster::{Cluster, text};

use super::{Fleet, PATIENCE};
use crate::env::HONEST;

const ONE: [&str; 1] = ["test -e out/1"];

impl Fleet {
    fn number(&self, question: &str) -> i64 {
        let rows = self.cluster.sql(&self.url, &format!("SELECT ({question})::text"));
        text(&rows[0]).parse().expect("a number")
    }

    /// Waits until the worker has sent this many more heartbeats; it sends one a second.
    fn beats(&self, many: i64) {
        let seen = "SELECT extract(epoch FROM max(seen))::bigint FROM provost_cluster.worker";
        let first = self.number(seen);
        self.until("heartbeats", PATIENCE, || self.number(seen) >= first + many);
    }
}

#[test]
fn an_item_that_no_worker_fits_costs_nothing_until_one_joins() {
    let text = crate::env::plan(&ONE, "abort");
    let Some(fleet) = Fleet::with(1, &text, HONEST, "labels = [\"gpu\"]\n") else { return };
    let _plain = fleet.worker(&[]);
    fleet.approve(0);
    fleet.until("it says what is lacking", PATIENCE, || {
        let status = fleet.status();
        status["troubles"][0]["what"].as_str().is_some_and(|what| what.contains("no running worker"))
    });
    let rows = "SELECT count(*) FROM dbos.workflow_status WHERE name = 'item'";
    let before = fleet.number(rows);
    fleet.beats(10);
    let more = fleet.number(rows) - before;
    assert!(more <= 1, "it was offered {more} more times in ten seconds");
    let _fits = fleet.worker(&["--label", "gpu=big"]);
    let parked = fleet.number(
        "SELECT count(*) FROM dbos.workflow_status WHERE name = 'item' AND status = 'DELAYED' \
         AND delay_until_epoch_ms > extract(epoch FROM clock_timestamp()) * 1000 + 5000",
    );
    assert_eq!(parked, 0, "the item waits on");
    fleet.until_done(PATIENCE);
}

#[test]
fn an_item_that_no_worker_fits_ends_with_its_plan() {
    let text = crate::env::plan(&ONE, "abort");
    let Some(fleet) = Fleet::with(1, &text, HONEST, "labels = [\"gpu\"]\n") else { return };
    let _plain = fleet.worker(&[]);
    fleet.approve(0);
    let items = || fleet.number("SELECT count(*) FROM provost_cluster.item WHERE pool = 'coder'");
    fleet.until("it is offered", PATIENCE, || items() == 1);
    fleet.provost(0, &["reject", "--reason", "not now"]).exits(0);
    fleet.until("it is withdrawn", PATIENCE, || items() == 0);
}

#[test]
fn a_role_that_no_worker_serves_is_said() {
    let Some(fleet) = Fleet::new(1, &ONE, HONEST) else { return };
    let _judges = fleet.worker(&["--roles", "reviewer"]);
    let _looks = fleet.worker(&["--ticks-only"]);
    fleet.approve(0);
    let says = |arguments: &[&str]| {
        let said = fleet.provost(0, arguments).exits(0).out;
        said.contains("no running worker serves the role `coder`")
    };
    fleet.until("the cluster says so", PATIENCE, || says(&["cluster", "status"]));
    assert!(says(&["status"]), "{}", fleet.provost(0, &["status"]).out);
    let _works = fleet.worker(&["--roles", "coder"]);
    fleet.until_done(PATIENCE);
    assert!(!says(&["status"]));
}

#[test]
fn many_wakes_of_a_plan_in_trouble_become_one() {
    let Some(fleet) = Fleet::new(1, &ONE, HONEST) else { return };
    fleet.approve(0);
    let plan = fleet.places[0].join("PLAN.md");
    std::fs::rename(&plan, plan.with_extension("away")).expect("moved");
    let _worker = fleet.worker_of(&fleet.env.state(), &[]);
    let waiting = || {
        fleet.number(
            "SELECT count(*) FROM dbos.workflow_status WHERE queue_name = 'ticks' \
             AND status IN ('ENQUEUED', 'DELAYED', 'PENDING')",
        )
    };
    fleet.until("it is in trouble", PATIENCE, || {
        fleet.number("SELECT count(*) FROM provost_cluster.trouble") == 1
    });
    for _ in 0..10 {
        let wake = "SELECT provost_cluster.wake(name::json #>> '{}', NULL) FROM provost.plan";
        fleet.cluster.sql(&fleet.url, wake);
        fleet.beats(1);
    }
    fleet.until("one is left", Duration::from_secs(60), || waiting() == 1);
    std::fs::rename(plan.with_extension("away"), &plan).expect("back");
    fleet.until_done(PATIENCE);
}

#[test]
fn work_goes_on_soon_after_the_database_was_away_and_no_attempt_is_lost() {
    let Some(cluster) = Cluster::start() else { return };
    let cluster: &'static Cluster = Box::leak(Box::new(cluster));
    let text = crate::env::plan(&["test -e out/1", "test -e out/2", "test -e out/3"], "abort");
    let fleet = Fleet::on(cluster, 2, &text, HONEST, "");
    let _worker = fleet.worker(&[]);
    fleet.approve(0);
    fleet.until("the first is done", PATIENCE, || fleet.stage(0) == "done");
    // Longer than a lease, and long enough for pauses of the SDK that would be noticed.
    cluster.stop();
    std::thread::sleep(Duration::from_secs(25));
    cluster.run();
    let back = Instant::now();
    fleet.approve(1);
    fleet.until("an attempt begins", PATIENCE, || fleet.names(1).iter().any(|name| name == "TASK_STARTED"));
    let begun = back.elapsed();
    fleet.until("the second is done", PATIENCE, || fleet.stage(1) == "done");
    println!("begun {begun:?} after the database was back");
    assert!(fleet.count(1, "ATTEMPT_LOST").is_empty(), "{:?}", fleet.names(1));
    assert_eq!(fleet.count(1, "TASK_STARTED").values().sum::<usize>(), 3);
    // The SDK alone would wait for about as long as the outage took, or longer.
    assert!(begun < Duration::from_secs(25), "{begun:?}\n{}", fleet.said());
}
