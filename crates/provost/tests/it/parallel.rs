//! Tests parallel steps: each works in its own tree, and the results are merged.

use std::time::Duration;

use serde_json::Value;

use crate::env::{Answer, Env, plan};

/// Writes `out/N/done` for part N, and lists what it saw of the other parts.
const AGENT: &str = "part=$(sed -n 's/^Do part \\([0-9]*\\) .*/\\1/p'); mkdir -p out/$part\n\
                     sleep 0.3; ls out > out/$part/saw; echo junk > out/junk-$part; touch out/$part/done; echo did\n";

/// Returns a plan with these fields for each step; part N may change `out/N`.
fn graph(fields: &[&str], contract: impl Fn(usize) -> String, on_fail: &str) -> String {
    let contracts: Vec<String> = (1..=fields.len()).map(contract).collect();
    let contracts: Vec<&str> = contracts.iter().map(String::as_str).collect();
    let mut text = plan(&contracts, on_fail);
    for (at, fields) in fields.iter().enumerate() {
        let number = at + 1;
        let target = format!("Step {number}\n\n**target:** coder\n");
        text = text.replace(&target, &format!("{target}\n**touches:** `out/{number}/**`\n\n{fields}\n"));
    }
    text
}

fn done(number: usize) -> String {
    format!("test -f out/{number}/done")
}

const FREE: &str = "**needs:** none";

/// Creates a workspace with a committed agent, because an agent in its own tree sees only the base.
/// `@WORK@` is the workspace.
fn workspace(text: &str, agent: &str, level: &str) -> Env {
    let env = Env::new(text);
    let agent = agent.replace("@WORK@", &env.work().display().to_string());
    let env = env.agent(&agent).isolation(level);
    env.git(&["add", "--all"]);
    env.git(&["commit", "--quiet", "--message", "agent"]);
    env.approve();
    env
}

/// Returns the strongest level, and one without a sandbox.
fn levels() -> Vec<&'static str> {
    let fences = Env::new("").has_fences();
    ["clean", "guard+clean"].into_iter().filter(|level| fences || *level != "clean").collect()
}

/// Runs two steps in parallel. The agent of step 2 waits for the file `go`, which is written once step 1
/// has passed and `meanwhile` has run.
fn second_waits_for_first(env: &Env, meanwhile: impl Fn()) -> Answer {
    let mut run = env.start(&["run", "--jobs", "2"]);
    while !env.states().contains("1 passed") {
        assert!(run.try_wait().unwrap().is_none(), "step 1 did not pass");
        std::thread::sleep(Duration::from_millis(10));
    }
    meanwhile();
    env.write("../go", "");
    crate::env::answer(run.wait_with_output().unwrap())
}

fn places(log: &[Value], name: &str, step: u64) -> Vec<usize> {
    let is_it = |event: &Value| event["event"] == name && event["details"]["step"] == step;
    log.iter().enumerate().filter(|(_, event)| is_it(event)).map(|(at, _)| at).collect()
}

#[test]
fn independent_steps_work_in_trees_of_their_own_and_come_together() {
    for level in levels() {
        let text = graph(&[FREE, FREE, "**needs:** 1, 2"], done, "abort");
        let env = workspace(&text, AGENT, level);
        env.provost(&["run", "--jobs", "3"]).exits(0);
        let log = env.provost(&["log", "--json"]).exits(0).lines();
        let first_end = log.iter().position(|event| event["event"] == "ATTEMPT_ENDED").unwrap();
        for step in [1, 2] {
            assert!(places(&log, "TASK_STARTED", step)[0] < first_end, "{level}: one after the other");
            // The agent saw nothing of the other step.
            assert_eq!(env.read(&format!("out/{step}/saw")), format!("{step}\n"), "{level}");
        }
        // The base of step 3 contains the results of the steps it needs.
        assert_eq!(env.read("out/3/saw"), "1\n2\n3\n", "{level}");
        let junk = (1..=3).find(|part| env.work().join(format!("out/junk-{part}")).exists());
        assert_eq!(junk, None, "{level}: only what passed is in the workspace");
        assert!(places(&log, "TASK_STARTED", 3)[0] > places(&log, "TASK_COMPLETED", 2)[0]);
        env.provost(&["audit"]).exits(0);
        assert!(!env.state().join("apart").read_dir().is_ok_and(|mut left| left.next().is_some()), "{level}");
    }
}

