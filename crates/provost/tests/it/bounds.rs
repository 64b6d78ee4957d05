//! Tests agents and checks that exceed the limits of `[run]`.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use provost_rehearsal::skip;
use serde_json::Value;

use crate::env::{Env, HONEST, plan};

fn with(env: Env, lines: &str) -> Env {
    env.write("provost.toml", env.read("provost.toml") + "[run]\n" + lines);
    env
}

#[track_caller]
fn details(env: &Env, name: &str) -> Value {
    let log = env.provost(&["log", "--json"]).exits(0).lines();
    let found = log.iter().rfind(|event| event["event"] == name);
    found.unwrap_or_else(|| panic!("no {name}: {log:#?}"))["details"].clone()
}

#[test]
fn an_agent_that_takes_too_much_is_ended_and_the_log_says_why() {
    let agent = "head -c 200M /dev/zero | tail -c 200M | sleep 30\n";
    let env = with(
        Env::new(&plan(&["test -f out/1"], "escalate")).agent(agent).isolation("in-place"),
        "memory = \"64 MiB\"\n",
    );
    env.approve();
    let said = env.provost(&["run"]).exits(4);
    let end = details(&env, "ATTEMPT_ENDED")["end"].clone();
    assert_eq!(end["kind"], "over_bounds");
    let reason = end["reason"].as_str().expect("a reason");
    assert!(reason.contains("`memory` allows 64 MiB") && said.out.contains(reason), "{reason}: {}", said.out);
}

/// The temporary folders of the sandbox are in memory.
#[test]
fn behind_a_fence_files_in_memory_count() {
    let agent = "for n in 1 2 3 4 5 6 7 8 9; do head -c 20M /dev/zero > /tmp/$n; done; sleep 300\n";
    let env = with(Env::new(&plan(&["test -f out/1"], "escalate")).agent(agent), "memory = \"96 MiB\"\n");
    if !env.has_fences() {
        return;
    }
    env.approve();
    env.provost(&["run"]).exits(4);
    assert_eq!(details(&env, "ATTEMPT_ENDED")["end"]["kind"], "over_bounds");
}

#[test]
fn a_check_that_takes_too_much_does_not_hold() {
    let contract =
        "test -f out/1 || exit 1; head -c 200M /dev/zero | tail -c 200M | (sleep 30; cat > /dev/null)";
    for level in ["in-place", "auto"] {
        let env = with(
            Env::new(&plan(&[contract], "escalate")).agent("mkdir -p out; : > out/1\n").isolation(level),
            "memory = \"64 MiB\"\n",
        );
        env.approve();
        env.provost(&["run"]).exits(4);
        let verdict = details(&env, "CONTRACT_JUDGED")["verdict"].clone();
        // The program under test used too much memory: that is the agent's failure, not the machine's.
        assert_eq!(verdict["outcome"]["kind"], "broke", "{level}: {verdict}");
        assert!(verdict["unmet"].to_string().contains("`memory` allows 64 MiB"), "{level}: {verdict}");
    }
}

/// The daemon cleared its environment and has no parent: only its cgroup identifies its run.
#[test]
fn a_daemon_of_a_harness_that_died_is_ended_before_the_attempt_is_judged() {
    let agent =
        "exec 8> ../lock; flock 8; env -i /usr/bin/setsid --fork /bin/sleep 600.71 < /dev/null > /dev/null 2>&1
        exec 8>&-; sleep 600\n";
    let env = Env::new(&plan(&["test -f out/1"], "retry(1)")).agent(agent).isolation("in-place");
    let doctor = env.provost(&["doctor", "--json"]).exits(0).json();
    let has_cgroups = |offer: &Value| offer["name"] == "cgroups" && offer["here"] == true;
    if !doctor["offers"].as_array().is_some_and(|offers| offers.iter().any(has_cgroups)) {
        return skip::tool("cgroups", "`provost doctor` says why there are none");
    }
    env.approve();
    let mut run = env.start(&["run"]);
    let is_daemon = |folder: &Path| {
        fs::read(folder.join("cmdline")).is_ok_and(|line| line.starts_with(b"/bin/sleep\x00600.71\0"))
            && fs::read_to_string(folder.join("cgroup")).is_ok_and(|text| text.contains("/provost-"))
    };
    let begun = Instant::now();
    while !fs::read_dir("/proc").expect("processes").flatten().any(|entry| is_daemon(&entry.path())) {
        assert!(begun.elapsed() < Duration::from_secs(120), "it never was in a cgroup");
        std::thread::sleep(Duration::from_millis(5));
    }
    run.kill().expect("the harness dies");
    run.wait().expect("the harness is dead");
    let lock = fs::File::open(env.folder().join("lock")).expect("a lock");
    assert!(lock.try_lock().is_err(), "the daemon lives");
    env.write("agent.sh", HONEST);
    env.provost(&["run"]).exits(0);
    assert!(lock.try_lock().is_ok(), "the daemon lives still");
}
