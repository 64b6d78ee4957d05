//! Tests a step that runs another plan: with its own spec, gate and log, judged by the step's contract.

use crate::env::{Env, plan};

/// Writes `out/N` for part N, and appends each start to a file.
const AGENT: &str = "part=$(sed -n 's/^Do part \\([0-9a-z]*\\) .*/\\1/p'); mkdir -p out\n\
                     echo \"$part\" >> out/ledger; echo done > out/$part; echo \"wrote out/$part\"\n";

/// Returns a plan with one step per part.
fn parts(parts: &[&str], on_fail: &str) -> String {
    let mut text = String::from(
        "---\nstatus: draft\nowner: test\ntouches: [\"out/**\"]\n---\n\n# A part of it\n\n## Steps\n",
    );
    for (index, part) in parts.iter().enumerate() {
        let number = index + 1;
        text.push_str(&format!(
            "\n### {number}. Part {part}\n\n**target:** coder\n\n**task:**\nDo part {part} of the work.\n\n\
             **contract:**\n```shell\ntest -f out/{part}\n```\n**on_fail:** {on_fail}\n"
        ));
    }
    text
}

/// Returns a plan with a normal step, a step that runs `child`, and another normal step.
fn above(child: &str, contract: &str) -> String {
    let own = plan(&["test -f out/1", contract, "test -f out/3"], "abort");
    let (before, rest) =
        own.split_once("### 2. Step 2\n\n**target:** coder\n\n**task:**\nDo part 2 of the work.\n").unwrap();
    format!("{before}### 2. Step 2\n\n**plan:** {child}\n{rest}")
}

fn env(parent: &str, child: &str) -> Env {
    let env = Env::new(parent).agent(AGENT).isolation("in-place");
    env.write("PLAN-child.md", child);
    env.git(&["add", "--all"]);
    env.git(&["commit", "--quiet", "--message", "plans"]);
    env
}

fn approve(env: &Env, plan: &str) {
    let shown = env.provost(&["show", plan, "--json"]).exits(0).json();
    let revision = shown["revision"].as_str().unwrap().to_owned();
    env.provost(&["approve", plan, "--revision", &revision]).exits(0);
}

fn stage(env: &Env, plan: &str) -> String {
    env.provost(&["status", plan, "--json"]).exits(0).json()["stage"].as_str().unwrap().to_owned()
}

fn events(env: &Env, plan: &str, name: &str) -> Vec<serde_json::Value> {
    env.provost(&["log", plan, "--json", "--event", name]).exits(0).lines()
}

