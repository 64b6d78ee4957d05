//! Tests that a worker that finishes an item continues with the same plan, if nothing prevents it.

use super::{Fleet, PATIENCE};
use crate::env::HONEST;

const FIVE: [&str; 5] = ["test -e out/1", "test -e out/2", "test -e out/3", "test -e out/4", "test -e out/5"];
/// Writes down when it starts and ends.
const TELLS: &str = "part=$(sed -n 's/^Do part \\([0-9]*\\) .*/\\1/p'); mkdir -p out; echo begin >> ../ledger\n\
                     sleep 0.2; echo end >> ../ledger; touch out/$part; echo done\n";

impl Fleet {
    /// Returns how many entries of this kind went through a queue.
    fn queued(&self, kind: &str) -> usize {
        let rows = format!("SELECT FROM dbos.workflow_status WHERE name = '{kind}'");
        self.cluster.sql(&self.url, &rows).len()
    }
}

#[test]
fn a_plan_that_nobody_else_is_needed_for_goes_by_a_queue_once() {
    let Some(fleet) = Fleet::new(1, &FIVE, HONEST) else { return };
    let _worker = fleet.worker(&[]);
    fleet.approve(0);
    fleet.until_done(PATIENCE);
    fleet.is_sound(0, 5);
    let items = fleet.queued("item");
    // A worker lets other plans go first every five seconds.
    assert!((1..5).contains(&items), "{items} items went by a queue");
    assert_eq!(fleet.status()["items"].as_array().map(Vec::len), Some(0));
}

#[test]
fn what_has_a_limit_goes_by_its_queue_each_time() {
    let Some(fleet) = Fleet::new(2, &FIVE[..2], TELLS) else { return };
    let all = ["--jobs", "2"];
    let _workers = [fleet.worker(&all), fleet.worker(&all)];
    fleet.cluster.sql(
        &fleet.url,
        "INSERT INTO dbos.queues (name, worker_concurrency, polling_interval_sec, application_name) \
         SELECT 'items coder', worker_concurrency, polling_interval_sec, application_name \
         FROM dbos.queues WHERE name = 'items judge'",
    );
    fleet.provost(0, &["cluster", "limit", "coder", "--concurrency", "1"]).exits(0);
    fleet.approve_all();
    fleet.until_done(PATIENCE);
    (0..2).for_each(|place| fleet.is_sound(place, 2));
    let ledger = std::fs::read_to_string(fleet.env.folder().join("ledger")).expect("a ledger");
    let told: Vec<&str> = ledger.lines().collect();
    assert_eq!(told, ["begin", "end"].repeat(4), "two were at work at once");
    let attempts = "SELECT FROM dbos.workflow_status WHERE queue_name = 'items coder'";
    assert!(fleet.cluster.sql(&fleet.url, attempts).len() >= 4, "an attempt went past its queue");
}

#[test]
fn whoever_works_for_others_leaves_the_rest_to_them() {
    let Some(fleet) = Fleet::new(1, &FIVE[..2], HONEST) else { return };
    // One worker runs checks and schedules plans; the other runs agents and never schedules.
    let _checks = fleet.worker(&["--roles", "reviewer"]);
    let _works = fleet.worker(&["--no-ticks", "--roles", "coder"]);
    fleet.approve(0);
    fleet.until_done(PATIENCE);
    fleet.is_sound(0, 2);
    let attempts = "SELECT FROM dbos.workflow_status WHERE queue_name = 'items coder'";
    assert_eq!(fleet.cluster.sql(&fleet.url, attempts).len(), 2);
}

#[test]
fn who_dies_while_it_goes_on_is_succeeded() {
    // The second step stalls at first, after the same worker has done the first step and continued.
    let agent = "part=$(sed -n 's/^Do part \\([0-9]*\\) .*/\\1/p'); mkdir -p out; echo \"$PROVOST_ATTEMPT\" >> ../ledger\n\
                 if [ $part = 2 ] && mkdir ../begun 2> /dev/null; then sleep 600; fi\ntouch out/$part; echo done\n";
    let Some(fleet) = Fleet::new(1, &FIVE[..2], agent) else { return };
    let mut first = fleet.worker(&[]);
    fleet.approve(0);
    let begun = fleet.env.folder().join("begun");
    fleet.until("the second step is begun", PATIENCE, || begun.exists());
    let taken = fleet.status()["items"][0].clone();
    assert_eq!(taken["item"], "attempt 2 1", "{taken}");
    assert!(taken["worker"].is_string(), "{taken}");
    first.kill();
    let _second = fleet.worker(&[]);
    fleet.until_done(PATIENCE);
    fleet.is_sound(0, 2);
    let ledger = std::fs::read_to_string(fleet.env.folder().join("ledger")).expect("a ledger");
    let mut given: Vec<&str> = ledger.lines().collect();
    given.sort_unstable();
    given.dedup();
    assert_eq!(given.len(), 3, "{ledger}");
    assert_eq!(ledger.lines().count(), 3, "given to an agent twice: {ledger}");
}
