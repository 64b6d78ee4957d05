//! What a pass is worth: one that held before the work, one that the agent checked itself, and one that could
//! not be looked at. None of them is a plain ✅.

use serde_json::{Value, json};

use crate::env::{Env, plan};
use crate::mcp::client::Client;

const HONEST: &str = "mkdir -p out; touch out/1 out/2; echo done\n";

fn step(status: &Value, number: usize) -> &Value {
    &status["steps"][number - 1]
}

#[test]
fn what_held_before_the_work_is_no_plain_pass_in_any_view() {
    let agent = "mkdir -p out; if [ -f out/1 ]; then touch out/2; fi; touch out/1; echo done\n";
    let env = Env::new(&plan(&["test -d .", "test -f out/2"], "escalate")).agent(agent);
    if !env.has_fences() {
        return;
    }
    let run = env.approve().provost(&["run"]).exits(0);
    assert!(run.out.contains("⚪ plan done: 1 verified, 1 held before"), "{}", run.out);
    assert!(run.out.contains("[Step 1/2] ⚪"), "{}", run.out);
    let status = env.provost(&["status"]).exits(0).out;
    assert!(status.contains("[Step 1/2] ⚪") && status.contains("held before"), "{status}");
    assert!(status.contains("[Step 2/2] ✅") && status.contains("· verified"), "{status}");
    let status = env.provost(&["status", "--json"]).exits(0).json();
    assert_eq!(step(&status, 1)["pass"], "held_before");
    assert_eq!(step(&status, 2)["pass"], "verified");
    assert_eq!(status["weaker"], "1 held before");
    let file = env.read("PLAN.md");
    assert!(file.contains("### 1. ⚪ ") && file.contains("### 2. ✅ "), "{file}");
    let show = env.provost(&["show"]).exits(0).out;
    assert!(show.contains("held before: the check held before the work too"), "{show}");
    assert!(env.provost(&["list"]).exits(0).out.contains("1 held before"));
    assert!(env.read("progress.md").contains("⚪"), "{}", env.read("progress.md"));
    let log = env.provost(&["log", "--json", "--event", "TASK_COMPLETED"]).exits(0).lines();
    assert_eq!(log[0]["details"]["pass"], "held_before");
    env.provost(&["audit"]).exits(0);
    // The file with its marks is the plan that was approved.
    env.provost(&["run"]).exits(0);
}

fn red_first(contract: &str, more: &str) -> String {
    let text = plan(&[contract], "escalate").replacen("status: draft", "status: draft\nrequire_red: true", 1);
    text.replacen("**on_fail:**", &format!("{more}**on_fail:**"), 1)
}

#[test]
fn with_red_first_a_person_is_asked_before_an_agent_is_paid() {
    let env = Env::new(&red_first("test -d .", "")).agent("touch ../paid; mkdir -p out; touch out/1\n");
    if !env.has_fences() {
        return;
    }
    let run = env.approve().provost(&["run"]).exits(4);
    assert!(run.err.contains("holds already, before any work"), "{}", run.err);
    let events = env.provost(&["log", "--json", "--event", "TASK_STARTED"]).exits(0).out;
    assert_eq!(events, "", "an agent was started");
    // A person lets it work all the same: it passes, and says what it is worth.
    env.provost(&["answer", "1", "retry"]).exits(0);
    let run = env.provost(&["run"]).exits(0);
    assert!(run.out.contains("⚪ plan done: 1 held before"), "{}", run.out);
}

#[test]
fn a_guard_is_meant_to_hold_before_the_work() {
    let env = Env::new(&red_first("test -d .", "**guard:** yes\n")).agent(HONEST);
    if !env.has_fences() {
        return;
    }
    let run = env.approve().provost(&["run"]).exits(0);
    assert!(run.out.contains("1 held before"), "{}", run.out);
    let red = Env::new(&red_first("test -f out/1", "")).agent(HONEST);
    let run = red.approve().provost(&["run"]).exits(0);
    assert!(run.out.contains("✅ plan done: 1 verified"), "{}", run.out);
}

