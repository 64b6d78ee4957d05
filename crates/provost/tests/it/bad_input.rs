//! Tests that each kind of bad input gets one clear message and the right exit code, and that nothing is
//! lost.

use std::os::unix::fs::PermissionsExt as _;

use provost_rehearsal::skip;

use crate::env::{Env, HONEST, plan};

#[track_caller]
fn verify(bytes: impl AsRef<[u8]>, code: i32, says: &str) {
    let env = Env::new("");
    env.write("PLAN.md", bytes);
    let answer = env.provost(&["verify"]);
    let all = format!("{}{}", answer.out, answer.err);
    assert_eq!(answer.code, code, "{all}");
    assert!(all.contains(says), "no `{says}` in {all}");
    assert!(!all.contains("panicked"), "{all}");
    env.provost(&["run"]).exits(code);
}

#[test]
fn plans_that_are_none() {
    verify("", 3, "the plan is empty");
    verify([0u8, 159, 146, 150, 255, 7], 3, "error");
    verify(vec![b'x'; 50 << 20], 3, "at most");
    verify("---\ntype: [plan\n---\n# x\n", 3, "error");
    verify("---\ntype: plan\nstatus: draft\nowner: me\n---\n# x\n\nNo steps here.\n", 3, "error");
}

#[test]
fn plans_that_are_wrong() {
    let good = plan(&["test -f out/1", "test -f out/2"], "escalate");
    verify(good.replace("### 2.", "### 1."), 3, "error");
    verify(good.replace("**task:**", "**needs:** 2\n\n**task:**"), 3, "error");
    verify(
        good.replace("exit_code == 0\n**on_fail:** escalate\n\n### 2", "### 2")
            .replace("```\n### 2", "### 2"),
        3,
        "error",
    );
    verify(good.replace("test -f out/1", "test -f 'out/1"), 3, "error");
    verify(good.replace("**target:** coder", "**target:** nobody"), 3, "nobody");
}

#[test]
fn ten_thousand_steps_are_no_trouble() {
    let contracts: Vec<String> = (1..=10_000).map(|number| format!("test -f out/{number}")).collect();
    let contracts: Vec<&str> = contracts.iter().map(String::as_str).collect();
    let env = Env::new(&plan(&contracts, "escalate")).agent("echo done\n");
    let begun = std::time::Instant::now();
    let verified = env.provost(&["verify", "--json"]).exits(0).json();
    assert_eq!(verified["steps"], 10_000);
    env.approve();
    env.provost(&["run"]).exits(4);
    assert!(begun.elapsed().as_secs() < 600, "{:?}", begun.elapsed());
}

#[test]
fn plans_that_cannot_be_found() {
    let env = Env::new(&plan(&["true"], "abort"));
    env.provost(&["verify", "nowhere.md"]).exits(2);
    env.provost(&["status", "no-such-name"]).exits(2);
    env.write(".harness/active-plan", "gone\n");
    env.provost(&["status"]).exits(2);
    env.write(".harness/active-plan", "../../etc\n");
    env.provost(&["status"]).exits(2);
    env.provost(&["frobnicate"]).exits(2);
}

#[test]
fn a_configuration_with_a_mistake_says_where() {
    let env = Env::new(&plan(&["true"], "abort"));
    env.write("provost.toml", "[agents.coder]\ndriver = \"comand\"\n");
    let answer = env.provost(&["run"]).exits(2);
    assert!(answer.err.contains("provost.toml:2") && answer.err.contains("command"), "{}", answer.err);
    env.write("provost.toml", "[agnts.coder]\n");
    assert!(env.provost(&["run"]).exits(2).err.contains("agents"));
    env.write("provost.toml", "[agents.coder]\ndriver = \"human\"\n");
    assert!(env.provost(&["verify"]).exits(2).err.contains("**contract:** human"));
}

#[test]
fn a_state_folder_that_cannot_be_written() {
    let env = Env::new(&plan(&["test -f out/1"], "abort")).agent(HONEST);
    std::fs::remove_dir(env.state()).unwrap();
    std::fs::write(env.state(), "a file").unwrap();
    let answer = env.provost(&["run"]).exits(70);
    assert!(answer.err.contains("state"), "{}", answer.err);
    std::fs::remove_file(env.state()).unwrap();
    std::fs::create_dir(env.state()).unwrap();
    std::fs::write(env.state().join("log.db"), "not a database, not at all, never was one").unwrap();
    env.provost(&["run"]).exits(70);
    env.provost(&["status"]).exits(70);
    if rustix::process::getuid().is_root() {
        return skip::user(skip::User::Ordinary);
    }
    std::fs::remove_file(env.state().join("log.db")).unwrap();
    std::fs::set_permissions(env.state(), std::fs::Permissions::from_mode(0o500)).unwrap();
    env.provost(&["run"]).exits(70);
}

