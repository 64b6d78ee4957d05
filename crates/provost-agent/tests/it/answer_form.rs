//! Tests final answers in a form, with the API of each provider.

use provost_agent::builtin::{self, BuiltinOptions};
use provost_rehearsal::{Model, Turn};
use serde_json::{Value, json};

use crate::stage::{DIALECTS, KEY, Stage};

fn options() -> BuiltinOptions {
    let schema = json!({
        "type": "object",
        "properties": { "count": { "type": "integer" } },
        "required": ["count"],
        "additionalProperties": false,
    });
    BuiltinOptions { answer_schema: Some(schema), ..BuiltinOptions::default() }
}

fn answer(count: Value) -> Turn {
    Turn::call("answer", json!({ "count": count }))
}

#[test]
fn the_answer_is_the_value_that_the_tool_was_given() {
    for dialect in DIALECTS {
        let stage = Stage::new();
        let model = Model::script([
            Turn::call("list", json!({ "path": "." })),
            Turn::text("There are seven."),
            answer(json!("seven")).expecting("does not have the form"),
            answer(json!(7)).expecting("integer"),
        ]);
        let model = model.key(KEY).serve().expect("a model");
        let provider = Some(dialect.word().to_owned());
        let (code, report) = stage.perform(&model, BuiltinOptions { provider, ..options() });
        model.expect_kept();
        assert_eq!(code, builtin::FINISHED, "{dialect:?}: {report}");
        let text = report["report"].as_str().unwrap_or_default();
        assert!(text.starts_with("{\"count\":7}"), "{dialect:?}: {text}");
    }
}

#[test]
fn an_answer_does_not_get_past_an_open_plan() {
    let stage = Stage::new();
    let model = Model::script([
        Turn::call("plan_create", json!({ "objective": "b", "steps": ["count"], "postconditions": [] })),
        answer(json!(7)),
        Turn::call("step_update", json!({ "step_number": 1, "status": "done", "evidence": "call:1" }))
            .expecting("count"),
        answer(json!(8)),
    ]);
    let model = model.key(KEY).serve().expect("a model");
    let (code, report) = stage.perform(&model, options());
    model.expect_kept();
    assert_eq!(code, builtin::FINISHED, "{report}");
    assert!(report["report"].as_str().unwrap_or_default().starts_with("{\"count\":8}"), "{report}");
}

#[test]
fn a_model_that_never_gives_the_form_is_not_finished() {
    let stage = Stage::new();
    let model = Model::script([]).after(Turn::text("Seven, I said.")).key(KEY).serve().expect("a model");
    let (code, report) = stage.perform(&model, options());
    assert_eq!(code, builtin::UNFINISHED, "{report}");
    assert!(report.to_string().contains("no answer in the required form"), "{report}");
}
