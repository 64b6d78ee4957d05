//! Tests that the output of every client becomes the same transcript. Recordings of real clients are used if
//! they are in a folder next to the project.

use std::path::{Path, PathBuf};
use std::sync::Mutex;

use expect_test::{Expect, expect};
use provost_core::model::transcript::{TranscriptEntry, joined};
use provost_core::text::render;
use serde_json::Value;

use super::{AcpEntries, EntrySink};
use crate::agent::Reader;
use crate::config::Speaks;

fn read(speaks: Speaks, output: &[u8], size: usize) -> Vec<TranscriptEntry> {
    let entries = Mutex::new(Vec::new());
    let ear = |entry| entries.lock().expect("entries").push(entry);
    let mut reader = Reader::new(speaks, Some(&ear));
    output.chunks(size).for_each(|chunk| reader.take(chunk));
    let usage = reader.finish(true).usage;
    reader.tell_usage(&usage);
    drop(reader);
    joined(entries.into_inner().expect("entries"))
}

/// Returns the transcript as text; it must not depend on how the bytes are split.
fn transcript(speaks: Speaks, output: &[u8]) -> String {
    let whole = read(speaks, output, output.len().max(1));
    assert_eq!(read(speaks, output, 7), whole);
    render::transcript::text(&whole)
}

fn recorded(name: &str) -> Option<Vec<u8>> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/agents/samples");
    let folder = std::env::var_os("PROVOST_SAMPLES").map_or(beside, PathBuf::from);
    let found = std::fs::read(folder.join(name)).ok();
    if found.is_none() {
        provost_rehearsal::skip::cases(&format!("{name}, in the folder that PROVOST_SAMPLES names"));
    }
    found
}

fn check(speaks: Speaks, name: &str, expected: &Expect) {
    if let Some(bytes) = recorded(name) {
        expected.assert_eq(&transcript(speaks, &bytes));
    }
}