#[test]
fn a_tool_that_is_missing_makes_no_pass_through_a_negation() {
    for contract in [
        "! no-such-tool-anywhere -q tests",
        "no-such-tool-anywhere -q tests 2>/dev/null || true; test -d .",
        "! no-such-tool-anywhere &>/dev/null",
        "! bash -c 'echo \"/usr/bin/python3: No module named pytest\" >&2; exit 1'",
    ] {
        let env = Env::new(&plan(&[contract], "escalate")).agent(HONEST);
        let run = env.approve().provost(&["run"]);
        assert_eq!(run.code, 4, "{contract}: {} {}", run.out, run.err);
        let status = env.provost(&["status", "--json"]).exits(0).json();
        assert_ne!(step(&status, 1)["state"], "passed", "{contract}");
        let log = env.provost(&["log", "--json", "--event", "CONTRACT_JUDGED"]).exits(0).lines();
        assert_eq!(log[0]["details"]["verdict"]["outcome"]["kind"], "not_run", "{contract}: {log:?}");
    }
}

/// The program that a step is to make is missing before the work, and that is how it should be.
#[test]
fn what_the_work_brings_is_not_missing_from_the_machine() {
    let agent = "mkdir -p out; printf '#!/bin/sh\\necho hello\\n' > out/tool; chmod +x out/tool\n";
    for contract in ["./out/tool | grep -q hello", "PATH=$PWD/out:$PATH; tool | grep -q hello"] {
        let env = Env::new(&plan(&[contract], "escalate")).agent(agent);
        let run = env.approve().provost(&["run"]).exits(0);
        assert!(run.out.contains("✅ plan done: 1 verified"), "{contract}: {}", run.out);
    }
}

#[test]
fn a_runner_that_has_to_fail_shows_that_it_ran_tests() {
    // A runner of this name that says what pytest says where it finds nothing.
    let contract = |says: &str| format!("pytest() {{ echo \"{says}\"; return 1; }}; ! pytest -q tests");
    let none = Env::new(&plan(&[&contract("no tests ran in 0.01s")], "escalate")).agent(HONEST);
    assert_ne!(none.approve().provost(&["run"]).code, 0);
    let silent = Env::new(&plan(&[&contract("")], "escalate")).agent(HONEST);
    let run = silent.approve().provost(&["run"]);
    assert_ne!(run.code, 0, "{}", run.out);
    assert!(silent.provost(&["log", "--json"]).out.contains("must show its tests"), "{}", run.out);
    let one = Env::new(&plan(&[&contract("1 failed in 0.01s")], "escalate")).agent(HONEST);
    one.approve().provost(&["run"]).exits(0);
}

#[test]
fn the_gate_says_which_checks_hold_already() {
    let agent = "mkdir -p out; if [ -f out/1 ]; then touch out/2; fi; touch out/1; echo done\n";
    let env = Env::new(&plan(&["test -d .", "test -f out/2"], "escalate")).agent(agent);
    if !env.has_fences() {
        return;
    }
    let run = env.provost(&["run"]).exits(4);
    let said = "1 of 2 checks holds already and proves nothing about the work";
    assert!(run.err.contains(said), "{}", run.err);
    let show = env.provost(&["show"]).exits(0).out;
    assert!(show.contains(said) && show.contains("step 2: fails (exit 1), as it should"), "{show}");
    assert!(!env.work().join("out").exists());
    let approved = env.provost(&["approve", "--revision", &env.revision()]).exits(0);
    assert!(approved.err.contains(said), "{}", approved.err);
    env.provost(&["run"]).exits(0);
    // The control of the first step is what was seen at the gate; that of the second has another base.
    let log = env.provost(&["log", "--json", "--event", "CONTRACT_JUDGED"]).exits(0).lines();
    let control = |step: u32| {
        let found = log.iter().find(|event| event["details"]["subject"]["control"] == step);
        found.map(|event| event["details"]["verdict"]["cached"] == true)
    };
    assert_eq!(control(1), Some(true), "{log:?}");
}

