//! Tests contracts that a model judges: another role, a valid answer, and a pass that is shown as weaker.

use provost_rehearsal::{Model, Turn};
use serde_json::json;

use crate::env::Env;

const PLAN: &str = "---\ntype: plan\nstatus: draft\nowner: test\ntouches: [\"out/**\"]\n---\n\n# A plan\n\n## Steps\n\n### 1. Say hello\n\n**target:** coder\n**task:** Write a friendly greeting to `out/hello.txt`.\n**contract:** judge\nThe greeting is friendly.\n\n```shell\ntest -s out/hello.txt\n```\n\n**on_fail:** retry(1), then escalate\n";

const CODER: &str = "mkdir -p out; echo 'hello, dear reader' > out/hello.txt; echo wrote it\n";
const HOLDS: &str = r#"echo '{"holds": true, "reasons": ["it is friendly"], "citations": [{"file": "out/hello.txt", "lines": "1", "quote": "hello, dear reader"}]}'"#;

fn env(judge: &str) -> Env {
    env_at("guard+clean", judge)
}

fn env_at(level: &str, judge: &str) -> Env {
    let env = Env::new(PLAN).agent(CODER).isolation(level);
    // Outside of the folder that the judged agent can write.
    std::fs::write(env.folder().join("home/judge.sh"), format!("cat > /dev/null; {judge}\n"))
        .expect("a judge");
    let config = env.read("provost.toml");
    env.write(
        "provost.toml",
        format!("{config}[agents.reviewer]\ndriver = \"command\"\ncommand = [\"bash\", \"{}/home/judge.sh\"]\nmodel = \"m-2\"\n[judge]\nrole = \"reviewer\"\n", env.folder().display()),
    );
    env
}

#[test]
fn what_a_model_judges_passes_as_the_weaker_kind() {
    let env = env(HOLDS);
    let verified = env.provost(&["verify"]).exits(0);
    assert!(verified.out.contains("P045"), "{}", verified.out);
    env.approve();
    let run = env.provost(&["run"]).exits(0);
    assert!(
        run.out.contains("judged by a model (reviewer, m-2)")
            || run.err.contains("judged by a model (reviewer, m-2)"),
        "{} {}",
        run.out,
        run.err
    );
    let log = env.provost(&["log", "--json"]).exits(0).lines();
    let judged = log.iter().find(|event| event["event"] == "CONTRACT_JUDGED").expect("a verdict");
    assert_eq!(judged["details"]["verdict"]["judged"]["citations"][0]["file"], "out/hello.txt");
    let passed = log.iter().find(|event| event["event"] == "TASK_COMPLETED").expect("a pass");
    let result = passed["details"]["result"].as_str().unwrap_or_default();
    assert!(result.contains("weaker than a contract that held"), "{result}");
    env.provost(&["audit"]).exits(0);
    let status = env.provost(&["status"]).exits(0);
    assert!(status.out.contains("held, judged by a model"), "{}", status.out);
    assert!(run.out.contains("🤖 plan done: 1 judged by a model"), "{}", run.out);
    let again = env.provost(&["recheck", "1"]).exits(1);
    assert!(again.out.contains("a model judged this"), "{}", again.out);
}

