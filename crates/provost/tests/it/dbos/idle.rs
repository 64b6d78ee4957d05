//! Tests that workers do not poll while nothing waits, and that new work starts at once.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use provost_core::model::chain::PlanId;
use provost_core::model::event::Event;
use provost_core::model::timestamp::Timestamp;
use provost_store::postgres::cluster::{self, Cluster, text};
use provost_store::{Append, Log as _, LogEntry, Postgres, Query};

use super::{Fleet, PATIENCE};
use crate::env::{HONEST, plan};

impl Fleet {
    /// Adds this many plans to the log that wait at the gate.
    fn others_at_the_gate(&self, many: usize) {
        self.provost(0, &["verify"]).exits(0);
        let log = Postgres::open(&cluster::address(&self.url)).expect("the log");
        let first = log.plans().expect("plans").remove(0);
        let mut events: Vec<Event> = Vec::new();
        let each = &mut |sealed: provost_core::model::chain::SealedEvent| {
            events.push(sealed.event().expect("an event"));
            ControlFlow::Continue(())
        };
        log.read(&Query::plan(&first), each).expect("its events");
        assert!(!events.is_empty());
        let entries: Vec<LogEntry<'_>> =
            events.iter().map(|event| LogEntry { event, task_name: None }).collect();
        for number in 0..many {
            let plan = &PlanId(format!("other-{number}"));
            let (events, at) = (&entries[..], Timestamp(1_700_000_000_000));
            log.append(Append { plan, expected_seq: 0, at, fence: None, events, effects: &[] })
                .expect("written");
        }
    }

    fn nothing_waits(&self) -> bool {
        let status = self.status();
        let queues = status["queues"].as_array().cloned().unwrap_or_default();
        queues.iter().all(|queue| queue["waiting"] == 0 && queue["running"] == 0)
    }
}

/// Counts the statements that the server got since the last count.
struct Count<'a> {
    cluster: &'a Cluster,
    known: usize,
}

impl<'a> Count<'a> {
    fn begin(cluster: &'a Cluster) -> Self {
        cluster.sql(&cluster.url("postgres"), "ALTER SYSTEM SET log_statement = 'all'");
        cluster.sql(&cluster.url("postgres"), "SELECT pg_reload_conf()");
        let mut count = Self { cluster, known: 0 };
        // Once this statement is in its log, the server has applied the setting.
        while count.next().is_empty() {
            cluster.sql(&cluster.url("postgres"), "SELECT 'is it told?'");
        }
        count
    }

    fn next(&mut self) -> Vec<String> {
        let said = self.cluster.said();
        let is_asked = |line: &&str| line.contains("LOG:  statement: ") || line.contains("LOG:  execute ");
        let asked: Vec<String> = said.lines().filter(is_asked).map(str::to_owned).collect();
        let new = asked[self.known..].to_vec();
        self.known = asked.len();
        new
    }
}

#[test]
fn a_thousand_plans_at_the_gate_cost_less_than_a_query_a_second() {
    let Some(own) = Cluster::start() else { return };
    let own: &'static Cluster = Box::leak(Box::new(own));
    let fleet = Fleet::on(own, 1, &plan(&["test -e out/1"], "abort"), HONEST, "");
    fleet.others_at_the_gate(1_000);
    let _workers = [fleet.worker(&["--lease", "30s"]), fleet.worker(&["--lease", "30s"])];
    fleet.until("everything was looked at", PATIENCE, || fleet.nothing_waits());
    let time = Duration::from_secs(20);
    let mut count = Count::begin(own);
    // Workers poll for some seconds after they have joined.
    fleet.until("they stand still", PATIENCE, || {
        count.next();
        std::thread::sleep(Duration::from_secs(1));
        count.next().len() < 4
    });
    let begun = Instant::now();
    std::thread::sleep(time);
    let asked = count.next();
    let most = begun.elapsed().as_secs() as usize;
    assert!(asked.len() <= most, "{} statements in {most} s:\n{}", asked.len(), asked.join("\n"));
    assert!(!asked.is_empty(), "they say that they are there");
    fleet.approve(0);
    fleet.until_done(PATIENCE);
    fleet.is_sound(0, 1);
}

