//! Tests the inbox: everything that waits for a person is in it, with the details for a decision, and keeps
//! waiting.

use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::env::{Answer, Env, HONEST, answer, plan};

/// Creates an environment at `in-place`, for tests in which the level does not matter.
fn place(contracts: &[&str], on_fail: &str, agent: &str) -> Env {
    Env::new(&plan(contracts, on_fail)).agent(agent).isolation("in-place")
}

fn configure(env: &Env, more: &str) {
    env.write("provost.toml", env.read("provost.toml") + more);
}

fn items(env: &Env) -> Vec<Value> {
    let listed = env.provost(&["inbox", "--json"]).exits(0).json();
    listed.as_array().expect("a list").clone()
}

/// Returns the only item and its id.
#[track_caller]
fn only(env: &Env) -> (String, Value) {
    let mut all = items(env);
    assert_eq!(all.len(), 1, "{all:?}");
    let item = all.remove(0);
    (item["id"].as_str().expect("an id").to_owned(), item)
}

/// Polls until the condition holds.
#[track_caller]
fn until(what: &str, mut is: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(300);
    while !is() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(30));
    }
}

const BROKEN: &str = "test -f out/1 || { echo out/1 is missing >&2; exit 1; }";

/// Creates a plan whose first step escalates.
fn escalated() -> Env {
    place(&[BROKEN, "test -f out/2"], "retry(1), then escalate", "echo all tests pass\n")
}

#[test]
fn an_escalation_is_shown_with_what_was_tried_and_each_choice() {
    let env = escalated();
    env.approve();
    let run = env.provost(&["run"]).exits(4);
    let (id, item) = only(&env);
    assert_eq!((&item["kind"], &item["step"]), (&"escalation".into(), &1.into()));
    let tried = item["context"]["tried"].as_array().expect("a list");
    assert_eq!((tried.len(), &tried[0]["class"], &tried[0]["recipe"]), (2, &"logic".into(), &"logic".into()));
    assert_eq!(item["context"]["claim"], "all tests pass");
    assert!(item["context"]["output"].as_str().unwrap().contains("out/1 is missing"), "{item}");
    let choices: Vec<&Value> =
        item["choices"].as_array().unwrap().iter().map(|offer| &offer["choice"]).collect();
    assert_eq!(choices, ["retry", "skip", "abort", "revise"]);
    // The end of the run and the status name the same item.
    let short = id.rsplit_once(':').unwrap().1;
    assert!(run.err.contains(&format!("`provost answer {short} retry`")), "{}", run.err);
    assert!(run.err.contains("instead of retry: skip, abort, revise"), "{}", run.err);
    let status = env.provost(&["status", "--json"]).exits(0).json();
    assert_eq!(status["waiting"][0]["id"], id.as_str());
    assert_eq!(status["waiting"][0]["next"], format!("provost answer {id} retry"));
    let shown = env.provost(&["inbox", short]).exits(0).out;
    for words in ["attempt 2 by coder", "logic", "the agent claims", "out/1 is missing", "in your name"] {
        assert!(shown.contains(words), "{words} is not in {shown}");
    }
    // The item keeps waiting, whatever runs meanwhile.
    env.provost(&["run"]).exits(4);
    assert_eq!(only(&env).0, id);
}

#[test]
fn retry_starts_afresh_and_the_run_goes_on() {
    let env = escalated();
    env.approve();
    env.provost(&["run"]).exits(4);
    let (id, _) = only(&env);
    env.write("agent.sh", HONEST);
    env.provost(&["answer", &id, "retry", "--note", "the agent is another now"]).exits(0);
    assert_eq!(items(&env).len(), 0);
    env.provost(&["answer", &id, "retry"]).exits(5);
    env.provost(&["run"]).exits(0);
    assert_eq!(env.states(), "1 passed, 2 passed");
}

