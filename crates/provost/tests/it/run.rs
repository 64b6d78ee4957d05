//! Tests that steps are dispatched, judged, retried, escalated and resumed.

use crate::env::{Env, HONEST, plan};

#[test]
fn an_approved_plan_is_run_and_marked() {
    let env = Env::new(&plan(&["test -f out/1", "test -f out/2"], "escalate")).agent(HONEST);
    env.approve();
    let run = env.provost(&["run"]).exits(0);
    assert!(run.out.contains("[Step 1/2] ✅") && run.out.contains("[Step 2/2] ✅"), "{}", run.out);
    assert!(run.out.starts_with("· isolation "), "{}", run.out);
    assert_eq!(env.stage(), "done");
    let marked = env.read("PLAN.md");
    assert!(marked.contains("status: done") && marked.contains("### 2. ✅ Step 2"), "{marked}");
    assert!(env.read("progress.md").contains("[Step 2/2] ✅ Step 2: contract held"));
    // Once done, the same command has nothing to do and says so.
    let events = env.events().len();
    env.provost(&["run"]).exits(0);
    assert_eq!(env.events().len(), events);
}

#[test]
fn run_json_is_one_event_a_line_and_nothing_else() {
    let env = Env::new(&plan(&["test -f out/1"], "escalate")).agent(HONEST).isolation("in-place");
    env.approve();
    let events = env.provost(&["run", "--json"]).exits(0).lines();
    let names: Vec<&str> = events.iter().filter_map(|event| event["event"].as_str()).collect();
    assert_eq!(
        names,
        [
            "ISOLATION_ATTESTED",
            "TASK_STARTED",
            "ATTEMPT_ENDED",
            "STEP_CLAIMED",
            "CONTRACT_JUDGED",
            "TASK_COMPLETED",
            "CONTRACT_JUDGED",
            "EXECUTION_COMPLETE"
        ]
    );
    for key in ["seq", "timestamp", "plan", "event", "task_id", "task_name", "details", "prev", "hash"] {
        assert!(events[0].get(key).is_some(), "no {key} in {}", events[0]);
    }
}

#[test]
fn a_liar_is_caught_and_its_retry_gets_the_evidence() {
    // Lies first; does the work at the retry only if the prompt contains the output of the check, which is
    // not in the text of the contract.
    let agent = "prompt=$(cat)\ncase \"$prompt\" in\n*'42 is missing'*) mkdir -p out; touch out/1; echo fixed ;;\n*) echo 'all tests pass' ;;\nesac\n";
    let env = Env::new(&plan(
        &["test -f out/1 || { echo $((6 * 7)) is missing >&2; exit 7; }"],
        "retry(1), then abort",
    ))
    .agent(agent);
    env.approve();
    let run = env.provost(&["run"]).exits(0);
    assert!(run.out.contains("the agent claims “all tests pass”"), "{}", run.out);
    assert!(run.out.contains("contract broke: exit code 7 — 42 is missing"), "{}", run.out);
    assert!(run.out.contains("✅ Step 1: contract held"), "{}", run.out);
}

#[test]
fn on_fail_is_carried_out_as_written() {
    for (on_fail, code, state, stage) in [
        ("escalate", 4, "1 blocked, 2 pending", "in-progress"),
        ("retry(1), then escalate", 4, "1 blocked, 2 pending", "in-progress"),
        ("abort", 1, "1 failed, 2 pending", "failed"),
        ("skip", 0, "1 waived, 2 waived", "done"),
    ] {
        let env = Env::new(&plan(&["test -f never", "test -f never"], on_fail)).agent("echo done\n");
        env.approve();
        env.provost(&["run"]).exits(code);
        assert_eq!((env.states().as_str(), env.stage().as_str()), (state, stage), "{on_fail}");
        env.provost(&["run"]).exits(code);
        env.provost(&["audit"]).exits(0);
    }
}

#[test]
fn a_person_answers_an_escalation() {
    let env = Env::new(&plan(&["test -f out/1", "test -f out/2"], "escalate")).agent("echo done\n");
    let mut person = env.person();
    env.approve();
    env.provost(&["run"]).exits(4);
    env.provost(&["answer", "2", "retry"]).exits(5);
    env.provost(&["answer", "9", "retry"]).exits(5);
    env.provost(&["answer", "1", "confirm"]).exits(5);
    person.provost(&["answer", "PLAN.md:1", "skip", "--note", "done by hand"]).exits(0);
    env.provost(&["run"]).exits(4);
    env.provost(&["answer", "2", "abort"]).exits(0);
    env.provost(&["run"]).exits(1);
    assert_eq!(env.states(), "1 waived, 2 failed");
    env.write("out/2", "x");
    env.provost(&["answer", "2", "retry"]).exits(0);
    env.provost(&["run"]).exits(0);
    assert_eq!(env.states(), "1 waived, 2 passed");
    assert!(env.read("PLAN.md").contains("### 1. ⏭ Step 1"));
}

