//! Tests what `provost doctor` finds in the plans of a repository, how severe it is, and what `--fix`
//! repairs.

use serde_json::Value;

use crate::env::{Env, HONEST, plan};

fn env() -> Env {
    let env = Env::new(&plan(&["test -e out/1"], "abort")).agent(HONEST).isolation("in-place");
    env.write(".harness/PLAN-foo.md", plan(&["test -e out/1"], "abort"));
    env
}

fn findings(env: &Env, code: i32) -> Vec<Value> {
    let said = env.provost(&["doctor", "--json"]).exits(code).json();
    said["findings"].as_array().cloned().unwrap_or_default()
}

#[track_caller]
fn one(found: &[Value], code: &str) -> Value {
    let of: Vec<&Value> = found.iter().filter(|finding| finding["code"] == code).collect();
    assert_eq!(of.len(), 1, "{code}: {found:?}");
    of[0].clone()
}

#[test]
fn named_plans_without_an_unnamed_one_are_in_order() {
    let env = env();
    std::fs::remove_file(env.work().join("PLAN.md")).expect("removed");
    env.write(".harness/PLAN-bar.md", plan(&["test -e out/2"], "abort"));
    assert_eq!(findings(&env, 0), Vec::<Value>::new());
    let told = env.provost(&["doctor"]).exits(0).out;
    assert!(told.contains("plans: bar, foo"), "{told}");
}

#[test]
fn a_marker_that_dangles_is_a_warning_and_is_moved_aside() {
    let env = env();
    env.write(".harness/active-plan", "gone\n");
    let found = one(&findings(&env, 0), "dangling-marker");
    assert_eq!(found["level"], "warn");
    env.provost(&["doctor", "--fix"]).exits(2);
    assert_eq!(env.read(".harness/active-plan"), "gone\n", "nobody was there to agree");
    env.provost(&["doctor", "--fix", "--yes"]).exits(0);
    assert_eq!(env.read(".harness/active-plan.aside-1"), "gone\n", "nothing is lost");
    assert!(!env.work().join(".harness/active-plan").exists());
    assert_eq!(findings(&env, 0), Vec::<Value>::new());
}

#[test]
fn conflict_copies_are_found_and_only_those_go_whose_content_is_kept() {
    let env = env();
    let text = env.read(".harness/PLAN-foo.md");
    env.write(".harness/PLAN-foo (1).md", &text);
    env.write(".harness/PLAN-foo (Ada's conflicted copy 2026-11-15).md", format!("{text}\nmore\n"));
    env.write(".harness/progress-foo.md", "# Progress\n\n- one\n- two\n");
    env.write(".harness/progress-foo.sync-conflict-20261115-120000-ABCDEF7.md", "# Progress\n\n- one\n");
    env.write("PLAN 2.md", "another\n");
    let found = findings(&env, 0);
    let copies: Vec<&Value> = found.iter().filter(|finding| finding["code"] == "conflict-copy").collect();
    assert_eq!(copies.len(), 4, "{found:?}");
    assert!(copies.iter().all(|copy| copy["level"] == "warn"));
    env.provost(&["doctor", "--fix", "--yes"]).exits(0);
    let left: Vec<String> =
        findings(&env, 0).iter().filter_map(|copy| Some(copy["path"].as_str()?.to_owned())).collect();
    assert_eq!(left.len(), 2, "{left:?}");
    assert!(left.iter().any(|path| path.ends_with("PLAN 2.md")), "{left:?}");
    assert!(left.iter().any(|path| path.contains("conflicted copy")), "{left:?}");
}

#[test]
fn a_log_that_does_not_verify_is_a_failure() {
    let env = env();
    env.approve();
    env.provost(&["run"]).exits(0);
    assert_eq!(findings(&env, 0), Vec::<Value>::new());
    let log = rusqlite::Connection::open(env.state().join("log.db")).expect("the log");
    log.execute_batch("DROP TRIGGER event_is_never_changed;").expect("no guard");
    log.execute("UPDATE event SET details = replace(details, 'coder', 'codex')", []).expect("forged");
    drop(log);
    let found = one(&findings(&env, 3), "log-does-not-verify");
    assert_eq!(found["level"], "fail");
    assert_eq!(found["fix"], Value::Null, "nothing mends that");
}

