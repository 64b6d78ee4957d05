//! Tests what follows from each kind of failure, on real runs.

use std::io::Write as _;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::env;
use crate::env::{Env, HONEST, plan};

/// At `in-place`, so that a contract can count its own runs.
fn place(contracts: &[&str], on_fail: &str, agent: &str, recipes: &str) -> Env {
    let env = Env::new(&plan(contracts, on_fail)).agent(agent).isolation("in-place");
    env.write("provost.toml", env.read("provost.toml") + recipes);
    env.approve();
    env
}

/// Holds at the third run; before, it fails with a network error.
const THIRD_TIME: &str = "mkdir -p out; echo x >> out/looks; test $(wc -l < out/looks) -ge 3 || \
                          { echo 'curl: (56) Recv failure: Connection reset by peer' >&2; exit 56; }";

fn named(env: &Env, name: &str) -> Vec<Value> {
    env.provost(&["log", "--json", "--event", name]).exits(0).lines()
}

fn count(env: &Env, name: &str) -> usize {
    named(env, name).len()
}

/// Returns the names of the events that followed the first failure.
fn first_failure(env: &Env) -> Vec<String> {
    let events = env.events();
    let from = events.iter().position(|name| name == "FAILURE_DETECTED").expect("a failure");
    let ends = ["TASK_STARTED", "CONTRACT_JUDGED", "EXECUTION_COMPLETE"];
    events[from..].iter().take_while(|name| !ends.contains(&name.as_str())).cloned().collect()
}

#[test]
fn something_transient_is_waited_out_and_the_agent_is_not_asked_twice() {
    let recipes = "[recipes.network]\nclass = \"transient\"\nbackoff = [\"30ms\", \"60ms\"]\n";
    let env = place(&[THIRD_TIME], "retry(2), then escalate", "echo done\n", recipes);
    env.provost(&["run"]).exits(0);
    assert_eq!((count(&env, "TASK_STARTED"), count(&env, "RECOVERY_APPLIED")), (1, 2));
    let log = env.provost(&["log", "--json"]).exits(0).lines();
    for (place, event) in log.iter().enumerate().filter(|(_, event)| event["event"] == "RECOVERY_APPLIED") {
        let until = event["details"]["not_before"].as_str().expect("a time");
        let next = log[place + 1]["timestamp"].as_str().expect("a time");
        assert!(next >= until, "{next} is before {until}");
        assert_eq!(event["details"]["recipe_name"], "network");
    }
    let end = &named(&env, "EXECUTION_COMPLETE")[0]["details"];
    assert_eq!((&end["summary"]["retries"], &end["why"]), (&Value::from(2), &Value::from("done")));
}

#[test]
fn a_permission_is_asked_for_by_name_and_there_is_a_try_after_a_person_says_so() {
    let agent =
        "test -f out/configured || { echo 'Error: MODEL_API_KEY is not set' >&2; exit 1; }\ntouch out/1\n";
    let env = place(&["test -f out/1"], "retry(2), then abort", agent, "");
    env.provost(&["run"]).exits(4);
    assert_eq!(
        first_failure(&env),
        ["FAILURE_DETECTED", "FAILURE_CLASSIFIED", "PERMISSION_REQUIRED", "RECOVERY_ESCALATION"]
    );
    let required = &named(&env, "PERMISSION_REQUIRED")[0]["details"];
    assert_eq!(required["configure"][0], "the variable MODEL_API_KEY");
    assert_eq!(count(&env, "TASK_STARTED"), 1);
    env.write("out/configured", "");
    env.provost(&["answer", "1", "retry"]).exits(0);
    env.provost(&["run"]).exits(0);
}

#[test]
fn invalid_input_is_asked_about_and_not_tried_again() {
    let env = place(&["test -f out/1"], "retry(2), then abort", "", "");
    env.write(
        "provost.toml",
        env.read("provost.toml").replace("\"bash\", \"agent.sh\"", "\"no-such-agent\""),
    );
    // Another program needs a new approval.
    env.provost(&["run"]).exits(4);
    assert_eq!(count(&env, "TASK_STARTED"), 0);
    env.approve();
    env.provost(&["run"]).exits(4);
    let found = &named(&env, "FAILURE_CLASSIFIED")[0]["details"];
    assert_eq!((&found["failure_type"], count(&env, "TASK_STARTED")), (&Value::from("invalid_input"), 1));
}

