//! Tests that independent steps of one plan run on several workers at once, each in a tree of its own.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::{Fleet, PATIENCE, Worker};
use crate::env::plan;

const CLEAN: &str = "[verify]\nisolation = \"clean\"\n";
/// Works as soon as there is a file `go` in its tree.
pub(super) const WAITS: &str = "part=$(sed -n 's/^Do part \\([0-9]*\\) .*/\\1/p')\n\
                     until [ -e go ]; do sleep 0.05; done; mkdir -p out/$part; ls out > out/$part/saw; echo did\n";
pub(super) const FREE: &str = "**needs:** none";

/// Returns a plan with these fields for each step; part N may change `out/N`.
pub(super) fn graph(fields: &[&str]) -> String {
    let contracts: Vec<String> =
        (1..=fields.len()).map(|number| format!("test -e out/{number}/saw")).collect();
    let mut text = plan(&contracts.iter().map(String::as_str).collect::<Vec<_>>(), "retry(2), then escalate");
    for (at, fields) in fields.iter().enumerate() {
        let number = at + 1;
        let target = format!("Step {number}\n\n**target:** coder\n");
        text = text.replace(&target, &format!("{target}\n**touches:** `out/{number}/**`\n\n{fields}\n"));
    }
    text
}

/// Returns `None` without Postgres, or if the machine has no sandbox; the test is then counted as skipped.
fn fleet(fields: &[&str], agent: &str) -> Option<Fleet> {
    let fleet = Fleet::with(1, &graph(fields), agent, CLEAN)?;
    fleet.env.has_fences().then_some(fleet)
}

impl Fleet {
    /// Returns the attempts that workers have taken, with the workers.
    fn attempts(&self) -> Vec<(String, String)> {
        let status = self.status();
        let items = status["items"].as_array().cloned().unwrap_or_default();
        let taken = |item: &Value| {
            let (name, worker) = (item["item"].as_str()?, item["worker"].as_str()?);
            name.starts_with("attempt").then(|| (name.to_owned(), worker.to_owned()))
        };
        items.iter().filter_map(taken).collect()
    }

    /// Waits until two attempts are in hand, and returns whether they are on two workers.
    #[track_caller]
    fn until_two_are_at_work(&self) -> Vec<(String, String)> {
        let mut taken = Vec::new();
        self.until("two attempts are in hand", PATIENCE, || {
            taken = self.attempts();
            taken.len() == 2
        });
        let workers: BTreeSet<&String> = taken.iter().map(|(_, worker)| worker).collect();
        assert_eq!(workers.len(), 2, "{taken:?}");
        taken
    }

    /// Waits until the attempt of a dead worker was judged, while the other agent still works.
    #[track_caller]
    fn until_one_is_lost(&self) {
        self.until("lost", PATIENCE, || !self.count(0, "ATTEMPT_LOST").is_empty());
    }

    /// Lets the agents work that have a tree.
    fn lets_work(&self) {
        let trees = |folder: std::path::PathBuf| {
            folder.read_dir().into_iter().flatten().flatten().map(|entry| entry.path()).collect::<Vec<_>>()
        };
        for step in trees(self.env.state().join("apart")).into_iter().flat_map(trees) {
            let _ = std::fs::write(step.join("tree/go"), "");
        }
    }

    #[track_caller]
    fn is_done_soon(&self) {
        self.until("done", PATIENCE, || {
            self.lets_work();
            self.stage(0) == "done"
        });
    }

    /// Returns how often an attempt at a step was begun.
    fn begun(&self, step: u64) -> usize {
        let is_it = |event: &&Value| event["event"] == "TASK_STARTED" && event["details"]["step"] == step;
        self.events(0).iter().filter(is_it).count()
    }

    fn wrote(&self, name: &str) -> String {
        std::fs::read_to_string(self.places[0].join(name)).unwrap_or_default()
    }
}