#[test]
fn a_human_contract_waits_for_a_person_and_shows_as_claimed() {
    let text = plan(&["x"], "escalate")
        .replace("**contract:**\n```shell\nx\n```\nexit_code == 0\n", "**contract:** human\n");
    let env = Env::new(&text).agent("echo looks good to me\n");
    let mut person = env.person();
    env.approve();
    env.provost(&["run"]).exits(4);
    assert_eq!(env.states(), "1 claimed");
    person.provost(&["answer", "1", "confirm", "--by", "grace"]).exits(0);
    env.provost(&["run"]).exits(0);
    let log = env.provost(&["log", "--event", "TASK_COMPLETED"]).exits(0);
    assert!(log.out.contains("confirmed by grace"), "{}", log.out);
    env.provost(&["audit"]).exits(0);
}

#[test]
fn preconditions_gate_and_postconditions_finish() {
    let text = plan(&["test -f out/1"], "escalate")
        .replace("**contract:**", "**precondition:**\n```shell\ntest -f out/ready\n```\n**contract:**")
        + "\n## Postconditions\n\n1. Everything is there\n   ```shell\n   test -f out/all\n   ```\n";
    let env = Env::new(&text).agent(HONEST);
    env.approve();
    env.provost(&["run"]).exits(4);
    assert_eq!(env.states(), "1 blocked");
    assert!(env.read("out/1").is_empty(), "the agent was given a step whose precondition did not hold");
    // The precondition names the file, so the approval covers it.
    env.write("out/ready", "");
    env.approve_with_uncommitted();
    env.provost(&["run"]).exits(1);
    assert_eq!((env.states().as_str(), env.stage().as_str()), ("1 passed", "failed"));
    env.write("out/all", "");
    env.provost(&["answer", "post", "retry"]).exits(0);
    env.provost(&["run"]).exits(0);
}

/// A plan is done, its work is removed, and a person approves another title.
#[test]
fn passed_steps_are_checked_again_under_a_new_revision() {
    // It names no file: those that a check names are part of what is approved.
    let env = Env::new(&plan(&["find . -name 1 | grep -q out"], "escalate")).agent(HONEST);
    env.approve();
    env.provost(&["run"]).exits(0);
    std::fs::remove_file(env.work().join("out/1")).unwrap();
    env.write("PLAN.md", env.read("PLAN.md").replace("# A plan", "# Another plan"));
    env.approve();
    let said = env.provost(&["run"]).exits(4);
    assert!(said.out.contains("a later change undid it"), "{}", said.out);
    assert_eq!(env.states(), "1 blocked");
    env.provost(&["audit"]).exits(0);
}

/// Step 2 removes what step 1 made. provost finds this at the end, runs step 1 again, and then everything
/// holds on one tree.
#[test]
fn what_a_later_step_undid_is_done_again() {
    let agent = "part=$(sed -n 's/^Do part \\([0-9]*\\) .*/\\1/p'); mkdir -p out; touch out/$part\n\
                 if [ $part = 2 ] && [ ! -f out/undone ]; then rm out/1; touch out/undone; fi\n";
    let env = Env::new(&plan(&["test -f out/1", "test -f out/2"], "retry(1), then escalate")).agent(agent);
    env.approve();
    let said = env.provost(&["run"]).exits(0);
    assert!(said.out.contains("a later change undid it"), "{}", said.out);
    assert_eq!(env.states(), "1 passed, 2 passed");
    let log = env.provost(&["log", "--json"]).exits(0).lines();
    let of_step_1 =
        log.iter().filter(|event| event["event"] == "TASK_STARTED" && event["details"]["step"] == 1);
    assert_eq!(of_step_1.count(), 2);
    if env.has_fences() {
        let ended = log.last().unwrap();
        let finals: Vec<_> =
            log.iter().filter(|event| event["details"]["subject"]["final"].is_u64()).collect();
        let on_the_end = finals
            .iter()
            .filter(|judged| judged["details"]["verdict"]["tree"]["id"] == ended["details"]["tree"]);
        assert_eq!(on_the_end.count(), 2, "{finals:#?}");
        // The last passed step held on that tree already; its check does not run twice, and the verdict
        // says so.
        assert!(finals.iter().any(|judged| judged["details"]["verdict"]["cached"] == true), "{finals:#?}");
    }
    env.provost(&["audit"]).exits(0);
}

