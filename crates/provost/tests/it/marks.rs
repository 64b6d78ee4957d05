//! Tests how strong a pass is: one that held before the work, one that the agent checked itself, and one
//! without a control. None of them is a plain ✅.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;
use std::time::{Duration, SystemTime};

use provost_rehearsal::skip;
use serde_json::{Value, json};

use crate::env::{Env, own_checks, plan};
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
    // The plan file with its marks is still the approved plan.
    env.provost(&["run"]).exits(0);
}

/// Returns each view that shows how a step passed.
fn views(env: &Env) -> Vec<(&'static str, String)> {
    vec![
        ("status", env.provost(&["status"]).exits(0).out),
        ("status --json", env.provost(&["status", "--json"]).exits(0).json()["weaker"].to_string()),
        ("show", env.provost(&["show"]).exits(0).out),
        ("list", env.provost(&["list"]).exits(0).out),
        ("log", env.provost(&["log"]).exits(0).out),
        ("progress", env.read("progress.md")),
        ("summary", {
            env.provost(&["run", "--summary", "summary.md"]).exits(0);
            env.read("summary.md")
        }),
        ("proof", {
            let audit = env.provost(&["audit", "--json"]).exits(0).json();
            let (proofs, key) =
                (audit["proofs"].as_str().expect("proofs"), audit["key"].as_str().expect("a key"));
            env.provost(&["audit", "--proof", proofs, "--key", key, "--json"]).exits(0).out
        }),
    ]
}

#[test]
fn where_nobody_looked_before_the_work_every_view_says_uncontrolled() {
    let env =
        Env::new(&plan(&["test -f out/1", "test -d ."], "escalate")).agent(HONEST).isolation("in-place");
    let run = env.approve().provost(&["run"]).exits(0);
    assert!(run.out.contains("plan done: 2 verified; 2 uncontrolled"), "{}", run.out);
    let why = "uncontrolled: it was not run before the work: there is no tree for that at in-place";
    assert_eq!(run.out.matches(why).count(), 2, "once for each step: {}", run.out);
    for (name, text) in views(&env) {
        assert!(text.contains("uncontrolled"), "{name}: {text}");
    }
    let status = env.provost(&["status"]).exits(0).out;
    assert!(status.contains("uncontrolled (step 1, step 2): it was not run before the work"), "{status}");
    assert_eq!(status.matches("it was not run before the work").count(), 1, "the reason once: {status}");
}

/// The honest case: a check that was seen to fail first is not called uncontrolled.
#[test]
fn what_was_seen_to_fail_before_the_work_is_not_uncontrolled() {
    for level in ["auto", "guard+clean"] {
        let env = Env::new(&plan(&["test -f out/1"], "escalate")).agent(HONEST).isolation(level);
        if !env.has_fences() {
            return;
        }
        let run = env.approve().provost(&["run"]).exits(0);
        assert!(run.out.contains("✅ plan done: 1 verified"), "{}", run.out);
        for (name, text) in views(&env) {
            assert!(
                !text.contains("\"uncontrolled\":\"") && !text.contains("uncontrolled:"),
                "{name}: {text}"
            );
        }
    }
}

#[test]
fn below_clean_what_held_before_is_told_where_it_was_looked_at() {
    let env = Env::new(&plan(&["test -d ."], "escalate")).agent(HONEST).isolation("guard+clean");
    let run = env.approve().provost(&["run"]).exits(0);
    assert!(run.out.contains("⚪ plan done: 1 held before"), "{}", run.out);
    for (name, text) in views(&env) {
        assert!(text.contains("held before") || text.contains("held_before"), "{name}: {text}");
    }
}

fn with_postconditions(commands: &[&str]) -> String {
    let mut text = plan(&["test -f out/1"], "escalate") + "\n## Postconditions\n";
    for (at, command) in commands.iter().enumerate() {
        text.push_str(&format!("\n{}. Condition {}\n   ```shell\n   {command}\n   ```\n", at + 1, at + 1));
    }
    text
}

