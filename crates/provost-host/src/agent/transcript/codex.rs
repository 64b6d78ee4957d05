//! Entries of the JSON lines of `codex exec`.

use serde_json::{Value, json};

use super::{EntrySink, error_text, text_of};

pub(in crate::agent) fn entries(kind: &str, value: &Value, sink: &mut EntrySink<'_>) {
    let item = &value["item"];
    match (kind, item["type"].as_str().unwrap_or_default()) {
        ("item.completed", "agent_message") => sink.message(item["text"].as_str().unwrap_or_default()),
        ("item.completed", "error") => sink.error(&error_text(item)),
        ("item.started", _) => call(item, sink),
        ("item.completed", _) => result(item, sink),
        ("turn.failed", _) => sink.error(&error_text(&value["error"])),
        _ => {}
    }
}

fn call(item: &Value, sink: &mut EntrySink<'_>) {
    let id = item["id"].as_str().unwrap_or_default();
    let word = |name: &str| item[name].as_str().unwrap_or_default();
    match word("type") {
        "command_execution" => sink.call(id, "shell", &json!({ "command": item["command"] })),
        "mcp_tool_call" => {
            sink.call(id, &format!("{}.{}", word("server"), word("tool")), &item["arguments"]);
        }
        "file_change" => sink.call(id, "file_change", &json!(changes(item))),
        "web_search" => sink.call(id, "web_search", &json!({ "query": item["query"] })),
        _ => {}
    }
}

fn result(item: &Value, sink: &mut EntrySink<'_>) {
    let id = item["id"].as_str().unwrap_or_default();
    let ok = item["status"] != "failed" && item["error"].is_null();
    match item["type"].as_str().unwrap_or_default() {
        "command_execution" => {
            let code = item["exit_code"].as_i64();
            let output = item["aggregated_output"].as_str().unwrap_or_default();
            let end = code.filter(|code| *code != 0).map(|code| format!("exit code {code}\n"));
            sink.result(id, ok && end.is_none(), &format!("{}{output}", end.unwrap_or_default()));
        }
        "mcp_tool_call" if item["error"].is_null() => {
            sink.result(id, ok, &text_of(&item["result"]["content"]));
        }
        "mcp_tool_call" => sink.result(id, false, &error_text(&item["error"])),
        "file_change" => sink.result(id, ok, &changes(item)),
        "web_search" => sink.result(id, ok, ""),
        _ => {}
    }
}

/// Returns the changed files: `add a.txt, update b.txt`.
fn changes(item: &Value) -> String {
    let all = item["changes"].as_array().into_iter().flatten();
    let words = all.map(|change| {
        let word = |name: &str| change[name].as_str().unwrap_or_default().to_owned();
        format!("{} {}", word("kind"), word("path"))
    });
    words.collect::<Vec<_>>().join(", ")
}