#[test]
fn skip_is_a_waiver_by_a_named_person_and_shows_as_such_for_ever() {
    let env = escalated();
    let mut person = env.person();
    env.approve();
    env.provost(&["run"]).exits(4);
    let (id, _) = only(&env);
    person.provost(&["answer", &id, "skip", "--note", "done by hand", "--by", "grace"]).exits(0);
    env.write("agent.sh", HONEST);
    let run = env.provost(&["run"]).exits(0).out;
    assert!(run.contains("⏭ plan done, with steps waived") && !run.contains("✅ plan"), "{run}");
    assert_eq!((env.states().as_str(), env.stage().as_str()), ("1 waived, 2 passed", "done"));
    let status = env.provost(&["status", "--json"]).exits(0).json();
    assert_eq!((&status["steps"][0]["waived_by"], &status["done"]), (&"grace".into(), &2.into()));
    let audit = env.provost(&["audit", "--json"]).exits(0).json();
    let proofs =
        ["audit", "--proof", audit["proofs"].as_str().unwrap(), "--key", audit["key"].as_str().unwrap()];
    for shown in [
        env.provost(&["status"]).exits(0).out,
        env.provost(&["show"]).exits(0).out,
        env.provost(&["log", "--event", "TASK_WAIVED"]).exits(0).out,
        env.provost(&proofs).exits(0).out,
        env.read("progress.md") + &env.read(".harness/progress.md"),
    ] {
        assert!(shown.contains("waived by grace"), "{shown}");
    }
    assert!(env.read("PLAN.md").contains("### 1. ⏭ Step 1"));
}

#[test]
fn abort_ends_the_plan_as_failed_and_nothing_waits_any_more() {
    let env = escalated();
    env.approve();
    env.provost(&["run"]).exits(4);
    env.provost(&["answer", &only(&env).0, "abort"]).exits(0);
    assert_eq!((env.stage().as_str(), items(&env).len()), ("failed", 0));
    env.provost(&["run"]).exits(1);
    let end = env.provost(&["log", "--json", "--event", "EXECUTION_COMPLETE"]).exits(0).lines();
    assert_eq!(end[0]["details"]["why"], "person");
}

#[test]
fn revise_sends_the_plan_back_to_draft_and_to_the_gate() {
    let env = escalated();
    let mut person = env.person();
    env.approve();
    env.provost(&["run"]).exits(4);
    env.provost(&["answer", &only(&env).0, "revise", "--note", "step 1 is too large"]).exits(0);
    assert_eq!((env.stage().as_str(), items(&env).len()), ("draft", 0));
    env.write("PLAN.md", env.read("PLAN.md").replace(BROKEN, "true"));
    env.provost(&["run"]).exits(4);
    assert_eq!(only(&env).1["kind"], "approval");
    person.approve();
    env.write("agent.sh", HONEST);
    env.provost(&["run"]).exits(0);
}

#[test]
fn a_permission_stop_names_what_to_configure_and_goes_on_when_it_is() {
    let agent = "test -n \"$(cat ../token 2>/dev/null)\" || { echo 'Error: MODEL_API_KEY is not set' >&2; exit 1; }\n\
                 mkdir -p out; touch out/1\n";
    let env = place(&["test -f out/1"], "retry(2), then abort", agent);
    env.approve();
    env.provost(&["run"]).exits(4);
    let (id, item) = only(&env);
    assert_eq!(
        (&item["kind"], &item["context"]["configure"][0]),
        (&"permission".into(), &"the variable MODEL_API_KEY".into())
    );
    std::fs::write(env.folder().join("token"), "x").expect("configured");
    env.provost(&["answer", &id, "retry"]).exits(0);
    env.provost(&["run"]).exits(0);
}