#[test]
fn a_postcondition_that_held_before_is_told_and_counts_as_no_proof() {
    let env = Env::new(&with_postconditions(&["test -d .", "test -s out/1 || test -f out/1"])).agent(HONEST);
    if !env.has_fences() {
        return;
    }
    let run = env.approve().provost(&["run"]).exits(0);
    assert!(run.out.contains("✅ plan done: 1 verified; 1 postcondition held before"), "{}", run.out);
    assert!(run.out.contains("postcondition 1 held; it held before the work too"), "{}", run.out);
    let status = env.provost(&["status"]).exits(0).out;
    assert!(status.contains("[Postcondition 1] ⚪ Condition 1 · held before"), "{status}");
    assert!(status.contains("[Postcondition 2] ✅ Condition 2 · held\n"), "{status}");
    let status = env.provost(&["status", "--json"]).exits(0).json();
    let passes: Vec<&Value> =
        status["postconditions"].as_array().expect("a list").iter().map(|post| &post["pass"]).collect();
    assert_eq!(passes, ["held_before", "verified"]);
    let show = env.provost(&["show"]).exits(0).out;
    assert!(show.contains("⚪ postcondition 1"), "{show}");
    let audit = env.provost(&["audit", "--json"]).exits(0).json();
    let (proofs, key) = (audit["proofs"].as_str().expect("proofs"), audit["key"].as_str().expect("a key"));
    let proofs = env.provost(&["audit", "--proof", proofs, "--key", key, "--json"]).exits(0).lines();
    let plan =
        proofs.iter().map(|proof| &proof["statement"]["predicate"]).find(|it| it["passes"].is_object());
    let plan = plan.expect("a proof of the plan");
    assert_eq!(plan["postconditions"][0]["pass"], "held_before", "{plan}");
    assert_eq!(plan["postconditions"][1]["pass"], "verified", "{plan}");
    assert_eq!(plan["summary"]["postconditions_held_before"], 1);
}

#[test]
fn a_postcondition_that_nobody_could_try_before_is_uncontrolled() {
    let env = Env::new(&with_postconditions(&["test -f out/1"])).agent(HONEST).isolation("in-place");
    env.approve().provost(&["run"]).exits(0);
    let status = env.provost(&["status"]).exits(0).out;
    assert!(status.contains("[Postcondition 1] ✅ Condition 1 · held, uncontrolled"), "{status}");
    assert!(status.contains("uncontrolled (step 1, postcondition 1): it was not run before"), "{status}");
}

