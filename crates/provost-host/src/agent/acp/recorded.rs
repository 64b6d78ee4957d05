//! Tests the ACP driver with recordings of real agents, if the folder of recordings exists.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use provost_core::model::plan::StepNumber;
use serde_json::Value;

use super::{Acp, AcpTurn, AttemptInput, Finish};

/// Reads a recording: its messages in order, each with whether the agent sent it.
fn recorded(name: &str) -> Option<Vec<(bool, Value)>> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/agents/samples");
    let folder = std::env::var_os("PROVOST_SAMPLES").map_or(beside, PathBuf::from);
    let Ok(text) = std::fs::read_to_string(folder.join(name)) else {
        provost_rehearsal::skip::cases(&format!("{name}, in the folder that PROVOST_SAMPLES names"));
        return None;
    };
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("a recording"));
    Some(lines.map(|line| (line["dir"] == "in", line["msg"].clone())).collect())
}

/// Replays the first turn of a recording.
fn first_turn(messages: &[(bool, Value)]) -> (Finish, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let stop = AtomicBool::new(false);
    let work = AttemptInput {
        prompt: "make two files",
        workspace: folder.path(),
        step: StepNumber(1),
        attempt: 1,
        timeout: Duration::from_secs(1),
        tag: "recorded",
        stop: Some(&stop),
        fence: None,
        environment: &[],
        bounds: None,
        home: None,
        resume: None,
        outbox: None,
        heard: None,
        limit: None,
        granted: &[],
        answer_schema: None,
    };
    let mode = messages.iter().find(|(_, message)| message["method"] == "session/set_mode");
    let mode = mode.and_then(|(_, message)| message["params"]["modeId"].as_str().map(str::to_owned));
    let acp = Acp::new(&["agent".to_owned()]).expect("a command");
    let mut turn = AcpTurn::new(&acp, &work, mode);
    let mut say = Vec::new();
    turn.begin(&mut say);
    for (_, message) in messages.iter().filter(|(is_said, _)| *is_said) {
        if turn.is_over() {
            break;
        }
        turn.hear(message.clone(), &mut say);
    }
    (turn.finish(), String::from_utf8(say).expect("text"))
}

#[test]
fn recorded_agents_are_understood() {
    let usual = Some((4_450, 140));
    for (name, used, plans) in [
        ("acp.claude-agent-acp.jsonl", usual, false),
        ("acp.claude-plan-updates.jsonl", Some((91_843, 29)), true),
        ("acp.codex-acp.jsonl", usual, false),
        ("acp.codex-zed-plan-updates.jsonl", None, true),
        ("acp.gemini.jsonl", usual, false),
        // opencode counts only the last step of a turn, so the total is unknown.
        ("acp.opencode.jsonl", None, false),
    ] {
        let Some(messages) = recorded(name) else { continue };
        let (finish, said) = first_turn(&messages);
        assert!(finish.done && finish.begun && finish.asks.is_none(), "{name}: {}", finish.at);
        assert_eq!(finish.failure, None, "{name}");
        assert!(!finish.words.trim().is_empty(), "{name}");
        let counted = finish.usage.input_tokens.zip(finish.usage.output_tokens);
        assert_eq!(counted, used, "{name}: {:?}", finish.usage);
        let session = messages.iter().find_map(|(_, message)| message["result"]["sessionId"].as_str());
        assert_eq!(finish.session.as_deref(), session, "{name}");
        let planned = finish.notes.iter().any(|note| note.starts_with("by its own plan"));
        assert_eq!(planned, plans, "{name}: {:?}", finish.notes);
        // Every request of the agent got an answer.
        let asked = |(is_said, message): &&(bool, Value)| {
            *is_said && message["method"].is_string() && message.get("id").is_some()
        };
        let turn_end = messages
            .iter()
            .position(|(is_said, message)| *is_said && message["result"]["stopReason"].is_string());
        let asked = messages[..turn_end.expect("an end")].iter().filter(asked).count();
        let answers = said.lines().filter(|line| !line.contains("\"method\"")).count();
        assert_eq!(answers, asked, "{name}: {said}");
    }
}

#[test]
fn a_recording_that_is_cut_anywhere_is_no_turn() {
    for name in
        ["acp.claude-agent-acp.jsonl", "acp.codex-acp.jsonl", "acp.gemini.jsonl", "acp.opencode.jsonl"]
    {
        let Some(messages) = recorded(name) else { continue };
        let end = messages.iter().position(|(_, message)| message["result"]["stopReason"].is_string());
        for cut in 0..end.expect("an end") {
            let (finish, _) = first_turn(&messages[..cut]);
            assert!(!finish.done, "{name} at {cut}");
            assert!(finish.usage.tokens().is_none(), "{name} at {cut}");
        }
    }
}