#[test]
fn the_gate_is_in_the_inbox_and_is_not_answered_but_approved() {
    let env = place(&["test -f out/1"], "escalate", HONEST);
    env.provost(&["run"]).exits(4);
    let (id, item) = only(&env);
    assert_eq!(item["kind"], "approval");
    let refused = env.provost(&["answer", &id, "retry"]).exits(2);
    assert!(refused.err.contains("provost approve --revision"), "{}", refused.err);
    assert_eq!(env.stage(), "verified");
    env.provost(&["ask", "--question", "what is part 1?"]).exits(0);
    let (asked, item) = only(&env);
    assert_eq!((&item["kind"], asked == id), (&"question".into(), false));
    assert!(item["reason"].as_str().unwrap().contains("what is part 1?"));
    // The shown command works.
    let command = item["choices"][0]["command"].as_str().unwrap();
    let words: Vec<&str> = command.split(' ').skip(1).collect();
    env.provost(&words).exits(0);
    assert_eq!(items(&env).len(), 0);
    env.provost(&["run"]).exits(0);
}

#[test]
fn a_human_contract_is_confirmed_by_its_item() {
    let text = plan(&["x"], "escalate")
        .replace("**contract:**\n```shell\nx\n```\nexit_code == 0\n", "**contract:** human\n");
    let env = Env::new(&text).agent("echo looks good to me\n").isolation("in-place");
    let mut person = env.person();
    env.approve();
    env.provost(&["run"]).exits(4);
    let (id, item) = only(&env);
    assert_eq!(
        (&item["kind"], &item["context"]["claim"]),
        (&"confirmation".into(), &"looks good to me".into())
    );
    person.provost(&["answer", &id, "confirm"]).exits(0);
    env.provost(&["run"]).exits(0);
}

#[test]
fn a_broken_postcondition_waits_and_can_be_let_be() {
    let text = plan(&["true"], "escalate")
        + "\n## Postconditions\n\n1. All is there\n   ```shell\n   test -f out/all\n   ```\n";
    let env = Env::new(&text).agent(HONEST).isolation("in-place");
    env.approve();
    let run = env.provost(&["run"]).exits(1);
    let (id, item) = only(&env);
    assert_eq!(item["kind"], "postcondition");
    assert!(run.err.contains("instead of retry: abort, revise"), "{}", run.err);
    env.provost(&["answer", &id, "skip"]).exits(5);
    env.provost(&["answer", &id, "abort"]).exits(0);
    assert_eq!(items(&env).len(), 0);
    env.write("out/all", "");
    env.provost(&["answer", "post", "retry"]).exits(0);
    env.provost(&["run"]).exits(0);
}

#[test]
fn an_agent_cannot_answer_its_own_escalation() {
    let provost = env!("CARGO_BIN_EXE_provost");
    let contracts = ["test -f out/1", "test -f out/2"];
    let text = plan(&contracts, "escalate").replace("### 2. Step 2\n", "### 2. Step 2\n\n**needs:** none\n");
    let env = Env::new(&text).isolation("in-place");
    let state = env.state().display().to_string();
    let env = env.agent(&format!(
        "if [ -f second ]; then {provost} --state {state} answer 1 skip; echo $? > code; fi; touch second\n"
    ));
    env.approve();
    env.provost(&["run"]).exits(4);
    env.provost(&["answer", "1", "retry"]).exits(0);
    env.provost(&["run"]).exits(4);
    assert_eq!((env.read("code").trim(), env.states().contains("waived")), ("5", false));
    assert!(env.events().contains(&"TAMPER_DETECTED".to_owned()));
}

