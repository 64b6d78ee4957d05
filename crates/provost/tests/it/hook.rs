//! Tests client sessions that provost did not start: the stop hook holds them, provost judges them, and a
//! session that is released does not make its plan done.

use std::io::Write as _;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::env::{Answer, Env, HONEST, answer, own_checks, plan};
use crate::mcp::client::Client;

pub(crate) const TWO: [&str; 2] =
    ["test -f out/1 || { echo 'out/1 is missing' >&2; exit 1; }", "test -f out/2"];

/// Creates a workspace with an approved plan.
pub(crate) fn approved(contracts: &[&str]) -> Env {
    let env = Env::new(&plan(contracts, "escalate")).isolation("in-place");
    env.provost(&["verify"]).exits(0);
    env.approve();
    env
}

/// Creates a workspace with an approved plan, which the session `s` has taken.
fn taken(contracts: &[&str]) -> Env {
    let env = approved(contracts);
    take(&env, "s");
    env
}

pub(crate) fn take(env: &Env, session: &str) {
    env.provost(&["session", "take", "--session", session]).exits(0);
}

pub(crate) fn hook(env: &Env, client: &str, input: &str) -> Answer {
    hook_with(env.command(&["hook", client]), input)
}

pub(crate) fn hook_with(mut command: Command, input: &str) -> Answer {
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("provost");
    // A hook that needs no input may have ended before the write.
    let _ = child.stdin.take().expect("stdin").write_all(input.as_bytes());
    answer(child.wait_with_output().expect("provost"))
}

pub(crate) fn stop(env: &Env, client: &str, session: &str) -> Value {
    let cwd = env.work();
    let input = match client {
        "claude" | "codex" => json!({ "session_id": session, "cwd": cwd, "hook_event_name": "Stop" }),
        "gemini" => json!({ "session_id": session, "cwd": cwd, "hook_event_name": "AfterAgent" }),
        "opencode" => json!({ "sessionID": session, "directory": cwd }),
        _ => json!({ "conversation_id": session, "status": "completed", "workspace_roots": [cwd] }),
    };
    hook(env, client, &input.to_string()).exits(0).json()
}

/// Returns the message for the agent, if the hook sends it back to work.
pub(crate) fn refused(answer: &Value) -> Option<&str> {
    ["reason", "refuse", "followup_message"].iter().find_map(|key| answer[key].as_str())
}

#[test]
fn every_client_is_held_until_the_contracts_hold() {
    for client in ["claude", "codex", "gemini", "opencode", "cursor"] {
        let env = taken(&TWO);
        let early = stop(&env, client, "s");
        let words = refused(&early).unwrap_or_else(|| panic!("{client}: {early}"));
        assert!(words.contains("0 of 2 steps") && words.contains("out/1 is missing"), "{client}: {words}");
        assert_eq!(env.states(), "1 pending, 2 pending", "{client}");
        env.write("out/1", "x");
        let half = stop(&env, client, "s");
        assert!(refused(&half).is_some_and(|words| words.contains("Step 2 is open")), "{client}: {half}");
        assert_eq!(env.states(), "1 passed, 2 pending", "{client}");
        env.write("out/2", "x");
        assert_eq!(refused(&stop(&env, client, "s")), None, "{client}");
        assert_eq!(env.stage(), "done", "{client}");
        assert_eq!(refused(&stop(&env, client, "another")), None, "{client}");
        env.provost(&["audit"]).exits(0);
    }
    // Each client gets its own format.
    let env = taken(&TWO);
    assert_eq!(stop(&env, "claude", "s")["decision"], "block");
    assert_eq!(stop(&env, "gemini", "s")["decision"], "deny");
}

