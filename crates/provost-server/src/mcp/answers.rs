//! The answers of the tools as data (`structuredContent`), and the schemas by which clients check them.
//!
//! Some clients show the data to the model instead of the text, so the data says everything that the text says. A value that is not known is left out; there is no `null`.
//!
//! **Invariant:** no answer contains a contract that is hidden from agents, or its output.

use std::sync::Arc;

use provost_core::model::plan::StepNumber;
use provost_core::state::run::{Run, Stage};
use provost_engine::observe::view::{PostconditionView, StepView};
use provost_engine::session::agent_session::{CreateResult, FolderPlan, SessionDecision, SessionPlan};
use rmcp::model::JsonObject;
use serde_json::{Map, Value, json};

use super::words;

/// Part of the plan that an answer has besides its message.
#[derive(Clone, Copy, Debug)]
pub(super) enum AnswerPart {
    Standing,
    Step(u32),
    Postconditions,
}

/// Returns the schema of a tool's answer.
pub(super) fn schema(tool: &str) -> Arc<JsonObject> {
    let message = ("message", text("The answer in words."));
    let next = ("next", text("The next thing to do, in words."));
    let list = |items: Value| json!({ "type": "array", "items": items });
    let steps = ("steps", list(object(step_fields())));
    let step = ("step", object(step_fields()));
    let posts = ("postconditions", list(object(postcondition_fields())));
    let running = ("judging", text("The check that still runs, in words. Call plan_next for its result."));
    let (required, own) = match tool {
        "plan_create" => (
            "message",
            vec![
                message,
                ("path", text("The file of the plan.")),
                ("waits", text("Why a person has to approve the plan first.")),
            ],
        ),
        "plan_list" => return whole(vec![("plans", list(object(listed_fields())))], "plans"),
        "plan_show" | "plan_take" => ("plan", vec![steps, posts, running, next]),
        "step_update" => ("message", vec![message, step]),
        "postcondition_verify" => ("message", vec![message, posts]),
        "topic_read" => {
            return whole(
                vec![
                    message,
                    ("topics", list(json!({ "type": "string" }))),
                    ("topic", text("The topic that was read.")),
                    ("text", text("Its text, in Markdown.")),
                ],
                "",
            );
        }
        "topic_publish" => {
            return whole(
                vec![
                    message,
                    ("topic", text("The topic.")),
                    ("bytes", number("Size of what this step has published to it.")),
                ],
                "message",
            );
        }
        _ => ("message", vec![message]),
    };
    whole(standing_fields().into_iter().chain(own).collect(), required)
}