#[test]
fn who_was_cut_off_while_something_came_finds_it() {
    let Some(fleet) = Fleet::new(1, &["test -e out/1"], HONEST) else { return };
    let _worker = fleet.worker(&["--lease", "30s"]);
    fleet.until("it stands still", PATIENCE, || fleet.nothing_waits());
    // The connection that listens sends the heartbeats too.
    let listener = "FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() \
                    AND query LIKE '%provost_cluster.beat(%'";
    let cut = format!("SELECT pg_terminate_backend(pid) {listener}");
    fleet.until("it listens", PATIENCE, || !fleet.cluster.sql(&fleet.url, &cut).is_empty());
    fleet.approve(0);
    fleet.until_done(PATIENCE);
    fleet.is_sound(0, 1);
}

/// One to hear and to be heard, one for the log and the work, one for the SDK.
#[test]
fn a_worker_needs_three_connections_and_one_more_for_each_eight_jobs() {
    let contracts = ["test -e out/1", "test -e out/2"];
    let Some(fleet) = Fleet::new(4, &contracts, HONEST) else { return };
    let jobs = 4;
    let _workers = [fleet.worker(&["--jobs", "4"]), fleet.worker(&["--jobs", "4"])];
    // Commands have sessions too, so only those are counted that outlive every command of this test.
    let sessions = || -> BTreeSet<String> {
        let all = "SELECT pid::text FROM pg_stat_activity WHERE datname = current_database() \
                   AND pid <> pg_backend_pid()";
        fleet.cluster.sql(&fleet.url, all).iter().map(text).collect()
    };
    let mut counted = Vec::new();
    fleet.approve_all();
    fleet.until("all are done", PATIENCE, || {
        let before = sessions();
        let is_done = (0..4).all(|place| fleet.stage(place) == "done");
        counted.push(sessions().intersection(&before).count());
        is_done
    });
    let most = counted.iter().max().copied().unwrap_or_default();
    println!("{most} connections of two workers");
    assert!((4..=2 * (3 + jobs / 8)).contains(&most), "{counted:?}");
    (0..4).for_each(|place| fleet.is_sound(place, 2));
}

#[test]
fn a_cluster_of_an_earlier_program_is_brought_up_to_date() {
    let Some(fleet) = Fleet::new(1, &["test -e out/1"], HONEST) else { return };
    drop(fleet.worker(&[]));
    fleet.cluster.sql(
        &fleet.url,
        "DROP TABLE provost_cluster.made; DROP FUNCTION provost_cluster.beat; DROP FUNCTION provost_cluster.stirs",
    );
    fleet.approve(0);
    let _worker = fleet.worker(&[]);
    fleet.until_done(PATIENCE);
    fleet.is_sound(0, 1);
}

#[test]
fn what_was_claimed_and_never_begun_is_looked_at_again() {
    let Some(fleet) = Fleet::new(1, &["test -e out/1"], HONEST) else { return };
    let _worker = fleet.worker(&[]);
    fleet.until("it stands still", PATIENCE, || fleet.nothing_waits());
    let id = fleet.status()["workers"][0]["id"].as_str().expect("its name").to_owned();
    // The first scheduling pass is claimed for the worker, but the worker does not learn of it.
    fleet.cluster.sql(
        &fleet.url,
        &format!(
            "CREATE FUNCTION claim() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
             NEW.status := 'PENDING'; NEW.executor_id := '{id}'; NEW.started_at_epoch_ms := NEW.created_at; \
             RETURN NEW; END $$; \
             CREATE TRIGGER claim BEFORE INSERT ON dbos.workflow_status FOR EACH ROW \
             WHEN (NEW.name = 'tick') EXECUTE FUNCTION claim()"
        ),
    );
    fleet.approve(0);
    fleet.cluster.sql(&fleet.url, "DROP TRIGGER claim ON dbos.workflow_status");
    fleet.until_done(PATIENCE);
    fleet.is_sound(0, 1);
}