#[test]
fn a_clean_tree_judges_what_a_session_left_and_every_postcondition() {
    let text = plan(&["test -f out/1"], "escalate");
    let text =
        format!("{text}\n## Postconditions\n\n1. It says so\n   ```shell\n   grep -q done out/1\n   ```\n");
    let env = Env::new(&text);
    env.provost(&["verify"]).exits(0);
    env.approve();
    take(&env, "s");
    env.write("out/1", "x");
    // A file outside of `touches`, which a check does not see.
    env.write("grep", "#!/bin/sh\nexit 0\n");
    for _ in 0..2 {
        let answer = stop(&env, "claude", "s");
        assert!(refused(&answer).is_some_and(|words| words.contains("Postcondition 1")), "{answer}");
        assert_eq!(env.stage(), "in-progress");
    }
    env.write("out/1", "done");
    assert_eq!(refused(&stop(&env, "claude", "s")), None);
    assert_eq!(env.stage(), "done");
}

#[test]
fn nothing_is_held_without_a_plan_or_before_its_approval() {
    let env = Env::new(&plan(&TWO, "escalate")).isolation("in-place");
    assert_eq!(refused(&stop(&env, "claude", "s")), None, "not in the log");
    env.provost(&["verify"]).exits(0);
    take(&env, "s");
    let answer = stop(&env, "claude", "s");
    assert_eq!(refused(&answer), None, "not approved");
    assert!(
        answer["systemMessage"].as_str().is_some_and(|words| words.contains("provost approve")),
        "{answer}"
    );
    std::fs::remove_file(env.work().join("PLAN.md")).expect("a plan");
    assert_eq!(stop(&env, "claude", "t"), json!({}));
}

#[test]
fn a_plan_that_is_required_is_asked_for_a_few_times() {
    let env = Env::new(&plan(&TWO, "escalate"));
    std::fs::remove_file(env.work().join("PLAN.md")).expect("a plan");
    env.write("provost.toml", "[hook]\nrequire_plan = true\nrefusals = 2\n");
    let answers: Vec<bool> = (0..4).map(|_| refused(&stop(&env, "claude", "s")).is_some()).collect();
    assert_eq!(answers, [true, true, false, false]);
    assert!(refused(&stop(&env, "claude", "another")).is_some());
}

#[test]
fn a_session_without_progress_is_let_go_and_its_step_waits_for_a_person() {
    let env = taken(&TWO);
    env.write("provost.toml", format!("{}[hook]\nrefusals = 2\n", env.read("provost.toml")));
    assert!(refused(&stop(&env, "codex", "s")).is_some());
    // Progress resets the counter.
    env.write("out/1", "x");
    assert!(refused(&stop(&env, "codex", "s")).is_some());
    assert!(refused(&stop(&env, "codex", "s")).is_some());
    let gone = stop(&env, "codex", "s");
    assert_eq!(refused(&gone), None);
    assert!(gone["systemMessage"].as_str().is_some_and(|words| words.contains("provost inbox")), "{gone}");
    assert_eq!((env.states().as_str(), env.stage().as_str()), ("1 passed, 2 blocked", "in-progress"));
    let inbox = env.provost(&["inbox"]).exits(0).out;
    assert!(
        inbox.contains("the session was released") && inbox.contains("3 times without progress"),
        "{inbox}"
    );
    // The session may stop until a person has answered.
    assert_eq!(refused(&stop(&env, "codex", "s")), None);
    env.provost(&["answer", "2", "retry"]).exits(0);
    assert!(refused(&stop(&env, "codex", "s")).is_some());
    env.write("out/2", "x");
    assert_eq!(refused(&stop(&env, "codex", "s")), None);
    assert_eq!(env.stage(), "done");
}

#[test]
fn checks_that_take_long_are_waited_for_and_never_taken_for_a_yes() {
    let env = taken(&["while ! test -f out/go; do sleep 0.05; done; test -f out/1"]);
    env.write("provost.toml", format!("{}[hook]\npatience = \"300ms\"\n", env.read("provost.toml")));
    for _ in 0..2 {
        let answer = stop(&env, "claude", "s");
        assert!(refused(&answer).is_some_and(|words| words.contains("still running")), "{answer}");
        assert_eq!(env.states(), "1 pending");
    }
    env.write("out/go", "");
    // A separate process runs the checks; their result is the answer, and they do not run again.
    let seen = answered(&env, "claude", "s");
    assert!(refused(&seen).is_some_and(|words| words.contains("broke: exit code 1")), "{seen}");
    assert_eq!(env.events().iter().filter(|name| *name == "CONTRACT_JUDGED").count(), 1);
    env.write("out/1", "x");
    assert_eq!(refused(&answered(&env, "claude", "s")), None);
    assert_eq!(env.stage(), "done");
}

