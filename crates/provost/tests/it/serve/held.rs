//! Tests that a plan made over HTTP is the plan of the client's session, also for its stop hook.

use serde_json::{Value, json};

use super::{Reply, Server, token};
use crate::env::{Env, own_checks};
use crate::hook::{refused, stop};
use crate::mcp::client::{initialize, tool};

fn send(server: &Server, token: &str, session: &str, message: &Value) -> Reply {
    let bearer = format!("Bearer {token}");
    let head = [
        ("Authorization", bearer.as_str()),
        ("Content-Type", "application/json"),
        ("Accept", "application/json, text/event-stream"),
        ("Mcp-Protocol-Version", "2025-11-25"),
        ("Mcp-Session-Id", session),
    ];
    let head = if session.is_empty() { &head[..4] } else { &head[..] };
    server.bare("POST", "/mcp", head, &message.to_string())
}

#[test]
fn a_plan_made_over_http_holds_the_session_of_its_client() {
    let env = Env::new("");
    std::fs::remove_file(env.work().join("PLAN.md")).expect("gone");
    env.write("provost.toml", own_checks("[verify]\nisolation = \"in-place\"\n"));
    let server = Server::start(&env);
    let agent = token(&env, "agent");
    // This process is the client: it connects to the server, and it starts the hook.
    let session = send(&server, &agent, "", &initialize(1)).is(200).head("mcp-session-id").to_owned();
    assert!(!session.is_empty());
    send(&server, &agent, &session, &json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
    let steps = json!([{ "title": "Write a", "task": "Write out/a.", "check": "test -f out/a" }]);
    let plan = json!({ "objective": "Write it", "steps": steps });
    let made = send(&server, &agent, &session, &tool(2, "plan_create", &plan)).is(200);
    assert!(made.body.contains("is made"), "{}", made.body);
    let held = stop(&env, "claude", "s");
    assert!(refused(&held).is_some_and(|words| words.contains("Write out/a.")), "{held}");
    assert_eq!(refused(&stop(&env, "claude", "another session of the client")), None);
    env.write("out/a", "x");
    assert_eq!(refused(&stop(&env, "claude", "s")), None);
    assert_eq!(env.provost(&["status", "write-it", "--json"]).exits(0).json()["stage"], "done");
}