#[test]
fn several_plans_share_one_inbox_and_a_name_that_means_two_is_refused() {
    let env = place(&["test -f out/1"], "escalate", HONEST);
    let text = env.read("PLAN.md");
    for name in ["auth", "web"] {
        env.write(
            &format!(".harness/PLAN-{name}.md"),
            text.replace("# A plan", &format!("# The {name} plan")),
        );
        env.provost(&["run", name]).exits(4);
    }
    let all = items(&env);
    let names: Vec<&Value> = all.iter().map(|item| &item["name"]).collect();
    assert_eq!(names, ["auth", "web"], "newest last");
    let refused = env.provost(&["inbox", "e2"]).exits(2);
    for item in &all {
        assert!(refused.err.contains(item["id"].as_str().unwrap()), "{}", refused.err);
    }
    let shown = env.provost(&["inbox"]).exits(0).out;
    assert!(shown.contains("auth:e2") && shown.contains("web:e2"), "{shown}");
    assert!(env.provost(&["inbox", "web:e2"]).exits(0).out.contains("The web plan"));
    // The command names the plan, because it is not the active one.
    let command = all[1]["choices"][0]["command"].as_str().unwrap();
    let words: Vec<&str> = command.split(' ').skip(1).collect();
    env.provost(&words).exits(0);
    assert_eq!(items(&env).len(), 1);
    // From another folder, `--all` shows the items, and full ids find them.
    let home = env.folder().join("home");
    let home = home.to_str().unwrap();
    assert_eq!(env.provost(&["-C", home, "inbox"]).exits(0).out, "");
    assert!(env.provost(&["-C", home, "inbox", "--all"]).exits(0).out.contains("The auth plan"));
    let refused = env.provost(&["-C", home, "answer", all[0]["id"].as_str().unwrap(), "retry"]).exits(2);
    assert!(refused.err.contains("PLAN-auth.md --revision"), "{}", refused.err);
    // A plan without its file cannot be answered, and does not block the others.
    std::fs::remove_file(env.work().join(".harness/PLAN-auth.md")).unwrap();
    assert_eq!(items(&env).len(), 0);
    env.provost(&["answer", "auth:e7", "retry"]).exits(5);
}

#[test]
fn what_is_overdue_is_said_and_stands_in_the_log_and_is_never_approved() {
    let env = place(&["test -f out/1"], "escalate", HONEST);
    configure(&env, "[gate]\nremind_after = \"1ms\"\n");
    env.provost(&["verify"]).exits(0);
    env.provost(&["inbox"]).exits(0);
    let reminders = |env: &Env| {
        let all = env.provost(&["log", "--json", "--event", "RECOVERY_ESCALATION"]).exits(0).lines();
        all.iter()
            .filter(|event| event["details"]["reason"].as_str().unwrap().starts_with("overdue: "))
            .count()
    };
    assert_eq!(reminders(&env), 0, "nobody was asked yet");
    env.provost(&["run"]).exits(4);
    let shown = env.provost(&["inbox"]).exits(0).out;
    assert!(shown.contains("OVERDUE"), "{shown}");
    let before = reminders(&env);
    assert!(before > 0);
    let status = env.provost(&["status", "--json"]).exits(0).json();
    assert_eq!(status["waiting"][0]["overdue"], true);
    assert_eq!(reminders(&env), before, "to look at the status writes nothing");
    assert_eq!(env.stage(), "verified");
    // An escalation becomes overdue in the same way.
    env.write("agent.sh", "echo done\n");
    env.approve();
    env.provost(&["run"]).exits(4);
    env.provost(&["inbox"]).exits(0);
    let log = env.provost(&["log", "--event", "RECOVERY_ESCALATION"]).exits(0).out;
    assert!(log.contains("overdue: the escalation at step 1"), "{log}");
    assert_eq!(env.states(), "1 blocked");
    env.provost(&["audit"]).exits(0);
}

#[test]
fn a_reminder_from_beside_a_run_is_not_mistaken_for_somebody_elses_writing() {
    let agent =
        "if [ -f second ]; then touch begun; while [ ! -f go ]; do sleep 0.02; done; fi; touch second\n";
    let text = plan(&["x", "true"], "escalate")
        .replace("**contract:**\n```shell\nx\n```\nexit_code == 0\n", "**contract:** human\n")
        .replace("### 2. Step 2\n", "### 2. Step 2\n\n**needs:** none\n");
    let env = Env::new(&text).agent(agent).isolation("in-place");
    configure(&env, "[gate]\nremind_after = \"1ms\"\n");
    env.approve();
    let run = env.start(&["run"]);
    until("the second agent did not begin", || env.work().join("begun").exists());
    env.provost(&["inbox"]).exits(0);
    assert!(env.provost(&["log"]).exits(0).out.contains("overdue: the confirmation at step 1"));
    env.write("go", "");
    answer(run.wait_with_output().unwrap()).exits(4);
    assert_eq!(env.states(), "1 claimed, 2 passed");
    env.provost(&["audit"]).exits(0);
}

