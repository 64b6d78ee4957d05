//! Tests ACP agents as real processes: one that behaves, and many that do not.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use provost_core::model::event::AttemptEnd;
use provost_core::model::usage::{Amount, Usage};
use provost_host::Interrupted;
use provost_host::agent::acp::{Acp, Server};
use provost_host::agent::{AgentDriver, AttemptInput, AttemptReport, Resume, SpendLimit};
use provost_host::config::Permissions;
use tempfile::TempDir;

use crate::agents::{exited, work};
use crate::{lives, tag};

/// Shell functions for every ACP peer of these tests.
const WORDS: &str = r#"
say() { printf '%s\n' "$1"; }
hear() { IFS= read -r line || exit 0; printf '%s\n' "$line" >> heard; }
update() { say '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"'"${session:-s-1}"'","update":'"$1"'}}'; }
says() { update '{"sessionUpdate":"agent_message_chunk","messageId":"'"$1"'","content":{"type":"text","text":"'"$2"'"}}'; }
result() { say '{"jsonrpc":"2.0","id":'"$1"',"result":'"$2"'}'; }
introduce() { hear; result 1 '{"protocolVersion":1,"agentInfo":{"name":"peer"},"agentCapabilities":'"${1:-{\}}"'}'; }
open() { hear; result 2 '{"sessionId":"s-1"}'; }
"#;

fn peer(script: &str) -> Acp {
    let command = ["bash", "-c", &format!("{WORDS}{script}")].map(str::to_owned);
    Acp::new(&command).expect("a command")
}

fn attempt(acp: &Acp, folder: &Path) -> AttemptReport {
    acp.attempt(&work(folder, &tag())).expect("not interrupted")
}

fn heard(folder: &Path) -> String {
    std::fs::read_to_string(folder.join("heard")).unwrap_or_default()
}

#[test]
fn a_turn_is_a_prompt_and_the_last_words_and_what_was_used() {
    let folder = TempDir::new().unwrap();
    let script = r#"
introduce; open; hear
says m1 'I look.'
update '{"sessionUpdate":"tool_call","toolCallId":"t","title":"ls"}'
update '{"sessionUpdate":"plan","entries":[{"content":"a","status":"completed"},{"content":"b","status":"pending"}]}'
session=other says m9 'of somebody else'
says m2 'All '; says m2 'done.'
update '{"sessionUpdate":"usage_update","used":1,"cost":{"amount":0.025,"currency":"USD"}}'
echo careful >&2
result 3 '{"stopReason":"end_turn","usage":{"inputTokens":40,"outputTokens":5,"totalTokens":45,"cachedReadTokens":7}}'
while read -r _; do :; done
"#;
    let server = Server {
        name: "tools".into(),
        command: "t".into(),
        args: vec!["mcp".into()],
        env: vec![("A".into(), "b".into())],
    };
    let attempt = attempt(&Acp { servers: vec![server], ..peer(script) }, folder.path());
    assert_eq!((attempt.end, attempt.report.as_str()), (exited(0), "All done."));
    assert_eq!(attempt.stderr.head, "careful\n");
    assert_eq!(attempt.notes, ["by its own plan the agent has done 1 of 2"]);
    let usage = attempt.usage;
    assert_eq!((usage.input_tokens, usage.output_tokens, usage.micro_usd), (Some(40), Some(5), Some(25_000)));
    assert_eq!(attempt.session, None, "it offers no way to go on");
    let heard = heard(folder.path());
    let lines: Vec<serde_json::Value> =
        heard.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(lines[0]["params"]["clientCapabilities"]["terminal"], false);
    assert_eq!(lines[1]["params"]["cwd"], folder.path().to_string_lossy().as_ref());
    assert_eq!(
        lines[1]["params"]["mcpServers"][0],
        serde_json::json!({"name": "tools", "command": "t", "args": ["mcp"], "env": [{"name": "A", "value": "b"}]})
    );
    assert_eq!(lines[2]["params"]["prompt"][0]["text"], "write the file\n");
}