/// Returns the worker with this name.
fn named<'w>(workers: &'w mut [Worker], name: &str) -> &'w mut Worker {
    let is_it = |worker: &&mut Worker| name.contains(&format!("-{}-", worker.child.id()));
    workers.iter_mut().find(is_it).unwrap_or_else(|| panic!("no worker is {name}"))
}

#[test]
fn independent_steps_of_a_plan_run_on_two_workers_at_once() {
    let Some(fleet) = fleet(&[FREE, FREE, "**needs:** 1, 2"], WAITS) else { return };
    let _workers = [fleet.worker(&[]), fleet.worker(&[])];
    fleet.approve(0);
    fleet.until_two_are_at_work();
    fleet.is_done_soon();
    fleet.is_sound(0, 3);
    for step in 1..=3 {
        assert_eq!(fleet.begun(step), 1, "step {step}");
    }
    // No agent saw the work of the other; the third began with the work of both.
    assert_eq!([1, 2, 3].map(|step| fleet.wrote(&format!("out/{step}/saw"))), ["1\n", "2\n", "1\n2\n3\n"]);
    let status = fleet.status();
    assert_eq!(status["refused"].as_array().map(Vec::len), Some(0), "{status}");
    assert_eq!(status["items"].as_array().map(Vec::len), Some(0), "{status}");
}

#[test]
fn a_worker_that_is_killed_beside_another_loses_nothing() {
    let Some(fleet) = fleet(&[FREE, FREE], WAITS) else { return };
    let mut workers = [fleet.worker(&[]), fleet.worker(&[])];
    fleet.approve(0);
    let taken = fleet.until_two_are_at_work();
    let of = |step: &str| taken.iter().find(|(item, _)| item == step).expect("an attempt").1.clone();
    named(&mut workers, &of("attempt 1 1")).kill();
    // The other worker has no slot free.
    let _next = fleet.worker(&[]);
    fleet.until_one_is_lost();
    fleet.is_done_soon();
    fleet.is_sound(0, 2);
    assert_eq!(
        [1, 2].map(|step| fleet.begun(step)),
        [2, 1],
        "the lost attempt is made again, the other goes on"
    );
    assert_eq!(fleet.count(0, "ATTEMPT_LOST").values().sum::<usize>(), 1);
}

#[test]
fn a_worker_that_was_stopped_beside_another_comes_back_to_an_item_that_is_gone() {
    let Some(fleet) = fleet(&[FREE, FREE], WAITS) else { return };
    let mut workers = [fleet.worker(&[]), fleet.worker(&[])];
    fleet.approve(0);
    let taken = fleet.until_two_are_at_work();
    let (item, worker) = taken.iter().find(|(item, _)| item == "attempt 1 1").expect("an attempt").clone();
    named(&mut workers, &worker).signal("STOP");
    let _next = fleet.worker(&[]);
    fleet.until_one_is_lost();
    fleet.is_done_soon();
    let before = fleet.events(0).len();
    named(&mut workers, &worker).signal("CONT");
    fleet.until("refused", PATIENCE, || !fleet.status()["refused"].as_array().is_none_or(Vec::is_empty));
    assert_eq!(fleet.status()["refused"][0]["item"], item.as_str());
    assert_eq!(fleet.events(0).len(), before, "it wrote to the log");
    fleet.is_sound(0, 2);
    assert_eq!([1, 2].map(|step| fleet.begun(step)), [2, 1]);
}

