//! Regression tests for connections to the database that are cut or silent.

use std::time::{Duration, Instant};

use provost_rehearsal::skip;

use super::station::Station;
use super::{Fleet, PATIENCE, Worker};
use crate::env::HONEST;

/// The first attempt writes its pid and waits; the next one does its work.
const WAITS_ONCE: &str = "part=$(sed -n 's/^Do part \\([0-9]*\\) .*/\\1/p'); mkdir -p out\n\
                          if mkdir ../begun 2> /dev/null; then echo $$ > ../pid; sleep 600; fi\n\
                          touch out/$part; echo \"did $part\"\n";
const ONE: [&str; 1] = ["test -e out/1"];

fn begins(fleet: &Fleet) {
    fleet.approve(0);
    fleet.until("the agent begins", PATIENCE, || fleet.agent_lives());
}

/// The answer to a claim was lost: the row belongs to a worker that does not know of it, and a plan has
/// only one scheduling pass at a time.
#[test]
fn what_a_queue_gave_and_nobody_got_is_offered_again() {
    let Some(fleet) = Fleet::new(1, &ONE, HONEST) else { return };
    fleet.provost(0, &["verify"]).exits(0);
    let _worker = fleet.worker(&[]);
    let name = fleet.status()["workers"][0]["id"].as_str().expect("a name").to_owned();
    let given = format!(
        "BEGIN; SELECT provost_cluster.wake(name::json #>> '{{}}', NULL) FROM provost.plan; \
         UPDATE dbos.workflow_status SET status = 'PENDING', executor_id = '{name}', \
             started_at_epoch_ms = (extract(epoch FROM clock_timestamp()) * 1000)::bigint \
         WHERE status = 'ENQUEUED'; COMMIT"
    );
    fleet.cluster.sql(&fleet.url, &given);
    fleet.approve(0);
    fleet.until_done(PATIENCE);
    fleet.is_sound(0, 1);
}

#[test]
fn whoever_hears_nothing_of_the_database_ends_its_agent_in_the_time_of_its_lease() {
    let Some(fleet) = Fleet::new(1, &ONE, WAITS_ONCE) else { return };
    let station = Station::by_wire(&fleet, "works");
    let _worker = station.worker(&fleet, &[]);
    begins(&fleet);
    station.hold();
    // The worker gets no answer until the connection is repaired, so it ends the agent by its own clock.
    fleet.until("its agent is ended", PATIENCE, || !fleet.agent_lives());
    station.mend();
    fleet.until_done(PATIENCE);
    fleet.is_sound(0, 1);
}

#[test]
fn an_agent_does_not_outlive_the_worker_that_was_killed() {
    let Some(fleet) = Fleet::new(1, &ONE, WAITS_ONCE) else { return };
    let mut worker = fleet.worker(&[]);
    begins(&fleet);
    worker.kill();
    fleet.until("its agent is ended, by nobody who works here", PATIENCE, || !fleet.agent_lives());
    assert!(fleet.count(0, "ATTEMPT_LOST").is_empty());
    let _next = fleet.worker(&[]);
    fleet.until_done(PATIENCE);
    fleet.is_sound(0, 1);
}

/// Returns the number of established connections of a process, in its network namespace.
fn connections(worker: &Worker) -> usize {
    let table = std::fs::read_to_string(format!("/proc/{}/net/tcp", worker.child.id())).unwrap_or_default();
    table.lines().filter(|line| line.split_whitespace().nth(3) == Some("01")).count()
}

/// Returns a machine with a network of its own.
fn with_net(fleet: &Fleet) -> Option<Station> {
    let station = Station::by_net(fleet, "works");
    if !station.has_net() {
        match rustix::process::geteuid().is_root() {
            true => skip::tool("ip", "apt-get install iproute2, and allow network namespaces"),
            false => skip::user(skip::User::Root),
        }
        return None;
    }
    Some(station)
}

/// Here the kernel must notice the loss, because some connections of the SDK have no timeout.
#[test]
fn connections_into_a_network_that_fell_apart_are_given_up_and_made_anew() {
    let Some(fleet) = Fleet::new(2, &ONE, HONEST) else { return };
    let Some(station) = with_net(&fleet) else { return };
    let worker = station.worker(&fleet, &[]);
    fleet.approve(0);
    fleet.until("the first is done", PATIENCE, || fleet.stage(0) == "done");
    assert!(connections(&worker) > 0);
    station.part();
    fleet.until("they are given up", PATIENCE, || connections(&worker) == 0);
    station.mend();
    fleet.approve(1);
    fleet.until("the second is done", PATIENCE, || fleet.stage(1) == "done");
    fleet.is_sound(1, 1);
}

/// With a long lease, which must not delay that. Packets are dropped, so nothing tells the worker that the network
/// is back.
#[test]
fn a_worker_is_back_soon_after_the_network_was_away_for_long() {
    let Some(fleet) = Fleet::new(2, &ONE, HONEST) else { return };
    let Some(station) = with_net(&fleet) else { return };
    let worker = station.worker(&fleet, &["--lease", "30m"]);
    fleet.approve(0);
    fleet.until("the first is done", PATIENCE, || fleet.stage(0) == "done");
    station.part();
    fleet.until("its connections are given up", PATIENCE, || connections(&worker) == 0);
    fleet.approve(1);
    station.mend();
    let back = Instant::now();
    fleet.until("it works", PATIENCE, || fleet.names(1).iter().any(|name| name == "TASK_STARTED"));
    let begun = back.elapsed();
    println!("begun {begun:?} after the network was back");
    fleet.until("the second is done", PATIENCE, || fleet.stage(1) == "done");
    assert!(begun < Duration::from_secs(25), "{begun:?}\n{}", fleet.said());
}