#[test]
fn a_policy_bounds_what_is_run_and_not_what_a_plan_says_of_itself() {
    let policy = "\n[gate.policies.outputs]\ntouches = [\"out/**\"]\nowner = [\"test\"]\n";
    let contract = "test -f out/1";
    let with = |policy: &str, text: &str| {
        let env = Env::new(text).agent(HONEST);
        env.write("provost.toml", env.read("provost.toml") + policy);
        env.provost(&["approve", "--policy", "outputs"]).exits(0);
        let run = env.provost(&["run"]);
        (run.code, run.err)
    };
    let text = plan(&[contract], "escalate");
    let (code, err) = with(policy, &text);
    assert_eq!(code, 4, "{err}");
    assert!(err.contains("does not say which checks may be run"), "{err}");
    let listed = format!("{policy}commands = [\"{contract}\"]\n");
    assert_eq!(with(&listed, &text).0, 0);
    let named = format!("{policy}checks = [\"made\"]\n[checks.made]\ncommand = \"{contract}\"\n");
    assert_eq!(with(&named, &text).0, 0);
    let (code, err) = with(&listed, &plan(&["test -f out/1; cat provost.toml"], "escalate"));
    assert_eq!(code, 4, "{err}");
    assert!(err.contains("is not among the commands"), "{err}");
    let online = text.replacen("**on_fail:**", "**network:** on\n**on_fail:**", 1);
    let (code, err) = with(&listed, &online);
    assert_eq!(code, 4, "{err}");
    assert!(err.contains("wants the network"), "{err}");
}

fn session_plan(check: &str) -> Value {
    json!({
        "objective": "Improve it",
        "steps": [{ "title": "Improve", "task": "Write out/a.", "check": check }],
        "touches": ["out/**"],
    })
}

fn session(configuration: &str) -> Env {
    let env = Env::new("");
    std::fs::remove_file(env.work().join("PLAN.md")).expect("gone");
    env.write("provost.toml", configuration);
    env
}

#[test]
fn what_an_agent_checks_itself_ends_as_self_checked() {
    let env = session("");
    let mut client = Client::start(&env, &[]);
    client.call("plan_create", session_plan("test -f out/a")).says("approved by policy mcp gate auto");
    env.write("out/a", "x\n");
    let done = json!({ "step": 1, "status": "done", "evidence": "I did the thing" });
    client.call("step_update", done).says("self-checked");
    drop(client);
    let status = env.provost(&["status", "improve-it", "--json"]).exits(0).json();
    assert_eq!(step(&status, 1)["pass"], "self_checked");
    let status = env.provost(&["status", "improve-it"]).exits(0).out;
    assert!(status.contains("🟡") && status.contains("self-checked") && !status.contains('✅'), "{status}");
    assert!(!env.read(".harness/PLAN-improve-it.md").contains('✅'));
}

#[test]
fn a_check_of_a_session_that_proves_nothing_goes_to_a_person() {
    let env = session("");
    if !env.has_fences() {
        return;
    }
    let mut client = Client::start(&env, &[]);
    client.call("plan_create", session_plan("true"));
    let done = json!({ "step": 1, "status": "done", "evidence": "I did the thing" });
    client.call("step_update", done).refuses("holds already");
    drop(client);
    let status = env.provost(&["status", "improve-it", "--json"]).exits(0).json();
    assert_eq!(step(&status, 1)["state"], "blocked");
}

#[test]
fn a_check_that_a_person_trusted_makes_a_session_verified() {
    let env = session("[checks.made]\ncommand = \"test -f out/a\"\n");
    env.write("PLAN.md", plan(&["test -f out/1"], "escalate"));
    env.provost(&["approve", "--check", "nobody"]).exits(2);
    env.provost(&["approve", "--check", "made"]).exits(0);
    std::fs::remove_file(env.work().join("PLAN.md")).expect("gone");
    let mut client = Client::start(&env, &[]);
    client.call("plan_create", session_plan("test -f out/a")).says("approved by policy mcp gate auto");
    env.write("out/a", "x\n");
    client
        .call("step_update", json!({ "step": 1, "status": "done", "evidence": "made it" }))
        .says("has passed");
    drop(client);
    let status = env.provost(&["status", "improve-it", "--json"]).exits(0).json();
    assert_eq!(step(&status, 1)["pass"], "verified");
}

#[test]
fn a_person_who_reads_a_sessions_plan_makes_it_verified() {
    let env = session("");
    let mut person = env.person();
    let mut client = Client::under_a_shell(&env, &[]);
    client.call("plan_create", session_plan("test -f out/a"));
    let status = env.provost(&["status", "improve-it", "--json"]).exits(0).json();
    let revision = status["revision"].as_str().expect("a revision").to_owned();
    person.provost(&["approve", "improve-it", "--revision", &revision]).exits(0);
    env.write("out/a", "x\n");
    client
        .call("step_update", json!({ "step": 1, "status": "done", "evidence": "made it" }))
        .says("has passed");
    drop(client);
    let status = env.provost(&["status", "improve-it", "--json"]).exits(0).json();
    assert_eq!(step(&status, 1)["pass"], "verified");
}