#[test]
fn a_check_without_a_known_runner_says_once_and_briefly_that_it_is_uncontrolled() {
    let agent = "mkdir -p out; echo 'test -f out/1' > out/check; touch out/1\n";
    let env = Env::new(&plan(&["bash out/check"], "escalate")).agent(agent);
    if !env.has_fences() {
        return;
    }
    let run = env.approve().provost(&["run"]).exits(0);
    let why = "no test runner was seen, so there was nothing to plant a failing test in";
    assert_eq!(run.out.matches(why).count(), 1, "{}", run.out);
    let status = env.provost(&["status"]).exits(0).out;
    assert_eq!(status.matches(why).count(), 1, "{status}");
    assert!(status.contains("[Step 1/1] ✅"), "one property, and no mark of its own: {status}");
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
    // If a person lets the agent work anyway, the step passes with its weaker mark.
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

#[test]
fn a_command_that_cannot_do_its_job_makes_no_pass_by_failing() {
    for (contract, tool, says) in [
        ("! make test", "make", "make has no rule for `test`"),
        ("make test || true; test -d .", "make", "make has no rule for `test`"),
        ("if ! make test; then exit 0; fi; exit 1", "make", "make has no rule for `test`"),
        ("make test && exit 1; true", "make", "make has no rule for `test`"),
        ("! ( cd . && make test )", "make", "make has no rule for `test`"),
        ("! python3 missing.py", "python3", "python did not find `"),
        ("! node missing.js", "node", "node did not find `"),
        ("! bash missing.sh", "bash", "`missing.sh` is missing"),
        ("! ./missing --bad", "bash", "`./missing` is missing"),
    ] {
        let env = Env::new(&plan(&[contract], "escalate")).agent("echo nothing to do\n");
        if !has(tool) {
            continue;
        }
        let run = env.approve().provost(&["run"]);
        assert_eq!(run.code, 4, "{contract}: {} {}", run.out, run.err);
        let status = env.provost(&["status", "--json"]).exits(0).json();
        assert_ne!(step(&status, 1)["state"], "passed", "{contract}");
        let log = env.provost(&["log", "--json", "--event", "CONTRACT_JUDGED"]).exits(0).out;
        assert!(log.contains("not verifiable") && log.contains(says), "{contract}: {log}");
        assert!(run.out.contains(says), "{contract}: {}", run.out);
    }
}

/// provost also reads output that a contract redirects.
#[test]
fn a_hidden_output_hides_no_missing_tool() {
    let makefile = "gone:\n\tno-such-tool-anywhere\nrunner:\n\tfalse || pytest-that-is-not-here\n\
                    red:\n\ttest -f out/none\n";
    let site = |contract: &str| {
        let env = Env::new(&plan(&[contract], "escalate")).agent(HONEST);
        env.write("Makefile", makefile);
        env.git(&["add", "--all"]);
        env.git(&["commit", "--quiet", "--message", "make"]);
        env
    };
    for (contract, tool, says) in [
        ("! make gone >/dev/null 2>&1", "make", "make could not run a command of `gone`"),
        ("! make runner &>/dev/null", "make", "make could not run a command of `runner`"),
        ("! make none >/dev/null 2>/dev/null", "make", "make has no rule for `none`"),
        ("if ! make none &>/dev/null; then exit 0; fi; exit 1", "make", "make has no rule for `none`"),
        ("make none >/dev/null 2>&1 && exit 1; true", "make", "make has no rule for `none`"),
        ("! ./missing >/dev/null 2>&1", "bash", "`./missing` is "),
        ("! pytest-that-is-not-here >/dev/null", "bash", "pytest-that-is-not-here"),
    ] {
        if !has(tool) {
            skip::tool(tool, contract);
            continue;
        }
        let env = site(contract);
        let run = env.approve().provost(&["run"]);
        assert_eq!(run.code, 4, "{contract}: {} {}", run.out, run.err);
        let log = env.provost(&["log", "--json", "--event", "CONTRACT_JUDGED"]).exits(0).lines();
        for event in log {
            let verdict = &event["details"]["verdict"];
            assert_ne!(verdict["outcome"]["kind"], "held", "{contract}: {verdict}");
            assert!(verdict.to_string().contains(says), "{contract}: {verdict}");
        }
    }
    if has("make") {
        let run = site("test -f out/1 && ! make red >/dev/null 2>&1").approve().provost(&["run"]).exits(0);
        assert!(run.out.contains("1 verified"), "a failure at the job: {}", run.out);
    }
}

fn has(tool: &str) -> bool {
    let found = std::process::Command::new("sh").args(["-c", &format!("command -v {tool}")]).output();
    found.is_ok_and(|found| found.status.success())
}

/// The honest cases: a real failure, a module that must be missing, and a named failure.
#[test]
fn a_failure_that_is_meant_is_a_pass() {
    let agent = "mkdir -p out; printf 'test:\\n\\ttest -f out/none\\n' > out/Makefile; touch out/1\n";
    for contract in [
        "test -f out/1 && ! make -C out test",
        "test -f out/1 && ! python3 -c 'import no_such_module_of_ours'",
        "test -f out/1 && ! bash -c 'exit 3'",
    ] {
        let env = Env::new(&plan(&[contract], "escalate")).agent(agent);
        let run = env.approve().provost(&["run"]);
        assert_eq!(run.code, 0, "{contract}: {} {}", run.out, run.err);
    }
    let named = plan(&["test -f out/1 && ! bash out/missing.sh"], "escalate").replacen(
        "exit_code == 0",
        "stderr contains \"No such file\"",
        1,
    );
    let env = Env::new(&named).agent(agent);
    env.approve().provost(&["run"]).exits(0);
}

/// Before the work, the program that the step makes is missing, as expected.
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
    // A function named `pytest` that prints what pytest prints if it finds no tests.
    let contract = |says: &str| format!("pytest() {{ echo \"{says}\"; return 1; }}; ! pytest -q tests");
    let none = Env::new(&plan(&[&contract("no tests ran in 0.01s")], "escalate")).agent(HONEST);
    assert_ne!(none.approve().provost(&["run"]).code, 0);
    let silent = Env::new(&plan(&[&contract("")], "escalate")).agent(HONEST);
    let run = silent.approve().provost(&["run"]);
    assert_ne!(run.code, 0, "{}", run.out);
    assert!(silent.provost(&["log", "--json"]).out.contains("has to show its tests"), "{}", run.out);
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
    // The control of the first step comes from the gate; the second step has another base.
    let log = env.provost(&["log", "--json", "--event", "CONTRACT_JUDGED"]).exits(0).lines();
    let control = |step: u32| {
        let found = log.iter().find(|event| event["details"]["subject"]["control"] == step);
        found.map(|event| event["details"]["verdict"]["cached"] == true)
    };
    assert_eq!(control(1), Some(true), "{log:?}");
}