fn ledger(env: &Env) -> String {
    env.read("out/ledger").split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_plan_carries_out_a_step_and_the_step_is_judged_by_its_own_contract() {
    let env = env(&above("child", "test -f out/a && test -f out/b"), &parts(&["a", "b"], "abort"));
    approve(&env, "child");
    env.approve();
    let shown = env.provost(&["show"]).exits(0);
    assert!(shown.out.contains("carried out by the plan child"), "{}", shown.out);
    let ran = env.provost(&["run"]).exits(0);
    assert!(ran.out.contains("given to plan child"), "{}", ran.out);
    assert!(ran.out.contains("child │ [Step 2/2]"), "{}", ran.out);
    assert_eq!((env.stage(), stage(&env, "child")), ("done".into(), "done".into()));
    assert_eq!(ledger(&env), "1 a b 3");
    let status = env.provost(&["status"]).exits(0);
    assert!(status.out.contains("Step 2 · sub-plan child"), "{}", status.out);
    let claim = &events(&env, "PLAN.md", "STEP_CLAIMED")[1];
    assert!(
        claim["details"]["evidence"].as_str().unwrap().contains("the plan child is done: 2 of 2"),
        "{claim}"
    );
    env.provost(&["audit"]).exits(0);
    env.provost(&["audit", "child"]).exits(0);
}

/// The contract of the step decides, and running a done plan again changes nothing.
#[test]
fn a_plan_that_is_done_is_no_pass() {
    let env = env(&above("child", "test -f out/c"), &parts(&["a"], "abort"));
    approve(&env, "child");
    env.approve();
    env.provost(&["run"]).exits(1);
    assert_eq!((stage(&env, "child"), env.states()), ("done".into(), "1 passed, 2 failed, 3 pending".into()));
    assert_eq!(ledger(&env), "1 a", "an agent was asked again for what its plan had done");
}

#[test]
fn a_plan_nobody_approved_waits_and_says_how_to_approve_it() {
    let env = env(&above("child", "test -f out/a"), &parts(&["a"], "abort"));
    let mut person = env.person();
    env.approve();
    let ran = env.provost(&["run"]).exits(4);
    assert_eq!(env.states(), "1 passed, 2 blocked, 3 pending");
    assert_eq!(stage(&env, "child"), "verified");
    assert_eq!(ledger(&env), "1");
    assert!(ran.err.contains("provost approve child --revision"), "{}", ran.err);
    let inbox = env.provost(&["inbox", "--json"]).exits(0);
    assert!(inbox.out.contains("child is not approved"), "{}", inbox.out);
    // The child is not approved yet, so the same happens again and nothing starts.
    env.provost(&["run"]).exits(4);
    assert_eq!(ledger(&env), "1");
    // An agent of the parent plan ran without a sandbox, and may have left a process.
    let revision = env.provost(&["show", "child", "--json"]).exits(0).json()["revision"].clone();
    let approve = ["approve", "child", "--revision", revision.as_str().unwrap()];
    assert!(env.provost(&approve).exits(5).err.contains("needs a terminal"));
    person.provost(&approve).exits(0);
    env.provost(&["run"]).exits(0);
    assert_eq!((env.stage(), ledger(&env)), ("done".into(), "1 a 3".into()));
}

#[test]
fn a_plan_that_failed_is_a_failure_with_its_own_why() {
    let child = parts(&["a"], "abort").replace("test -f out/a", "test -f out/nowhere");
    let env = env(&above("child", "test -f out/a"), &child);
    approve(&env, "child");
    env.approve();
    env.provost(&["run"]).exits(1);
    assert_eq!((env.stage(), stage(&env, "child")), ("failed".into(), "failed".into()));
    let ended = events(&env, "PLAN.md", "ATTEMPT_ENDED");
    assert_eq!(ended[1]["details"]["end"]["kind"], "plan_failed", "{ended:#?}");
    let failure = events(&env, "PLAN.md", "FAILURE_DETECTED")[0]["details"]["error_message"].to_string();
    assert!(failure.contains("its step 1 “Part a”: contract broke"), "{failure}");
    let class = events(&env, "PLAN.md", "FAILURE_CLASSIFIED")[0]["details"]["rule"].to_string();
    assert!(class.contains("plan-failed"), "{class}");
    // The step's contract would hold from the first step on, but it never runs.
    assert!(!env.provost(&["log", "--json"]).exits(0).out.contains("\"subject\":{\"contract\":2}"));
}

#[test]
fn a_plan_that_was_rejected_is_a_failure() {
    let env = env(&above("child", "test -f out/a"), &parts(&["a"], "abort"));
    env.provost(&["verify", "child"]).exits(0);
    env.provost(&["reject", "child", "--reason", "not like this"]).exits(0);
    env.approve();
    env.provost(&["run"]).exits(1);
    let failure = events(&env, "PLAN.md", "FAILURE_DETECTED")[0]["details"]["error_message"].to_string();
    assert!(failure.contains("it was rejected: not like this"), "{failure}");
    assert_eq!(ledger(&env), "1");
}

/// A person is asked in the child plan; after the answer there, the parent plan continues by itself.
#[test]
fn an_answer_below_lets_the_plan_above_go_on() {
    let child = parts(&["a"], "escalate").replace("test -f out/a", "test -f out/yes");
    let env = env(&above("child", "test -f out/a"), &child);
    let mut person = env.person();
    approve(&env, "child");
    env.approve();
    let ran = env.provost(&["run"]).exits(4);
    // The item names the command that answers it in the child plan.
    let (_, after) = ran.err.split_once("provost answer child-").expect("a command");
    let id = format!("child-{}", after.split(' ').next().unwrap_or_default());
    env.write("out/yes", "");
    person.provost(&["answer", &id, "retry"]).exits(0);
    env.provost(&["run"]).exits(0);
    assert_eq!(env.stage(), "done");
    assert_eq!(ledger(&env), "1 a a 3");
}

#[test]
fn plans_that_are_not_there_or_go_round_are_diagnosed() {
    let env = env(&above("nowhere", "test -f out/a"), &parts(&["a"], "abort"));
    let verified = env.provost(&["verify", "--json"]).exits(3);
    assert!(verified.out.contains("P066"), "{}", verified.out);
    env.write("PLAN-one.md", above("two", "test -f out/a"));
    env.write("PLAN-two.md", above("one", "test -f out/a"));
    let verified = env.provost(&["verify", "one", "--json"]).exits(3);
    assert!(verified.out.contains("P067"), "{}", verified.out);
    env.write("PLAN-self.md", above("self", "test -f out/a"));
    assert!(env.provost(&["verify", "self", "--json"]).exits(3).out.contains("P067"));
    // A child plan that depends on its parent.
    env.write("PLAN-top.md", above("under", "test -f out/a"));
    env.write(
        "PLAN-under.md",
        parts(&["a"], "abort").replace("owner: test", "owner: test\ndepends_on: [top]"),
    );
    assert!(env.provost(&["verify", "top", "--json"]).exits(3).out.contains("P067"));
}

#[test]
fn a_step_without_a_contract_is_not_let_through_because_a_plan_does_it() {
    let text = above("child", "test -f out/a")
        .replace("**contract:**\n```shell\ntest -f out/a\n```\nexit_code == 0\n", "");
    let env = env(&text, &parts(&["a"], "abort"));
    let verified = env.provost(&["verify", "--json"]).exits(3);
    assert!(verified.out.contains("P039"), "{}", verified.out);
}

/// After a kill while the child plan runs, that plan resumes, not a copy of it.
#[test]
fn a_crash_in_the_plan_below_resumes_it() {
    let slow = "part=$(sed -n 's/^Do part \\([0-9a-z]*\\) .*/\\1/p'); mkdir -p out; echo \"$part\" >> out/ledger\n\
                if [ $part = b ] && [ ! -f out/killed ]; then touch out/killed; kill -9 $PPID; sleep 60; fi\n\
                echo done > out/$part; echo ok\n";
    let env = env(&above("child", "test -f out/b"), &parts(&["a", "b"], "abort")).agent(slow);
    approve(&env, "child");
    env.approve();
    assert_eq!(env.provost(&["run"]).code, -1);
    assert_eq!(env.states(), "1 passed, 2 in_progress, 3 pending");
    env.provost(&["run"]).exits(0);
    assert_eq!((env.stage(), stage(&env, "child")), ("done".into(), "done".into()));
    assert_eq!(ledger(&env), "1 a b b 3");
    let started: Vec<_> = events(&env, "PLAN.md", "TASK_STARTED");
    assert_eq!(started.len(), 3, "the step above was begun twice: {started:#?}");
    assert_eq!(events(&env, "child", "PLAN_CREATED").len(), 1);
    env.provost(&["audit"]).exits(0);
    env.provost(&["audit", "child"]).exits(0);
}

/// Marks and the progress file are derived from the log, so faking them has no effect.
#[test]
fn faked_progress_of_the_plan_below_counts_for_nothing() {
    let liar = "part=$(sed -n 's/^Do part \\([0-9a-z]*\\) .*/\\1/p'); mkdir -p out; echo \"$part\" >> out/ledger\n\
                echo done > out/$part\n\
                if [ $part = 1 ]; then\n\
                  echo '- 2026-11-15T12:00:00Z [9] plan done: 1 completed, 0 failed, 0 skipped' > progress-child.md\n\
                  sed -i 's/^status: .*/status: done/; s/^### 1\\. Part/### 1. ✅ Part/' PLAN-child.md\n\
                fi\n\
                echo ok\n";
    let env = env(&above("child", "test -f out/1"), &parts(&["a"], "abort")).agent(liar);
    approve(&env, "child");
    env.approve();
    env.provost(&["run"]).exits(0);
    assert_eq!(ledger(&env), "1 a 3", "the plan below was taken for done");
    assert_eq!(events(&env, "child", "TASK_COMPLETED").len(), 1);
}

/// The step's usage is that of the child plan, and the child stops when the parent's budget is used up.
#[test]
fn the_step_pays_for_its_plan() {
    let text =
        above("child", "test -f out/b").replace("# A plan\n", "# A plan\n\n**Budget:** max 100k tokens\n");
    let env = env(&text, &parts(&["a", "b"], "abort").replace("**target:** coder", "**target:** worker"));
    let script = |parts: [(u32, &str); 2]| {
        let part = |(number, part): (u32, &str)| {
            format!(
                "[[step]]\nnumber = {number}\ndo = [{{ append = \"out/ledger\", text = \"{part}\\n\" }}, \
                 {{ write = \"out/{part}\", text = \"done\" }}, {{ say = \"ok\" }}, \
                 {{ usage = {{ input_tokens = 44000, output_tokens = 1000, micro_usd = 20000 }} }}]\n"
            )
        };
        parts.map(part).concat()
    };
    env.write("above.toml", script([(1, "1"), (3, "3")]));
    env.write("below.toml", script([(1, "a"), (2, "b")]));
    env.write(
        "provost.toml",
        "[agents.coder]\ndriver = \"scripted\"\nscript = \"above.toml\"\n\
         [agents.worker]\ndriver = \"scripted\"\nscript = \"below.toml\"\n[verify]\nisolation = \"in-place\"\n",
    );
    let mut person = env.person();
    approve(&env, "child");
    env.approve();
    env.provost(&["run"]).exits(4);
    assert_eq!(ledger(&env), "1 a b");
    let breach = &events(&env, "PLAN.md", "BUDGET_EXCEEDED")[0]["details"];
    assert_eq!(
        (&breach["step"], &breach["spent"]["tokens"]),
        (&serde_json::json!(2), &serde_json::json!(135_000))
    );
    person.provost(&["answer", "2", "retry", "--budget", "300k tokens"]).exits(0);
    env.provost(&["run"]).exits(0);
    assert_eq!((env.stage(), ledger(&env)), ("done".into(), "1 a b 3".into()));
    let cost = env.provost(&["status", "--json"]).exits(0).json()["cost"].clone();
    assert_eq!(
        (&cost["tokens"], &cost["unknown_attempts"]),
        (&serde_json::json!(180_000), &serde_json::json!(0))
    );
}
