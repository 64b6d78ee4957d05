//! Tests which sessions of clients are held by a plan: those that made it or took it, and no other.

use std::path::Path;

use serde_json::{Value, json};

use crate::env::{Env, own_checks, plan};
use crate::hook::{TWO, approved, hook, refused, stop, take};
use crate::mcp::client::Client;

fn begin(env: &Env, session: &str) -> String {
    let input = json!({ "session_id": session, "cwd": env.work(), "hook_event_name": "SessionStart" });
    let told = hook(env, "claude", &input.to_string()).exits(0).json();
    told["hookSpecificOutput"]["additionalContext"].as_str().unwrap_or_default().to_owned()
}

fn stop_in(env: &Env, folder: &Path, session: &str) -> Value {
    let input = json!({ "session_id": session, "cwd": folder, "hook_event_name": "Stop" });
    hook(env, "claude", &input.to_string()).exits(0).json()
}

fn sessions(env: &Env) -> Vec<Value> {
    let listed = env.provost(&["session", "list", "--json"]).exits(0).json();
    listed["sessions"].as_array().cloned().unwrap_or_default()
}

#[test]
fn a_session_that_did_not_take_the_plan_is_not_held_and_changes_nothing() {
    let env = approved(&TWO);
    env.write("provost.toml", format!("{}[hook]\nrefusals = 1\n", env.read("provost.toml")));
    let events = env.events();
    let words = begin(&env, "q");
    assert!(words.contains("plan_take") && words.contains("provost session take PLAN.md"), "{words}");
    assert!(!words.contains("Do part 1") && !words.contains("Do not stop"), "{words}");
    for client in ["claude", "codex", "gemini", "opencode", "cursor"] {
        let first = stop(&env, client, &format!("q {client}"));
        assert_eq!(refused(&first), None, "{client}");
        // The first stop tells the person how to take the plan; the next stops say nothing.
        let told = first["systemMessage"].as_str().or(first["note"].as_str()).unwrap_or_default();
        assert!(client == "cursor" || told.contains("provost session take PLAN.md"), "{client}: {first}");
        for _ in 0..3 {
            assert_eq!(stop(&env, client, &format!("q {client}")), json!({}), "{client}");
        }
    }
    assert_eq!((env.states().as_str(), env.events()), ("1 pending, 2 pending", events));
    take(&env, "q");
    assert!(refused(&stop(&env, "claude", "q")).is_some_and(|words| words.contains("Step 1 is open")));
    assert!(begin(&env, "q").contains("Do part 1 of the work"));
    assert_eq!(refused(&stop(&env, "claude", "another")), None);
}

#[test]
fn a_configuration_can_let_the_folder_hold_every_session() {
    let env = approved(&TWO);
    env.write("provost.toml", format!("{}[hook]\ncapture = true\n", env.read("provost.toml")));
    assert!(begin(&env, "q").contains("Do part 1 of the work"));
    assert!(refused(&stop(&env, "claude", "q")).is_some_and(|words| words.contains("Step 1 is open")));
}

#[test]
fn a_marker_holds_the_sessions_of_its_worktree_and_none_of_the_main_checkout() {
    let env = Env::new("").isolation("in-place");
    std::fs::remove_file(env.work().join("PLAN.md")).expect("gone");
    env.write(".harness/PLAN-foo.md", plan(&["test -f out/1"], "escalate"));
    env.git(&["add", "--all"]);
    env.git(&["commit", "--quiet", "--message", "a plan"]);
    let made = env.provost(&["spawn", "foo", "--json"]).exits(0).json();
    let tree = Path::new(made["path"].as_str().expect("a path")).to_owned();
    let shown = env.provost(&["-C", &tree.to_string_lossy(), "show", "--json"]).exits(0).json();
    let revision = shown["revision"].as_str().expect("a revision");
    env.provost(&["-C", &tree.to_string_lossy(), "approve", "--revision", revision]).exits(0);
    let held = stop_in(&env, &tree, "s");
    assert!(refused(&held).is_some_and(|words| words.contains("Step 1 is open")), "{held}");
    env.write(".harness/active-plan", "foo\n");
    assert_eq!(refused(&stop_in(&env, &env.work(), "s")), None);
}