/// Calls the hook again while a check is still running.
fn answered(env: &Env, client: &str, session: &str) -> Value {
    loop {
        let answer = stop(env, client, session);
        if !refused(&answer).is_some_and(|words| words.contains("still running")) {
            return answer;
        }
    }
}

#[test]
fn a_hook_that_fails_lets_go_says_so_and_leaves_the_plan_open() {
    let env = taken(&TWO);
    let input = json!({ "session_id": "s", "cwd": env.work(), "hook_event_name": "Stop" }).to_string();
    let lets_go = |what: &str, answer: Answer| {
        assert_eq!(answer.code, 0, "{what}: {}", answer.err);
        assert_eq!(refused(&answer.json()), None, "{what}");
        assert!(answer.err.contains("the session may stop"), "{what}: {}", answer.err);
        let record = std::fs::read_to_string(env.state().join("hook-failures.txt")).expect(what);
        assert!(!record.is_empty(), "{what}");
        std::fs::remove_file(env.state().join("hook-failures.txt")).expect(what);
    };
    for garbage in ["", "not json", "[1]", "{\"session_id\":"] {
        lets_go(garbage, hook(&env, "claude", garbage));
    }
    env.write(".harness/active-plan", "gone\n");
    let other = input.replace("\"s\"", "\"t\"");
    lets_go("a marker of nothing", hook(&env, "gemini", &other));
    std::fs::remove_dir_all(env.work().join(".harness")).expect("a folder");
    let config = env.read("provost.toml");
    env.write("provost.toml", "[hook]\nrefusal = 5\n");
    lets_go("a wrong configuration", hook(&env, "codex", &input));
    env.write("provost.toml", config);
    let mut named = env.command(&["hook", "claude"]);
    named.env("PROVOST_PLAN", "nobody");
    lets_go("a plan that is not there", hook_with(named, &input));
    assert_eq!((env.states().as_str(), env.stage().as_str()), ("1 pending, 2 pending", "approved"));
    assert!(refused(&stop(&env, "claude", "s")).is_some(), "held again when all is well");
}

#[test]
fn a_check_that_cannot_be_made_is_not_taken_for_a_yes() {
    let env = taken(&TWO);
    env.write("out/1", "x");
    env.write("out/2", "x");
    env.write("provost.toml", env.read("provost.toml").replace("in-place", "guard+clean"));
    // provost cannot create its trees if a file has their name.
    let trees = env.state().join("trees");
    let _ = std::fs::remove_dir_all(&trees);
    std::fs::write(trees, "").expect("a file");
    let answer = stop(&env, "claude", "s");
    assert!(refused(&answer).is_some_and(|words| words.contains("could not run the checks")), "{answer}");
    assert_ne!(env.stage(), "done");
}

#[test]
fn helpers_and_sessions_inside_an_attempt_are_let_through() {
    let env = taken(&TWO);
    let helper = json!({ "session_id": "s", "cwd": env.work(), "hook_event_name": "SubagentStop" });
    assert_eq!(hook(&env, "claude", &helper.to_string()).exits(0).json(), json!({}));
    let ended = json!({ "conversation_id": "s", "status": "aborted", "workspace_roots": [env.work()] });
    assert_eq!(hook(&env, "cursor", &ended.to_string()).exits(0).json(), json!({}));
    let provost = env!("CARGO_BIN_EXE_provost");
    let ask = format!("echo '{{\"session_id\":\"a\"}}' | {provost} hook claude > out/answer");
    env.write("agent.sh", format!("mkdir -p out; {ask}\n{HONEST}"));
    env.provost(&["run"]).exits(0);
    assert_eq!(env.read("out/answer"), "{}\n");
}

