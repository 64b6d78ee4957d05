//! Tests transcripts: what an agent says and does is shown while it works and kept afterwards, in one form for
//! every driver, without secrets.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::env::{Env, plan};
use crate::log::{TOLD, tell};
use crate::serve::{Server, token};

/// Plays Claude Code: text, a call, its result, a usage. Waits for a file if one is named.
const CLAUDE: &str = r#"#!/bin/bash
cat > /dev/null
say() { printf '%s\n' "$1"; }
say '{"type":"system","subtype":"init","session_id":"s1"}'
say '{"type":"assistant","message":{"id":"a","content":[{"type":"text","text":"I make the file."}]}}'
say '{"type":"assistant","message":{"id":"a","content":[{"type":"tool_use","id":"t1","name":"Bash","input":{"command":"touch out/1"}}]}}'
say '{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t1","content":"the key is '"$API_KEY"'\nsecond line"}]}}'
if [ -e hold ]; then for i in {1..2400}; do [ -e ../go ] && break; sleep 0.05; done; fi
mkdir -p out; touch out/1
say '{"type":"result","subtype":"success","is_error":false,"result":"Done.","session_id":"s1","usage":{"input_tokens":100,"output_tokens":10},"modelUsage":{"m":{"inputTokens":100,"outputTokens":10}}}'
"#;

const SECRET: &str = "zq81-vbh7-trustno1-x";

fn claude() -> Env {
    let env = Env::new(&plan(&["test -f out/1"], "escalate"));
    env.write("claude.sh", CLAUDE);
    let program = env.work().join("claude.sh");
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("executable");
    let role = format!("[agents.coder]\ndriver = \"claude\"\nprogram = \"{}\"\n", program.display());
    env.write("provost.toml", role);
    env.isolation("in-place")
}

fn run(env: &Env, arguments: &[&str]) -> crate::env::Answer {
    crate::env::answer(env.command(arguments).env("API_KEY", SECRET).output().expect("provost"))
}

fn transcripts(env: &Env) -> Vec<PathBuf> {
    let plans = fs::read_dir(env.state().join("transcripts")).into_iter().flatten().flatten();
    plans
        .flat_map(|plan| fs::read_dir(plan.path()).expect("a folder").flatten())
        .map(|file| file.path())
        .collect()
}

