//! Tests that a later attempt goes on in the conversation of an earlier one, with every API.

use std::path::Path;

use provost_agent::builtin::{self, BuiltinOptions};
use provost_agent::provider::api::Dialect;
use provost_rehearsal::{Model, Rehearsal, Turn};
use serde_json::json;

use crate::stage::{DIALECTS, KEY, Stage};

/// Runs the agent as its process does; returns its exit code.
fn perform(dialect: Dialect, model: &Rehearsal, stage: &Stage, prompt: &str, resume: bool) -> i32 {
    let options = BuiltinOptions {
        model: "rehearsed".to_owned(),
        provider: Some(dialect.word().to_owned()),
        base_url: Some(model.url()),
        conversation: Some(stage.path().join("kept.json")),
        resume,
        ..BuiltinOptions::default()
    };
    let environment = |name: &str| (name == builtin::API_KEY).then(|| KEY.to_owned());
    let mut out = Vec::new();
    builtin::perform(&options, prompt, stage.path(), &environment, &mut out).expect("begun")
}

fn own_plan() -> Turn {
    let plan = json!({ "objective": "a", "steps": ["write a"], "postconditions": ["a is good"] });
    Turn::call("plan_create", plan).thinking("I need a plan first.")
}

fn verified(evidence: &str) -> Turn {
    Turn::call("postcondition_verify", json!({ "postcondition_number": 1, "evidence": evidence }))
}

fn written(text: &str) -> Turn {
    Turn::call("write_file", json!({ "path": "a", "content": text }))
}

#[test]
fn the_next_attempt_goes_on_where_the_last_one_ended() {
    for dialect in DIALECTS {
        let stage = Stage::new();
        let model = Model::script([
            own_plan(),
            written("bad"),
            Turn::call("step_update", json!({ "step_number": 1, "status": "done", "evidence": "call:2" })),
            verified("call:2"),
            Turn::text("Wrote a."),
            // The second attempt: its plan is open again, and its calls are numbered on.
            Turn::text("It is good already.").expecting("the check failed"),
            written("good").expecting("postcondition 1 is not verified"),
            verified("call:5").expecting("call:5 ok"),
            Turn::text("Now a is good."),
        ]);
        let model = model.key(KEY).serve().expect("a model");
        assert_eq!(perform(dialect, &model, &stage, "make a good", false), builtin::FINISHED);
        assert_eq!(perform(dialect, &model, &stage, "the check failed: a is bad", true), builtin::FINISHED);
        model.expect_kept();
        let requests = model.requests();
        let resumed = requests[5].all_text();
        for words in ["make a good", "Wrote a.", "the check failed: a is bad", "wrote 3 bytes to a"] {
            assert!(resumed.contains(words), "{dialect:?}: {words} is not in {resumed}");
        }
        // The API gets its own turn back as it was, reasoning included.
        if dialect == Dialect::Anthropic {
            assert!(requests[5].body.to_string().contains("I need a plan first."), "{}", requests[5].body);
        }
        assert!(!saved(&stage).contains(KEY));
    }
}

fn saved(stage: &Stage) -> String {
    std::fs::read_to_string(stage.path().join("kept.json")).expect("a file")
}

#[test]
fn a_conversation_that_did_not_end_well_is_not_kept() {
    let stage = Stage::new();
    let model = Model::script([Turn::status(400)]).serve().expect("a model");
    assert_eq!(perform(Dialect::Anthropic, &model, &stage, "do it", false), builtin::FAILED);
    assert!(!Path::exists(&stage.path().join("kept.json")));
}

#[test]
fn a_file_that_is_no_conversation_is_an_error_before_the_first_request() {
    let stage = Stage::new();
    stage.write("kept.json", "{}");
    let options = BuiltinOptions {
        model: "rehearsed".to_owned(),
        provider: Some("chat".to_owned()),
        conversation: Some(stage.path().join("kept.json")),
        resume: true,
        ..BuiltinOptions::default()
    };
    let begun = builtin::perform(&options, "go on", stage.path(), &|_| None, &mut Vec::new());
    let error = begun.expect_err("no conversation").to_string();
    assert!(error.starts_with("the conversation of the last attempt cannot be read"), "{error}");
}