#[test]
fn threads_that_find_a_title_are_let_through_and_take_nobodys_place() {
    let asks = |env: &Env, session: &str, transcript: Value, more: &[(&str, &str)]| {
        let input = json!({
            "session_id": session, "cwd": env.work(), "hook_event_name": "Stop", "transcript_path": transcript,
        });
        let mut command = env.command(&["hook", "codex"]);
        command.envs(more.iter().copied());
        hook_with(command, &input.to_string()).exits(0).json()
    };
    let kept = || json!("/home/dev/.codex/sessions/rollout.jsonl");
    // Only the folder determines the plan.
    let env = approved(&TWO);
    let configuration = env.read("provost.toml");
    env.write("provost.toml", format!("{configuration}[hook]\ncapture = true\n"));
    assert_eq!(asks(&env, "title", Value::Null, &[]), json!({}));
    assert_eq!(asks(&env, "title", Value::Null, &[("PROVOST_PLAN", "PLAN.md")]), json!({}));
    assert!(refused(&asks(&env, "main", kept(), &[])).is_some());
    env.write("provost.toml", own_checks(&format!("{configuration}[hook]\nrequire_plan = true\n")));
    assert!(refused(&asks(&env, "main", kept(), &[])).is_some(), "the plan of the folder is the plan");
    std::fs::remove_file(env.work().join("PLAN.md")).expect("a plan");
    assert_eq!(asks(&env, "title", Value::Null, &[]), json!({}));
    assert!(refused(&asks(&env, "main", kept(), &[])).is_some());
    // The session made the plan with provost's tools, but its client sends no session name. This process is
    // the client of both threads.
    let mut client = Client::start(&env, &[]);
    let steps = json!([{ "title": "Write a", "task": "Write out/a.", "check": "test -f out/a" }]);
    client.call("plan_create", json!({ "objective": "Write it", "steps": steps })).says("is made");
    assert_eq!(asks(&env, "title", Value::Null, &[]), json!({}));
    let held = asks(&env, "main", kept(), &[]);
    assert!(refused(&held).is_some_and(|words| words.contains("Write out/a.")), "{held}");
    drop(client);
}

#[test]
fn a_session_that_rewrites_the_plan_is_told_to_put_it_back() {
    let env = taken(&TWO);
    let text = env.read("PLAN.md");
    env.write("PLAN.md", text.replace("test -f out/2", "true"));
    env.write("out/1", "x");
    let answer = stop(&env, "claude", "s");
    assert!(
        refused(&answer).is_some_and(|words| words.contains("differs from what was approved")),
        "{answer}"
    );
    env.write("PLAN.md", text);
    assert!(refused(&stop(&env, "claude", "s")).is_some_and(|words| words.contains("Step 2")));
}

#[test]
fn a_session_that_begins_is_told_of_the_plan() {
    let env = taken(&TWO);
    let begin = json!({ "session_id": "s", "cwd": env.work(), "hook_event_name": "SessionStart" });
    let told = hook(&env, "claude", &begin.to_string()).exits(0).json();
    let words = told["hookSpecificOutput"]["additionalContext"].as_str().unwrap_or_default();
    assert!(words.contains("Do part 1 of the work"), "{told}");
    assert_eq!(env.states(), "1 pending, 2 pending");
}

#[test]
fn a_session_that_begins_is_told_of_named_plans_and_of_a_marker_that_leads_nowhere() {
    let env = taken(&TWO);
    let begin = json!({ "session_id": "s", "cwd": env.work(), "hook_event_name": "SessionStart" });
    let told = || {
        let told = hook(&env, "claude", &begin.to_string()).exits(0).json();
        told["hookSpecificOutput"]["additionalContext"].as_str().unwrap_or_default().to_owned()
    };
    assert!(!told().contains("Plans here"), "a plan without a name is alone, as it always was");
    env.write(".harness/PLAN-login.md", std::fs::read_to_string(env.work().join("PLAN.md")).expect("a plan"));
    let words = told();
    assert!(words.contains("- PLAN.md: approved, 0 of 2 steps passed, active here"), "{words}");
    assert!(words.contains("- login: "), "{words}");
    env.write(".harness/active-plan", "gone\n");
    let words = told();
    assert!(words.contains("DANGLING") && words.contains("gone"), "{words}");
    assert!(!words.contains("active here"), "{words}");
}

