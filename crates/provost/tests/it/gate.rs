//! Tests that nothing runs before a person has approved exactly what was shown.

use provost_engine::plan::commands;
use provost_engine::plan::harness::Harness;
use provost_engine::settings::{Access, EngineSettings};
use provost_engine::workplace::LocalWorkplace;

use crate::env::{Env, HONEST, plan};

#[test]
fn without_a_terminal_a_plan_waits_at_the_gate() {
    let env = Env::new(&plan(&["test -f out/1"], "escalate")).agent(HONEST);
    for _ in 0..2 {
        let run = env.provost(&["run"]).exits(4);
        assert!(run.err.contains("provost approve --revision"), "{}", run.err);
    }
    assert!(env.read("out/1").is_empty());
    assert_eq!(env.events(), ["PLAN_CREATED", "PLAN_VERIFIED", "GATE_APPROVAL_REQUESTED"]);
    assert!(env.read("PLAN.md").contains("status: verified"));
    env.provost(&["approve"]).exits(2);
}

#[test]
fn an_approval_is_bound_to_what_was_shown() {
    let env = Env::new(&plan(&["test -f out/1"], "escalate")).agent(HONEST);
    let shown = env.revision();
    env.write("PLAN.md", env.read("PLAN.md").replace("test -f out/1", "true # test -f out/1"));
    let refused = env.provost(&["approve", "--revision", &shown]).exits(5);
    assert!(refused.err.contains("provost show"), "{}", refused.err);
    env.provost(&["approve", "--revision", &env.revision()[..6]]).exits(5);
    env.provost(&["approve", "--revision", &env.revision()[..12]]).exits(0);
    env.provost(&["approve", "--revision", &env.revision()]).exits(5);
}

#[test]
fn the_base_commit_and_the_files_a_contract_names_are_part_of_it() {
    let env = Env::new(&plan(&["sh check.sh"], "escalate")).agent(HONEST);
    env.write("check.sh", "test -f out/1\n");
    env.approve();
    env.write("check.sh", "true\n");
    let run = env.provost(&["run"]).exits(4);
    assert_eq!(env.stage(), "verified", "{}", run.err);
    env.approve();
    env.git(&["commit", "--quiet", "--allow-empty", "--message", "moved"]);
    env.provost(&["run"]).exits(4);
    let diff = env.provost(&["log", "--event", "PLAN_REWRITTEN"]).exits(0);
    assert!(diff.out.contains("check.sh") && diff.out.contains("base commit moved"), "{}", diff.out);
}

#[test]
fn reject_ask_and_amend_lead_back_to_the_gate() {
    let env = Env::new(&plan(&["test -f out/1", "test -f out/2"], "escalate")).agent(HONEST);
    let mut person = env.person();
    env.provost(&["ask", "--question", "what is part 2?"]).exits(0);
    let status = env.provost(&["status"]).exits(0);
    assert!(status.out.contains("what is part 2?"), "{}", status.out);
    env.provost(&["reject", "--reason", " "]).exits(5);
    env.provost(&["reject", "--reason", "too vague"]).exits(0);
    assert_eq!(env.stage(), "draft");
    let better = env.read("PLAN.md").replace("Do part 2 of the work.", "Do part 2 of the work, in out/2.");
    env.write("better.md", &better);
    env.write("worse.md", better.replace("**target:** coder", "**targt:** coder"));
    let refused = env.provost(&["amend", "--file", "worse.md"]).exits(3);
    assert!(refused.err.contains("unchanged"), "{}", refused.err);
    assert!(!env.read("PLAN.md").contains("in out/2"));
    env.provost(&["amend", "--file", "better.md"]).exits(4);
    assert!(env.read("PLAN.md").contains("in out/2"));
    env.approve();
    let approved = env.provost(&["log", "--event", "GATE_APPROVED", "--json"]).exits(0).lines();
    assert!(
        approved[0]["details"]["modifications"][0].as_str().unwrap().contains("step 2 task"),
        "{approved:?}"
    );
    env.provost(&["run"]).exits(0);
    let editor = env.folder().join("editor.sh");
    std::fs::write(&editor, "sed -i 's/# A plan/# A better plan/' \"$1\"\n").unwrap();
    let amended = env.command(&["amend"]).env("EDITOR", format!("sh {}", editor.display())).output().unwrap();
    crate::env::answer(amended).exits(4);
    // Steps that passed stay passed.
    assert_eq!(env.states(), "1 passed, 2 passed");
    person.approve();
    env.provost(&["run"]).exits(0);
}

const POLICY: &str = "\n[gate.policies.outputs]\ntouches = [\"out/**\"]\nowner = [\"test\"]\ntargets = [\"coder\"]\ncommands = [\"test -f out/1\"]\n";

#[test]
fn a_policy_speaks_only_when_a_person_has_trusted_its_text() {
    let env = Env::new(&plan(&["test -f out/1"], "escalate")).agent(HONEST);
    let config = env.read("provost.toml") + POLICY;
    env.write("provost.toml", &config);
    let run = env.provost(&["run"]).exits(4);
    assert!(run.err.contains("provost approve --policy outputs"), "{}", run.err);
    env.provost(&["approve", "--policy", "nobody"]).exits(2);
    env.provost(&["approve", "--policy", "outputs"]).exits(0);
    // After a change of its text, the policy does not approve any more.
    env.write("provost.toml", config.replace("[\"out/**\"]", "[\"out/**\", \"src/**\"]"));
    env.provost(&["run"]).exits(4);
    env.write("provost.toml", &config);
    env.provost(&["run"]).exits(0);
    let log = env.provost(&["log", "--event", "GATE_APPROVED"]).exits(0);
    assert!(log.out.contains("policy outputs"), "{}", log.out);
}