fn whole(fields: Vec<(&'static str, Value)>, required: &str) -> Arc<JsonObject> {
    let required: Vec<&str> = Some(required).filter(|name| !name.is_empty()).into_iter().collect();
    let Value::Object(mut schema) = object(fields) else { return Arc::default() };
    schema.insert("required".to_owned(), json!(required));
    Arc::new(schema)
}

fn object(fields: Vec<(&'static str, Value)>) -> Value {
    let fields: Map<String, Value> = fields.into_iter().map(|(name, kind)| (name.to_owned(), kind)).collect();
    json!({ "type": "object", "properties": fields })
}

pub(super) fn text(description: &str) -> Value {
    json!({ "type": "string", "description": description })
}

fn number(description: &str) -> Value {
    json!({ "type": "integer", "description": description })
}

fn flag(description: &str) -> Value {
    json!({ "type": "boolean", "description": description })
}

/// How far the plan is.
fn standing_fields() -> Vec<(&'static str, Value)> {
    vec![
        ("plan", text("The name of the plan.")),
        ("title", text("The title of the plan.")),
        ("stage", text("draft, verified, approved, in-progress, done or failed.")),
        ("done", number("Number of steps that have passed.")),
        ("total", number("Number of steps.")),
        ("approved_by", text("The person or policy that approved the plan.")),
        ("finished", flag("The plan is done, and you may finish.")),
    ]
}

fn step_fields() -> Vec<(&'static str, Value)> {
    vec![
        ("number", number("The number of the step.")),
        ("title", text("The title of the step.")),
        ("state", text("pending, in_progress, claimed, passed, waived, blocked or failed.")),
        ("pass", text("How the step passed: verified, confirmed, judged, self_checked or held_before.")),
        ("task", text("The work.")),
        ("check", text("The command that decides, or the rubric of a model.")),
        ("check_kind", text("shell, judge or human.")),
        ("hidden", flag("The check is not shown to agents.")),
        ("waits_for_person", text("The question for a person.")),
        ("last_check", text("How the last check ended, if it did not hold, with its output.")),
    ]
}

fn postcondition_fields() -> Vec<(&'static str, Value)> {
    vec![
        ("number", number("The number of the postcondition.")),
        ("description", text("The condition.")),
        ("state", text("open, held or broke.")),
        ("check", text("The command that decides.")),
        ("last_check", text("How the last check ended, if it did not hold, with its output.")),
    ]
}

fn listed_fields() -> Vec<(&'static str, Value)> {
    vec![
        ("name", text("The name of the plan, for plan_show and plan_take.")),
        ("title", text("The title of the plan.")),
        ("state", text("draft, waiting-for-you, running, idle, done or failed.")),
        ("done", number("Number of steps that have passed.")),
        ("total", number("Number of steps.")),
        ("waiting", number("Number of its items that wait for a person.")),
        ("own", flag("It is the plan of this session.")),
        ("trouble", text("Why its log is not trusted.")),
    ]
}

/// Puts the known fields into an object.
fn known(fields: impl IntoIterator<Item = (&'static str, Option<Value>)>) -> Value {
    let known = fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    Value::Object(known.collect())
}

fn standing(run: &Run, name: &str) -> Vec<(&'static str, Option<Value>)> {
    let (done, total) = run.progress();
    vec![
        ("plan", Some(json!(name))),
        ("title", Some(json!(run.plan.title))),
        ("stage", Some(json!(run.stage.word()))),
        ("done", Some(json!(done))),
        ("total", Some(json!(total))),
        ("approved_by", run.approvers().map(Value::from)),
        ("finished", Some(json!(run.stage == Stage::Done))),
    ]
}

/// Returns a message, with the plan if it is known.
pub(super) fn message(words: &str, plan: Option<&SessionPlan>, part: AnswerPart) -> Value {
    let mut fields = vec![("message", Some(json!(words)))];
    if let Some(SessionPlan { run, name, .. }) = plan {
        fields.extend(standing(run, name));
        match part {
            AnswerPart::Standing => {}
            AnswerPart::Step(number) => {
                let found = run.steps().find(|(step, _)| step.number == StepNumber(number));
                fields
                    .push(("step", found.map(|(step, state)| as_step(&StepView::of(run, step, state, &[])))));
            }
            AnswerPart::Postconditions => fields.push(("postconditions", Some(postconditions(run)))),
        }
    }
    known(fields)
}

/// Returns the whole plan; `next` is left out for a plan of another session.
pub(super) fn shown(plan: &SessionPlan, judging: &str) -> Value {
    let SessionPlan { run, name, .. } = plan;
    let steps = run.steps().map(|(step, state)| as_step(&StepView::of(run, step, state, &[])));
    let mut fields = standing(run, name);
    fields.extend([
        ("steps", Some(steps.collect())),
        ("postconditions", Some(postconditions(run))),
        ("judging", Some(judging.trim()).filter(|words| !words.is_empty()).map(Value::from)),
        ("next", plan.is_own.then(|| json!(words::next(run)))),
    ]);
    known(fields)
}

pub(super) fn created(words: &str, created: &CreateResult) -> Value {
    let waits = match &created.gate {
        SessionDecision::Open(_) => None,
        SessionDecision::Waits(why) => Some(json!(why)),
    };
    let mut fields = vec![("message", Some(json!(words)))];
    fields.extend(standing(&created.run, &created.name));
    fields.extend([("path", Some(json!(created.path.display().to_string()))), ("waits", waits)]);
    known(fields)
}

pub(super) fn listed(plans: &[FolderPlan]) -> Value {
    let plan = |FolderPlan { card, is_own }: &FolderPlan| {
        known([
            ("name", Some(json!(card.name))),
            ("title", Some(json!(card.title))),
            ("state", Some(json!(card.state))),
            ("done", Some(json!(card.done))),
            ("total", Some(json!(card.total))),
            ("waiting", Some(json!(card.waiting))),
            ("own", Some(json!(is_own))),
            ("trouble", card.trouble.as_ref().map(|why| json!(why))),
        ])
    };
    json!({ "plans": plans.iter().map(plan).collect::<Vec<_>>() })
}

fn as_step(step: &StepView) -> Value {
    let check = step.contract.as_ref();
    let shown = check.filter(|_| !step.hidden).and_then(|check| check.text.as_ref());
    known([
        ("number", Some(json!(step.number))),
        ("title", Some(json!(step.title))),
        ("state", Some(json!(step.state))),
        ("pass", step.pass.map(|pass| json!(pass))),
        ("task", step.task.as_ref().map(|task| json!(task))),
        ("check", shown.map(|text| json!(text))),
        ("check_kind", check.map(|check| json!(check.kind))),
        ("hidden", step.hidden.then_some(json!(true))),
        ("waits_for_person", step.blocked.as_ref().map(|reason| json!(reason))),
        ("last_check", words::last_check(step).map(Value::from)),
    ])
}

fn postconditions(run: &Run) -> Value {
    let post = |post: PostconditionView| {
        known([
            ("number", Some(json!(post.number))),
            ("description", Some(json!(post.description))),
            ("state", Some(json!(post.state))),
            ("check", post.contract.as_ref().and_then(|check| check.text.as_ref()).map(|text| json!(text))),
            ("last_check", post.verdict.as_ref().map(|verdict| json!(words::seen(verdict, false)))),
        ])
    };
    PostconditionView::all(run).into_iter().map(post).collect()
}
