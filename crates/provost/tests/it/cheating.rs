//! Tests agents that try to change provost's own files and decisions.

use crate::env::{Env, plan};

#[test]
fn a_persons_command_from_inside_an_attempt_is_refused_and_recorded() {
    let provost = env!("CARGO_BIN_EXE_provost");
    for way in [
        format!("{provost} answer 1 skip; echo $? > out/code"),
        // Without the variable, the parent processes still identify the attempt.
        format!("env -u PROVOST_ATTEMPT {provost} answer 1 skip; echo $? > out/code"),
        format!(
            "env -i PATH=$PATH PROVOST_STATE=$PROVOST_STATE HOME=$HOME {provost} reject --reason x; echo $? > out/code"
        ),
    ] {
        let env = Env::new(&plan(&["test -f out/never"], "escalate"));
        let env = env
            .isolation("in-place")
            .agent(&format!("mkdir -p out; export PROVOST_STATE=$STATE_OF_TEST\n{way}\n"));
        env.approve();
        let run = env.command(&["run"]).env("STATE_OF_TEST", env.state()).output().unwrap();
        crate::env::answer(run).exits(4);
        assert_eq!(env.read("out/code").trim(), "5", "{way}");
        assert!(env.events().contains(&"TAMPER_DETECTED".to_owned()), "{way}");
        assert_eq!(env.states(), "1 blocked", "{way}");
    }
}

#[test]
fn marks_in_the_file_are_words_and_the_log_decides() {
    let env = Env::new(&plan(&["test -f out/1", "test -f out/2"], "escalate")).agent("echo done\n");
    env.approve();
    let forged =
        env.read("PLAN.md").replace("### 1. ", "### 1. ✅ ").replace("status: approved", "status: done");
    env.write("PLAN.md", &forged);
    env.provost(&["run"]).exits(4);
    assert_eq!(env.states(), "1 blocked, 2 pending");
    let marked = env.read("PLAN.md");
    assert!(marked.contains("### 1. ⛔ Step 1") && marked.contains("status: in-progress"), "{marked}");
}

#[test]
fn the_contract_that_runs_is_the_approved_one() {
    // The agent rewrites the contract of its step while it works; provost uses the approved spec in the
    // log.
    let env = Env::new(&plan(&["test -f out/1"], "abort"))
        .agent("sed -i 's/test -f out.1/true/' PLAN.md; echo done\n");
    env.approve();
    let run = env.provost(&["run"]).exits(1);
    assert!(run.out.contains("contract broke"), "{}", run.out);
}

#[test]
fn whatever_an_agent_leaves_running_is_ended_before_the_judge_looks() {
    // A daemon that does the work later, while the check runs.
    let daemon = "(setsid sh -c 'echo $$ > daemon.pid; sleep 0.4; mkdir -p out; touch out/1; sleep 60' >/dev/null 2>&1 &)\nsleep 0.1; echo done\n";
    let env = Env::new(&plan(&["sleep 1; test -f out/1"], "abort")).agent(daemon).isolation("in-place");
    env.approve();
    env.provost(&["run"]).exits(1);
    let pid = env.read("daemon.pid").trim().to_owned();
    assert!(
        !pid.is_empty() && !std::path::Path::new(&format!("/proc/{pid}")).exists(),
        "daemon {pid} is alive"
    );
}

