//! Tests a model that skips the third of three files, and is refused until it has done it.

use expect_test::expect;
use provost_agent::agent::{Bound, PlanRequirement, RunEnd, Settings};
use provost_agent::event::AgentEvent;
use provost_agent::plan::AgentPlan;
use provost_agent::provider::scripted::ScriptedProvider;
use provost_rehearsal::{Model, Turn};
use serde_json::json;

use crate::stage::{DIALECTS, KEY, Stage, api};

const TASK: &str = "For each of these three files, verify that it exists, measure its size in bytes, and report \
                    the largest one: hostname, os-release, machine-id.";

fn three_files(stage: &Stage) {
    stage.write("hostname", "box\n");
    stage.write("os-release", "NAME=a system\nVERSION=1\n");
    stage.write("machine-id", &"0123456789abcdef\n".repeat(4));
}

fn plan() -> serde_json::Value {
    json!({
        "objective": "weigh three files",
        "steps": ["weigh hostname", "weigh os-release", "weigh machine-id"],
        "postconditions": ["the largest is named"],
    })
}

fn done(step: u64, evidence: &str) -> serde_json::Value {
    json!({ "step_number": step, "status": "done", "evidence": evidence })
}

/// A model that claims to be finished after two of three files and does the third when it is refused.
fn careless() -> Vec<Turn> {
    let weigh = |name: &str| json!({ "path": name });
    vec![
        Turn::call("plan_create", plan()),
        // Two calls in one answer.
        Turn::call("verify_file_exists", weigh("hostname"))
            .and_call("verify_file_exists", weigh("os-release")),
        Turn::call("step_update", done(1, "4 bytes, call:2"))
            .and_call("step_update", done(2, "24 bytes, call:3")),
        Turn::text("All three files are weighed; os-release is the largest."),
        Turn::call("verify_file_exists", weigh("machine-id")).expecting("3. [ ] weigh machine-id"),
        Turn::call("step_update", done(3, "68 bytes, call:6")).expecting("68 bytes"),
        Turn::text("machine-id is the largest.").expecting("step 3 → done"),
        Turn::call(
            "postcondition_verify",
            json!({ "postcondition_number": 1, "evidence": "68 > 24 > 4, call:6" }),
        )
        .expecting("postcondition 1 is not verified"),
        Turn::text("machine-id is the largest, with 68 bytes.").using(900, 12).cached(600, 0),
    ]
}