fn ended(child: std::process::Child) -> Answer {
    answer(child.wait_with_output().expect("an end"))
}

#[test]
fn a_run_that_waits_goes_on_when_somebody_has_answered() {
    let env = escalated();
    let run = env.start(&["run", "--wait"]);
    until("it did not come to the gate", || env.provost(&["inbox", "--json"]).out.contains("\"approval\""));
    env.approve();
    until("it did not escalate", || env.provost(&["inbox", "--json"]).out.contains("\"escalation\""));
    env.write("agent.sh", HONEST);
    let (id, _) = only(&env);
    // The run holds no lease while it waits, so a person can answer.
    until("the lease was not given back", || env.provost(&["answer", &id, "retry"]).code == 0);
    let run = ended(run).exits(0);
    assert!(run.err.contains("provost answer e"), "{}", run.err);
    assert_eq!(env.states(), "1 passed, 2 passed");
}

#[test]
fn a_run_that_waits_ends_when_it_is_rejected_or_interrupted() {
    let env = place(&["test -f out/1"], "escalate", HONEST);
    let waits = |env: &Env| {
        until("it did not come to the gate", || env.events().contains(&"GATE_APPROVAL_REQUESTED".to_owned()))
    };
    let run = env.start(&["run", "--wait"]);
    waits(&env);
    env.provost(&["reject", "--reason", "not like this"]).exits(0);
    ended(run).exits(5);
    let env = place(&["test -f out/1"], "escalate", HONEST);
    let run = env.start(&["run", "--wait"]);
    waits(&env);
    let status = Command::new("kill").args(["-INT", &run.id().to_string()]).status();
    assert!(status.expect("kill").success());
    ended(run).exits(130);
    assert_eq!(env.stage(), "verified");
}

#[test]
fn a_rejection_ends_the_agent_at_work() {
    let agent = "mkdir -p out; touch out/begun; sleep 600\n";
    let env = place(&["test -f out/1"], "escalate", agent);
    let mut person = env.person();
    env.approve();
    let run = env.start(&["run"]);
    until("the agent did not start", || env.work().join("out/begun").exists());
    env.provost(&["reject", "--reason", "not like this"]).exits(0);
    let run = ended(run).exits(4);
    assert!(run.err.contains("the plan is a draft again"), "{}", run.err);
    assert_eq!(env.states(), "1 pending");
    // The attempt used up no retry, and the same text continues it.
    env.write("agent.sh", HONEST);
    person.approve();
    env.provost(&["run"]).exits(0);
    assert_eq!(env.states(), "1 passed");
}

#[test]
fn a_run_waits_for_the_workspace_as_long_as_it_is_told() {
    for (timeout, code) in [(None, 5), (Some("200ms"), 5), (Some("60s"), 0)] {
        let env = place(
            &["test -f out/1"],
            "escalate",
            &format!("touch begun; while [ ! -f go ]; do sleep 0.02; done\n{HONEST}"),
        );
        if let Some(timeout) = timeout {
            configure(&env, &format!("[run]\nlease_timeout = \"{timeout}\"\n"));
        }
        env.approve();
        let first = env.start(&["run"]);
        until("the agent did not begin", || env.work().join("begun").exists());
        let second = env.start(&["run"]);
        if code == 0 {
            env.write("go", "");
            ended(second).exits(0);
        } else {
            ended(second).exits(code);
            env.write("go", "");
        }
        ended(first).exits(0);
        let started = env.provost(&["log", "--json", "--event", "TASK_STARTED"]).exits(0).lines();
        assert_eq!(started.len(), 1, "{timeout:?}");
    }
}
