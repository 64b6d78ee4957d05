//! Tests that independent steps of one plan run at once on machines without a shared disk, and that each is judged
//! on what passed before.

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::Worker;
use super::apart::{AGENTS, JUDGES, Machines, PATIENT};
use super::beside::{FREE, WAITS, graph};

/// No worker may be taken for dead because the machine is busy, except the one that is.
const SOON: [&str; 2] = ["--lease", "20s"];
/// The first attempt at step 1 waits for a file `go` in its tree; each attempt lists what it found.
const TRIES: &str = "part=$(sed -n 's/^Do part \\([0-9]*\\) .*/\\1/p'); attempt=${PROVOST_ATTEMPT##*/}\n\
                     if [ $part/$attempt = 1/1 ]; then until [ -e go ]; do sleep 0.05; done; fi\n\
                     mkdir -p out/$part; ls -d out/*/* > out/$part/saw 2> /dev/null\n\
                     touch out/$part/$attempt; echo did\n";

/// Returns `None` without Postgres or without a sandbox; the test is then counted as skipped.
fn machines(text: &str, agent: &str) -> Option<Machines> {
    let machines = Machines::new(text, agent)?;
    machines.sets_remote();
    machines.env.has_fences().then_some(machines)
}

fn entries(folder: PathBuf) -> Vec<PathBuf> {
    folder.read_dir().into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

impl Machines {
    /// Waits until two attempts are in hand, and returns their items with the workers.
    #[track_caller]
    fn until_two_are_at_work(&self) -> Vec<(String, String)> {
        let mut taken = Vec::new();
        self.until("two attempts are in hand", || {
            let items = self.status()["items"].as_array().cloned().unwrap_or_default();
            let of = |item: &Value| {
                let (name, worker) = (item["item"].as_str()?, item["worker"].as_str()?);
                name.starts_with("attempt").then(|| (name.to_owned(), worker.to_owned()))
            };
            taken = items.iter().filter_map(of).collect();
            taken.len() == 2
        });
        taken
    }

    /// Lets the agents of a step work that have a tree on one of these machines.
    fn lets_work(&self, places: &[&str], step: &str) {
        let rooms =
            places.iter().flat_map(|place| entries(self.env.folder().join(place).join("state/apart")));
        for tree in rooms.flat_map(entries) {
            let name = tree.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if name.starts_with(&format!("{step}-")) {
                let _ = std::fs::write(tree.join("tree/go"), "");
            }
        }
    }

    #[track_caller]
    fn until_done_by(&self, places: &[&str]) {
        self.until("done", || {
            ["1", "2", "3"].iter().for_each(|step| self.lets_work(places, step));
            self.env.stage() == "done"
        });
    }

    /// Returns the events of this name about a step.
    fn of_step(&self, name: &str, step: u64) -> Vec<Value> {
        self.events(name).into_iter().filter(|event| event["details"]["step"] == step).collect()
    }

    /// Returns the verdicts of a step's contract.
    fn verdicts(&self, step: u64) -> Vec<Value> {
        let judged = self.of_step("CONTRACT_JUDGED", step).into_iter();
        let contract = judged.filter(|event| event["details"]["subject"] == json!({ "contract": step }));
        contract.map(|event| event["details"]["verdict"].clone()).collect()
    }

    /// Checks that each step was judged on the tree of the one that passed before it.
    #[track_caller]
    fn each_was_judged_on_what_passed_before(&self) {
        let passed = self.events("TASK_COMPLETED");
        for pair in passed.windows(2) {
            let step = pair[1]["details"]["step"].as_u64().expect("a step");
            let verdict = self.verdicts(step).pop().expect("a verdict");
            assert_eq!(verdict["tree"]["base"], pair[0]["details"]["tree"], "step {step}: {verdict}");
            assert_eq!(verdict["tree"]["id"], pair[1]["details"]["tree"], "step {step}: {verdict}");
        }
    }

    /// Returns a file of the judged commit, which the person's machine fetches.
    fn judged(&self, name: &str) -> String {
        let git = self.env.work().join(".git").display().to_string();
        self.git(&["--git-dir", &git, "show", &format!("judged:{name}")])
    }

    fn commits_judged(&self) {
        self.env.provost(&["commit", "--branch", "judged"]).exits(0);
    }
}

/// Returns the worker with this name.
fn named<'w>(workers: &'w mut [Worker], name: &str) -> &'w mut Worker {
    let is_it = |worker: &&mut Worker| name.contains(&format!("-{}-", worker.child.id()));
    workers.iter_mut().find(is_it).unwrap_or_else(|| panic!("no worker is {name}"))
}