#[test]
fn an_error_of_logic_is_tried_again_and_the_same_one_not_a_third_time() {
    let contract = "echo \"out/1 is missing, pid $$\" >&2; test -f out/1";
    let env = place(&[contract], "retry(5), then escalate", "echo done\n", "");
    let run = env.provost(&["run"]).exits(4);
    assert_eq!(count(&env, "TASK_STARTED"), 2);
    assert!(run.out.contains("the same failure twice"), "{}", run.out);
    // After a person's answer, the count of equal failures starts again.
    env.provost(&["answer", "1", "retry"]).exits(0);
    env.provost(&["run"]).exits(4);
    assert_eq!(count(&env, "TASK_STARTED"), 4);
}

#[test]
fn another_role_has_a_try_at_the_same_failure() {
    let contract = "test -f out/1 || { echo out/1 is missing >&2; exit 1; }";
    let senior =
        "fallback = \"senior\"\n[agents.senior]\ndriver = \"command\"\ncommand = [\"bash\", \"senior.sh\"]\n";
    let env = Env::new(&plan(&[contract], "retry(5), then escalate")).agent("echo done\n");
    env.write("provost.toml", env.read("provost.toml") + senior);
    env.write("senior.sh", HONEST);
    let env = env.isolation("in-place");
    let shown = env.provost(&["show", "--json"]).exits(0).json();
    assert_eq!(shown["terms"]["fallback"]["coder"], "senior");
    env.approve();
    env.provost(&["run"]).exits(0);
    let targets: Vec<Value> =
        named(&env, "TASK_STARTED").iter().map(|event| event["details"]["target"].clone()).collect();
    assert_eq!(targets, ["coder", "coder", "senior"]);
}

#[test]
fn what_no_attempt_can_mend_goes_to_a_person_at_once() {
    let full = "echo 'write error: No space left on device' >&2; exit 1";
    let env = place(&[full], "retry(2), then abort", "echo done\n", "");
    env.provost(&["run"]).exits(4);
    assert_eq!(first_failure(&env), ["FAILURE_DETECTED", "FAILURE_CLASSIFIED", "RECOVERY_ESCALATION"]);
    let found = &named(&env, "FAILURE_CLASSIFIED")[0]["details"];
    assert_eq!((&found["failure_type"], count(&env, "TASK_STARTED")), (&Value::from("unrecoverable"), 1));
    env.provost(&["answer", "1", "abort"]).exits(0);
    assert_eq!(named(&env, "EXECUTION_COMPLETE")[0]["details"]["why"], "person");
}

#[test]
fn what_nobody_knows_goes_to_a_person() {
    let recipes =
        "[recipes.odd]\nclass = \"unknown\"\ndetect = { exit_code = [42], verdict = [\"broke\"] }\n";
    let env = place(&["exit 42"], "retry(2), then abort", "echo done\n", recipes);
    env.provost(&["run"]).exits(4);
    let found = &named(&env, "FAILURE_CLASSIFIED")[0]["details"];
    assert_eq!((&found["failure_type"], count(&env, "TASK_STARTED")), (&Value::from("unknown"), 1));
}

#[test]
fn a_spent_quota_stops_the_whole_role() {
    let agent = "echo 'Error: your credit balance is too low' >&2; exit 1\n";
    let env = Env::new(&plan(&["test -f out/1", "test -f out/2"], "retry(2), then escalate"));
    let env = env.agent(agent).isolation("in-place");
    let mut person = env.person();
    env.approve();
    env.provost(&["run"]).exits(4);
    person.provost(&["answer", "1", "skip"]).exits(0);
    let run = env.provost(&["run"]).exits(4);
    assert!(run.out.contains("coder has nothing left to spend"), "{}", run.out);
    assert_eq!((env.states().as_str(), count(&env, "TASK_STARTED")), ("1 waived, 2 blocked", 1));
    env.write("agent.sh", HONEST);
    env.provost(&["answer", "2", "retry"]).exits(0);
    env.provost(&["run"]).exits(0);
}