fn eventually<T>(what: &str, look: impl Fn() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < Duration::from_secs(300), "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Returns the live output of the running attempt.
fn live(env: &Env) -> Option<String> {
    let file = fs::read_dir(env.state().join("live")).ok()?.flatten().next()?;
    fs::read_to_string(file.path()).ok()
}

#[test]
fn an_attempt_is_read_afterwards_as_text_lines_or_a_document() {
    let env = claude();
    env.approve();
    let shown = run(&env, &["run", "--output"]).exits(0);
    let words = format!("{}{}", shown.out, shown.err);
    assert!(!words.contains("\"type\"") && !words.contains("trustno1"), "{words}");
    let text = env.provost(&["log", "--transcript", "1"]).exits(0).out;
    let expected = "Transcript of step 1, attempt 1 by coder\n\nI make the file.\n→ Bash touch out/1\n  ← the key is \
                    [redacted:API_KEY]\n    second line\nused: 100 tokens in, 10 tokens out, m\n";
    assert_eq!(text, expected);
    let lines = env.provost(&["log", "--transcript", "1.1", "--json"]).exits(0).lines();
    let kinds: Vec<&str> = lines.iter().filter_map(|line| line["kind"].as_str()).collect();
    assert_eq!(kinds, ["text", "tool_call", "tool_result", "usage"]);
    assert_eq!(lines[1]["arguments"], json!({ "command": "touch out/1" }));
    let document = env.provost(&["log", "--transcript", "1", "--markdown", "-"]).exits(0).out;
    let file = env.folder().join("review.md");
    env.provost(&["log", "--transcript", "1", "--markdown", &file.display().to_string()]).exits(0);
    assert_eq!(fs::read_to_string(file).expect("a document"), document);
    assert!(document.starts_with("# Transcript of step 1, attempt 1 by coder (plan-"), "{document}");
    assert!(document.contains("**`Bash`** `touch out/1`"), "{document}");
    // No secret is in any file of the state folder.
    let files = transcripts(&env);
    assert_eq!(files.len(), 1, "{files:?}");
    assert!(!fs::read_to_string(&files[0]).expect("a file").contains("trustno1"));
    // The log names its digest, and still passes its audit.
    let ended = env.provost(&["log", "--event", "ATTEMPT_ENDED", "--json"]).exits(0).lines().remove(0);
    assert_eq!(ended["details"]["transcript"].as_str().map(str::len), Some(64), "{ended}");
    env.provost(&["audit"]).exits(0);
}

#[test]
fn what_is_missing_or_was_changed_is_said() {
    let env = claude();
    env.approve();
    run(&env, &["run"]).exits(0);
    let file = transcripts(&env).remove(0);
    let text = fs::read_to_string(&file).expect("a file");
    fs::write(&file, text.replace("I make", "I never make")).expect("written");
    let changed = env.provost(&["log", "--transcript", "1"]).exits(0);
    assert!(changed.err.contains("the transcript was changed"), "{}", changed.err);
    fs::remove_file(&file).expect("removed");
    let gone = env.provost(&["log", "--transcript", "1"]).exits(0);
    assert!(gone.out.is_empty() && gone.err.contains("stays on the machine that ran"), "{}", gone.err);
    for (which, says) in [("1.2", "has no attempt 2"), ("9", "step 9 of"), ("x", "neither a step (2)")] {
        let refused = env.provost(&["log", "--transcript", which]).exits(2);
        assert!(refused.err.contains(says), "{which}: {}", refused.err);
    }
    // A log of an older provost has attempts without transcripts.
    tell(&env);
    let old = env.provost(&["log", "--transcript", "1.2", TOLD]).exits(0);
    assert!(old.err.contains("there is no transcript"), "{}", old.err);
}

#[test]
fn it_is_there_while_the_attempt_runs_and_after_provost_is_killed() {
    let env = claude();
    env.write("hold", "");
    env.git(&["add", "hold"]);
    env.git(&["commit", "--quiet", "--message", "hold"]);
    env.approve();
    let mut child = env.command(&["run"]).env("API_KEY", SECRET).spawn().expect("a run");
    let seen = eventually("live output", || {
        live(&env).filter(|text| text.contains("second") || text.contains("more line"))
    });
    assert!(seen.contains("→ Bash touch out/1\n  ← the key is [redacted:API_KEY] (1 more line)\n"), "{seen}");
    let server = Server::start(&env);
    let token = token(&env, "view");
    let plans = server.get("/api/plans", &token).is(200).json();
    let plan = plans["items"][0]["id"].as_str().expect("an id").to_owned();
    let output = server.get(&format!("/api/plans/{plan}/steps/1/output"), &token).is(200).json();
    assert_eq!(output["output"], seen);
    let page = server.get(&format!("/plans/{plan}/steps/1"), &token).is(200).body;
    assert!(page.contains("Live output") && page.contains("→ Bash touch out/1"), "{page}");
    let now = server.get(&format!("/api/plans/{plan}/steps/1/transcript"), &token).is(200).json();
    assert_eq!((&now["running"], now["entries"].as_array().map(Vec::len)), (&true.into(), Some(3)), "{now}");
    child.kill().expect("killed");
    child.wait().expect("over");
    let text = env.provost(&["log", "--transcript", "1"]).exits(0).out;
    assert!(text.contains("→ Bash touch out/1") && !text.contains("used:"), "{text}");
    // The next attempt has a transcript of its own.
    let mut child = env.command(&["run"]).env("API_KEY", SECRET).spawn().expect("a run");
    eventually("a second attempt", || {
        let begun = env.provost(&["log", "--event", "TASK_STARTED", "--json"]).exits(0).lines();
        (begun.len() == 2).then_some(())
    });
    fs::write(env.folder().join("go"), "").expect("a file");
    assert!(child.wait().expect("an end").success());
    let all = env.provost(&["log", "--transcript", "1"]).exits(0).out;
    assert!(all.starts_with("Transcript of step 1, attempt 2 ") && all.contains("used:"), "{all}");
    assert_eq!(transcripts(&env).len(), 2);
    let page = server.get(&format!("/plans/{plan}/steps/1"), &token).is(200).body;
    assert!(!page.contains("Live output") && page.contains("<summary>Transcript</summary>"), "{page}");
    let whole = server.get(&format!("/plans/{plan}/steps/1/transcript?attempt=2"), &token).is(200).body;
    assert!(whole.contains("I make the file.") && !whole.contains("trustno1"), "{whole}");
    server.get(&format!("/api/plans/{plan}/steps/1/transcript?attempt=7"), &token).is(404);
    // An ended plan's transcripts can be removed.
    assert!(!env.provost(&["gc"]).exits(0).out.contains("transcripts"));
    assert!(env.provost(&["gc", "--unused", "0s", "--yes"]).exits(0).out.contains("transcripts of the plan"));
    assert!(transcripts(&env).is_empty());
}

/// Plays an ACP agent that writes half a sentence, calls a tool, and waits.
const PEER: &str = r#"
say() { printf '%s\n' "$1"; }
read -r line; say '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1,"agentCapabilities":{}}}'
read -r line; say '{"jsonrpc":"2.0","id":2,"result":{"sessionId":"one"}}'
read -r line
update() { say '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"one","update":'"$1"'}}'; }
update '{"sessionUpdate":"tool_call","toolCallId":"c","title":"Write out/1","status":"pending","rawInput":{}}'
update '{"sessionUpdate":"tool_call_update","toolCallId":"c","rawInput":{"path":"out/1"}}'
update '{"sessionUpdate":"tool_call_update","toolCallId":"c","status":"completed","content":[{"type":"content","content":{"type":"text","text":"written"}}]}'
mkdir -p out; touch out/1
update '{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"It is all do"}}'
for i in {1..2400}; do [ -e ../go ] && break; sleep 0.05; done
update '{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"ne."}}'
say '{"jsonrpc":"2.0","id":3,"result":{"stopReason":"end_turn","usage":{"inputTokens":10,"outputTokens":2}}}'
"#;

#[test]
fn a_chunk_of_an_acp_agent_shows_before_its_line_ends() {
    let env = Env::new(&plan(&["test -f out/1"], "escalate"));
    env.write("peer.sh", PEER);
    env.write("provost.toml", "[agents.coder]\ndriver = \"acp\"\ncommand = [\"bash\", \"peer.sh\"]\n");
    let env = env.isolation("in-place");
    env.approve();
    let mut child = env.start(&["run"]);
    let seen = eventually("a chunk", || live(&env).filter(|text| text.contains("It is")));
    assert_eq!(seen, "→ Write out/1 out/1\n  ← written\nIt is all …\n");
    fs::write(env.folder().join("go"), "").expect("a file");
    assert!(child.wait().expect("an end").success());
    let text = env.provost(&["log", "--transcript", "1"]).exits(0).out;
    assert!(text.ends_with("It is all done.\nused: 10 tokens in, 2 tokens out\n"), "{text}");
}

#[test]
fn a_flood_keeps_its_beginning_and_its_end() {
    let agent = "cat > /dev/null; mkdir -p out; touch out/1; echo first; \
                 for i in {1..60}; do head -c 100000 /dev/zero | tr '\\0' 'x' | fold -w 99; done; echo; echo last\n";
    let env = Env::new(&plan(&["test -f out/1"], "escalate")).agent(agent).isolation("in-place");
    env.approve().provost(&["run"]).exits(0);
    let lines: Vec<Value> = env.provost(&["log", "--transcript", "1", "--json"]).exits(0).lines();
    let text = |line: &Value| line["text"].as_str().unwrap_or_default().to_owned();
    assert!(text(&lines[0]).starts_with("first\nxxx"), "{}", lines[0]);
    assert!(text(&lines[lines.len() - 1]).ends_with("xxx\nlast\n"));
    assert!(lines.iter().any(|line| line["kind"] == "omitted"));
    let bytes: u64 = transcripts(&env).iter().map(|file| fs::metadata(file).expect("a file").len()).sum();
    assert!(bytes < 3 << 20, "{bytes}");
}
