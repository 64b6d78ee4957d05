//! Tests that an attempt is credited only with what it did: everything else in the workspace is part of the
//! tree it starts with.

use std::process::Command;

use serde_json::Value;

use crate::env::{Env, plan};

/// Returns a plan whose steps change `src/a.py`.
fn counting(contracts: &[&str], on_fail: &str) -> String {
    plan(contracts, on_fail).replace("touches: [\"out/**\"]", "touches: [\"src/**\"]")
}

fn ready(text: &str, agent: &str) -> Env {
    let env = Env::new(text).agent(agent).isolation("guard+clean");
    env.write("src/a.py", "x = 1\n");
    env.git(&["add", "--all"]);
    env.git(&["commit", "--quiet", "--message", "more"]);
    env
}

fn details(env: &Env, name: &str) -> Vec<Value> {
    let log = env.provost(&["log", "--json"]).exits(0).lines();
    log.into_iter().filter(|event| event["event"] == name).map(|event| event["details"].clone()).collect()
}

/// Returns the verdicts on a subject, in order.
fn verdicts(env: &Env, subject: &str) -> Vec<Value> {
    let judged = details(env, "CONTRACT_JUDGED").into_iter();
    judged.filter(|each| each["subject"].get(subject).is_some()).map(|each| each["verdict"].clone()).collect()
}

fn names(value: &Value) -> Vec<&str> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

fn git(env: &Env, arguments: &[&str]) -> String {
    let ran = Command::new("git").args(arguments).current_dir(env.work()).output().expect("git");
    assert!(ran.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&ran.stderr));
    String::from_utf8_lossy(&ran.stdout).trim().to_owned()
}

/// Names no file, so that the approval does not cover a file's content.
const TWO: &str = "grep -rqx 'x = 2' src";

#[test]
fn what_a_person_did_after_the_approval_held_before_the_work() {
    let env = ready(&counting(&[TWO], "escalate"), "true\n");
    env.approve();
    env.write("src/a.py", "x = 2\n");
    env.write("src/notes.txt", "mine\n");
    env.provost(&["run"]).exits(0);
    let [control] = &verdicts(&env, "control")[..] else { panic!("one control") };
    assert_eq!(control["outcome"]["kind"], "held", "it held before the work: {control}");
    let started = details(&env, "TASK_STARTED");
    assert_eq!(names(&started[0]["start"]["others"]), ["src/a.py", "src/notes.txt"]);
    let [seen] = &verdicts(&env, "contract")[..] else { panic!("one verdict") };
    assert!(names(&seen["tree"]["files"]).is_empty(), "the agent did nothing: {seen}");
    assert_eq!(names(&seen["tree"]["others"]), ["src/a.py", "src/notes.txt"]);
    let shown = env.provost(&["changes", "1"]).exits(0).out;
    assert!(shown.contains("no file changed"), "{shown}");
    assert!(shown.contains("src/notes.txt was changed by others"), "{shown}");
}

#[test]
fn with_red_first_an_agent_that_does_nothing_does_not_pass_by_the_work_of_a_person() {
    let env = ready(&counting(&[TWO], "escalate"), "true\n");
    env.write("provost.toml", format!("{}require_red = true\n", env.read("provost.toml")));
    env.approve();
    env.write("src/a.py", "x = 2\n");
    env.provost(&["run"]).exits(4);
    assert!(!env.states().contains("passed"), "{}", env.states());
}

#[test]
fn an_honest_attempt_beside_the_edits_of_a_person_is_credited_with_its_own_files() {
    let env = ready(&counting(&[TWO], "escalate"), "echo 'x = 2' > src/a.py; echo new > src/b.py\n");
    env.approve();
    env.write("src/notes.txt", "mine\n");
    env.provost(&["run"]).exits(0);
    assert_eq!(verdicts(&env, "control")[0]["outcome"]["kind"], "broke");
    let seen = &verdicts(&env, "contract")[0];
    assert_eq!(names(&seen["tree"]["files"]), ["src/a.py", "src/b.py"]);
    assert_eq!(names(&seen["tree"]["others"]), ["src/notes.txt"]);
    let shown = env.provost(&["changes", "--json"]).exits(0).json();
    let files: Vec<&str> = shown["steps"][0]["files"]
        .as_array()
        .expect("files")
        .iter()
        .filter_map(|f| f["path"].as_str())
        .collect();
    assert_eq!(files, ["src/a.py", "src/b.py"]);
    assert!(shown["steps"][0]["files"][0]["diff"].as_str().expect("a diff").contains("-x = 1\n+x = 2\n"));
}