#[test]
fn stops_use_up_neither_retries_nor_claims() {
    let env = Env::new(&plan(&TWO, "retry(1), then escalate")).isolation("in-place").agent("true\n");
    env.provost(&["verify"]).exits(0);
    env.approve();
    take(&env, "s");
    for _ in 0..3 {
        assert!(refused(&stop(&env, "claude", "s")).is_some());
    }
    env.provost(&["run"]).exits(4);
    let log = env.provost(&["log", "--json"]).exits(0).lines();
    let of = |name: &str| log.iter().filter(|event| event["event"] == name).cloned().collect::<Vec<_>>();
    let recovered: Vec<Value> =
        of("RECOVERY_APPLIED").iter().map(|it| it["details"]["outcome"].clone()).collect();
    assert_eq!(recovered.len(), 4, "{recovered:?}");
    assert!(recovered[3].as_str().is_some_and(|words| words.starts_with("retry 1 of 1")), "{recovered:?}");
    assert_eq!(of("TASK_STARTED").len(), 5);
    env.provost(&["audit"]).exits(0);

    let env = approved(&TWO);
    env.write("provost.toml", own_checks(&env.read("provost.toml")));
    let mut client = Client::start(&env, &["--session", "s"]);
    let steps = json!([{ "title": "Write a", "task": "Write out/a.", "check": "test -f out/a" }]);
    client.call("plan_create", json!({ "objective": "Write it", "steps": steps })).says("is made");
    let claim = json!({ "step": 1, "status": "done", "evidence": "wrote it" });
    client.call("step_update", claim.clone()).refuses("(4 claims left");
    for _ in 0..3 {
        assert!(refused(&stop(&env, "claude", "s")).is_some());
    }
    client.call("step_update", claim).refuses("(3 claims left");
}

#[test]
fn a_person_releases_a_session_and_a_session_cannot_release_itself() {
    let env = approved(&TWO);
    take(&env, "s");
    take(&env, "t");
    assert_eq!(sessions(&env).len(), 2);
    let text = env.provost(&["session", "list"]).exits(0).out;
    assert!(text.contains("PLAN.md") && text.contains("SESSION"), "{text}");
    let mut inside = env.command(&["session", "release"]);
    let inside = crate::env::answer(inside.env("CLAUDE_CODE_SESSION_ID", "s").output().expect("provost"));
    assert!(inside.exits(5).err.contains("only a person may do this"));
    assert!(env.events().contains(&"TAMPER_DETECTED".to_owned()));
    assert!(refused(&stop(&env, "claude", "s")).is_some());
    env.provost(&["session", "release", "--session", "s"]).exits(0);
    assert_eq!(refused(&stop(&env, "claude", "s")), None);
    assert!(refused(&stop(&env, "claude", "t")).is_some());
    let released = env.provost(&["session", "release", "PLAN.md", "--json"]).exits(0).json();
    assert_eq!(released["released"][0]["session"], "t");
    assert_eq!(sessions(&env), Vec::<Value>::new());
    // Nobody is held, and nothing is done.
    assert_eq!((env.states().as_str(), env.stage().as_str()), ("1 pending, 2 pending", "in-progress"));
}

#[test]
fn a_session_has_one_open_plan_and_must_be_known() {
    let env = approved(&TWO);
    let unknown = env.provost(&["session", "take"]).exits(5);
    assert!(unknown.err.contains("PROVOST_SESSION"), "{}", unknown.err);
    env.provost(&["session", "take", "absent", "--session", "s"]).exits(2);
    env.provost(&["session", "take", "../PLAN.md", "--session", "s"]).exits(5);
    take(&env, "s");
    env.write(".harness/PLAN-other.md", plan(&["test -f out/1"], "escalate"));
    env.provost(&["verify", "other"]).exits(0);
    // A session cannot leave an open plan for one that asks less of it.
    let second = env.provost(&["session", "take", "other", "--session", "s"]).exits(5);
    assert!(second.err.contains("works on plan PLAN.md, which is not done"), "{}", second.err);
    env.write("out/1", "x");
    env.write("out/2", "x");
    assert_eq!(refused(&stop(&env, "claude", "s")), None);
    assert_eq!(env.stage(), "done");
    env.provost(&["session", "take", "other", "--session", "s"]).exits(0);
    let mut inside = env.command(&["session", "take", "other"]);
    inside.env("CLAUDE_CODE_SESSION_ID", "by its variable");
    crate::env::answer(inside.output().expect("provost")).exits(0);
    let names: Vec<Value> = sessions(&env).iter().map(|session| session["session"].clone()).collect();
    assert!(names.contains(&json!("by its variable")), "{names:?}");
}
