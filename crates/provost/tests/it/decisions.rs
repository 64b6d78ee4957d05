//! Tests who is blamed for a failure, and which decisions are made, by whom, and about what.

use std::time::{Duration, Instant};

use crate::env::{Env, HONEST, answer, plan};

fn log(env: &Env) -> String {
    env.provost(&["log"]).exits(0).out
}

fn count(env: &Env, name: &str) -> usize {
    env.events().iter().filter(|event| *event == name).count()
}

/// The program aborts at first; when the agent learns of it, it writes one that works.
const CRASHES_FIRST: &str = "mkdir -p out; prompt=$(cat); case $prompt in *SIGABRT*) echo true > out/a.sh ;; \
    *) echo 'echo about to crash >&2; kill -ABRT $$' > out/a.sh ;; esac\n";

#[test]
fn a_crash_of_the_program_under_test_is_told_to_the_agent() {
    for level in ["auto", "in-place"] {
        let contract = "test -f out/a.sh && sh out/a.sh";
        let env =
            Env::new(&plan(&[contract], "retry(1), then escalate")).agent(CRASHES_FIRST).isolation(level);
        env.approve();
        env.provost(&["run"]).exits(0);
        assert_eq!(count(&env, "TASK_STARTED"), 2, "{level}");
        let log = log(&env);
        assert!(log.contains("exit code 134 is signal 6 (SIGABRT)"), "{level}: {log}");
        assert!(!log.contains("killed from outside"), "{level}: {log}");
    }
}

#[test]
fn a_tool_that_the_machine_has_not_costs_no_attempt_and_is_named() {
    let contract = "test -f out/1 && no-such-tool-310 --version";
    let env = Env::new(&plan(&[contract], "abort")).agent(HONEST);
    env.approve();
    // `abort` in the plan is for failed work; this failure is not the agent's.
    let run = env.provost(&["run"]).exits(4);
    let told = format!("{}{}", run.out, run.err);
    assert!(told.contains("`no-such-tool-310` is not on the PATH of checks"), "{told}");
    assert!(told.contains("`retry` runs the check again, not the agent"), "{told}");
    let status = env.provost(&["status", "--json"]).exits(0).json();
    assert_eq!(status["steps"][0]["verdict"]["outcome"]["kind"], "not_run");

    // When the tool exists, only the check runs again, and no agent is paid twice.
    let tools = env.folder().join("tools");
    std::fs::create_dir(&tools).expect("a folder");
    let tool = tools.join("no-such-tool-310");
    std::fs::write(&tool, "#!/bin/sh\nexit 0\n").expect("a tool");
    let mut mode = std::fs::metadata(&tool).expect("a tool").permissions();
    std::os::unix::fs::PermissionsExt::set_mode(&mut mode, 0o755);
    std::fs::set_permissions(&tool, mode).expect("a mode");
    let path = format!("{}:{}", tools.display(), std::env::var("PATH").unwrap_or_default());
    env.provost(&["answer", "1", "retry"]).exits(0);
    let again = env.command(&["run"]).env("PATH", path).output().expect("provost");
    assert!(again.status.success(), "{}", String::from_utf8_lossy(&again.stderr));
    assert_eq!(count(&env, "TASK_STARTED"), 1);
}

#[test]
fn a_tool_that_only_the_agents_script_calls_is_the_agents_to_mend() {
    let agent = "mkdir -p out; prompt=$(cat); case $prompt in \
        *no-such-tool-311*) echo true > out/run.sh ;; *) echo no-such-tool-311 > out/run.sh ;; esac\n";
    let contract = "test -f out/run.sh && bash out/run.sh";
    let env = Env::new(&plan(&[contract], "retry(1), then escalate")).agent(agent);
    env.approve();
    env.provost(&["run"]).exits(0);
    assert_eq!(count(&env, "TASK_STARTED"), 2);
}