#[test]
fn what_a_person_mends_between_two_attempts_is_not_the_agents() {
    let env = ready(&counting(&[TWO], "escalate"), "echo try >> src/log.txt\n");
    let mut person = env.person();
    env.approve();
    env.provost(&["run"]).exits(4);
    env.write("src/a.py", "x = 2\n");
    person.provost(&["answer", "1", "retry"]).exits(0);
    env.provost(&["run"]).exits(0);
    let started = details(&env, "TASK_STARTED");
    assert!(names(&started[0]["start"]["others"]).is_empty());
    assert_eq!(
        names(&started[1]["start"]["others"]),
        ["src/a.py"],
        "the agent's own log is not somebody else's"
    );
    let controls = verdicts(&env, "control");
    assert_eq!(controls.last().expect("a control")["outcome"]["kind"], "held", "{controls:?}");
    let contracts = verdicts(&env, "contract");
    let seen = contracts.last().expect("a verdict");
    assert_eq!(names(&seen["tree"]["files"]), ["src/log.txt"]);
}

#[test]
fn what_an_attempt_left_is_credited_to_the_one_that_ends_the_work() {
    let agent = "if test -e src/half; then echo 'x = 2' > src/a.py; else touch src/half; fi\n";
    let env = ready(&counting(&[&format!("test -e src/half && {TWO}")], "retry(2), then escalate"), agent);
    env.approve();
    env.provost(&["run"]).exits(0);
    let contracts = verdicts(&env, "contract");
    assert_eq!(names(&contracts.last().expect("a verdict")["tree"]["files"]), ["src/a.py", "src/half"]);
    assert_eq!(verdicts(&env, "control").len(), 1, "the tree the work began with is the same");
}

#[test]
fn a_contract_that_was_mended_credits_the_work_that_was_done_already() {
    let env = ready(&counting(&["grep -rqx 'x = 3' src"], "escalate"), "echo 'x = 2' > src/a.py\n");
    let mut person = env.person();
    env.approve();
    env.provost(&["run"]).exits(4);
    env.write("PLAN.md", env.read("PLAN.md").replace("x = 3", "x = 2"));
    env.provost(&["verify"]).exits(0);
    person.approve();
    env.provost(&["run"]).exits(0);
    let controls = verdicts(&env, "control");
    assert_eq!(controls.last().expect("a control")["outcome"]["kind"], "broke", "{controls:?}");
    let contracts = verdicts(&env, "contract");
    assert_eq!(names(&contracts.last().expect("a verdict")["tree"]["files"]), ["src/a.py"]);
}

#[test]
fn a_person_is_shown_what_a_step_changed_and_confirms_just_that() {
    let text = counting(&["true"], "escalate")
        .replace("**contract:**\n```shell\ntrue\n```\nexit_code == 0\n", "**contract:** human\n");
    let env = ready(&text, "echo 'x = 2' > src/a.py\n");
    let mut person = env.person();
    env.approve();
    env.provost(&["run"]).exits(4);
    let shown = env.provost(&["changes", "1"]).exits(0).out;
    assert!(shown.contains("changed src/a.py (+1 -1)"), "{shown}");
    assert!(shown.contains("-x = 1\n+x = 2\n"), "{shown}");
    env.write("src/a.py", "x = 3\n");
    person.provost(&["answer", "1", "confirm"]).exits(0);
    env.provost(&["run"]).exits(0);
    env.provost(&["commit"]).exits(0);
    assert_eq!(git(&env, &["show", "provost/plan:src/a.py"]), "x = 2");
}

#[test]
fn changes_of_a_step_that_was_not_tried_says_so() {
    let env = ready(&counting(&[TWO], "escalate"), "true\n");
    env.approve();
    let refused = env.provost(&["changes", "1"]).exits(5);
    assert!(refused.err.contains("step 1 has not been tried yet"), "{}", refused.err);
    assert!(env.provost(&["changes"]).exits(0).err.contains("no step of this plan has run yet"));
    assert!(env.provost(&["changes", "7"]).exits(5).err.contains("there is no step 7"));
}

/// A person edited one file and added another, inside `touches`, and a third outside of it.
fn dirty(agent: &str) -> Env {
    let env = ready(&counting(&[TWO], "escalate"), agent);
    env.write("src/a.py", "x = 2\n");
    env.write("src/notes.txt", "mine\n");
    env.write("tests/test_a.py", "assert False\n");
    env.write(".gitignore", "*.log\n");
    env.git(&["add", ".gitignore"]);
    env.git(&["commit", "--quiet", "--message", "ignore logs", ".gitignore"]);
    env.write("src/build.log", "ignored\n");
    env
}