#[test]
fn independent_steps_run_at_once_on_machines_that_share_no_disk() {
    let Some(machines) = machines(&graph(&[FREE, FREE, "**needs:** 1, 2"]), WAITS) else { return };
    let places = ["a", "b", "c"];
    let _workers = places.map(|place| machines.worker(place, &PATIENT));
    machines.env.approve();
    let taken = machines.until_two_are_at_work();
    let workers: BTreeSet<&String> = taken.iter().map(|(_, worker)| worker).collect();
    assert_eq!(workers.len(), 2, "{taken:?}");
    assert!(machines.events("ATTEMPT_ENDED").is_empty(), "both agents are at work");
    machines.until_done_by(&places);
    machines.is_sound(3);
    machines.each_was_judged_on_what_passed_before();
    for step in 1..=3 {
        assert_eq!(machines.of_step("TASK_STARTED", step).len(), 1, "step {step}");
        assert_eq!(machines.verdicts(step).len(), 1, "step {step} was judged once");
    }
    let carried: Vec<Value> =
        machines.events("ATTEMPT_ENDED").iter().map(|ended| ended["details"]["carried"].clone()).collect();
    let names: BTreeSet<&str> = carried.iter().filter_map(|tree| tree["name"].as_str()).collect();
    assert_eq!(names.len(), 3, "{carried:?}");
    assert!(carried.iter().all(|tree| tree["beside"].is_object()), "{carried:?}");
    // No agent saw the work of the other; the third began with the work of both.
    machines.commits_judged();
    assert_eq!([1, 2, 3].map(|step| machines.judged(&format!("out/{step}/saw"))), ["1", "2", "1\n2\n3"]);
    let status = machines.status();
    assert_eq!(status["refused"].as_array().map(Vec::len), Some(0), "{status}");
    assert_eq!(status["items"].as_array().map(Vec::len), Some(0), "{status}");
}

#[test]
fn a_machine_that_is_lost_beside_another_loses_only_its_attempt() {
    let Some(machines) = machines(&graph(&[FREE, FREE, "**needs:** 1, 2"]), WAITS) else { return };
    let mut workers = [machines.worker("a", &SOON), machines.worker("b", &SOON)];
    machines.env.approve();
    let taken = machines.until_two_are_at_work();
    let of = |step: &str| taken.iter().find(|(item, _)| item == step).expect("an attempt").1.clone();
    named(&mut workers, &of("attempt 1 1")).kill();
    // The other worker has no slot free.
    let _next = machines.worker("c", &SOON);
    machines.until("lost", || !machines.events("ATTEMPT_LOST").is_empty());
    machines.until_done_by(&["a", "b", "c"]);
    machines.is_sound(3);
    machines.each_was_judged_on_what_passed_before();
    assert_eq!([1, 2, 3].map(|step| machines.of_step("TASK_STARTED", step).len()), [2, 1, 1]);
    assert_eq!(machines.events("ATTEMPT_LOST").len(), 1);
}

#[test]
fn a_retry_begins_with_the_work_of_its_own_step_on_top_of_what_has_passed() {
    let text = graph(&[FREE, FREE]).replace(
        "test -e out/1/saw",
        "test -e out/1/1 && test -e out/1/2 && grep out/1/1 out/1/saw && grep out/2/1 out/1/saw",
    );
    let Some(machines) = machines(&text, TRIES) else { return };
    let places = ["a", "b", "c"];
    let _agents = ["a", "b"].map(|place| machines.worker(place, &[&AGENTS[..], &PATIENT].concat()));
    let _judges = machines.worker("c", &[&JUDGES[..], &PATIENT].concat());
    machines.env.approve();
    machines.until("step 2 has passed", || !machines.of_step("TASK_COMPLETED", 2).is_empty());
    assert!(machines.of_step("ATTEMPT_ENDED", 1).is_empty(), "step 1 was at work meanwhile");
    machines.until_done_by(&places);
    machines.is_sound(2);
    machines.each_was_judged_on_what_passed_before();
    let ended = machines.of_step("ATTEMPT_ENDED", 1);
    let passed = machines.of_step("TASK_COMPLETED", 2)[0]["details"]["tree"].clone();
    let began = |at: usize| ended[at]["details"]["carried"]["beside"]["passed"].clone();
    assert_eq!((ended.len(), began(0), began(1)), (2, Value::Null, passed));
}