#[tokio::test]
async fn a_premature_answer_is_held_in_every_dialect() {
    for dialect in DIALECTS {
        let stage = Stage::new();
        three_files(&stage);
        let model = Model::script(careless()).key(KEY).serve().expect("a model");
        let run = stage.run(&api(dialect, &model), TASK).await;
        model.expect_kept();
        let answer = "machine-id is the largest, with 68 bytes.".to_owned();
        assert_eq!(run.outcome, RunEnd::Finished { answer }, "{dialect:?}");
        assert_eq!((run.refusals, run.turns), (2, 9), "{dialect:?}");
        expect![[r#"
            # Plan: weigh three files

            ## Steps
            1. [x] weigh hostname
               evidence: 4 bytes, call:2
            2. [x] weigh os-release
               evidence: 24 bytes, call:3
            3. [x] weigh machine-id
               evidence: 68 bytes, call:6

            ## Postconditions
            1. [x] the largest is named
               evidence: 68 > 24 > 4, call:6"#]]
        .assert_eq(&run.plan.expect("a plan").render());
        // The transcript contains the refused answer and the refusal.
        model.expect_seen("All three files are weighed");
        model.expect_seen("The plan is not complete: step 3 is pending; postcondition 1 is not verified.");
        assert_eq!(run.usage.calls, Some(9), "{dialect:?}");
        assert_eq!(run.usage.cache_read_tokens, Some(600), "{dialect:?}");
        assert!(run.usage.input_tokens > Some(900) && run.usage.output_tokens > Some(12), "{:?}", run.usage);
    }
}

#[tokio::test]
async fn without_end_the_bound_is_an_outcome() {
    let stage = Stage { settings: Settings { max_refusals: 3, ..Settings::default() }, ..Stage::new() };
    let model =
        ScriptedProvider::default().calls("plan_create", plan()).says("done").says("done").says("done!");
    let run = stage.run(&model, TASK).await;
    let RunEnd::Unfinished { bound, missing, answer } = run.outcome else { panic!("{:?}", run.outcome) };
    assert_eq!((bound, answer.as_str()), (Bound::Refusals(3), "done!"));
    assert_eq!(missing.len(), 4, "{missing:?}");

    let stage = Stage { settings: Settings { max_turns: 5, ..Settings::default() }, ..Stage::new() };
    let model = ScriptedProvider::default().forever(|_| {
        let call = provost_agent::transcript::Call {
            id: "c".to_owned(),
            tool: "list".to_owned(),
            arguments: json!({ "path": "." }),
        };
        Ok(provost_agent::provider::Reply { calls: vec![call], ..Default::default() })
    });
    let run = stage.run(&model, TASK).await;
    assert!(matches!(run.outcome, RunEnd::Unfinished { bound: Bound::Turns(5), .. }), "{:?}", run.outcome);
    assert_eq!(run.turns, 5);
}

#[tokio::test]
async fn blocked_with_a_reason_ends_the_run_as_blocked() {
    let stage = Stage::new();
    let one = json!({ "objective": "o", "steps": ["reach the moon"], "postconditions": ["we are there"] });
    let model = ScriptedProvider::default()
        .calls("plan_create", one)
        .calls("step_update", json!({ "step_number": 1, "status": "blocked" }))
        .calls("step_update", json!({ "step_number": 1, "status": "blocked", "evidence": "no rocket" }))
        .says("There is no rocket.")
        .calls(
            "postcondition_verify",
            json!({ "postcondition_number": 1, "evidence": "no rocket", "unmet": true }),
        )
        .says("There is no rocket.");
    let run = stage.run(&model, TASK).await;
    assert_eq!(run.outcome, RunEnd::Blocked { answer: "There is no rocket.".to_owned() });
    assert_eq!(run.refusals, 1, "an unanswered postcondition holds as well");
    let refused =
        stage.told().iter().any(|event| matches!(event, AgentEvent::Answered { call: 2, failed: true, .. }));
    assert!(refused, "blocked without a reason is refused");
}

#[tokio::test]
async fn a_rewrite_is_told_with_what_it_changed() {
    let stage = Stage::new();
    let shorter =
        json!({ "objective": "weigh three files", "steps": ["weigh hostname"], "postconditions": [] });
    let model = ScriptedProvider::default()
        .calls("plan_create", plan())
        .calls("plan_create", shorter)
        .calls("step_update", done(1, "seen"))
        .says("done");
    let run = stage.run(&model, TASK).await;
    assert!(matches!(run.outcome, RunEnd::Finished { .. }));
    let diff = [
        "- step (pending): weigh os-release",
        "- step (pending): weigh machine-id",
        "- postcondition (open): the largest is named",
    ];
    assert_eq!(run.rewrites, [diff.map(str::to_owned).to_vec()]);
    assert!(stage.told().iter().any(|event| matches!(event, AgentEvent::PlanRewritten { .. })));
}

#[tokio::test]
async fn a_citation_that_does_not_exist_is_refused() {
    let stage = Stage::new();
    let model = ScriptedProvider::default()
        .calls("plan_create", plan())
        .calls("step_update", done(1, "I saw it in call:40"))
        .answers(|ask| {
            let seen = format!("{:?}", ask.messages.last());
            assert!(seen.contains("there is no call:40"), "{seen}");
            Err(provost_agent::provider::Failure::Rejected { status: 400, message: "enough".to_owned() })
        });
    stage.run(&model, TASK).await;
}

#[tokio::test]
async fn where_a_plan_is_required_there_is_no_answer_without_one() {
    let settings = Settings { planning: PlanRequirement::Required, ..Settings::default() };
    let stage = Stage { settings, ..Stage::new() };
    let model = ScriptedProvider::default()
        .says("done")
        .calls("plan_create", json!({ "objective": "o", "steps": ["a"], "postconditions": [] }))
        .calls("step_update", done(1, "a is there"))
        .says("done");
    let run = stage.run(&model, TASK).await;
    assert_eq!((run.refusals, run.turns), (1, 4));
    assert!(matches!(run.outcome, RunEnd::Finished { .. }));
}

#[tokio::test]
async fn a_given_plan_is_held_without_any_word_of_the_model_about_it() {
    let plan = AgentPlan::new("o").step_with_contract("make it green", "make test");
    let stage = Stage { holder: provost_agent::plan_state::PlanHolder::given(plan), ..Stage::new() };
    let model = ScriptedProvider::default()
        .says("It is green.")
        .calls("step_update", done(1, "all green"))
        .says("It is green.");
    let run = stage.run(&model, TASK).await;
    assert_eq!(run.refusals, 1);
    // No judge exists here, so it stays a claim.
    assert!(run.plan.expect("a plan").render().contains("1. [.] make it green\n   claimed: all green"));
}