#[test]
fn an_agent_that_its_model_turns_away_is_not_sent_again() {
    for (said, words) in [
        ("API Error: 404 not_found_error model: opus-9", "correct `model` in provost.toml"),
        ("API Error: 400 prompt is too long: 250000 tokens", "shorten the step"),
        ("Error: 401 unauthorized: please log in", "behind role `coder`"),
    ] {
        let agent = format!("cat > /dev/null; echo starting; echo '{said}' >&2; exit 1\n");
        let env = Env::new(&plan(&["test -f out/1"], "retry(3), then abort")).agent(&agent);
        env.approve();
        let run = env.provost(&["run"]).exits(4);
        assert_eq!(count(&env, "TASK_STARTED"), 1, "{said}");
        let told = format!("{}{}{}", run.out, run.err, env.provost(&["inbox", "--json"]).exits(0).out);
        assert!(told.contains(words), "{said}: {told}");
        assert!(told.contains(said), "the end of what it said is kept: {told}");
    }
}

#[test]
fn a_workspace_that_cannot_be_written_is_said_before_an_agent_starts() {
    let env = Env::new(&plan(&["test -f out/1"], "retry(1), then abort")).agent(HONEST);
    env.approve();
    if !env.has_fences() {
        return;
    }
    let (work, provost) = (env.work(), env!("CARGO_BIN_EXE_provost"));
    let mut command = std::process::Command::new("bwrap");
    command.args(["--dev-bind", "/", "/", "--ro-bind"]).args([&work, &work]).arg("--chdir").arg(&work);
    command.args([provost, "run"]).env_clear().stdin(std::process::Stdio::null());
    for (name, value) in env.command(&[]).get_envs() {
        command.env(name, value.unwrap_or_default());
    }
    let run = answer(command.output().expect("bwrap"));
    assert_eq!(run.code, 70, "{run:?}");
    assert!(run.err.contains("is not writable"), "{}", run.err);
    assert_eq!(count(&env, "TASK_STARTED"), 0);
}

#[test]
fn a_refused_approval_changes_nothing() {
    let env = Env::new(&plan(&["test -f out/1"], "abort")).agent(HONEST);
    env.provost(&["verify"]).exits(0);
    env.provost(&["reject", "--reason", "not like this"]).exits(0);
    let before = env.events();
    env.provost(&["approve", "--revision", "deadbeefdead"]).exits(5);
    assert_eq!(env.events(), before);
    assert_eq!(env.stage(), "draft");
    // A person who approves the rejected revision by its id has changed their mind.
    env.approve();
    assert_eq!(env.stage(), "approved");
}

#[test]
fn a_plan_is_not_run_before_those_it_depends_on() {
    let env = Env::new(&plan(&["test -f out/1"], "abort")).agent(HONEST);
    let text = |front: &str| {
        plan(&["test -f out/1"], "abort").replace("owner: test", &format!("owner: test{front}"))
    };
    env.write(".harness/PLAN-first.md", text(""));
    env.write(".harness/PLAN-second.md", text("\ndepends_on: [first]"));
    let approve = |name: &str| {
        let shown = env.provost(&["show", name, "--json"]).exits(0).json();
        env.provost(&["approve", name, "--revision", shown["revision"].as_str().expect("a revision")])
            .exits(0);
    };
    approve("second");
    let refused = env.provost(&["run", "second"]).exits(5);
    assert!(refused.err.contains("depends on first (draft)"), "{}", refused.err);
    assert_eq!(env.provost(&["log", "second", "--event", "TASK_STARTED"]).exits(0).out, "");
    approve("first");
    env.provost(&["run", "second"]).exits(5);
    env.provost(&["run", "first"]).exits(0);
    env.git(&["clean", "--quiet", "--force", "-d", "out"]);
    env.provost(&["run", "second"]).exits(0);
}

#[test]
fn an_audit_of_nothing_is_not_sound() {
    let env = Env::new(&plan(&["test -f out/1"], "abort")).agent(HONEST);
    let audit = env.provost(&["audit"]).exits(5);
    assert!(audit.out.contains("nothing to audit"), "{}", audit.out);
    assert_eq!(env.provost(&["audit", "--json"]).exits(5).json()["sound"], false);
    env.provost(&["verify"]).exits(0);
    let audit = env.provost(&["audit"]).exits(0);
    assert!(audit.out.contains("no step has passed"), "{}", audit.out);
    env.approve();
    env.provost(&["run"]).exits(0);
    assert!(env.provost(&["audit"]).exits(0).out.contains("every passed step has a verdict"));
}