#[test]
fn what_does_not_belong_together_is_told() {
    let env = env();
    env.approve();
    env.provost(&["run"]).exits(0);
    std::fs::remove_file(env.work().join("progress.md")).expect("removed");
    env.write(".harness/progress-lost.md", "# Progress\n");
    env.write(".harness/PLAN-Big Name.md", "# x\n");
    env.write(".harness/PLAN-empty.md", "");
    let found = findings(&env, 0);
    for code in ["no-progress-file", "no-plan-file", "unnameable-plan", "empty-plan"] {
        assert_eq!(one(&found, code)["level"], "warn");
    }
}

#[test]
fn a_worktree_that_is_gone_and_one_that_was_never_finished_are_mended() {
    let env = env();
    env.git(&["add", "--all"]);
    env.git(&["commit", "--quiet", "--message", "all"]);
    let path = env.provost(&["spawn", "foo"]).exits(0).out.trim().to_owned();
    std::fs::remove_dir_all(&path).expect("removed");
    assert_eq!(one(&findings(&env, 0), "orphan-worktree")["level"], "warn");
    env.provost(&["doctor", "--fix", "--yes"]).exits(0);
    assert_eq!(findings(&env, 0), Vec::<Value>::new());
    assert!(!env.work().join(".git/refs/heads/spawn/foo-1").exists());

    // `spawn` is killed during the setup.
    let config = env.read("provost.toml");
    env.write("provost.toml", format!("{config}[worktrees]\nsetup = [\"touch ../begun; sleep 600\"]\n"));
    let mut spawn = env.start(&["spawn", "foo", "--setup"]);
    for _ in 0..1000 {
        if env.folder().join("begun").exists() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    assert_eq!(one(&findings(&env, 0), "unfinished-worktree")["fix"], Value::Null, "it is being made");
    spawn.kill().expect("killed");
    spawn.wait().expect("dead");
    let found = one(&findings(&env, 0), "unfinished-worktree");
    assert!(found["fix"].is_string(), "{found}");
    env.provost(&["doctor", "--fix", "--yes"]).exits(0);
    assert_eq!(findings(&env, 0), Vec::<Value>::new());
    assert!(!env.folder().join("work-foo-1").exists());
}

#[test]
fn a_configuration_that_cannot_be_read_is_a_finding_and_the_rest_is_told() {
    let env = env();
    env.write("provost.toml", "[plans]\nfoldre = \"x\"\n");
    let said = env.provost(&["doctor", "--json"]).exits(3).json();
    assert!(said["level"].is_string(), "the machine was looked at: {said}");
    let found = one(said["findings"].as_array().expect("a list"), "no-plans");
    assert!(found["what"].as_str().is_some_and(|what| what.contains("foldre")), "{found}");
}

#[test]
fn a_claim_that_nobody_renews_is_given_back() {
    let env = env();
    let vault = env.folder().join("vault");
    std::fs::create_dir(&vault).expect("a vault");
    std::fs::write(vault.join("PLAN-foo.md"), plan(&["test -e out/1"], "abort")).expect("a plan");
    let config = env.read("provost.toml");
    env.write("provost.toml", format!("{config}[plans]\nfolder = \"{}\"\n", vault.display()));
    let claim = |host: &str, until: u64| {
        let text = serde_json::json!({
            "host": host, "pid": 1, "what": "plan foo", "since": 1, "until": until, "lease_ms": 60_000,
            "epoch": 4, "renewed": 2,
        });
        std::fs::write(vault.join("lease-foo.json"), text.to_string()).expect("a claim");
    };
    claim("elsewhere", u64::MAX / 2);
    assert_eq!(one(&findings(&env, 0), "clock")["fix"], Value::Null);
    claim("elsewhere", 1000);
    assert_eq!(one(&findings(&env, 0), "stale-lease")["level"], "warn");
    let queue = env.provost(&["queue", "--json"]).exits(0).json();
    assert_eq!(queue["queue"][0]["lease"]["stale"], true);
    env.provost(&["doctor", "--fix", "--yes"]).exits(0);
    assert_eq!(findings(&env, 0), Vec::<Value>::new());
    let left = std::fs::read_to_string(vault.join("lease-foo.json")).expect("still there");
    let left: Value = serde_json::from_str(&left).expect("a claim");
    assert_eq!((&left["until"], &left["epoch"]), (&Value::from(0), &Value::from(4)), "with its epoch");
    std::fs::write(vault.join("lease-foo.json"), "{").expect("half a claim");
    assert_eq!(one(&findings(&env, 0), "unreadable-lease")["fix"], Value::Null);
}
