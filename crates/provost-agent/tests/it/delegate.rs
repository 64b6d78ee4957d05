//! Tests sub-agents: their own plans and conversations, one budget, no sub-agents of their own.

use provost_agent::budget::LoopBudget;
use provost_agent::builtin::{self, BuiltinOptions};
use provost_core::model::usage::Amount;
use provost_rehearsal::{Model, Turn};
use serde_json::{Value, json};

use crate::stage::{KEY, Stage};

fn perform(model: &provost_rehearsal::Rehearsal, stage: &Stage, tokens: Option<u64>) -> (i32, Value) {
    let amount = Amount { tokens, ..Amount::default() };
    let budget = LoopBudget { amount, prices: None };
    stage.perform(model, BuiltinOptions { budget, ..BuiltinOptions::default() })
}

fn delegate(tasks: &[&str]) -> Turn {
    Turn::call("delegate", json!({ "tasks": tasks }))
}

#[test]
fn a_sub_agent_has_a_plan_of_its_own_and_reports() {
    let stage = Stage::new();
    let model = Model::script([
        delegate(&["write b, and report"]).using(100, 10),
        // The sub-agent, which knows only its task.
        Turn::call("plan_create", json!({ "objective": "b", "steps": ["write b"], "postconditions": [] }))
            .expecting("write b, and report")
            .using(100, 10),
        Turn::call("write_file", json!({ "path": "b", "content": "x" })).using(100, 10),
        Turn::call("step_update", json!({ "step_number": 1, "status": "done", "evidence": "call:2" }))
            .using(100, 10),
        Turn::text("b is there.").using(100, 10),
        // The agent again.
        Turn::text("All done.").expecting("## Sub-agent 1: finished").using(100, 10),
    ]);
    let model = model.key(KEY).serve().expect("a model");
    let (code, report) = perform(&model, &stage, None);
    model.expect_kept();
    assert_eq!(code, builtin::FINISHED, "{report}");
    assert_eq!(std::fs::read_to_string(stage.path().join("b")).expect("a file"), "x");
    assert_eq!((&report["usage"]["calls"], &report["usage"]["input_tokens"]), (&json!(6), &json!(600)));
    let requests = model.requests();
    let first = requests[0].body["tools"].to_string();
    let of_sub_agent = requests[1].body["tools"].to_string();
    assert!(first.contains("\"delegate\"") && !of_sub_agent.contains("\"delegate\""));
    assert!(!requests[1].body["messages"].to_string().contains("do it"));
    assert!(model.has_seen("[x] write b"), "the agent sees the plan of its sub-agent");
}

#[test]
fn sub_agents_together_use_at_most_what_is_left() {
    let stage = Stage::new();
    // Each of two sub-agents may use half of what the first call left, and looks around for ever.
    let look = || Turn::call("list", json!({ "path": "." })).using(1000, 0);
    let model = Model::script([delegate(&["look", "look too"]).using(1000, 0)]).after(look());
    let model = model.key(KEY).serve().expect("a model");
    let (code, report) = perform(&model, &stage, Some(7000));
    assert_eq!(code, builtin::UNFINISHED, "{report}");
    // 6,000 tokens are left, so three calls each; then nothing is left for the agent itself.
    assert_eq!(report["usage"]["calls"], 7, "{report}");
    assert_eq!(report["usage"]["input_tokens"], 7000);
    assert!(report.to_string().contains("the budget is used up: 7k tokens of 7k tokens"), "{report}");
}