/// Returns the values of `PROVOST_ATTEMPT` that running processes have and that begin with `prefix`.
fn tags(prefix: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for process in std::fs::read_dir("/proc").unwrap().flatten() {
        let Ok(variables) = std::fs::read(process.path().join("environ")) else { continue };
        let values =
            variables.split(|byte| *byte == 0).filter_map(|each| each.strip_prefix(b"PROVOST_ATTEMPT="));
        let values = values.map(|value| String::from_utf8_lossy(value).into_owned());
        found.extend(values.filter(|value| value.starts_with(prefix)));
    }
    found
}

#[test]
fn the_control_runs_beside_the_check_where_there_is_a_free_core() {
    let contract = "python3 -m unittest discover -s tests";
    let agent = "mkdir -p out; echo 'def two(): return 2' > out/calc.py\n";
    let env = Env::new(&plan(&[contract], "escalate")).agent(agent);
    let has_cores = std::thread::available_parallelism().is_ok_and(|cores| cores.get() > 1);
    if !env.has_fences() || !has_cores {
        return;
    }
    let test = "import sys, time, unittest\nsys.path.insert(0, 'out')\n\n\nclass Two(unittest.TestCase):\n    \
                def test_two(self):\n        import calc\n        time.sleep(1)\n        \
                self.assertEqual(calc.two(), 2)\n";
    env.write("tests/test_two.py", test);
    env.git(&["add", "--all"]);
    env.git(&["commit", "--quiet", "--message", "tests"]);
    env.approve();
    let id = env.provost(&["status", "--json"]).exits(0).json()["id"].as_str().unwrap().to_owned();
    let mut run = env.command(&["run"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let both = BTreeSet::from([format!("{id}/1/1"), format!("{id}/1/1/control")]);
    let mut seen = false;
    let ended = loop {
        seen |= tags(&format!("{id}/1/1")) == both;
        if let Some(ended) = run.try_wait().unwrap() {
            break ended;
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    assert!(ended.success());
    assert!(seen, "both were never seen at once");
    let log = env.provost(&["log", "--json", "--event", "CONTRACT_JUDGED"]).exits(0).lines();
    let judged = log.iter().find(|event| event["details"]["subject"]["contract"] == 1).unwrap();
    assert_eq!(judged["details"]["verdict"]["teeth"]["bit"], true, "{judged}");
}

#[test]
fn another_plan_with_the_same_check_base_and_programs_does_not_run_it_again() {
    let text = plan(&["mytool && test -f out/1"], "escalate");
    let env = Env::new(&text).agent(HONEST);
    if !env.has_fences() {
        return;
    }
    for name in ["second", "third", "fourth", "fifth"] {
        env.write(&format!("PLAN-{name}.md"), text.replace("# A plan", &format!("# The {name}")));
    }
    let other =
        "**contract:**\n```shell\nmytool && test -f out/1\n```\nexit_code == 0\nstdout contains \"x\"";
    let expecting =
        text.replace("**contract:**\n```shell\nmytool && test -f out/1\n```\nexit_code == 0", other);
    assert_ne!(expecting, text);
    env.write("PLAN-other.md", expecting);
    env.git(&["add", "--all"]);
    env.git(&["commit", "--quiet", "--message", "plans"]);
    let tools = env.work().parent().unwrap().join("tools/bin");
    let libraries = tools.with_file_name("lib").join("python3.99/site-packages");
    std::fs::create_dir_all(&libraries).unwrap();
    // A check that begins within two seconds of an installation is not kept.
    let earlier = SystemTime::now() - Duration::from_secs(60);
    let install = |text: &str| {
        std::fs::create_dir_all(&tools).unwrap();
        std::fs::write(tools.join("mytool"), text).unwrap();
        std::fs::set_permissions(tools.join("mytool"), std::fs::Permissions::from_mode(0o755)).unwrap();
        for folder in libraries.ancestors().take(4).chain([tools.as_path()]) {
            std::fs::File::open(folder).unwrap().set_modified(earlier).unwrap();
        }
    };
    // Other tests run programs from more folders, and Python compiles its libraries when they are first used.
    let path = format!("{}:/usr/bin:/bin", tools.display());
    let is_known = |name: &str| {
        let file = format!("PLAN{name}.md");
        let [_, shown] = ["verify", "show"].map(|verb| {
            let done = env.command(&[verb, &file]).env("PATH", &path).output().unwrap();
            assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
            String::from_utf8_lossy(&done.stdout).into_owned()
        });
        assert!(shown.contains("fails (exit 1), as it should"), "{shown}");
        let looks = std::fs::read_dir(env.state().join("base")).unwrap().flatten();
        let newest = looks.max_by_key(|look| look.metadata().unwrap().modified().unwrap()).unwrap();
        let look: Value = serde_json::from_slice(&std::fs::read(newest.path()).unwrap()).unwrap();
        let verdict = &look["steps"]["1"];
        assert_eq!(verdict["outcome"]["kind"], "broke", "{look}");
        verdict["cached"] == true
    };
    install("#!/bin/sh\nexit 0\n");
    assert!(!is_known(""));
    assert!(is_known("-second"));
    assert!(!is_known("-other"), "it expects something else");
    install("#!/bin/sh\nexit 0 # another version\n");
    assert!(!is_known("-third"), "a program changed");
    assert!(is_known("-fourth"));
    std::fs::create_dir(libraries.join("added")).unwrap();
    assert!(!is_known("-fifth"), "a library was installed");
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
    assert!(err.contains("does not list the checks it allows"), "{err}");
    let listed = format!("{policy}commands = [\"{contract}\"]\n");
    assert_eq!(with(&listed, &text).0, 0);
    let named = format!("{policy}checks = [\"made\"]\n[checks.made]\nrun = \"{contract}\"\n");
    assert_eq!(with(&named, &text).0, 0);
    let (code, err) = with(&listed, &plan(&["test -f out/1; cat provost.toml"], "escalate"));
    assert_eq!(code, 4, "{err}");
    assert!(err.contains("is not among the commands"), "{err}");
    let online = text.replacen("**on_fail:**", "**network:** on\n**on_fail:**", 1);
    let (code, err) = with(&listed, &online);
    assert_eq!(code, 4, "{err}");
    assert!(err.contains("needs the network"), "{err}");
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
    env.write("provost.toml", own_checks(configuration));
    env
}

#[test]
fn what_an_agent_checks_itself_ends_as_self_checked() {
    let env = session("");
    let mut client = Client::start(&env, &[]);
    client
        .call("plan_create", session_plan("test -f out/a"))
        .says("approved by policy mcp gate self-checked");
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
fn a_session_hears_at_once_which_of_its_checks_hold_already() {
    let env = session("");
    if !env.has_fences() {
        return;
    }
    let mut client = Client::start(&env, &[]);
    let said = "1 of 1 check holds already and proves nothing about the work";
    let created = client.call("plan_create", session_plan("test -d ."));
    created.says(said).says("Call plan_create again with a check that fails now");
    // The honest case.
    let created = client.call("plan_create", session_plan("test -f out/a"));
    created
        .says("before the work: the check does not hold, as it should be")
        .says("step 1: fails (exit 1), as it should");
}

#[test]
fn what_was_there_before_a_session_is_not_its_work() {
    let env = session("");
    if !env.has_fences() {
        return;
    }
    env.write("out/a", "mine, and not committed\n");
    let mut client = Client::start(&env, &[]);
    client.call("plan_create", session_plan("test -f out/a")).says("1 of 1 check holds already");
    drop(client);
    // The honest case: only the session's own file counts as its work.
    let env = session("");
    env.write("out/b", "mine, and not committed\n");
    let mut client = Client::start(&env, &[]);
    client.call("plan_create", session_plan("test -f out/a")).says("the check does not hold");
    env.write("out/a", "x\n");
    client
        .call("step_update", json!({ "step": 1, "status": "done", "evidence": "made it" }))
        .says("has passed");
    drop(client);
    let log = env.provost(&["log", "improve-it", "--json", "--event", "CONTRACT_JUDGED"]).exits(0).lines();
    let judged = log.iter().find(|event| event["details"]["subject"]["contract"] == 1).expect("a verdict");
    assert_eq!(judged["details"]["verdict"]["tree"]["files"], json!(["out/a"]), "{judged}");
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
    let env = session("[checks.made]\nrun = \"test -f out/a\"\n[mcp]\ngate = \"auto\"\n");
    env.write("PLAN.md", plan(&["test -f out/1"], "escalate"));
    env.provost(&["approve", "--check", "nobody"]).exits(2);
    env.provost(&["approve", "--check", "made"]).exits(0);
    std::fs::remove_file(env.work().join("PLAN.md")).expect("gone");
    let mut client = Client::start(&env, &[]);
    // A check of its own waits for a person, also beside a trusted one.
    client
        .call("plan_create", session_plan("test -f out/b"))
        .says("It waits for a person, because no person has trusted the check `test -f out/b`")
        .says("A check of provost.toml can be named instead: check:made");
    drop(client);
    let mut client = Client::start(&env, &["--session", "another"]);
    client.call("plan_create", session_plan("check:made")).says("approved by policy mcp gate auto");
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