#[test]
fn a_conversation_is_gone_on_with_as_the_agent_offers_it() {
    let used = Usage { micro_usd: Some(20_000), ..Usage::default() };
    let ways = [
        (r#"{"loadSession":true}"#, "session/load"),
        (r#"{"loadSession":true,"sessionCapabilities":{"resume":{}}}"#, "session/resume"),
        ("{}", "session/new"),
    ];
    for (can, method) in ways {
        let folder = TempDir::new().unwrap();
        let tag = tag();
        let resume = Resume { session: "s-1", prompt: "not done yet", used: &used, claim: "" };
        let work = AttemptInput { resume: Some(resume), ..work(folder.path(), &tag) };
        // Messages that the agent replays from the past are not part of the new answer.
        let script = format!(
            r#"introduce '{can}'; hear; says m0 'long ago'; result 2 '{{"sessionId":"s-1"}}'; hear
update '{{"sessionUpdate":"usage_update","cost":{{"amount":0.03,"currency":"USD"}}}}'
result 3 '{{"stopReason":"end_turn","usage":{{"inputTokens":9,"outputTokens":1}}}}'"#
        );
        let attempt = peer(&script).attempt(&work).expect("not interrupted");
        assert_eq!((attempt.end, attempt.report.as_str()), (exited(0), ""), "{method}");
        let heard = heard(folder.path());
        let lines: Vec<&str> = heard.lines().collect();
        assert!(lines[1].contains(&format!("\"{method}\"")), "{}", lines[1]);
        let goes_on = method != "session/new";
        assert_eq!(lines[2].contains("not done yet"), goes_on, "{}", lines[2]);
        assert_eq!(lines[2].contains("write the file"), !goes_on, "{}", lines[2]);
        assert_eq!(attempt.session.as_deref(), goes_on.then_some("s-1"));
        assert_eq!(attempt.usage.micro_usd, Some(30_000), "what this process spent");
        assert_eq!(attempt.usage.input_tokens, Some(9));
    }
}

#[test]
fn where_a_conversation_is_lost_the_whole_prompt_begins_a_new_one() {
    let (folder, tag, used) = (TempDir::new().unwrap(), tag(), Usage::default());
    let resume = Resume { session: "gone", prompt: "not done yet", used: &used, claim: "" };
    let work = AttemptInput { resume: Some(resume), ..work(folder.path(), &tag) };
    let script = r#"introduce '{"loadSession":true}'; hear
say '{"jsonrpc":"2.0","id":2,"error":{"code":-32002,"message":"Resource not found"}}'
hear; result 3 '{"sessionId":"s-2"}'; hear; result 4 '{"stopReason":"end_turn"}'"#;
    let attempt = peer(script).attempt(&work).expect("not interrupted");
    assert_eq!((attempt.end, attempt.session.as_deref()), (exited(0), Some("s-2")));
    assert!(attempt.notes[0].contains("Resource not found"), "{:?}", attempt.notes);
    assert!(heard(folder.path()).lines().last().unwrap().contains("write the file"));
}

const ASKS: &str = r#"introduce; open; hear
say '{"jsonrpc":"2.0","id":"p","method":"session/request_permission","params":{"sessionId":"s-1","toolCall":{"title":"rm -rf x"},"options":[{"optionId":"no","kind":"reject_once"},{"optionId":"ja","kind":"allow_once"}]}}'
hear
case $line in
*ja*) result 3 '{"stopReason":"end_turn"}' ;;
*no*) result 3 '{"stopReason":"cancelled"}' ;;
*) hear; result 3 '{"stopReason":"cancelled"}' ;;
esac
"#;

#[test]
fn permission_is_given_or_refused_or_a_matter_for_a_person() {
    let ask = |permissions| {
        let folder = TempDir::new().unwrap();
        (attempt(&Acp { permissions, ..peer(ASKS) }, folder.path()), heard(folder.path()))
    };
    assert_eq!(ask(Permissions::Allow).0.end, exited(0));
    let (denied, _) = ask(Permissions::Deny);
    assert_eq!(
        (denied.end, denied.notes.as_slice()),
        (exited(1), &["refused, as configured: rm -rf x".into()][..])
    );
    let (asked, heard) = ask(Permissions::Ask);
    assert_eq!(asked.end, exited(1));
    assert!(
        asked.report.contains("asks for permission") && asked.report.contains("rm -rf x"),
        "{}",
        asked.report
    );
    assert!(heard.contains("session/cancel"), "{heard}");
    let class = provost_core::rules::recover::class::of_agent(&asked.report, Some(1)).expect("a rule");
    assert_eq!((class.rule.as_str(), class.class.word()), ("agent-asks", "permission"));
}

