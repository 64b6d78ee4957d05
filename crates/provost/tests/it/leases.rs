//! Tests two machines on one shared folder: two state folders, two checkouts, one plan.

use std::process::{Child, Command};
use std::time::Duration;

use serde_json::Value;

use crate::env::{Answer, Env, answer, plan};

/// An agent that waits until the test lets it continue, so that the other machine finds it working.
const SLOW: &str = "mkdir -p out; touch ../begun; while [ ! -e ../go ]; do sleep 0.05; done; touch out/1\n";

struct Two {
    one: Env,
    other: Env,
}

impl Two {
    fn new(lease: &str) -> Self {
        let env = || Env::new(&plan(&["test -e out/1"], "abort")).agent(SLOW).isolation("in-place");
        let (one, other) = (env(), env());
        let vault = one.folder().join("vault");
        std::fs::create_dir(&vault).expect("a vault");
        std::fs::write(vault.join("PLAN-foo.md"), plan(&["test -e out/1"], "abort")).expect("a plan");
        for machine in [&one, &other] {
            let config = machine.read("provost.toml");
            let plans = format!("[plans]\nfolder = \"{}\"\nlease = \"{lease}\"\n", vault.display());
            machine.write("provost.toml", format!("{config}{plans}"));
            std::fs::remove_file(machine.work().join("PLAN.md")).expect("removed");
            machine.provost(&["verify", "foo"]).exits(0);
            let revision = machine.provost(&["show", "foo", "--json"]).exits(0).json()["revision"].clone();
            let revision = revision.as_str().expect("a revision").to_owned();
            machine.provost(&["approve", "foo", "--revision", &revision]).exits(0);
        }
        Self { one, other }
    }

    fn lease(&self) -> Value {
        let text =
            std::fs::read_to_string(self.one.folder().join("vault/lease-foo.json")).unwrap_or_default();
        serde_json::from_str(&text).unwrap_or_default()
    }

    /// Edits the claim, so that it looks like one of another machine.
    fn edit_lease(&self, edit: impl FnOnce(&mut Value)) {
        let mut lease = self.lease();
        edit(&mut lease);
        std::fs::write(self.one.folder().join("vault/lease-foo.json"), lease.to_string()).expect("written");
    }

    fn start(&self) -> Child {
        let child = self.one.start(&["run", "foo"]);
        let begun = || self.one.folder().join("begun").exists();
        (0..2000).take_while(|_| !begun()).for_each(|_| std::thread::sleep(Duration::from_millis(10)));
        assert!(begun(), "it never began");
        child
    }

    fn go(&self, machine: &Env) {
        std::fs::write(machine.folder().join("go"), "").expect("a sign");
    }

    fn attested(&self, machine: &Env) -> Vec<Value> {
        let log = machine.provost(&["log", "foo", "--json", "--event", "ISOLATION_ATTESTED"]).exits(0);
        log.lines().into_iter().map(|event| event["details"].clone()).collect()
    }
}

#[test]
fn while_one_machine_works_on_a_plan_no_other_does() {
    let two = Two::new("60s");
    let mut run = two.start();
    let lease = two.lease();
    assert_eq!((&lease["pid"], &lease["epoch"]), (&Value::from(run.id()), &Value::from(1)));
    let refused = two.other.provost(&["run", "foo"]).exits(5);
    assert!(refused.err.contains("locked by") && refused.err.contains("provost queue"), "{}", refused.err);
    assert!(!two.other.folder().join("begun").exists(), "no agent was started");
    let queue = two.other.provost(&["queue", "--json"]).exits(0).json();
    assert_eq!(queue["queue"][0]["lease"]["pid"], run.id());
    assert_eq!(queue["queue"][0]["lease"]["stale"], false);
    two.go(&two.one);
    assert!(run.wait().expect("ended").success());
    assert_eq!(two.lease()["until"], 0, "given back");
    assert!(two.attested(&two.one).iter().all(|event| event.get("took_over").is_none()));
}

#[test]
fn what_a_dead_machine_left_is_taken_over_after_its_time_and_the_log_says_so() {
    let two = Two::new("2s");
    let mut run = two.start();
    // The run is killed, and its claim looks like one of a machine that is not reachable.
    let pid = pid_of(&run);
    assert!(Command::new("kill").args(["-9", &pid]).status().expect("kill").success());
    run.wait().expect("dead");
    let now = two.lease()["until"].as_u64().expect("a time");
    two.edit_lease(|lease| {
        lease["host"] = "elsewhere".into();
        lease["until"] = (now + 60_000).into();
    });
    let early = two.other.provost(&["run", "foo"]).exits(5);
    assert!(early.err.contains("elsewhere"), "{}", early.err);
    // The claim has expired by more than any difference of clocks.
    two.edit_lease(|lease| lease["until"] = (now - 10_000).into());
    two.go(&two.other);
    two.other.provost(&["run", "foo"]).exits(0);
    let taken: Vec<String> = two
        .attested(&two.other)
        .iter()
        .filter_map(|event| Some(event.get("took_over")?.as_str()?.to_owned()))
        .collect();
    assert_eq!(taken.len(), 1);
    assert!(taken[0].contains("epoch 2") && taken[0].contains("elsewhere"), "{taken:?}");
    end_agents(&two.one);
}

#[test]
fn after_a_crash_the_same_machine_goes_on_at_once() {
    let two = Two::new("60s");
    let mut run = two.start();
    let pid = pid_of(&run);
    assert!(Command::new("kill").args(["-9", &pid]).status().expect("kill").success());
    run.wait().expect("dead");
    two.go(&two.one);
    two.one.provost(&["run", "foo"]).exits(0);
    assert_eq!(two.lease()["epoch"], 2);
}

#[test]
fn whoever_lost_the_plan_to_another_stops() {
    let two = Two::new("1s");
    let run = two.start();
    two.edit_lease(|lease| {
        lease["host"] = "elsewhere".into();
        lease["epoch"] = 7.into();
    });
    let ended: Answer = answer(run.wait_with_output().expect("ended"));
    assert_eq!(ended.code, 5, "{}", ended.err);
    assert!(ended.err.contains("lost") && ended.err.contains("elsewhere"), "{}", ended.err);
    assert_eq!(two.lease()["epoch"], 7, "what is another's was left");
}

#[test]
fn of_many_who_come_at_once_one_works() {
    let two = Two::new("60s");
    let runs: Vec<Child> =
        (0..6)
            .map(|turn| {
                if turn % 2 == 0 { two.one.start(&["run", "foo"]) } else { two.other.start(&["run", "foo"]) }
            })
            .collect();
    for _ in 0..2000 {
        if [&two.one, &two.other].iter().any(|machine| machine.folder().join("begun").exists()) {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    two.go(&two.one);
    two.go(&two.other);
    let codes: Vec<i32> =
        runs.into_iter().map(|run| answer(run.wait_with_output().expect("ended")).code).collect();
    assert!(codes.contains(&0), "{codes:?}");
    assert!(codes.iter().all(|code| [0, 5].contains(code)), "{codes:?}");
    // In any order, a plan never has two attempts at the same time.
    for machine in [&two.one, &two.other] {
        let log = machine.provost(&["log", "foo", "--json"]).exits(0);
        let started = log.lines().iter().filter(|event| event["event"] == "TASK_STARTED").count();
        assert!(started <= 1, "{started}");
    }
}

fn pid_of(child: &Child) -> String {
    child.id().to_string()
}

/// Lets the agent of a killed run end.
fn end_agents(env: &Env) {
    std::fs::write(env.folder().join("go"), "").expect("a sign");
}