#[test]
fn what_holds_alone_has_to_hold_together() {
    let agent = "part=$(sed -n 's/^Do part \\([0-9]*\\) .*/\\1/p'); mkdir -p out/$part\n\
                 [ $part = 2 ] && until [ -f @WORK@/../go ]; do sleep 0.05; done; touch out/$part/done; echo did\n";
    let contract = |number: usize| match number {
        2 => "test -f out/2/done && ! test -f out/1/done".to_owned(),
        number => done(number),
    };
    let env = workspace(&graph(&[FREE, FREE], contract, "escalate"), agent, "guard+clean");
    second_waits_for_first(&env, || ()).exits(4);
    assert_eq!(env.states(), "1 passed, 2 blocked");
    let log = env.provost(&["log", "--json"]).exits(0).lines();
    let judged: Vec<&Value> = log
        .iter()
        .filter(|event| event["event"] == "CONTRACT_JUDGED" && event["details"]["step"] == 2)
        .map(|event| &event["details"]["verdict"])
        .filter(|verdict| verdict["tree"]["files"][0].is_string())
        .collect();
    assert_eq!(judged.len(), 1, "{judged:?}");
    assert_eq!(judged[0]["outcome"]["kind"], "broke");
    assert!(judged[0]["unmet"].to_string().contains("the changes of other steps"), "{}", judged[0]);
    // The workspace contains only what passed.
    assert!(env.work().join("out/1/done").exists() && !env.work().join("out/2").exists());
}

#[test]
fn each_step_is_judged_once_on_what_passed_before_it() {
    for level in levels() {
        let env = workspace(&graph(&[FREE; 8], done, "escalate"), AGENT, level);
        env.provost(&["run", "--jobs", "3"]).exits(0);
        let log = env.provost(&["log", "--json"]).exits(0).lines();
        let completed = log.iter().filter(|event| event["event"] == "TASK_COMPLETED");
        let completed: Vec<&Value> = completed.map(|event| &event["details"]["step"]).collect();
        let judged = log.iter().filter(|event| {
            event["event"] == "CONTRACT_JUDGED" && event["details"]["subject"]["contract"].is_number()
        });
        let judged: Vec<&Value> = judged.map(|event| &event["details"]["step"]).collect();
        assert_eq!(judged, completed, "{level}");
        assert_eq!(judged.len(), 8, "{level}");
    }
}

#[test]
fn a_failure_stops_those_that_wait_for_it_and_no_others() {
    let contract = |number: usize| if number == 1 { "false".to_owned() } else { done(number) };
    for (on_fail, code, first) in [("escalate", 4, "blocked"), ("abort", 1, "failed")] {
        let text = graph(&[FREE, "**needs:** 1", FREE, "**needs:** 3"], contract, on_fail);
        for (level, jobs) in [("guard+clean", "2"), ("in-place", "2"), ("in-place", "1")] {
            let env = workspace(&text, AGENT, level);
            env.provost(&["run", "--jobs", jobs]).exits(code);
            let states = format!("1 {first}, 2 pending, 3 passed, 4 passed");
            assert_eq!(env.states(), states, "{on_fail} {level} {jobs}");
        }
    }
}