/// Waits until the run waits for its next retry.
fn wait_for_recovery(env: &Env) {
    let deadline = Instant::now() + Duration::from_secs(300);
    while count(env, "RECOVERY_APPLIED") == 0 {
        assert!(Instant::now() < deadline, "nothing was tried again: {:?}", env.events());
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_run_that_waits_can_be_interrupted_and_killed_and_goes_on_waiting_for_the_rest() {
    let recipes = "[recipes.network]\nclass = \"transient\"\nbackoff = [\"1500ms\", \"10ms\"]\n";
    let env = place(&[THIRD_TIME], "retry(2), then escalate", "echo done\n", recipes);
    let mut child = env.start(&["run"]);
    wait_for_recovery(&env);
    child.kill().expect("killed");
    child.wait().expect("gone");
    env.provost(&["run"]).exits(0);
    let log = env.provost(&["log", "--json"]).exits(0).lines();
    let place = log.iter().position(|event| event["event"] == "RECOVERY_APPLIED").expect("a recovery");
    let judged = log[place..].iter().find(|event| event["event"] == "CONTRACT_JUDGED").expect("a verdict");
    let until = log[place]["details"]["not_before"].as_str().expect("a time");
    assert!(judged["timestamp"].as_str().expect("a time") >= until, "{judged} before {until}");
    assert_eq!(count(&env, "TASK_STARTED"), 1);

    let recipes = "[recipes.network]\nclass = \"transient\"\nbackoff = [\"1h\"]\n";
    let env = self::place(&[THIRD_TIME], "retry(2), then escalate", "echo done\n", recipes);
    let child = env.start(&["run"]);
    wait_for_recovery(&env);
    let shown = env.provost(&["status", "--json"]).exits(0).json();
    assert!(shown["steps"][0]["not_before"].is_string(), "{shown}");
    let status = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(status.expect("kill").success());
    let begun = Instant::now();
    env::answer(child.wait_with_output().expect("an end")).exits(130);
    assert!(begun.elapsed() < Duration::from_secs(300), "it waited on");
}

/// Runs a command that reads `input`.
fn fed(arguments: &[&str], input: &str) -> env::Answer {
    let env = Env::new("");
    let mut command = env.command(arguments);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("provost");
    child.stdin.take().expect("a pipe").write_all(input.as_bytes()).expect("written");
    env::answer(child.wait_with_output().expect("an end"))
}

#[test]
fn classify_says_the_class_the_rule_and_why() {
    let said = fed(&["classify"], "curl: (6) Could not resolve host: h\n").exits(0);
    assert_eq!(said.out, "transient: a host name could not be resolved (name-lookup)\n");
    let json = fed(&["classify", "--exit-code", "137", "--json"], "").exits(0).json();
    assert_eq!((&json["class"], &json["rule"]), (&"unrecoverable".into(), &"exit-killed".into()));
    let rows = "{\"id\":\"a\",\"text\":\"HTTP 401\",\"exit_code\":null}\n{\"id\":7,\"text\":\"\",\"exit_code\":124}\n";
    let lines = fed(&["classify", "--jsonl"], rows).exits(0).lines();
    assert_eq!((&lines[0]["id"], &lines[0]["class"]), (&"a".into(), &"permission".into()));
    assert_eq!((&lines[1]["id"], &lines[1]["class"]), (&7.into(), &"transient".into()));
    fed(&["classify", "--jsonl"], "no row\n").exits(2);
    let refused = "unexpected status 401 Unauthorized: Missing bearer\n";
    let of_agent = fed(&["classify", "--of-agent", "--json"], refused).exits(0).json();
    assert_eq!(of_agent["rule"], "model-login");
    assert_eq!(of_agent["configure"], "a login or an API key for the program behind its role");
    // The output of a check is not an agent's.
    assert_ne!(fed(&["classify", "--json"], refused).exits(0).json()["rule"], "model-login");
}

#[test]
fn redact_takes_secrets_out_and_leaves_the_rest_byte_for_byte() {
    let said = fed(&["redact"], "password = \"hunter2hunter2\"\nplain text\n").exits(0);
    assert!(!said.out.contains("hunter2") && said.out.ends_with("\nplain text\n"), "{}", said.out);
    let lines = fed(&["redact", "--jsonl"], "{\"id\":1,\"text\":\"plain\"}\n").exits(0).lines();
    assert_eq!(lines[0], serde_json::json!({ "id": 1, "text": "plain" }));
}