#[test]
fn an_operator_takes_a_step_away_from_a_worker_that_keeps_it() {
    let Some(fleet) = fleet(&[FREE, FREE], WAITS) else { return };
    let mut workers = [fleet.worker(&["--lease", "1h"]), fleet.worker(&["--lease", "1h"])];
    fleet.approve(0);
    let taken = fleet.until_two_are_at_work();
    let (_, keeps) = taken.iter().find(|(item, _)| item == "attempt 1 1").expect("an attempt").clone();
    named(&mut workers, &keeps).signal("STOP");
    fleet.provost(0, &["cluster", "break-lease"]).exits(0);
    let broken = fleet.events(0);
    let broken: BTreeSet<&str> = broken
        .iter()
        .filter(|event| event["event"] == "LEASE_BROKEN")
        .filter_map(|event| event["details"]["lease"].as_str())
        .collect();
    for step in ["step 1", "step 2"] {
        assert!(broken.iter().any(|lease| lease.ends_with(step)), "{broken:?}");
    }
    let _next = fleet.worker(&[]);
    fleet.until_one_is_lost();
    fleet.is_done_soon();
    let before = fleet.events(0).len();
    named(&mut workers, &keeps).signal("CONT");
    fleet.until("refused", PATIENCE, || !fleet.status()["refused"].as_array().is_none_or(Vec::is_empty));
    assert_eq!(fleet.events(0).len(), before, "it wrote to the log");
    fleet.is_sound(0, 2);
}

#[test]
fn a_run_does_not_begin_while_a_worker_has_a_step() {
    let Some(fleet) = fleet(&[FREE, FREE], WAITS) else { return };
    let _workers = [fleet.worker(&[]), fleet.worker(&[])];
    fleet.approve(0);
    fleet.until_two_are_at_work();
    // For a moment a worker still holds the workspace, too.
    fleet.until("refused because of a step", PATIENCE, || {
        let refused = fleet.provost(0, &["run"]);
        assert_ne!(refused.code, 0, "{refused:?}");
        refused.err.contains("step 1") || refused.err.contains("step 2")
    });
    fleet.is_done_soon();
    fleet.is_sound(0, 2);
}

/// An agent that waits for five seconds, and computes nothing.
const FIVE: &str = "part=$(sed -n 's/^Do part \\([0-9]*\\) .*/\\1/p')\n\
                    sleep 5; mkdir -p out/$part; ls out > out/$part/saw; echo did\n";

/// Prints how long 16 plans of one step of ten seconds take on 1, 2, 4 and 8 workers with one job each.
#[test]
#[ignore = "takes minutes; prints figures"]
fn how_long_many_plans_take() {
    let agent = FIVE.replace("sleep 5", "sleep 10");
    for workers in [1, 2, 4, 8] {
        let Some(fleet) = Fleet::with(16, &graph(&[FREE]), &agent, CLEAN) else { return };
        if !fleet.env.has_fences() {
            return;
        }
        let _workers: Vec<Worker> = (0..workers).map(|_| fleet.worker(&["--lease", "30s"])).collect();
        std::thread::sleep(Duration::from_secs(12));
        fleet.approve_all();
        let begun = Instant::now();
        fleet.until_done(Duration::from_secs(900));
        let took = begun.elapsed().as_secs_f64();
        println!("{workers} workers, 16 plans: {took:.1} s, {:.1} steps a minute", 16.0 * 60.0 / took);
        (0..16).for_each(|place| fleet.is_sound(place, 1));
    }
}

/// Prints how long eight independent steps of five seconds take on 1, 2, 4 and 8 workers, and with `--jobs 4`.
#[test]
#[ignore = "takes minutes; prints figures"]
fn how_long_eight_independent_steps_take() {
    let agent = FIVE;
    for workers in [1, 2, 4, 8] {
        let Some(fleet) = fleet(&[FREE; 8], agent) else { return };
        let _workers: Vec<Worker> = (0..workers).map(|_| fleet.worker(&[])).collect();
        // A worker polls its queues faster a while after it has joined.
        std::thread::sleep(Duration::from_secs(12));
        fleet.approve(0);
        let begun = Instant::now();
        fleet.until_done(PATIENCE);
        println!("{workers} workers: {:.1} s", begun.elapsed().as_secs_f64());
        fleet.is_sound(0, 8);
    }
    let Some(fleet) = fleet(&[FREE; 8], agent) else { return };
    fleet.approve(0);
    let begun = Instant::now();
    fleet.provost(0, &["run", "--jobs", "4"]).exits(0);
    println!("--jobs 4: {:.1} s", begun.elapsed().as_secs_f64());
}