/// Attacks that can work at `in-place` must fail with the sandbox and the clean tree.
#[test]
fn behind_the_fence_there_is_nothing_to_reach_for() {
    let provost = env!("CARGO_BIN_EXE_provost");
    for attack in [
        // Decisions of a person: the log is not reachable.
        format!("{provost} answer 1 skip; {provost} reject --reason x"),
        // The log itself.
        "rm -rf \"$STATE_OF_TEST\"; echo junk > \"$STATE_OF_TEST/log.db\"".to_owned(),
        // The plan and the configuration.
        "sed -i 's/test -f out.1/true/' PLAN.md; echo x >> PLAN.md; rm -f PLAN.md; echo > provost.toml"
            .to_owned(),
        // A fake tool in the workspace, where the check might find it.
        "printf '#!/bin/sh\\nexit 0\\n' > test; chmod +x test; cp test bash; mkdir -p bin; cp test bin/test"
            .to_owned(),
        // Kills provost.
        "kill -9 $PPID; kill -9 -1; pkill -9 provost".to_owned(),
        // A daemon that does the work while the check runs. What it did before the agent's processes were ended
        // would be work of the agent, so it waits.
        "mkdir -p out; export AGENT=$$; (setsid sh -c 'while [ -d /proc/$AGENT ]; do sleep 0.1; done; sleep 2; \
         touch out/1; sleep 60' >/dev/null 2>&1 &)"
            .to_owned(),
    ] {
        let check = if attack.contains("setsid") { "sleep 3; test -f out/1" } else { "test -f out/1" };
        let env = Env::new(&plan(&[check], "escalate"));
        if !env.has_fences() {
            return;
        }
        let env = env.agent(&format!("export PROVOST_STATE=$STATE_OF_TEST\n{attack}\necho done\n"));
        env.git(&["add", "--all"]);
        env.git(&["commit", "--quiet", "--message", "agent"]);
        env.approve();
        let before = env.read("PLAN.md");
        let run =
            crate::env::answer(env.command(&["run"]).env("STATE_OF_TEST", env.state()).output().unwrap());
        assert_eq!(run.code, 4, "{attack}: {run:?}");
        assert_eq!(env.states(), "1 blocked", "{attack}");
        let unmarked = env.read("PLAN.md").replace("⛔ ", "").replace("in-progress", "approved");
        assert_eq!(unmarked, before, "{attack}");
        env.provost(&["audit"]).exits(0);
    }
}

#[test]
fn the_log_does_not_live_in_the_workspace() {
    let env = Env::new(&plan(&["test -f out/1"], "abort")).agent("true\n");
    let inside = env.work().join("state");
    let run = env.command(&["run"]).env("PROVOST_STATE", inside).output().unwrap();
    crate::env::answer(run).exits(2);
}

/// An agent without a sandbox changes provost's copy of the commit, so that a later plan passes.
#[test]
fn a_copy_that_an_earlier_agent_changed_is_not_used() {
    for folder in ["", "node_modules"] {
        let contract = "! test -e src/bad && sh tests/check.sh";
        let env = Env::new(&plan(&["test -f out/1"], "escalate"));
        if !env.has_fences() {
            return;
        }
        let env = env.isolation("guard+clean").agent(
            "mkdir -p out; touch out/1\nfor tree in $STATE_OF_TEST/trees/*/bases/*/tree; do\n\
             chmod -R u+w $tree; echo true > $tree/tests/check.sh; done; echo done\n",
        );
        let mut person = env.person();
        env.write("tests/check.sh", "test -f out/2\n");
        env.write(".gitignore", "node_modules\n");
        env.git(&["add", "--all"]);
        env.git(&["commit", "--quiet", "--message", "a check"]);
        if !folder.is_empty() {
            env.write("node_modules/a.js", "1\n");
        }
        env.approve();
        let run = env.command(&["run"]).env("STATE_OF_TEST", env.state()).output().unwrap();
        crate::env::answer(run).exits(0);
        env.write("provost.toml", env.read("provost.toml").replace("guard+clean", "clean"));
        std::fs::remove_dir_all(env.work().join("out")).unwrap();
        env.write("PLAN-second.md", plan(&[contract], "abort"));
        let shown = env.provost(&["show", "second", "--json"]).exits(0).json();
        let revision = shown["revision"].as_str().expect("a revision");
        person.provost(&["approve", "second", "--revision", revision]).exits(0);
        let run = env.provost(&["run", "second"]).exits(1);
        assert!(run.out.contains("contract broke"), "{folder}: {}", run.out);
    }
}