#[test]
fn uncommitted_files_are_shown_at_the_gate_with_whose_they_are() {
    let env = dirty("true\n");
    let shown = env.provost(&["show", "--json"]).exits(0).json();
    let inside: Vec<String> = shown["uncommitted"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|file| format!("{} {} {}", file["path"], file["change"], file["whose"]).replace('"', ""))
        .collect();
    assert_eq!(inside, ["src/a.py modified yours", "src/notes.txt added yours"]);
    let outside = shown["not_checked"].to_string();
    assert!(outside.contains("tests/test_a.py"), "{outside}");
    let text = env.provost(&["show"]).exits(0).out;
    assert!(text.contains("no check uses these files"), "{text}");
    assert!(text.contains("--include-uncommitted"), "{text}");
    let waits = env.provost(&["run"]).exits(4);
    assert!(waits.err.contains("src/notes.txt (added, yours)"), "{}", waits.err);
    let before = env.provost(&["log", "--json"]).exits(0).out;
    let refused = env.provost(&["approve", "--revision", &env.revision()]).exits(5);
    assert!(refused.err.contains("2 files inside `touches` are not committed"), "{}", refused.err);
    for way in ["git stash", "--include-uncommitted", "git commit"] {
        assert!(refused.err.contains(way), "{way}: {}", refused.err);
    }
    assert_eq!(env.provost(&["log", "--json"]).exits(0).out, before, "a refused approval changes nothing");
    // One way out: committed files are part of the base.
    env.git(&["add", "src"]);
    env.git(&["commit", "--quiet", "--message", "mine"]);
    env.approve();
}

#[test]
fn a_policy_does_not_approve_what_nobody_committed() {
    let env = dirty("true\n");
    let policy = format!(
        "[gate.policies.sources]\ntouches = [\"src/**\"]\nowner = [\"test\"]\ncommands = [\"{TWO}\"]\n"
    );
    env.write("provost.toml", format!("{}\n{policy}", env.read("provost.toml")));
    env.provost(&["approve", "--policy", "sources"]).exits(0);
    let waits = env.provost(&["run"]).exits(4);
    assert!(waits.err.contains("the policy did not approve: 2 files inside `touches`"), "{}", waits.err);
    env.git(&["add", "src"]);
    env.git(&["commit", "--quiet", "--message", "mine"]);
    env.provost(&["run"]).exits(0);
}

#[test]
fn files_that_are_included_knowingly_are_part_of_the_base_and_of_the_control() {
    let env = dirty("echo new > src/b.py\n");
    let shown = env.provost(&["show", "--include-uncommitted", "--json"]).exits(0).json();
    let revision = shown["revision"].as_str().expect("a revision").to_owned();
    assert_ne!(revision, env.revision(), "what is included is part of what is approved");
    env.provost(&["approve", "--revision", &env.revision(), "--include-uncommitted"]).exits(5);
    env.provost(&["approve", "--revision", &revision, "--include-uncommitted"]).exits(0);
    env.provost(&["run"]).exits(0);
    assert_eq!(verdicts(&env, "control")[0]["outcome"]["kind"], "held", "it held before the work");
    let seen = &verdicts(&env, "contract")[0];
    assert_eq!(names(&seen["tree"]["files"]), ["src/b.py"]);
    assert!(names(&seen["tree"]["others"]).is_empty(), "it is part of the base: {seen}");
    env.provost(&["commit"]).exits(0);
    assert_eq!(git(&env, &["diff", "--name-only", "provost/plan~1", "provost/plan"]), "src/b.py");
    let first = git(&env, &["diff", "--name-only", "HEAD", "provost/plan~1"]);
    assert_eq!(first, "src/a.py\nsrc/notes.txt", "what was included is a commit of its own");
}

#[test]
fn an_included_file_that_changes_before_the_run_sends_the_plan_back_to_the_gate() {
    let env = dirty("true\n");
    let shown = env.provost(&["show", "--include-uncommitted", "--json"]).exits(0).json();
    let revision = shown["revision"].as_str().expect("a revision").to_owned();
    env.provost(&["approve", "--revision", &revision, "--include-uncommitted"]).exits(0);
    env.write("src/notes.txt", "other\n");
    env.provost(&["run"]).exits(4);
    assert_eq!(env.stage(), "verified");
}