#[test]
fn a_plan_that_is_done_says_so_when_it_is_run_again() {
    let env = Env::new(&plan(&["test -f out/1"], "abort")).agent(HONEST);
    env.approve();
    env.provost(&["run"]).exits(0);
    for arguments in [&["run"][..], &["run", "--json"]] {
        let again = env.provost(arguments).exits(0);
        assert!(again.err.contains("nothing to run: the plan is done (1 of 1 step)"), "{}", again.err);
    }
}

/// Polls until the condition holds; a loaded machine may be slow.
fn until(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(300), "never: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Does part 1 at once; waits in part 2 until it is released.
const WAITS_AT_TWO: &str = "part=$(sed -n 's/^Do part \\([0-9]*\\) .*/\\1/p'); mkdir -p out; \
    if [ $part = 2 ]; then touch out/at-work; until test -e out/release; do sleep 0.05; done; fi; echo done > out/$part\n";

#[test]
fn marks_follow_the_log_though_nothing_is_said_for_a_while() {
    let env = Env::new(&plan(&["test -f out/1", "test -f out/2"], "abort"))
        .agent(WAITS_AT_TWO)
        .isolation("in-place");
    env.approve();
    let mut run = env.start(&["run"]);
    until("step 2 is at work", || env.work().join("out/at-work").exists());
    // Nothing is appended to the log until the agent is released.
    until("step 1 is marked", || env.read("PLAN.md").contains("### 1. ✅"));
    assert!(env.read("PLAN.md").contains("### 2. ⏳"), "{}", env.read("PLAN.md"));

    // After a kill with an outdated plan file, the next command repairs the marks.
    run.kill().expect("killed");
    run.wait().expect("gone");
    env.write("out/release", "");
    let stale = env.read("PLAN.md").replace("### 1. ✅ ", "### 1. ");
    env.write("PLAN.md", stale);
    until("nobody holds the plan", || {
        env.provost(&["status"]).exits(0);
        env.read("PLAN.md").contains("### 1. ✅")
    });
    env.provost(&["run"]).exits(0);
}

#[test]
fn an_approval_is_asked_for_before_it_is_given() {
    let env = Env::new(&plan(&["test -f out/1"], "abort")).agent(HONEST);
    env.provost(&["verify"]).exits(0);
    env.approve();
    assert_eq!(env.events(), ["PLAN_CREATED", "PLAN_VERIFIED", "GATE_APPROVAL_REQUESTED", "GATE_APPROVED"]);
}

#[test]
fn a_plan_file_that_changed_under_a_run_is_in_the_inbox() {
    let env = Env::new(&plan(&["test -f out/1", "test -f out/2"], "abort")).isolation("in-place");
    let env = env.agent(
        "mkdir -p out; touch out/at-work; until test -e out/release; do sleep 0.05; done; echo x > out/1\n",
    );
    env.approve();
    let run = env.start(&["run"]);
    until("step 1 is at work", || env.work().join("out/at-work").exists());
    env.write("PLAN.md", env.read("PLAN.md").replace("Do part 2 of the work", "Do something else"));
    env.write("out/release", "");
    let stopped = answer(run.wait_with_output().expect("provost")).exits(4);
    assert!(stopped.err.contains("differs from the approved revision"), "{}", stopped.err);
    let inbox = env.provost(&["inbox", "--json"]).exits(0).json();
    assert_eq!(inbox[0]["kind"], "changed", "{inbox}");
    assert!(
        inbox[0]["reason"].as_str().is_some_and(|reason| reason.contains("not what was approved")),
        "{inbox}"
    );
    // The new text goes to the gate, so the inbox item is another one.
    env.provost(&["run"]).exits(4);
    assert_eq!(env.provost(&["inbox", "--json"]).exits(0).json()[0]["kind"], "approval");
}

#[test]
fn what_was_held_for_an_attempt_that_reported_nothing_is_given_back_at_a_retry() {
    let text =
        plan(&["test -f out/2"], "escalate").replace("## Steps", "**Budget:** max 1k tokens\n\n## Steps");
    let env = Env::new(&text).agent("true\n");
    env.approve();
    for attempts in 1..=3 {
        env.provost(&["run"]).exits(4);
        assert_eq!(count(&env, "TASK_STARTED"), attempts);
        env.provost(&["answer", "1", "retry"]).exits(0);
    }
    assert_eq!(count(&env, "BUDGET_EXCEEDED"), 0);
}

#[test]
fn a_shell_that_only_tried_the_mcp_server_is_still_a_persons() {
    let env = Env::new(&plan(&["test -f out/1"], "abort")).agent(HONEST);
    env.provost(&["verify"]).exits(0);
    let provost = env!("CARGO_BIN_EXE_provost");
    let hello = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}"#;
    for input in ["", hello] {
        let mut shell = std::process::Command::new("bash");
        let line = format!("printf '%s\\n' '{input}' | {provost} mcp >/dev/null; {provost} ask -q hello");
        shell.args(["-c", &line]).env_clear().current_dir(env.work());
        for (name, value) in env.command(&[]).get_envs() {
            shell.env(name, value.unwrap_or_default());
        }
        answer(shell.output().expect("bash")).exits(0);
    }
    assert_eq!(count(&env, "TAMPER_DETECTED"), 0);
}

