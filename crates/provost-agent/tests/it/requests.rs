//! Tests what the requests to each API say: the effort, and what may be cached.

use provost_agent::provider::api::{Dialect, ThinkingEffort};
use provost_rehearsal::{Model, Turn};
use serde_json::{Value, json};

use crate::stage::{DIALECTS, Stage, api};

/// Returns the bodies of three requests.
async fn bodies(dialect: Dialect, effort: Option<ThinkingEffort>) -> Vec<Value> {
    let stage = Stage::new();
    let list = || Turn::call("list", json!({ "path": "." }));
    let model = Model::script([list(), list(), Turn::text("done").cached(600, 40)]).serve().expect("a model");
    let run = stage.run(&api(dialect, &model).with_effort(effort), "look around").await;
    assert_eq!(run.usage.cache_read_tokens, Some(600), "{dialect:?}");
    model.requests().into_iter().map(|request| request.body).collect()
}

#[tokio::test]
async fn the_effort_is_said_as_each_api_wants_it() {
    let table = [
        (Dialect::Anthropic, "/thinking/budget_tokens", json!(24_000)),
        (Dialect::OpenAi, "/reasoning/effort", json!("high")),
        (Dialect::Chat, "/reasoning_effort", json!("high")),
        (Dialect::Gemini, "/generationConfig/thinkingConfig/thinkingBudget", json!(24_000)),
    ];
    for (dialect, place, value) in table {
        let body = bodies(dialect, Some(ThinkingEffort::High)).await.remove(0);
        assert_eq!(body.pointer(place), Some(&value), "{dialect:?}: {body}");
        let body = bodies(dialect, None).await.remove(0);
        assert_eq!(body.pointer(place), None, "{dialect:?}: {body}");
    }
}

#[tokio::test]
async fn anthropic_may_cache_the_tools_the_system_prompt_and_the_conversation() {
    let marks = |value: &Value| value.to_string().matches("cache_control").count();
    let requests = bodies(Dialect::Anthropic, None).await;
    for (body, number) in requests.iter().zip(1..) {
        assert_eq!(marks(&body["system"]), 1, "{}", body["system"]);
        let messages = body["messages"].as_array().expect("messages");
        let marked: Vec<usize> = (0..messages.len()).filter(|at| marks(&messages[*at]) > 0).collect();
        let last = messages.len() - 1;
        let expected = if number == 1 { vec![last] } else { vec![last - 2, last] };
        assert_eq!(marked, expected, "request {number}");
        assert!(marks(body) <= 4, "the API takes no more");
    }
    for dialect in DIALECTS.into_iter().filter(|dialect| *dialect != Dialect::Anthropic) {
        let requests = bodies(dialect, None).await;
        assert_eq!(requests.iter().map(marks).sum::<usize>(), 0, "{dialect:?}");
    }
}

#[tokio::test]
async fn a_conversation_keeps_its_cache_key_at_openai() {
    let key = |body: &Value| body["prompt_cache_key"].as_str().map(str::to_owned);
    let requests = bodies(Dialect::OpenAi, None).await;
    let first = key(&requests[0]).expect("a key");
    assert!(first.starts_with("provost-") && requests.iter().all(|body| key(body) == Some(first.clone())));
    assert_eq!(key(&bodies(Dialect::Chat, None).await[0]), None, "other servers may refuse it");
}