#[test]
fn the_work_of_another_plan_is_named_as_its_and_not_credited() {
    let env = ready(&counting(&["true"], "escalate"), "touch src/one\n");
    for name in ["one", "two"] {
        let text = counting(&["test -e src/one"], "escalate").replace("# A plan", &format!("# Plan {name}"));
        env.write(&format!(".harness/PLAN-{name}.md"), text);
    }
    env.git(&["add", "--all"]);
    env.git(&["commit", "--quiet", "--message", "two plans"]);
    let revision = |name: &str| {
        let shown = env.provost(&["show", name, "--json"]).exits(0).json();
        shown["revision"].as_str().expect("a revision").to_owned()
    };
    env.provost(&["approve", "one", "--revision", &revision("one")]).exits(0);
    env.provost(&["run", "one"]).exits(0);
    let shown = env.provost(&["show", "two"]).exits(0).out;
    assert!(shown.contains("src/one (added, left by plan one, done, not committed yet)"), "{shown}");
    let branch = git(&env, &["branch", "--show-current"]);
    let refused = env.provost(&["approve", "two", "--revision", &revision("two")]).exits(5);
    assert!(refused.err.contains(&format!("`provost commit one --branch {branch}`")), "{}", refused.err);
    let made = env.provost(&["commit", "one", "--branch", &branch]).exits(0);
    assert!(made.err.contains("updated the checkout"), "{}", made.err);
    assert_eq!(git(&env, &["status", "--short", "--", "src"]), "", "the checkout follows the branch");
    env.provost(&["approve", "two", "--revision", &revision("two")]).exits(0);
}

#[test]
fn what_somebody_else_changed_during_the_run_is_not_committed_unasked() {
    let env = ready(&counting(&[TWO], "escalate"), "echo 'x = 2' > src/a.py\n");
    env.approve();
    env.write("src/notes.txt", "mine\n");
    env.provost(&["run"]).exits(0);
    let refused = env.provost(&["commit"]).exits(5);
    assert!(refused.err.contains("src/notes.txt"), "{}", refused.err);
    assert!(refused.err.contains("--with-others"), "{}", refused.err);
    env.provost(&["commit", "--with-others"]).exits(0);
    assert!(
        git(&env, &["log", "-1", "--format=%B", "provost/plan"]).contains("Not-by-this-plan: src/notes.txt")
    );
}

#[test]
fn a_commit_is_made_once_and_says_as_whom() {
    let env = ready(&counting(&[TWO], "escalate"), "echo 'x = 2' > src/a.py\n");
    env.approve();
    env.provost(&["run"]).exits(0);
    let made = env.provost(&["commit"]).exits(0);
    assert!(made.err.contains("committed as `ada <>`"), "{}", made.err);
    let again = env.provost(&["commit"]).exits(0);
    assert!(again.out.contains("already committed"), "{}", again.out);
}

#[test]
fn a_checked_out_branch_with_local_changes_is_not_moved() {
    let env = ready(&counting(&[TWO], "escalate"), "echo 'x = 2' > src/a.py\n");
    env.approve();
    env.provost(&["run"]).exits(0);
    env.write("src/a.py", "x = 9\n");
    let head = git(&env, &["rev-parse", "HEAD"]);
    let branch = git(&env, &["branch", "--show-current"]);
    let refused = env.provost(&["commit", "--branch", &branch]).exits(5);
    assert!(refused.err.contains("src/a.py"), "{}", refused.err);
    assert_eq!(git(&env, &["rev-parse", "HEAD"]), head);
}

#[test]
fn a_repository_without_a_commit_says_so_when_a_plan_is_to_be_committed() {
    let env = ready(&counting(&[TWO], "escalate"), "echo 'x = 2' > src/a.py\n");
    std::fs::remove_dir_all(env.work().join(".git")).expect("no repository");
    env.git(&["init", "--quiet"]);
    env.approve();
    env.provost(&["run"]).exits(0);
    let refused = env.provost(&["commit"]).exits(5);
    assert!(refused.err.contains("had no commit when the plan was approved"), "{}", refused.err);
}

#[test]
fn the_state_folder_is_where_its_links_and_dots_lead() {
    let env = Env::new(&plan(&["true"], "escalate"));
    let verify = |state: &std::path::Path| env.provost(&["--state", &state.to_string_lossy(), "verify"]);
    verify(&env.work().join("../state")).exits(0);
    verify(&env.folder().join("new/../state")).exits(0);
    std::os::unix::fs::symlink(env.work(), env.folder().join("link")).expect("a link");
    for inside in ["link/state", "new/../link/state", "state/../work"] {
        let refused = verify(&env.folder().join(inside)).exits(2);
        assert!(refused.err.contains("is inside the workspace"), "{inside}: {}", refused.err);
    }
}
