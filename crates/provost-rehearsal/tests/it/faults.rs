//! Tests the failures of a provider.

use provost_rehearsal::{ApiFailure, Fault, Model, Turn};
use serde_json::{Value, json};

use crate::client::{CHAT, Client, GEMINI, GEMINI_STREAM, MESSAGES, RESPONSES, ask, question};

const ALL: [&str; 4] = [MESSAGES, RESPONSES, CHAT, GEMINI];
const STREAMED: [&str; 4] = [MESSAGES, RESPONSES, CHAT, GEMINI_STREAM];

#[test]
fn an_error_has_the_form_of_its_dialect_and_the_headers_that_were_asked_for() {
    let said = |path: &str, status: u16, pointer: &str| {
        let turn = Turn::status(status).with_header("retry-after", "7").with_header("retry-after-ms", "7000");
        let model = Model::script([turn]).serve().unwrap();
        let answer = ask(&model.url(), path, &question(path, "go", true));
        assert_eq!((answer.status, answer.header("retry-after-ms")), (status, Some("7000")));
        answer.json().pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    assert_eq!(said(MESSAGES, 529, "/error/type"), "overloaded_error");
    assert_eq!(said(MESSAGES, 429, "/error/type"), "rate_limit_error");
    assert_eq!(said(RESPONSES, 401, "/error/code"), "invalid_api_key");
    assert_eq!(said(CHAT, 503, "/error/type"), "server_error");
    assert_eq!(said(GEMINI, 429, "/error/status"), "RESOURCE_EXHAUSTED");
    assert_eq!(said(GEMINI, 429, "/error/details/0/retryDelay"), "7s");
}

#[test]
fn a_body_of_ones_own_goes_out_as_it_stands() {
    let failure = ApiFailure {
        status: 502,
        body: Some("<html>bad gateway</html>".to_owned()),
        ..ApiFailure::default()
    };
    let model = Model::script([Turn::fault(Fault::Status(failure))]).serve().unwrap();
    let answer = ask(&model.url(), CHAT, &question(CHAT, "go", false));
    assert_eq!((answer.status, answer.body.as_str()), (502, "<html>bad gateway</html>"));
}

#[test]
fn a_prompt_that_does_not_fit_is_refused_as_the_provider_does() {
    for (path, words) in ALL.into_iter().zip([
        "prompt is too long",
        "exceeds the context window",
        "maximum context length",
        "exceeds the maximum number of tokens",
    ]) {
        let model = Model::script([Turn::fault(Fault::TooLong)]).serve().unwrap();
        let answer = ask(&model.url(), path, &question(path, "go", false));
        assert_eq!(answer.status, 400);
        assert!(answer.body.contains(words), "{}", answer.body);
    }
}

#[test]
fn a_connection_is_cut_in_the_middle_of_a_stream_and_of_a_body() {
    for path in STREAMED {
        let model = Model::script([Turn::text("a text of some length, which is cut").failing(Fault::Cut)]);
        let model = model.serve().unwrap();
        let answer = ask(&model.url(), path, &question(path, "go", true));
        assert!(answer.is_cut && answer.status == 200, "{path}");
        assert!(!answer.events().is_empty(), "{path}: half of it came");
    }
    let model = Model::script([Turn::text("cut").failing(Fault::Cut)]).serve().unwrap();
    let answer = ask(&model.url(), MESSAGES, &question(MESSAGES, "go", false));
    assert!(answer.is_cut && answer.body.starts_with('{'));
    let model = Model::script([Turn::fault(Fault::HangUp)]).serve().unwrap();
    let answer = ask(&model.url(), MESSAGES, &question(MESSAGES, "go", false));
    assert!(answer.is_cut && answer.status == 0);
}

#[test]
fn an_error_comes_inside_a_stream() {
    let fault =
        || Fault::InStream(ApiFailure { status: 529, message: Some("busy".into()), ..ApiFailure::default() });
    let last = |path: &str| {
        let model = Model::script([Turn::text("half of it is there").failing(fault())]).serve().unwrap();
        let answer = ask(&model.url(), path, &question(path, "go", true));
        assert!(!answer.is_cut && answer.status == 200);
        answer.events().last().cloned().unwrap()
    };
    assert_eq!(last(MESSAGES)["error"]["type"], "overloaded_error");
    assert_eq!(last(RESPONSES)["response"]["error"]["message"], "busy");
    assert_eq!(last(CHAT)["error"]["message"], "busy");
    assert_eq!(last(GEMINI_STREAM)["error"]["code"], 529);
}

#[test]
fn what_comes_is_no_stream_at_all() {
    for path in STREAMED {
        let model =
            Model::script([Turn::text("some words before it").failing(Fault::Garbage)]).serve().unwrap();
        let answer = ask(&model.url(), path, &question(path, "go", true));
        assert!(answer.body.contains("<html>gateway</html>"), "{path}");
    }
}

#[test]
fn arguments_need_not_be_json() {
    let broken = r#"{"path": "a.txt", "content": "#;
    let model = Model::script([]).after(Turn::raw_call("write_file", broken)).serve().unwrap();
    let chat = ask(&model.url(), CHAT, &question(CHAT, "go", false)).json();
    assert_eq!(chat["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"], broken);
    let events = ask(&model.url(), MESSAGES, &question(MESSAGES, "go", true)).events();
    let written: String = events.iter().filter_map(|event| event["delta"]["partial_json"].as_str()).collect();
    assert_eq!(written, broken);
    let gemini = ask(&model.url(), GEMINI, &question(GEMINI, "go", false)).json();
    assert_eq!(gemini["candidates"][0]["finishReason"], "MALFORMED_FUNCTION_CALL");
}

#[test]
fn a_held_turn_waits_in_its_middle_and_sees_a_client_leave() {
    let model = Model::script([Turn::text("one").held(), Turn::text("two").held()]).serve().unwrap();
    let body = question(MESSAGES, "go", true).to_string();
    let mut client = Client::to(&model.url());
    client.send("POST", MESSAGES, "", &body);
    client.skip_head();
    let first = String::from_utf8(client.piece().unwrap()).unwrap();
    assert!(first.contains("message_start"), "{first}");
    model.release();
    let mut last = Vec::new();
    while let Some(piece) = client.piece() {
        last = piece;
    }
    assert!(String::from_utf8(last).unwrap().contains("message_stop"));
    // The client disconnects in the middle of the second turn of the same connection.
    client.send("POST", MESSAGES, "", &body);
    model.wait_for(2);
    drop(client);
    model.wait_until_left(1);
    assert!(!model.requests()[0].has_left);
}

#[test]
fn a_dribble_ends_anywhere_and_says_the_same() {
    let turn = || Turn::text("größer, in sehr kleinen Stücken");
    let ask_for = |turn: Turn| {
        let model = Model::script([turn]).serve().unwrap();
        ask(&model.url(), CHAT, &question(CHAT, "go", true)).body
    };
    assert_eq!(ask_for(turn().dribbled()), ask_for(turn()));
    let model = Model::script([turn().dribbled()]).serve().unwrap();
    let mut client = Client::to(&model.url());
    client.send("POST", CHAT, "", &json!({ "stream": true }).to_string());
    client.skip_head();
    assert_eq!(client.piece().unwrap().len(), 7);
}