#[test]
fn what_a_person_allowed_is_granted_and_nothing_else() {
    let asks = ASKS.replace("introduce;", r#"introduce '{"loadSession":true}';"#);
    let ask = |granted: &[String]| {
        let (folder, tag) = (TempDir::new().unwrap(), tag());
        let work = AttemptInput { granted, ..work(folder.path(), &tag) };
        Acp { permissions: Permissions::Ask, ..peer(&asks) }.attempt(&work).expect("not interrupted")
    };
    let asked = ask(&["rm -rf y".to_owned()]);
    assert_eq!((asked.end, asked.asks.as_deref()), (exited(1), Some("rm -rf x")));
    assert_eq!(asked.session.as_deref(), Some("s-1"), "it goes on after the answer");
    let granted = ask(&["rm -rf x".to_owned()]);
    assert_eq!((granted.end, granted.asks), (exited(0), None));
}

#[test]
fn the_model_of_the_role_is_selected_as_the_agent_offers_it() {
    let models = r#""models":{"currentModelId":"a","availableModels":[{"modelId":"a"},{"modelId":"b"}]}"#;
    let option =
        r#""configOptions":[{"id":"model","currentValue":"a","options":[{"value":"a"},{"value":"b"}]}]"#;
    for (offers, method) in [(models, "session/set_model"), (option, "session/set_config_option")] {
        let turn = |model: &str, answer: &str| {
            let folder = TempDir::new().unwrap();
            let script = format!(
                r#"introduce; hear; result 2 '{{"sessionId":"s-1",{offers}}}'
hear; case $line in *session/prompt*) result 3 '{{"stopReason":"end_turn"}}'; exit ;; esac
say '{{"jsonrpc":"2.0","id":3,{answer}}}'; hear; result 4 '{{"stopReason":"end_turn"}}'"#
            );
            let ended = attempt(&Acp { model: Some(model.to_owned()), ..peer(&script) }, folder.path());
            (ended, heard(folder.path()))
        };
        let (ended, heard) = turn("b", r#""result":{}"#);
        assert_eq!(ended.end, exited(0), "{}", ended.report);
        let request = heard.lines().nth(2).unwrap();
        assert!(request.contains(method) && request.contains(r#""b""#), "{request}");
        let (ended, heard) = turn("a", r#""result":{}"#);
        assert_eq!((ended.end, heard.contains(method)), (exited(0), false));
        let (ended, _) = turn("c", r#""result":{}"#);
        assert_eq!(ended.report, "model not found: c; the agent offers a, b");
        let (ended, _) = turn("b", r#""error":{"code":-32602,"message":"no key for it"}"#);
        assert!(ended.report.contains("model not found: b") && ended.report.contains("no key for it"));
        let class = provost_core::rules::recover::class::of_agent(&ended.report, Some(1)).expect("a rule");
        assert_eq!(class.rule, "model-not-found");
    }
}

#[test]
fn history_that_is_repeated_after_the_prompt_is_no_claim() {
    let used = Usage::default();
    for (new, claim) in [("says m0 'Mended.'", "Mended."), ("", "")] {
        let (folder, tag) = (TempDir::new().unwrap(), tag());
        let resume = Resume { session: "s-1", prompt: "not done yet", used: &used, claim: "All done." };
        let work = AttemptInput { resume: Some(resume), ..work(folder.path(), &tag) };
        let script = format!(
            r#"introduce '{{"loadSession":true}}'; hear; result 2 '{{}}'; hear
update '{{"sessionUpdate":"user_message_chunk","content":{{"type":"text","text":"write the file"}}}}'
says m0 'All '; says m0 'done.'
{new}
result 3 '{{"stopReason":"end_turn"}}'"#
        );
        let attempt = peer(&script).attempt(&work).expect("not interrupted");
        assert_eq!((attempt.end, attempt.report.as_str()), (exited(0), claim));
    }
}

#[test]
fn an_agent_that_says_what_it_costs_is_stopped_at_the_limit() {
    let cost = |amount: f64| {
        format!(
            r#"say '{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"s-1","update":{{"sessionUpdate":"usage_update","cost":{{"amount":{amount},"currency":"USD"}}}}}}}}'"#
        )
    };
    let script = format!(
        "introduce; open; hear\n{}\n{}\nhear\nresult 3 '{{\"stopReason\":\"cancelled\"}}'",
        cost(0.4),
        cost(1.25)
    );
    let folder = TempDir::new().unwrap();
    let tag = tag();
    let amount = Amount { micro_usd: Some(1_000_000), ..Amount::default() };
    let work =
        AttemptInput { limit: Some(SpendLimit { amount, cost: &|_| None }), ..work(folder.path(), &tag) };
    let ended = peer(&script).attempt(&work).unwrap();
    assert_eq!(ended.end, exited(1));
    assert!(ended.report.ends_with("provost: the budget is used up: $1.25 of $1.00"), "{}", ended.report);
    assert_eq!(ended.usage.micro_usd, Some(1_250_000));
    assert!(heard(folder.path()).contains("session/cancel"));
}

#[test]
fn a_file_is_written_for_an_agent_that_has_it_written() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("a/b.txt");
    let ask = |id: u32, path: &Path| {
        format!(
            r#"say '{{"jsonrpc":"2.0","id":{id},"method":"fs/write_text_file","params":{{"path":"{}","content":"B"}}}}'; hear"#,
            path.display()
        )
    };
    let script = format!(
        "introduce; open; hear\n{}\n{}\nsay '{{\"jsonrpc\":\"2.0\",\"id\":9,\"method\":\"terminal/create\"}}'; hear\nresult 3 '{{\"stopReason\":\"end_turn\"}}'",
        ask(7, &path),
        ask(8, Path::new("/tmp/../etc/no")),
    );
    assert_eq!(attempt(&peer(&script), folder.path()).end, exited(0));
    assert_eq!(std::fs::read_to_string(path).unwrap(), "B");
    let heard = heard(folder.path());
    let answers: Vec<&str> = heard.lines().skip(3).collect();
    assert!(answers[0].contains(r#""result":null"#), "{}", answers[0]);
    assert!(answers[1].contains("not in the workspace"), "{}", answers[1]);
    assert!(answers[2].contains("-32601"), "{}", answers[2]);
}

#[test]
fn a_peer_that_misbehaves_is_a_failure_with_a_reason() {
    // The script of the peer, whether the attempt had started, and the expected message.
    let vices = [
        ("exit 7", false, "exited while provost waited for its `initialize` answer"),
        ("cat /dev/zero | tr '\\0' x", false, "a line of more than"),
        ("yes hello", false, "not messages"),
        ("hear; result 1 '{\"protocolVersion\":2}'; hear", false, "version 2"),
        ("introduce; exit 0", true, "exited while provost opened its session"),
        ("introduce; hear; result 2 '{}'; hear", true, "without an id"),
        ("introduce; open; hear; kill -9 $$", true, "exited while it was working"),
        ("introduce; open; hear; yes junk", true, "not messages"),
        ("introduce; open; hear; result 3 '{\"stopReason\":\"refusal\"}'; hear", true, "refused the task"),
        (
            "introduce; hear; say '{\"jsonrpc\":\"2.0\",\"id\":2,\"error\":{\"code\":-32000,\"message\":\"Authentication required\"}}'; hear",
            true,
            "authentication_error: the agent has no login",
        ),
        (
            "introduce; open; hear; say '{\"jsonrpc\":\"2.0\",\"id\":3,\"error\":{\"code\":-32603,\"message\":\"Internal error\",\"data\":{\"details\":\"API Error: 529 overloaded_error\"}}}'; hear",
            true,
            "overloaded_error",
        ),
    ];
    for (vice, begun, said) in vices {
        let folder = TempDir::new().unwrap();
        let attempt = attempt(&peer(vice), folder.path());
        let words = match &attempt.end {
            AttemptEnd::NotStarted { reason } => {
                assert!(!begun, "{vice}: {reason}");
                reason
            }
            end => {
                assert!(begun && *end != exited(0), "{vice}: {end:?}");
                &attempt.report
            }
        };
        assert!(words.contains(said), "{vice}: {words}");
        assert_eq!(attempt.session, None, "{vice}");
        assert!(attempt.survivors.is_empty(), "{vice}");
    }
}

#[test]
fn out_of_time_it_is_told_and_then_ended_with_all_it_started() {
    let folder = TempDir::new().unwrap();
    let tag = tag();
    let script = "introduce '{\"loadSession\":true}'; open; hear; sleep 300 & echo $! > child\nhear; result 3 '{\"stopReason\":\"cancelled\"}'; hear; sleep 300";
    let work = AttemptInput { timeout: Duration::from_secs(5), ..work(folder.path(), &tag) };
    let attempt = peer(script).attempt(&work).expect("not interrupted");
    assert_eq!((attempt.end, attempt.session), (AttemptEnd::TimedOut, None));
    assert!(heard(folder.path()).contains("session/cancel"));
    let child: i32 = std::fs::read_to_string(folder.path().join("child")).unwrap().trim().parse().unwrap();
    assert!(!lives(child));
}

#[test]
fn a_peer_that_does_not_listen_keeps_nobody_waiting() {
    let folder = TempDir::new().unwrap();
    let tag = tag();
    let stop = AtomicBool::new(false);
    let prompt = "x".repeat(1 << 20);
    // The peer reads two of three lines; the third is larger than a pipe.
    let script = "trap '' TERM; introduce; open; sleep 300";
    let begun = Instant::now();
    let ended = std::thread::scope(|scope| {
        let work = AttemptInput { stop: Some(&stop), prompt: &prompt, ..work(folder.path(), &tag) };
        let acp = peer(script);
        let running = scope.spawn(move || acp.attempt(&work));
        while !heard(folder.path()).contains("session/new") {
            assert!(begun.elapsed() < Duration::from_secs(120));
            std::thread::yield_now();
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        running.join().expect("no panic")
    });
    assert!(matches!(ended, Err(Interrupted)));
    assert!(begun.elapsed() < Duration::from_secs(250), "{:?}", begun.elapsed());
}