#[test]
fn steps_that_may_change_the_same_files_come_one_after_the_other() {
    for (one, two) in [("`out/**`", "`out/2/**`"), ("", "`out/2/**`"), ("", "")] {
        let mut text =
            plan(&[&done(1), &done(2)], "abort").replace("**task:**", "**needs:** none\n\n**task:**");
        for (number, touches) in [(1, one), (2, two)] {
            let target = format!("Step {number}\n\n**target:** coder\n");
            let field =
                if touches.is_empty() { String::new() } else { format!("\n**touches:** {touches}\n") };
            text = text.replace(&target, &format!("{target}{field}"));
        }
        let env = workspace(&text, AGENT, "in-place");
        env.provost(&["run", "--jobs", "2"]).exits(0);
        let log = env.provost(&["log", "--json"]).exits(0).lines();
        let (started, passed) = (places(&log, "TASK_STARTED", 2)[0], places(&log, "TASK_COMPLETED", 1)[0]);
        assert!(passed < started, "{one} {two}");
    }
}

#[test]
fn without_trees_of_their_own_steps_share_the_workspace_where_they_say_what_they_change() {
    // Each agent waits for the other, so one at a time both would time out.
    let agent = "part=$(sed -n 's/^Do part \\([0-9]*\\) .*/\\1/p'); mkdir -p out/$part; touch out/$part/begun\n\
                 for i in $(seq 6000); do [ -f out/$((3 - part))/begun ] && touch out/$part/done && exit; sleep 0.05; done\n";
    let env = workspace(&graph(&[FREE, FREE], done, "abort"), agent, "in-place");
    env.provost(&["run", "--jobs", "2"]).exits(0);
    env.provost(&["audit"]).exits(0);
}

#[test]
fn a_retry_goes_on_with_what_was_done_on_what_others_left() {
    // The first attempt does half of the work; the second finds that half, and the result of the other
    // step.
    let agent = "part=$(sed -n 's/^Do part \\([0-9]*\\) .*/\\1/p'); mkdir -p out/$part\n\
                 if [ $part = 2 ]; then\n\
                   if [ -f out/2/half ]; then ls out > out/2/saw; touch out/2/done; else until [ -f @WORK@/../go ]; do sleep 0.05; done; touch out/2/half; fi\n\
                 else touch out/$part/done; fi; echo did\n";
    let env = workspace(&graph(&[FREE, FREE], done, "retry(1), then abort"), agent, "guard+clean");
    second_waits_for_first(&env, || ()).exits(0);
    assert_eq!(env.read("out/2/saw"), "1\n2\n");
}

#[test]
fn what_passed_before_a_new_revision_stays() {
    let agent = "part=$(sed -n 's/^Do part \\([0-9]*\\) .*/\\1/p'); mkdir -p out/$part\n\
                 [ $part = 1 ] && touch out/1/done; ls out > out/$part/saw; touch out/$part/any; echo did\n";
    // It names no file: those that a check names are part of what is approved.
    let contract = |number| {
        let name = if number == 2 { "never" } else { "done" };
        format!("find . -name {name} | grep -q /{number}/")
    };
    let text = graph(&[FREE, FREE], contract, "abort");
    if !Env::new("").has_fences() {
        return;
    }
    let env = workspace(&text, agent, "clean");
    env.provost(&["run", "--jobs", "2"]).exits(1);
    assert!(env.states().contains("1 passed"), "{}", env.states());
    let plan = env.read("PLAN.md").replace("-name never", "-name any");
    env.write("PLAN.md", plan);
    env.approve();
    env.provost(&["run", "--jobs", "2"]).exits(0);
    assert!(env.work().join("out/1/done").exists());
    assert_eq!(env.read("out/2/saw"), "1\n2\n");
}