#[test]
fn recorded_claude_code() {
    check(
        Speaks::Claude,
        "claude.stream-json.jsonl",
        &expect![[r#"
        Planning.
        → mcp__provost__plan_create two files
          ← plan created: 2 steps, 1 postconditions
        → Write /home/dev/wt/a.txt
          ← File created successfully at: /home/dev/wt/a.txt (file state is current in your context — no need to Read it back)
        → mcp__provost__step_update a.txt written
          ← ok
        Everything is done!
        Still claiming it is done.
        Right, writing b.txt.
        → Write /home/dev/wt/b.txt
          ← File created successfully at: /home/dev/wt/b.txt (file state is current in your context — no need to Read it back)
        → mcp__provost__step_update b.txt written
          ← ok
        → mcp__provost__postcondition_verify
          ← all satisfied
        Now it is really done.
        used: 11,110 tokens in, 260 tokens out, $0.038, claude-sonnet-4-5
    "#]],
    );
}

#[test]
fn recorded_codex() {
    check(
        Speaks::Codex,
        "codex.exec-json.jsonl",
        &expect![[r#"
        error: `--dangerously-bypass-hook-trust` is enabled. Enabled hooks may run without review for this invocation.
        error: `--dangerously-bypass-hook-trust` is enabled. Enabled hooks may run without review for this invocation.
        Planning.
        → provost.plan_create two files
          ← plan created: 2 steps, 1 postconditions
        → file_change add /home/dev/wt/a.txt
          ← add /home/dev/wt/a.txt
        → provost.step_update a.txt written
          ← ok
        Everything is done!
        Still claiming it is done.
        Right, writing b.txt.
        → file_change add /home/dev/wt/b.txt
          ← add /home/dev/wt/b.txt
        → provost.step_update b.txt written
          ← ok
        → provost.postcondition_verify
          ← all satisfied
        Now it is really done.
        used: 12,010 tokens in, 269 tokens out
    "#]],
    );
}

#[test]
fn recorded_gemini() {
    check(
        Speaks::Gemini,
        "gemini.stream-json.jsonl",
        &expect![[r#"
        Planning.
        → mcp_provost_plan_create two files
          ← plan created: 2 steps, 1 postconditions
        → write_file /home/dev/wt/a.txt
          ←
        → mcp_provost_step_update a.txt written
          ← ok
        Everything is done!
        error: Agent execution blocked: GATE: the plan is not done. b.txt exists: `test -f b.txt || { echo 'b.txt is missing' >&2; exit 1; }` exited 1: b.txt is missing
        step 2 not finished: write b.txt
        Still claiming it is done.
        error: Agent execution blocked: GATE: the plan is not done. b.txt exists: `test -f b.txt || { echo 'b.txt is missing' >&2; exit 1; }` exited 1: b.txt is missing
        step 2 not finished: write b.txt
        Right, writing b.txt.
        → write_file /home/dev/wt/b.txt
          ←
        → mcp_provost_step_update b.txt written
          ← ok
        → mcp_provost_postcondition_verify
          ← all satisfied
        Now it is really done.
        used: 11,110 tokens in, 260 tokens out, gemini-2.5-pro
    "#]],
    );
}

#[test]
fn recorded_opencode() {
    check(
        Speaks::Opencode,
        "opencode.run-json.jsonl",
        &expect![[r#"
        Planning.
        → provost_plan_create two files
          ← plan created: 2 steps, 1 postconditions
        → write /home/dev/wt/a.txt
          ← Wrote file successfully.
        → provost_step_update a.txt written
          ← ok
        Everything is done!
        Still claiming it is done.
        Right, writing b.txt.
        → write /home/dev/wt/b.txt
          ← Wrote file successfully.
        → provost_step_update b.txt written
          ← ok
        → provost_postcondition_verify
          ← all satisfied
        Now it is really done.
        used: 11,110 tokens in, 260 tokens out, $0.038
    "#]],
    );
}

fn acp(messages: impl Iterator<Item = Value>) -> String {
    let entries = Mutex::new(Vec::new());
    let ear = |entry| entries.lock().expect("entries").push(entry);
    let (mut sink, mut all) = (EntrySink::new(Some(&ear)), AcpEntries::default());
    messages.for_each(|message| all.update(&message["params"]["update"], &mut sink));
    render::transcript::text(&joined(entries.into_inner().expect("entries")))
}

#[test]
fn recorded_acp_agents_tell_the_same() {
    let names = ["claude-agent-acp", "codex-acp", "gemini", "opencode"];
    for name in names {
        let Some(bytes) = recorded(&format!("acp.{name}.jsonl")) else { continue };
        let lines = String::from_utf8(bytes).expect("text");
        let lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).expect("a recording"));
        // The second turn continues the same session.
        let text = acp(lines.filter(|line| line["dir"] == "in").map(|line| line["msg"].clone()));
        let calls = text.lines().filter(|line| line.starts_with("→ ")).count();
        let results = text.lines().filter(|line| line.starts_with("  ← ") || *line == "  ←").count();
        assert_eq!((calls, results), (6, 6), "{name}: {text}");
        assert!(text.contains("Planning.\n→ ") && text.contains("plan created: 2 steps"), "{name}: {text}");
        assert!(text.contains("a.txt") && !text.contains('{'), "{name}: {text}");
    }
}

#[test]
fn each_client_tells_of_calls_results_and_errors() {
    let claude = br#"{"type":"assistant","message":{"content":[{"type":"thinking","thinking":"hm"},{"type":"text","text":"Look.\n"},{"type":"tool_use","id":"t1","name":"Bash","input":{"command":"ls\n-l","timeout":5}}]}}
{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t1","is_error":true,"content":[{"type":"text","text":"no such file"},{"type":"image"}]}]}}
a warning of a program around it
{"type":"result","is_error":true,"result":"API Error: 401"}"#;
    expect![[r#"
        Look.
        → Bash ls -l
          ✗ no such file
            [image]
        a warning of a program around it
        error: API Error: 401
    "#]]
    .assert_eq(&transcript(Speaks::Claude, claude));
    let codex = br#"{"type":"item.started","item":{"id":"i","type":"command_execution","command":"make","status":"in_progress"}}
{"type":"item.completed","item":{"id":"i","type":"command_execution","command":"make","aggregated_output":"no rule\n","exit_code":2,"status":"failed"}}
{"type":"item.completed","item":{"id":"j","type":"reasoning","text":"hm"}}
{"type":"turn.failed","error":{"message":"unexpected status 401"}}"#;
    expect![[r#"
        → shell make
          ✗ exit code 2
            no rule
        error: unexpected status 401
    "#]]
    .assert_eq(&transcript(Speaks::Codex, codex));
    let gemini = br#"{"type":"message","role":"user","content":"the prompt"}
{"type":"message","role":"assistant","content":"I ","delta":true}
{"type":"message","role":"assistant","content":"look.","delta":true}
{"type":"tool_use","tool_id":"t","tool_name":"read_file","parameters":{"absolute_path":"/a"}}
{"type":"tool_result","tool_id":"t","status":"error","error":{"message":"not found"}}
{"type":"message","role":"assistant","content":"Not there.","delta":true}"#;
    expect![[r#"
        I look.
        → read_file /a
          ✗ not found
        Not there.
    "#]]
    .assert_eq(&transcript(Speaks::Gemini, gemini));
    let opencode = br#"{"type":"tool_use","part":{"tool":"bash","callID":"c","state":{"status":"error","input":{"command":"ls"},"error":"denied"}}}
{"type":"error","error":{"name":"APIError","data":{"message":"no credit"}}}"#;
    expect![[r#"
        → bash ls
          ✗ denied
        error: no credit
    "#]]
    .assert_eq(&transcript(Speaks::Opencode, opencode));
}

#[test]
fn a_program_may_tell_its_own_entries_and_any_other_line_is_text() {
    let own = br#"{"kind":"text","text":"Look"}
{"kind":"text","text":"ing.\n"}
{"kind":"tool_call","id":"1","name":"shell","arguments":{"command":"ls"}}
{"kind":"tool_result","id":"1","ok":true,"text":"a\nb"}
{"not":"an entry"}
[turn 2]
{"report":"Looking.","usage":{"input_tokens":5,"output_tokens":1}}"#;
    expect![[r#"
        Looking.
        → shell ls
          ← a
            b
        {"not":"an entry"}
        [turn 2]
        used: 5 tokens in, 1 tokens out
    "#]]
    .assert_eq(&transcript(Speaks::Json, own));
    let report = b"working\n{\"report\":\"three files\"}\n";
    assert_eq!(transcript(Speaks::Json, report), "working\nthree files\n");
    assert_eq!(transcript(Speaks::Json, b"{\"a\":1}\n"), "{\"a\":1}\n");
    assert_eq!(transcript(Speaks::Text, b"one\ntwo"), "one\ntwo\n");
}

#[test]
fn what_is_too_long_is_cut_in_the_middle() {
    let long = "é".repeat(20_000);
    let call = serde_json::json!({ "type": "assistant", "message": { "content": [
        { "type": "tool_use", "id": "t", "name": "Write", "input": { "path": "p", "content": long } },
    ] } });
    let result = serde_json::json!({ "type": "user", "message": { "content": [
        { "type": "tool_result", "tool_use_id": "t", "content": long },
    ] } });
    let entries = read(Speaks::Claude, format!("{call}\n{result}\n").as_bytes(), 4096);
    assert_eq!(entries.len(), 2);
    assert!(entries.iter().all(|entry| (4_000..17_000).contains(&entry.size())), "{entries:?}");
    assert!(format!("{entries:?}").contains("bytes left out"), "{entries:?}");
}