#[test]
fn a_push_is_refused_while_the_plan_is_open() {
    let env = taken(&TWO);
    let remote = env.folder().join("remote");
    let made = Command::new("git").args(["init", "--quiet", "--bare"]).arg(&remote).status().expect("git");
    assert!(made.success());
    let provost = env!("CARGO_BIN_EXE_provost");
    env.write(".git/hooks/pre-push", format!("#!/bin/sh\nexec '{provost}' hook git-pre-push \"$@\"\n"));
    let hook = env.work().join(".git/hooks/pre-push");
    std::fs::set_permissions(hook, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("a hook");
    let push = || {
        let mut git = Command::new("git");
        git.args(["push", "--quiet"]).arg(&remote).arg("HEAD:refs/heads/x").current_dir(env.work());
        git.env("PROVOST_STATE", env.state()).env("HOME", env.folder().join("home"));
        answer(git.output().expect("git"))
    };
    let refused = push();
    assert!(refused.code != 0 && refused.err.contains("Step 1 is open"), "{}", refused.err);
    env.write("out/1", "x");
    env.write("out/2", "x");
    push().exits(0);
    assert_eq!(env.stage(), "done");
}

#[test]
fn sessions_that_stop_at_once_get_the_same_answer_and_one_look_is_enough() {
    let env = taken(&["sleep 0.3; test -f out/1"]);
    ["a", "b", "c"].iter().for_each(|name| take(&env, name));
    let answers: Vec<Value> = std::thread::scope(|scope| {
        let asking: Vec<_> =
            ["a", "b", "c"].map(|name| scope.spawn(|| stop(&env, "claude", name))).into_iter().collect();
        asking.into_iter().map(|each| each.join().expect("an answer")).collect()
    });
    for answer in &answers {
        let words = refused(answer).unwrap_or_else(|| panic!("{answer}"));
        assert!(words.contains("broke: exit code 1") && !words.contains("could not"), "{words}");
    }
    env.provost(&["audit"]).exits(0);
}

#[test]
fn what_a_person_confirms_is_not_waited_for() {
    let text = plan(&["test -f out/1"], "escalate")
        .replace("```shell\ntest -f out/1\n```\nexit_code == 0\n", "human\n");
    let text = text.replace("**contract:**\nhuman", "**contract:** human");
    let env = Env::new(&text).isolation("in-place");
    env.provost(&["verify"]).exits(0);
    env.approve();
    take(&env, "s");
    let answer = stop(&env, "claude", "s");
    assert_eq!(refused(&answer), None, "{answer}");
    assert_eq!((env.states().as_str(), env.stage().as_str()), ("1 claimed", "in-progress"));
}

#[test]
fn a_text_in_between_is_not_the_end() {
    let env = taken(&TWO);
    env.write("provost.toml", format!("{}[hook]\nrefusals = 1\n", env.read("provost.toml")));
    let text = |tools: u32| {
        let input = json!({ "sessionID": "s", "directory": env.work(), "tools": tools }).to_string();
        refused(&hook(&env, "opencode", &input).exits(0).json()).is_some()
    };
    // With tool calls in between, ten refusals are allowed; without them, one.
    let held: Vec<bool> = (0..11).map(text).collect();
    assert_eq!(held, [&[true; 10][..], &[false]].concat());
    assert_eq!(env.states(), "1 blocked, 2 pending");
    env.provost(&["answer", "1", "retry"]).exits(0);
    assert_eq!([text(20), text(20)], [true, false]);
}
