//! Tests the tools of MCP servers in the built-in loop, with servers of the official Python SDK.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use provost_rehearsal::{Model, Rehearsal, Turn};
use serde_json::json;

use super::{KEY, of, run};
use crate::env::{Env, plan};
use crate::mcp::official::python_client;

const SERVER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/builtin/server.py");

fn turns() -> Vec<Turn> {
    vec![
        Turn::call("notes__lookup", json!({ "word": "nothing" })),
        Turn::call("notes__lookup", json!({ "word": "fertig" })).expecting("Error executing tool lookup"),
        Turn::call("write_file", json!({ "path": "out/1", "content": "done\n" }))
            .expecting("fertig means done; key None"),
        Turn::text("Wrote out/1."),
    ]
}

fn place(model: &Rehearsal, level: &str, server: &str) -> Env {
    let env = Env::new(&plan(&["grep -q done out/1"], "retry(1), then escalate"));
    env.write("provost.toml", format!("{}[agents.coder.mcp.notes]\n{server}\n", of("anthropic", model, "")));
    env.isolation(level)
}

fn stdio(sdk: &Path, tools: &str) -> String {
    let path = format!("PYTHONPATH={}", sdk.display());
    format!("command = [\"env\", {path:?}, \"python3\", {SERVER:?}]\ntools = [{tools}]")
}

#[test]
fn a_server_that_provost_starts_serves_the_tools_that_the_role_allows() {
    let Some(sdk) = python_client() else { return };
    let model = Model::script(turns()).key(KEY).serve().expect("a model");
    let env = place(&model, "in-place", &stdio(&sdk, "\"lookup\""));
    run(&env).exits(0);
    model.expect_kept();
    let shown = env.provost(&["show"]).exits(0).out;
    assert!(shown.contains("MCP server notes: `env PYTHONPATH="), "{shown}");
    assert!(shown.contains("server.py` (lookup)"), "{shown}");
    let first = model.requests().first().map(|request| request.body.to_string()).unwrap_or_default();
    assert!(first.contains("notes__lookup") && !first.contains("notes__forget"), "{first}");
}

#[test]
fn a_server_without_an_allowed_tool_starts_no_attempt() {
    let Some(sdk) = python_client() else { return };
    let model = Model::script([]).key(KEY).serve().expect("a model");
    let env = place(&model, "in-place", &stdio(&sdk, "\"lookdown\""));
    run(&env).exits(4);
    let inbox = env.provost(&["inbox"]).exits(0).out;
    assert!(inbox.contains("it has no tool `lookdown`; it has lookup, forget"), "{inbox}");
    let log = env.provost(&["log", "--json"]).exits(0).out;
    assert_eq!(log.matches("ATTEMPT_ENDED").count(), 1, "it is not tried again: {log}");
}

/// A server over HTTP; it ends with the test.
struct Served(Child);

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn serve(sdk: &PathBuf) -> (Served, u16) {
    let port = std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("it").port();
    let mut python = Command::new("python3");
    python.arg(SERVER).arg(port.to_string()).env("PYTHONPATH", sdk);
    let served = Served(python.stderr(Stdio::null()).stdout(Stdio::null()).spawn().expect("python3"));
    let begun = std::time::Instant::now();
    while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(begun.elapsed().as_secs() < 120, "the server does not listen");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    (served, port)
}

#[test]
fn a_server_over_http_is_reached_also_behind_the_fence() {
    let Some(sdk) = python_client() else { return };
    let (_served, port) = serve(&sdk);
    for level in ["in-place", "clean"] {
        let model = Model::script(turns()).key(KEY).serve().expect("a model");
        let env = place(&model, level, &format!("url = \"http://127.0.0.1:{port}/mcp\""));
        if level == "clean" && !env.has_fences() {
            return;
        }
        run(&env).exits(0);
        model.expect_kept();
    }
}