#[test]
fn the_gate_shows_what_is_started_and_an_approval_covers_it() {
    let env = Env::new(&plan(&["test -f out/1"], "abort")).agent(HONEST);
    let config = env.read("provost.toml").replace("\"agent.sh\"]", "\"agent.sh\", \"--api-key=sk-ant-api03-AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\"]\nmodel = \"m-1\"");
    env.write("provost.toml", &config);
    let shown = env.provost(&["show"]).exits(0).out;
    assert!(shown.contains("coder: runs `bash agent.sh") && shown.contains("model m-1"), "{shown}");
    assert!(!shown.contains("sk-ant-api03"), "{shown}");
    env.approve();
    assert!(!env.provost(&["log", "--json"]).exits(0).out.contains("sk-ant-api03"));
    for (from, to) in [("m-1", "m-2"), ("AAAA\"]", "AAAB\"]"), ("\"bash\"", "\"sh\"")] {
        env.write("provost.toml", config.replace(from, to));
        let run = env.provost(&["run"]).exits(4);
        assert!(run.err.contains("waits for approval"), "{from}: {}", run.err);
    }
    assert_eq!(count(&env, "TASK_STARTED"), 0);
    // With the approved configuration it runs again, after a new approval: the log has recorded the other
    // settings.
    env.write("provost.toml", &config);
    env.approve();
    env.provost(&["run"]).exits(0);
}

#[test]
fn a_person_who_confirms_is_shown_the_work() {
    let text = plan(&["x"], "escalate");
    let from = text.find("**contract:**").expect("a contract");
    let to = text.find("**on_fail:**").expect("what follows");
    let text = format!("{}**contract:** human\n{}", &text[..from], &text[to..]);
    let env =
        Env::new(&text).agent("mkdir -p out; echo 'a line to be read' > out/note.txt; echo I wrote it\n");
    env.approve();
    let run = env.provost(&["run"]).exits(4);
    assert!(run.err.contains("confirm"), "{}", run.err);
    let inbox = env.provost(&["inbox", "--json"]).exits(0).json();
    let context = &inbox[0]["context"];
    assert_eq!(context["changed"][0], "added out/note.txt (+1 -0)", "{context}");
    assert!(context["diff"].as_str().is_some_and(|diff| diff.contains("+a line to be read")), "{context}");
    let shown = env.provost(&["inbox"]).exits(0).out;
    assert!(shown.contains("out/note.txt"), "{shown}");
    let id = shown.split_whitespace().next().expect("an item").to_owned();
    let whole = env.provost(&["inbox", &id]).exits(0).out;
    assert!(whole.contains("+a line to be read") && whole.contains("I wrote it"), "{whole}");
}