#[test]
fn what_the_user_changes_meanwhile_is_left_alone() {
    let agent = "part=$(sed -n 's/^Do part \\([0-9]*\\) .*/\\1/p'); mkdir -p out/$part\n\
                 [ $part = 2 ] && until [ -f @WORK@/../go ]; do sleep 0.05; done; echo agent > out/$part/text; touch out/$part/done; echo did\n";
    let env = workspace(&graph(&[FREE, FREE], done, "abort"), agent, "guard+clean");
    second_waits_for_first(&env, || env.write("out/2/text", "mine")).exits(0);
    assert_eq!(env.read("out/2/text"), "mine");
    assert_eq!(env.read("out/1/text"), "agent\n");
    assert!(env.work().join("out/2/done").exists());
}

#[test]
fn the_graph_is_drawn_and_told() {
    let text = graph(&[FREE, "**needs:** 1", "**needs:** 1", "**needs:** 2, 3"], done, "abort");
    let env = workspace(&text, AGENT, "in-place");
    let shown = env.provost(&["show"]).exits(0).out;
    assert!(shown.contains("○─╯  4 · Step 4\n"), "{shown}");
    assert!(shown.lines().all(|line| line.chars().count() <= 80 || line.contains("terms")), "{shown}");
    let status = env.provost(&["status"]).exits(0).out;
    assert!(status.contains("├─○  [Step 2/4]"), "{status}");
    for command in ["show", "status"] {
        let told = env.provost(&[command, "--json"]).exits(0).json();
        assert_eq!(told["steps"][3]["needs"], serde_json::json!([2, 3]), "{command}");
    }
}

/// Kills a run with three parallel steps at random.
#[test]
fn kills_lose_nothing_and_repeat_nothing_side_by_side() {
    let fields = [FREE, FREE, FREE, "**needs:** 1, 2", FREE, "**needs:** 3, 4, 5"];
    let agent = "part=$(sed -n 's/^Do part \\([0-9]*\\) .*/\\1/p'); mkdir -p out/$part\n\
                 echo \"$PROVOST_ATTEMPT\" >> out/$part/ledger; sleep 0.05; touch out/$part/done; echo did\n";
    let mut dice = 17_u64;
    for round in 0..2 {
        let env = workspace(&graph(&fields, done, "abort"), agent, "guard+clean");
        env.write("provost.toml", env.read("provost.toml") + "[run]\nmax_lost_attempts = 100\n");
        let mut kills = 0;
        loop {
            let mut child = env.start(&["run", "--jobs", "3"]);
            dice = dice.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            // After twelve kills the run may finish.
            let patience = if kills < 12 { 50 + (dice >> 33) % (150 + 70 * kills) } else { 600_000 };
            let begun = std::time::Instant::now();
            while begun.elapsed() < Duration::from_millis(patience) && child.try_wait().unwrap().is_none() {
                std::thread::sleep(Duration::from_millis(5));
            }
            match child.try_wait().unwrap() {
                Some(_) => break drop(crate::env::answer(child.wait_with_output().unwrap()).exits(0)),
                None => {
                    child.kill().unwrap();
                    child.wait().unwrap();
                    kills += 1;
                }
            }
        }
        assert!(kills > 0, "round {round}: nobody was killed");
        assert_eq!(env.stage(), "done");
        env.provost(&["audit"]).exits(0);
        let log = env.provost(&["log", "--json"]).exits(0).lines();
        for step in 1..=6 {
            assert_eq!(places(&log, "TASK_COMPLETED", step).len(), 1, "round {round}, step {step}");
            let last = places(&log, "TASK_STARTED", step).last().copied().unwrap();
            assert!(last < places(&log, "TASK_COMPLETED", step)[0], "round {round}, step {step}");
            assert!(env.work().join(format!("out/{step}/done")).exists(), "round {round}, step {step}");
            // Each attempt in the ledger is in the log, and none occurs twice.
            let ledger = env.read(&format!("out/{step}/ledger"));
            let mut lines: Vec<&str> = ledger.lines().collect();
            assert!(lines.len() <= places(&log, "TASK_STARTED", step).len(), "{ledger}");
            lines.dedup();
            assert_eq!(lines.len(), ledger.lines().count(), "{ledger}");
        }
    }
}