#[test]
fn there_is_no_way_to_approve_everything() {
    for policy in [
        "[gate.policies.all]\n",
        "[gate.policies.all]\ntouches = [\"**\"]\nowner = [\"test\"]\n",
        "[gate.policies.all]\ntouches = [\"out/**\"]\n",
        "[gate]\nauto_approve = true\n",
    ] {
        let env = Env::new(&plan(&["test -f out/1"], "escalate")).agent(HONEST);
        env.write("provost.toml", env.read("provost.toml") + policy);
        env.provost(&["run"]).exits(2);
    }
}

#[test]
fn whoever_is_about_to_ask_finds_what_was_decided_meanwhile() {
    let env = Env::new(&plan(&["test -f out/1"], "escalate")).agent(HONEST);
    env.provost(&["verify"]).exits(0);
    let settings = EngineSettings {
        cwd: env.work(),
        state: env.state(),
        plan: None,
        launcher: Vec::new(),
        stop: Default::default(),
        environment: Vec::new(),
        workplace: std::sync::Arc::new(LocalWorkplace),
    };
    let harness = Harness::open(settings, Access::Write).expect("a harness");
    env.approve();
    let run = commands::request_approval(&harness).expect("nothing to ask for");
    assert_eq!(run.stage.word(), "approved");
    env.provost(&["verify"]).exits(0);
}

#[test]
fn several_who_look_at_a_new_plan_at_once_record_it_once() {
    let env = Env::new(&plan(&["test -f out/1"], "escalate")).agent(HONEST);
    let looks: Vec<_> = (0..6).map(|_| env.start(&["verify"])).collect();
    for look in looks {
        crate::env::answer(look.wait_with_output().expect("an end")).exits(0);
    }
    assert_eq!(env.events(), ["PLAN_CREATED", "PLAN_VERIFIED"]);
}

#[test]
fn a_named_check_judges_only_changes_inside_its_touches() {
    let plan = plan(&["true"], "escalate")
        .replace("**contract:**\n```shell\ntrue\n```\n", "**contract:** check:unit\n");
    let env = Env::new(&plan);
    if !env.has_fences() {
        return;
    }
    let env = env.agent("mkdir -p out tests; echo weak > tests/rule; echo done > out/1\n");
    let check = "[checks.unit]\nrun = \"grep -q done out/1 && ! test -e tests/rule\"\n\
                 touches = [\"out/**\"]\nneeds = [\"no-such-program\"]\n";
    env.write("provost.toml", format!("{}\n{check}", env.read("provost.toml")));
    env.git(&["add", "--all"]);
    env.git(&["commit", "--quiet", "--message", "a named check"]);
    let verified = env.provost(&["verify"]).exits(0).out;
    assert!(verified.contains("P058") && verified.contains("`no-such-program`"), "{verified}");
    let shown = env.provost(&["show"]).exits(0).out;
    assert!(shown.contains("judges only changes of out/**; needs no-such-program"), "{shown}");
    env.approve();
    env.provost(&["run"]).exits(0);
    assert_eq!(env.states(), "1 passed");
    let changes = env.provost(&["changes", "1", "--stat"]).exits(0).out;
    assert!(changes.contains("added out/1") && !changes.contains("added tests/rule"), "{changes}");
}

#[test]
fn a_contract_can_name_a_check_of_the_configuration() {
    let plan = plan(&["true"], "escalate")
        .replace("**contract:**\n```shell\ntrue\n```\n", "**contract:** check:unit\n");
    let env = Env::new(&plan).agent("mkdir -p out; echo done > out/1\n");
    let unknown = env.provost(&["verify"]).exits(3);
    assert!(unknown.out.contains("P092") && unknown.out.contains("[checks.unit]"), "{}", unknown.out);
    let config = env.read("provost.toml");
    env.write("provost.toml", format!("{config}\n[checks.unit]\nrun = \"grep -q done out/1\"\n"));
    env.git(&["add", "--all"]);
    env.git(&["commit", "--quiet", "--message", "a named check"]);
    let shown = env.provost(&["show"]).exits(0).out;
    assert!(shown.contains("check:unit runs `grep -q done out/1`"), "{shown}");
    env.approve();
    // Another command is another approval.
    let changed = env.read("provost.toml").replace("grep -q done out/1", "true");
    let approved = env.read("provost.toml");
    env.write("provost.toml", changed);
    let refused = env.provost(&["run"]);
    assert_ne!(refused.code, 0, "{} {}", refused.out, refused.err);
    env.write("provost.toml", approved);
    env.approve();
    env.provost(&["run"]).exits(0);
    assert_eq!(env.states(), "1 passed");
    let log = env.provost(&["log", "--json"]).exits(0).out;
    assert!(log.contains("grep -q done out/1"), "{log}");
    // What passed by another check has not passed by this one.
    let config = env.read("provost.toml").replace("grep -q done out/1", "grep -q finished out/1");
    env.write("provost.toml", config);
    env.approve_with_uncommitted();
    assert_eq!(env.states(), "1 pending");
}