#[test]
fn a_full_disk_loses_nothing() {
    if !rustix::process::getuid().is_root() {
        return skip::user(skip::User::Root);
    }
    let env = Env::new(&plan(&["test -f out/1", "test -f out/2"], "abort")).agent(HONEST);
    let mount = |arguments: &[&str]| {
        std::process::Command::new("mount")
            .args(arguments)
            .arg(env.state())
            .status()
            .is_ok_and(|status| status.success())
    };
    if !mount(&["-t", "tmpfs", "-o", "size=512k", "tmpfs"]) {
        return skip::tool("tmpfs", "allow mounts in this container");
    }
    env.approve();
    let ballast = env.state().join("ballast");
    let _ = std::fs::write(&ballast, vec![0u8; 1 << 20]);
    let answer = env.provost(&["run"]);
    let kept = env.provost(&["audit"]);
    std::fs::remove_file(&ballast).unwrap();
    let resumed = env.provost(&["run"]);
    // On a read-only disk, `status` works and a decision is refused.
    let read_only = mount(&["-o", "remount,ro"]);
    let looked = env.provost(&["status"]);
    let again = env.provost(&["answer", "1", "retry"]);
    let _ = std::process::Command::new("umount").arg(env.state()).status();
    answer.exits(70);
    kept.exits(0);
    resumed.exits(0);
    if read_only {
        looked.exits(0);
        assert!(again.exits(70).err.contains("read-only"));
    }
}

#[test]
fn a_log_whose_bytes_were_changed_is_not_run_on() {
    let env = Env::new(&plan(&["test -f out/1"], "escalate")).agent("echo done\n");
    env.approve();
    env.provost(&["run"]).exits(4);
    // Changes one word of one event, without the triggers that keep the log append-only.
    let log = rusqlite::Connection::open(env.state().join("log.db")).unwrap();
    let triggers: Vec<String> = log
        .prepare("SELECT name FROM sqlite_schema WHERE type = 'trigger'")
        .unwrap()
        .query_map([], |row| row.get(0))
        .unwrap()
        .flatten()
        .collect();
    assert!(log.execute("UPDATE event SET details = '{}'", []).is_err(), "the log can be changed");
    for trigger in triggers {
        log.execute_batch(&format!("DROP TRIGGER {trigger}")).unwrap();
    }
    let changed = log.execute("UPDATE event SET details = replace(details, 'broke', 'brake')", []).unwrap();
    assert!(changed > 0);
    drop(log);
    let audit = env.provost(&["audit"]).exits(70);
    assert!(audit.out.contains("BROKEN"), "{}", audit.out);
    let run = env.provost(&["run"]).exits(70);
    assert!(run.err.contains("provost audit"), "{}", run.err);
}

#[test]
fn contracts_that_misbehave_get_one_verdict_each() {
    for level in ["in-place", "auto"] {
        misbehave(level);
    }
}

fn misbehave(level: &str) {
    let clean = Env::new("").has_fences();
    let level = if level == "auto" && !clean { "in-place" } else { level };
    for (contract, says) in [
        ("yes | head -c 300000000; exit 3", "broke: exit code 3"),
        ("trap '' TERM; (trap '' TERM; sleep 60) & sleep 60", "timed out"),
        ("read line && exit 0; exit 4", "broke: exit code 4"),
        // In a sandbox, provost knows that the signal came from inside.
        ("kill -9 $$", if level == "in-place" { "killed by signal 9" } else { "broke: exit code 137" }),
    ] {
        // On a busy machine the flood takes long; only one of these cases must time out.
        let limit = if says == "timed out" { "2 seconds" } else { "60 seconds" };
        let field = format!("**contract_timeout:** {limit}\n\n**task:**");
        let text = plan(&[contract], "abort").replace("**task:**", &field);
        let env = Env::new(&text).agent("true\n").isolation(level);
        env.approve();
        let run = env.provost(&["run"]).exits(1);
        assert!(run.out.contains(says), "{contract}: {}", run.out);
        assert!(env.provost(&["log", "--json"]).exits(0).out.len() < 100_000);
    }
}

#[test]
fn a_workspace_that_vanishes_is_said_and_not_judged() {
    let env =
        Env::new(&plan(&["true && test -f out/1"], "abort")).agent("cd /; rm -rf \"$OLDPWD\"; echo done\n");
    env.approve();
    let run = env.provost(&["run"]);
    assert!(matches!(run.code, 1 | 4 | 70), "{run:?}");
    assert!(!run.out.contains("✅"), "{run:?}");
}