/// Runs three times on the same files: a contract that holds only once has not held.
#[test]
fn a_contract_that_must_hold_several_times_holds_each_time() {
    for (moody, outcome) in [(2, "flaky"), (9, "held")] {
        let contract = |count: &str| {
            format!("test -f out/1 && echo x >> {count} && test \"$(wc -l < {count})\" -ne {moody}")
        };
        let runs = "**verify_runs:** 3\n**on_fail:**";
        let text = |count: &str| plan(&[&contract(count)], "abort").replacen("**on_fail:**", runs, 1);
        let env = Env::new(&text("count")).agent(HONEST).isolation("in-place");
        // Outside of the workspace, so that the judged files stay the same.
        let count = env.folder().join("count");
        env.write("PLAN.md", text(count.to_str().unwrap()));
        env.approve();
        env.provost(&["run"]);
        let judged = env.provost(&["log", "--event", "CONTRACT_JUDGED", "--json"]).exits(0).lines();
        let of_attempt = judged.iter().find(|event| event["details"]["subject"]["contract"].is_u64());
        let verdict = &of_attempt.expect("a verdict")["details"]["verdict"];
        assert_eq!(verdict["outcome"]["kind"], outcome, "{judged:#?}");
        if outcome == "flaky" {
            assert!(verdict.to_string().contains("run 2 of 3 disagreed"), "{verdict}");
        }
    }
}

#[test]
fn a_contract_that_does_not_last_is_not_looked_at_again() {
    let text = plan(&["! test -f out/2", "test -f out/2"], "escalate").replacen(
        "**on_fail:**",
        "**lasting:** no\n**on_fail:**",
        1,
    );
    let env = Env::new(&text).agent(HONEST);
    env.approve();
    env.provost(&["run"]).exits(0);
    assert_eq!(env.states(), "1 passed, 2 passed");
}

