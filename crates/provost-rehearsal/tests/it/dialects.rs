//! Tests the same turn in all four APIs, whole and streamed.

use provost_rehearsal::{Model, Rehearsal, StopReason, Turn};
use serde_json::{Value, json};

use crate::client::{CHAT, GEMINI, GEMINI_STREAM, MESSAGES, RESPONSES, ask, get, question};

const TEXT: &str = "I write both files now, größer als ein Stück.";

fn turn() -> Turn {
    Turn::text(TEXT)
        .thinking("two files, then")
        .and_call("write_file", json!({ "path": "a.txt", "content": "A\n" }))
        .and_call("write_file", json!({ "path": "b.txt", "content": "B\n" }))
        .using(1000, 50)
        .cached(600, 100)
}

fn model() -> Rehearsal {
    Model::script([turn()]).serve().unwrap()
}

fn texts(events: &[Value], pointer: &str) -> String {
    events.iter().filter_map(|event| event.pointer(pointer)?.as_str()).collect()
}

#[test]
fn anthropic_messages() {
    let model = model();
    let body = ask(&model.url(), MESSAGES, &question(MESSAGES, "go", false)).json();
    let kinds: Vec<&str> =
        body["content"].as_array().unwrap().iter().map(|block| block["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["thinking", "text", "tool_use", "tool_use"]);
    assert_eq!(body["content"][1]["text"], TEXT);
    assert_eq!(body["content"][3]["input"], json!({ "path": "b.txt", "content": "B\n" }));
    assert_eq!(body["stop_reason"], "tool_use");
    // In this API, cached tokens are not part of `input_tokens`.
    let usage = json!({
        "input_tokens": 300, "cache_creation_input_tokens": 100, "cache_read_input_tokens": 600,
        "output_tokens": 50,
    });
    assert_eq!(body["usage"], usage);

    let model = self::model();
    let streamed = ask(&model.url(), MESSAGES, &question(MESSAGES, "go", true));
    assert_eq!(streamed.header("content-type"), Some("text/event-stream; charset=utf-8"));
    let events = streamed.events();
    assert_eq!((&events[0]["type"], &events[1]["type"]), (&json!("message_start"), &json!("ping")));
    assert_eq!(events[0]["message"]["usage"]["cache_read_input_tokens"], 600);
    assert_eq!(texts(&events, "/delta/text"), TEXT);
    let of_last: Vec<Value> = events.iter().filter(|event| event["index"] == 3).cloned().collect();
    let arguments = texts(&of_last, "/delta/partial_json");
    assert_eq!(serde_json::from_str::<Value>(&arguments).unwrap()["path"], "b.txt");
    let end = &events[events.len() - 2];
    assert_eq!((&end["usage"], &end["delta"]["stop_reason"]), (&usage, &json!("tool_use")));
    assert_eq!(events.last().unwrap()["type"], "message_stop");
}

#[test]
fn openai_responses() {
    let model = model();
    let body = ask(&model.url(), RESPONSES, &question(RESPONSES, "go", false)).json();
    let kinds: Vec<&str> =
        body["output"].as_array().unwrap().iter().map(|item| item["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["reasoning", "message", "function_call", "function_call"]);
    assert_eq!(body["usage"]["input_tokens"], 1000);
    assert_eq!(body["usage"]["input_tokens_details"]["cached_tokens"], 600);

    let model = self::model();
    let events = ask(&model.url(), RESPONSES, &question(RESPONSES, "go", true)).events();
    let numbers: Vec<u64> = events.iter().map(|event| event["sequence_number"].as_u64().unwrap()).collect();
    assert!(numbers.iter().copied().eq(0..numbers.len() as u64), "{numbers:?}");
    let said: Vec<Value> =
        events.iter().filter(|event| event["type"] == "response.output_text.delta").cloned().collect();
    assert!(said.len() > 1, "text comes in pieces");
    assert_eq!(texts(&said, "/delta"), TEXT);
    let last = events.last().unwrap();
    assert_eq!(last["type"], "response.completed");
    assert_eq!(last["response"]["output"], body["output"]);
    assert_eq!(last["response"]["usage"]["output_tokens"], 50);
}

#[test]
fn chat_completions() {
    let model = model();
    let body = ask(&model.url(), CHAT, &question(CHAT, "go", false)).json();
    let message = &body["choices"][0]["message"];
    assert_eq!(
        (message["content"].as_str(), &body["choices"][0]["finish_reason"]),
        (Some(TEXT), &json!("tool_calls"))
    );
    let arguments = message["tool_calls"][0]["function"]["arguments"].as_str().unwrap();
    assert_eq!(serde_json::from_str::<Value>(arguments).unwrap()["path"], "a.txt");

    let model = self::model();
    let streamed = ask(&model.url(), CHAT, &question(CHAT, "go", true));
    assert!(streamed.body.ends_with("data: [DONE]\n\n"), "{}", streamed.body);
    let events = streamed.events();
    assert_eq!(texts(&events, "/choices/0/delta/content"), TEXT);
    let last = events.last().unwrap();
    assert_eq!((&last["choices"], &last["usage"]), (&json!([]), &body["usage"]));
    assert_eq!(last["usage"]["prompt_tokens_details"]["cached_tokens"], 600);
}

#[test]
fn chat_completions_tell_usage_in_a_stream_on_request_only() {
    let model = model();
    let mut question = question(CHAT, "go", true);
    question.as_object_mut().unwrap().remove("stream_options");
    let events = ask(&model.url(), CHAT, &question).events();
    assert!(events.iter().all(|event| event.get("usage").is_none()));
}

#[test]
fn gemini() {
    let model = model();
    let body = ask(&model.url(), GEMINI, &question(GEMINI, "go", false)).json();
    let parts = &body["candidates"][0]["content"]["parts"];
    assert_eq!((&parts[0]["thought"], &parts[1]["text"]), (&json!(true), &json!(TEXT)));
    assert_eq!(parts[3]["functionCall"]["args"]["path"], "b.txt");
    assert_eq!(body["modelVersion"], "gemini-2.5-pro");
    assert_eq!(body["usageMetadata"]["cachedContentTokenCount"], 600);

    let model = self::model();
    let events = ask(&model.url(), GEMINI_STREAM, &question(GEMINI, "go", true)).events();
    let last = events.last().unwrap();
    assert_eq!(last["usageMetadata"], body["usageMetadata"]);
    assert_eq!(last["candidates"][0]["content"]["parts"][1]["functionCall"]["name"], "write_file");
    assert_eq!(last["candidates"][0]["finishReason"], "STOP");

    // A client that does not ask for events gets a list.
    let model = self::model();
    let path = GEMINI_STREAM.trim_end_matches("?alt=sse");
    let list = ask(&model.url(), path, &question(GEMINI, "go", true)).json();
    assert_eq!(list.as_array().unwrap().len(), events.len());
}

#[test]
fn each_dialect_refuses_and_runs_out_of_tokens_in_its_own_words() {
    let script = || {
        Model::script([Turn::refusal("I will not."), Turn::text("and the").stopping(StopReason::MaxTokens)])
    };
    let said = |path: &str, pointers: [&str; 2]| {
        let model = script().serve().unwrap();
        pointers.map(|pointer| {
            let body = ask(&model.url(), path, &question(path, "go", false)).json();
            body.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
        })
    };
    assert_eq!(said(MESSAGES, ["/stop_reason"; 2]), ["refusal", "max_tokens"]);
    assert_eq!(
        said(CHAT, ["/choices/0/message/refusal", "/choices/0/finish_reason"]),
        ["I will not.", "length"]
    );
    assert_eq!(
        said(RESPONSES, ["/output/0/content/0/refusal", "/incomplete_details/reason"]),
        ["I will not.", "max_output_tokens"]
    );
    assert_eq!(said(GEMINI, ["/candidates/0/finishReason"; 2]), ["SAFETY", "MAX_TOKENS"]);
}

#[test]
fn what_clients_ask_besides_is_answered_as_the_provider_would() {
    let model = model();
    let url = model.url();
    let count = ask(&url, "/v1/messages/count_tokens?beta=true", &question(MESSAGES, "go", false)).json();
    assert!(count["input_tokens"].as_u64().unwrap() > 1);
    let anthropic = get(&url, "/v1/models", "anthropic-version: 2023-06-01\r\n").json();
    assert_eq!((&anthropic["has_more"], &anthropic["data"][0]["type"]), (&json!(false), &json!("model")));
    let openai = get(&url, "/v1/models", "authorization: Bearer k\r\n").json();
    assert_eq!(openai["data"][0]["object"], "model");
    let gemini = get(&url, "/v1beta/models", "x-goog-api-key: k\r\n").json();
    assert_eq!(gemini["models"][0]["name"], "models/scripted-1");
    // Codex first asks for a websocket.
    assert_eq!(get(&url, RESPONSES, "connection: Upgrade\r\nupgrade: websocket\r\n").status, 426);
    // No API has this address.
    let unknown = get(&url, "/v1/nothing", "x-api-key: k\r\n");
    assert_eq!((unknown.status, &unknown.json()["error"]["type"]), (404, &json!("not_found_error")));
    let unknown = ask(&url, "/v1/nothing", &json!({}));
    assert_eq!(unknown.json()["error"]["message"], "Invalid URL (POST /v1/nothing)");
    let unknown = get(&url, "/v1beta/nothing", "");
    assert_eq!(unknown.json()["error"]["status"], "NOT_FOUND");
    assert!(model.requests().is_empty(), "none of it takes a turn");
}
