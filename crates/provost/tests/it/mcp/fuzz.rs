//! Tests that the server answers the next good request after any input, and ends with its input.

use serde_json::json;

use super::client::{Client, initialize, tool};
use super::{IN_PLACE, two_steps, workspace};

/// A small random generator, so that a failure can be reproduced from its seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % sides
    }
}

const LINES: [&[u8]; 24] = [
    b"",
    b"hello",
    b"{",
    b"}",
    b"null",
    b"[]",
    b"[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}]",
    b"\xff\xfe\x00\x01",
    b"{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"ping\"}",
    b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}",
    b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":77}}",
    b"{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"ping\"}",
    b"{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"ping\"}",
    b"{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"no/such\"}",
    b"{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"tools/call\"}",
    b"{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"tools/call\",\"params\":{\"name\":7}}",
    b"{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"tools/call\",\"params\":{\"name\":\"plan_show\",\"arguments\":[]}}",
    b"{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"tools/call\",\"params\":{\"name\":\"step_update\",\"arguments\":{\"step\":-1e99,\"status\":[]}}}",
    b"{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"tools/call\",\"params\":{\"name\":\"plan_create\",\"arguments\":{\"objective\":{},\"steps\":7}}}",
    b"{\"jsonrpc\":\"2.0\",\"id\":5,\"result\":{}}",
    b"{\"jsonrpc\":\"2.0\",\"id\":5,\"error\":{\"code\":1,\"message\":\"x\"}}",
    b"{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"initialize\",\"params\":{}}",
    b"{\"jsonrpc\":\"2.0\",\"id\":\"\\u0000\",\"method\":\"resources/read\",\"params\":{\"uri\":\"file:///etc/passwd\"}}",
    b"{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{}}}}}}}}}",
];

#[test]
fn nothing_that_is_written_ends_the_server() {
    let env = workspace(IN_PLACE);
    for seed in 1..=3 {
        let mut dice = Dice(seed);
        let mut client = Client::silent(&env, &["--session", "fuzz"]);
        // Also before the handshake.
        for _ in 0..20 {
            client.say(LINES[dice.roll(21)]);
        }
        client.say(initialize(1001).to_string().as_bytes());
        assert!(client.answer(1001)["result"]["serverInfo"].is_object(), "seed {seed}");
        for round in 0..200_u64 {
            let line = LINES[dice.roll(LINES.len())];
            let end = if dice.roll(3) == 0 { dice.roll(line.len() + 1) } else { line.len() };
            client.say(&line[..end]);
            if round % 40 == 0 {
                client.say(tool(2000 + round, "plan_show", &json!({})).to_string().as_bytes());
                assert!(client.answer(2000 + round)["result"].is_object(), "seed {seed}");
            }
        }
        assert_eq!(client.end(), 0, "seed {seed}");
    }
}

#[test]
fn a_huge_line_is_dropped_and_a_deep_one_too() {
    let env = workspace(IN_PLACE);
    let mut client = Client::start(&env, &[]);
    let huge = vec![b'x'; 1 << 20];
    for _ in 0..17 {
        client.write(&huge);
    }
    client.say(b"");
    client.say("[".repeat(100_000).as_bytes());
    client.say(format!("{}1{}", "{\"a\":".repeat(50_000), "}".repeat(50_000)).as_bytes());
    client.call("plan_create", json!({ "objective": "x".repeat(1 << 20), "steps": ["a"] }));
    client.call("plan_create", json!({ "objective": "x", "steps": vec!["a"; 1001] })).refuses("at most 1000");
    client.call("plan_next", json!({}));
    assert_eq!(client.end(), 0);
}

#[test]
fn requests_that_are_written_in_pieces_and_all_at_once_are_all_answered() {
    let env = workspace(IN_PLACE);
    let mut client = Client::start(&env, &[]);
    client.call("plan_create", two_steps()).says("is made");
    let all: String = (100..160)
        .map(|id| match id % 4 {
            0 => tool(id, "plan_show", &json!({})),
            1 => tool(id, "plan_next", &json!({})),
            2 => tool(id, "step_update", &json!({ "step": 1, "status": "done", "evidence": "x" })),
            _ => tool(id, "topic_publish", &json!({ "topic": "t", "text": "x" })),
        })
        .map(|request| format!("{request}\r\n"))
        .collect();
    for piece in all.as_bytes().chunks(997) {
        client.write(piece);
    }
    let mut open: std::collections::BTreeSet<u64> = (100..160).collect();
    while !open.is_empty() {
        open.remove(&client.any()["id"].as_u64().unwrap_or_default());
    }
    assert_eq!(client.end(), 0);
}

#[test]
fn a_client_that_is_gone_takes_the_server_with_it() {
    let env = workspace(IN_PLACE);
    let client = Client::start(&env, &[]);
    assert_eq!(client.deafened(format!("{}\n", tool(9, "plan_next", &json!({}))).as_bytes()), 0);
    let half = Client::silent(&env, &[]);
    assert_eq!(half.deafened(b"{\"jsonrpc\":"), 0);
}