#[test]
fn a_workspace_has_one_run_at_a_time_and_a_dead_one_does_not_count() {
    let env = Env::new(&plan(&["test -f out/1"], "abort"))
        .agent("touch begun; while [ ! -f go ]; do sleep 0.02; done; mkdir -p out; touch out/1\n");
    env.approve();
    let mut first = env.start(&["run"]);
    while !env.work().join("begun").exists() {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let second = env.provost(&["run"]).exits(5);
    assert!(second.err.contains(&first.id().to_string()), "{}", second.err);
    first.kill().unwrap();
    first.wait().unwrap();
    env.write("go", "");
    env.provost(&["run"]).exits(0);
}

#[test]
fn time_outs_of_the_step_and_of_the_contract_are_kept() {
    let text = plan(&["test -f out/1"], "abort").replace("**task:**", "**timeout:** 1 second\n\n**task:**");
    let env = Env::new(&text).agent("sleep 600\n");
    env.approve();
    let begun = std::time::Instant::now();
    let run = env.provost(&["run"]).exits(1);
    assert!(run.out.contains("ran out of time"), "{}", run.out);
    let text =
        plan(&["sleep 600"], "abort").replace("**task:**", "**contract_timeout:** 1 second\n\n**task:**");
    let env = Env::new(&text).agent("true\n");
    env.approve();
    let run = env.provost(&["run"]).exits(1);
    assert!(run.out.contains("timed out"), "{}", run.out);
    assert!(begun.elapsed().as_secs() < 300);
}

#[test]
fn an_edit_of_the_law_under_a_run_stops_it_before_the_next_step() {
    // The first agent weakens the second step's contract.
    let agent = "sed -i 's/test -f out.2/true/' PLAN.md; mkdir -p out; touch out/1; echo ok\n";
    let env =
        Env::new(&plan(&["test -f out/1", "test -f out/2"], "abort")).agent(agent).isolation("in-place");
    env.approve();
    let run = env.provost(&["run"]).exits(4);
    assert!(
        run.err.contains("step 2 contract: `test -f out/2 [exit_code == 0]` -> `true [exit_code == 0]`"),
        "{}",
        run.err
    );
    assert_eq!(env.states(), "1 passed, 2 pending");
    // provost does not overwrite the edit, and the plan must pass the gate again.
    assert!(env.read("PLAN.md").contains("\ntrue\n"));
    env.provost(&["run"]).exits(4);
    assert_eq!(env.stage(), "verified");
    // The log has recorded the other spec, so the old approval is gone, even if the text is restored.
    assert!(env.events().contains(&"LAW_CHANGED".to_owned()));
}

#[test]
fn an_interrupted_run_goes_on_and_uses_up_no_retry() {
    let env = Env::new(&plan(&["test -f out/1"], "abort"))
        .agent("touch begun; while [ ! -f go ]; do sleep 0.02; done; mkdir -p out; touch out/1\n");
    env.approve();
    let child = env.start(&["run"]);
    while !env.work().join("begun").exists() {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let pid = rustix::process::Pid::from_raw(child.id() as i32).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let ended = crate::env::answer(child.wait_with_output().unwrap()).exits(130);
    assert!(ended.err.contains("interrupted"), "{}", ended.err);
    env.write("go", "");
    env.provost(&["run"]).exits(0);
}

#[test]
fn no_secret_reaches_the_log_the_terminal_or_the_progress_file() {
    let secret = "hunter2-not-for-anybody-8431";
    let token = concat!("ghp", "_abcdefghijklmnopqrstuvwxyz0123456789");
    let agent =
        format!("cat > prompt; echo \"I used $DEPLOY_PASSWORD and {token}\"; mkdir -p out; touch out/1\n");
    let contract = format!("echo password is {secret}; echo {token} >&2; test -f out/2");
    let text = plan(
        &[&contract.replace(secret, "$(cat secret)").replace(token, "$(cat token)")],
        "retry(1), then abort",
    );
    let env = Env::new(&text).agent(&agent);
    env.write("secret", secret);
    env.write("token", token);
    env.approve();
    let run =
        crate::env::answer(env.command(&["run"]).env("DEPLOY_PASSWORD", secret).output().unwrap()).exits(1);
    let log = env.provost(&["log", "--json"]).exits(0).out;
    for text in [&run.out, &run.err, &log, &env.read("progress.md"), &env.read("prompt")] {
        assert!(!text.contains(secret) && !text.contains(token), "{text}");
    }
    assert!(log.contains("[redacted:"), "{log}");
}

#[test]
fn a_secret_of_ones_own_shape_reaches_neither_the_log_nor_the_terminal() {
    let (ticket, pin) = ("acmetkt_4711abcdefXYZ0815", "mellow-yellow");
    let contract = "cat out/ticket; echo \"acme_pin: $(cat out/pin)\" >&2; test -f out/2";
    let env = Env::new(&plan(&[contract], "abort")).agent("cat ticket; mkdir -p out; cp ticket pin out\n");
    env.write("ticket", ticket);
    env.write("pin", pin);
    let mut config = env.read("provost.toml");
    config.push_str(
        "\n[redact]\nnames = [\"ACME_PIN\"]\nshapes = [{ name = \"ticket\", prefix = \"acmetkt_\" }]\n",
    );
    env.write("provost.toml", &config);
    env.approve();
    let run = env.provost(&["run"]).exits(1);
    let log = env.provost(&["log", "--json"]).exits(0).out;
    let shown = run.out + &run.err + &env.provost(&["log"]).exits(0).out;
    for text in [&shown, &log, &env.read("progress.md")] {
        assert!(!text.contains(ticket) && !text.contains(pin), "{text}");
    }
    assert!(log.contains("[redacted:ticket]") && log.contains("acme_pin: [redacted:secret]"), "{log}");
    assert!(shown.contains("[redacted:ticket]"), "{shown}");
}

#[test]
fn a_verdict_can_be_reproduced() {
    let env = Env::new(&plan(&["test -f out/1", "test -f out/2"], "escalate")).agent(HONEST);
    env.provost(&["recheck", "1"]).exits(5);
    env.approve();
    env.provost(&["run"]).exits(0);
    let events = env.events().len();
    assert!(env.provost(&["recheck", "1"]).exits(0).out.starts_with("the same: then held, now held"));
    // provost keeps its own copy of the tree, so later changes of the workspace do not matter.
    if env.provost(&["status", "--json"]).exits(0).json()["steps"][0]["verdict"]["tree"].is_object() {
        std::fs::remove_file(env.work().join("out/1")).unwrap();
        env.provost(&["recheck", "PLAN.md", "1"]).exits(0);
    }
    env.provost(&["recheck", "9"]).exits(5);
    env.provost(&["recheck", "x"]).exits(2);
    assert_eq!(env.events().len(), events, "a recheck wrote to the log");
}

#[test]
fn after_an_amendment_the_work_of_passed_steps_is_still_there() {
    let text = plan(&["test -f out/1", "test -f out/1 && test -f out/never"], "escalate");
    let env = Env::new(&text).agent(HONEST);
    let mut person = env.person();
    env.approve();
    env.provost(&["run"]).exits(4);
    // A person commits meanwhile, and fixes the second contract.
    env.git(&["commit", "--quiet", "--allow-empty", "--message", "meanwhile"]);
    env.write("PLAN.md", env.read("PLAN.md").replace("test -f out/never", "test -f out/2"));
    env.provost(&["run"]).exits(4);
    person.approve();
    env.provost(&["run"]).exits(0);
    assert_eq!(env.states(), "1 passed, 2 passed");
    env.provost(&["audit"]).exits(0);
}
