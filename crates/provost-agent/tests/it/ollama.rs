//! Tests Ollama's own API, which the mock model does not support, with a small server that sends JSON
//! lines.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;

use provost_agent::agent::RunEnd;
use provost_agent::provider::api::{Api, Dialect, Key};
use serde_json::{Value, json};

use crate::stage::Stage;

/// Answers each request with the next of these texts; returns the requests.
fn serve(answers: Vec<Vec<Value>>) -> (String, std::thread::JoinHandle<Vec<(String, Value)>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let asked = std::thread::spawn(move || {
        let answer = |lines: Vec<Value>| {
            let (mut wire, _) = listener.accept().expect("a client");
            let mut reader = BufReader::new(wire.try_clone().expect("a wire"));
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") {
                assert!(reader.read_line(&mut head).expect("a line") > 0);
            }
            let length = head
                .to_lowercase()
                .split("content-length: ")
                .nth(1)
                .and_then(|rest| rest.lines().next()?.parse().ok());
            let mut body = vec![0; length.expect("a length")];
            reader.read_exact(&mut body).expect("a body");
            let said: String = lines.iter().map(|line| format!("{line}\n")).collect();
            let head_of_answer = format!(
                "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: application/x-ndjson\r\ncontent-length: {}\r\n\r\n",
                said.len()
            );
            wire.write_all((head_of_answer + &said).as_bytes()).expect("answered");
            (head.lines().next().unwrap_or_default().to_owned(), serde_json::from_slice(&body).expect("JSON"))
        };
        answers.into_iter().map(answer).collect()
    });
    (url, asked)
}

#[tokio::test]
async fn a_local_model_calls_a_tool_and_answers() {
    let call = json!({ "function": { "name": "write_file", "arguments": { "path": "a", "content": "x" } } });
    let (url, asked) = serve(vec![
        vec![
            json!({ "model": "q", "message": { "role": "assistant", "content": "", "tool_calls": [call] }, "done": false }),
            json!({ "model": "q", "message": { "role": "assistant", "content": "" }, "done": true,
                    "done_reason": "stop", "prompt_eval_count": 100, "eval_count": 9 }),
        ],
        vec![
            json!({ "model": "q", "message": { "role": "assistant", "content": "Wrote " }, "done": false }),
            json!({ "model": "q", "message": { "role": "assistant", "content": "a." }, "done": true,
                    "done_reason": "stop", "prompt_eval_count": 120, "eval_count": 3 }),
        ],
    ]);
    let stage = Stage::new();
    let provider = Api::new(Dialect::Ollama, "q", Some(&url), Key::none()).expect("a provider");
    let run = stage.run(&provider, "write a").await;
    assert_eq!(run.outcome, RunEnd::Finished { answer: "Wrote a.".to_owned() });
    assert!(stage.path().join("a").exists());
    assert_eq!((run.usage.input_tokens, run.usage.output_tokens), (Some(220), Some(12)));
    let asked = asked.join().expect("asked");
    assert!(asked[0].0.starts_with("POST /api/chat"), "{}", asked[0].0);
    assert!(asked[1].1.to_string().contains("wrote 1 bytes to a"), "{}", asked[1].1);
}