#[test]
fn what_does_not_hold_is_told_to_the_next_attempt() {
    let env = env(r#"echo '{"holds": false, "reasons": ["the tone is cold"], "citations": []}'"#)
        .agent("grep -q 'the tone is cold' && touch told; mkdir -p out; echo $RANDOM hello > out/hello.txt; echo ok\n");
    env.approve();
    env.provost(&["run"]).exits(4);
    assert_eq!(env.states(), "1 blocked");
    assert!(env.work().join("told").exists(), "the reasons did not reach the second attempt");
}

#[test]
fn an_answer_that_does_not_count_never_holds() {
    for (judge, why) in [
        ("echo PASS", "no JSON object"),
        (&HOLDS.replace("dear reader", "dear judge"), "is not in that file"),
        (&format!("{HOLDS}; exit 3"), "ended badly"),
        (&format!("{HOLDS}; echo '{{\"holds\": false, \"reasons\": [\"no\"]}}'"), "more than one verdict"),
    ] {
        let env = env(judge);
        env.approve();
        let run = env.provost(&["run"]);
        assert_ne!(run.code, 0, "{judge}: {}", run.err);
        let log = env.provost(&["log", "--json"]).exits(0);
        assert!(log.out.contains("not_run") && log.out.contains(why), "{judge}: {}", log.out);
        assert!(!log.out.contains("TASK_COMPLETED"), "{judge}");
    }
}

#[test]
fn no_model_is_asked_before_the_command_held() {
    let env = env(&format!("touch \"$(dirname \"$0\")/asked\"; {HOLDS}")).agent("echo I did it\n");
    env.approve();
    env.provost(&["run"]).exits(4);
    assert!(!env.folder().join("home/asked").exists());
}

#[test]
fn nobody_judges_their_own_work() {
    for (from, to) in [
        ("role = \"reviewer\"", "role = \"coder\""),
        ("role = \"reviewer\"", "role = \"nobody\""),
        ("[judge]\nrole = \"reviewer\"\n", ""),
    ] {
        let env = env(HOLDS);
        env.write("provost.toml", env.read("provost.toml").replace(from, to));
        let refused = env.provost(&["verify"]).exits(3);
        assert!(refused.out.contains("P087"), "{}", refused.out);
    }
    let env = env(HOLDS);
    env.write(
        "provost.toml",
        env.read("provost.toml").replace("\"agent.sh\"]\n", "\"agent.sh\"]\nmodel = \"m-2\"\n"),
    );
    let refused = env.provost(&["verify"]).exits(3);
    assert!(refused.out.contains("asks the same model"), "{}", refused.out);
    let within = self::env(HOLDS);
    within.write("judge.sh", "true\n");
    let outside = format!("{}/home/judge.sh", within.folder().display());
    within.write("provost.toml", within.read("provost.toml").replace(&outside, "judge.sh"));
    let refused = within.provost(&["verify"]).exits(3);
    assert!(refused.out.contains("which agents can write"), "{}", refused.out);
}

#[test]
fn behind_a_fence_a_judge_reads_the_tree_and_writes_nothing() {
    let look = r#"test -s out/hello.txt || exit 4; touch out/x 2>/dev/null && exit 5; test -z "$(ls -A "$STATE_OF_TEST" | grep -v trees)" || exit 6; touch "$WORK_OF_TEST/x" 2>/dev/null && exit 7; "#;
    let env = env_at("clean", &format!("{look}{HOLDS}"));
    if !env.has_fences() {
        return;
    }
    env.approve();
    let mut run = env.command(&["run"]);
    run.env("STATE_OF_TEST", env.state()).env("WORK_OF_TEST", env.work());
    let run = crate::env::answer(run.output().expect("provost")).exits(0);
    assert!(!env.work().join("x").exists(), "{}", run.err);
}

#[test]
fn the_built_in_agent_judges_in_the_required_form() {
    let citation = json!({ "file": "out/hello.txt", "quote": "hello, dear reader" });
    let model = Model::script([
        Turn::call("answer", json!({ "holds": "yes", "reasons": [], "citations": [] })),
        Turn::call(
            "answer",
            json!({ "holds": true, "reasons": ["it is friendly"], "citations": [citation] }),
        )
        .expecting("boolean"),
    ]);
    let model = model.serve().expect("a model");
    let env = Env::new(PLAN).agent(CODER).isolation("guard+clean");
    let config = env.read("provost.toml");
    let role = format!(
        "[agents.reviewer]\ndriver = \"builtin\"\nmodel = \"rehearsed\"\nprovider = \"anthropic\"\nbase_url = \
         \"{}\"\nkey_command = [\"echo\", \"sk-not-a-real-key\"]\n[judge]\nrole = \"reviewer\"\n",
        model.url()
    );
    env.write("provost.toml", format!("{config}{role}"));
    env.approve();
    let run = env.provost(&["run"]).exits(0);
    model.expect_kept();
    assert!(run.out.contains("🤖 plan done: 1 judged by a model"), "{}", run.out);
}
