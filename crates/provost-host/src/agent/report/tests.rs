//! Tests output of clients: whole, cut and invalid. Recorded output is used if it is in a folder next to
//! the project.

use std::path::{Path, PathBuf};

use provost_core::model::usage::Usage;

use super::{LINE_MAX, ParsedReport, Reader, Speaks};

/// Parses the output; the result must not depend on how the bytes are split.
fn heard(speaks: Speaks, output: &[u8]) -> ParsedReport {
    let read = |size: usize| {
        let mut reader = Reader::new(speaks, None);
        output.chunks(size).for_each(|chunk| reader.take(chunk));
        reader.finish(true)
    };
    let whole = read(output.len().max(1));
    assert_eq!(read(7), whole);
    whole
}

fn tokens(input: u64, output: u64) -> Option<(u64, u64)> {
    Some((input, output))
}

fn counted(usage: &Usage) -> Option<(u64, u64)> {
    usage.input_tokens.zip(usage.output_tokens)
}

/// Returns recorded output of the real client.
fn recorded(name: &str) -> Option<Vec<u8>> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/agents/samples");
    let folder = std::env::var_os("PROVOST_SAMPLES").map_or(beside, PathBuf::from);
    let found = std::fs::read(folder.join(name)).ok();
    if found.is_none() {
        eprintln!("{name} is not there; PROVOST_SAMPLES names its folder");
    }
    found
}

const RECORDED: [(Speaks, &str, (u64, u64)); 4] = [
    (Speaks::Claude, "claude.stream-json.jsonl", (11_110, 260)),
    (Speaks::Codex, "codex.exec-json.jsonl", (12_010, 269)),
    (Speaks::Gemini, "gemini.stream-json.jsonl", (11_110, 260)),
    (Speaks::Opencode, "opencode.run-json.jsonl", (11_110, 260)),
];

#[test]
fn recorded_clients_are_understood() {
    for (speaks, name, (input, output)) in RECORDED {
        let Some(bytes) = recorded(name) else { continue };
        let heard = heard(speaks, &bytes);
        assert_eq!(heard.report.as_deref(), Some("Now it is really done."), "{name}");
        assert_eq!(counted(&heard.usage), tokens(input, output), "{name}");
        assert_eq!(heard.failure, None, "{name}");
        let money = matches!(speaks, Speaks::Claude | Speaks::Opencode);
        assert_eq!(heard.usage.micro_usd.is_some(), money, "{name}: {:?}", heard.usage);
    }
}

#[test]
fn a_recorded_client_that_is_cut_anywhere_is_never_half_counted() {
    for (speaks, name, (input, output)) in RECORDED {
        let Some(bytes) = recorded(name) else { continue };
        for cut in (0..bytes.len()).step_by(97) {
            let mut reader = Reader::new(speaks, None);
            reader.take(&bytes[..cut]);
            let usage = reader.finish(false).usage;
            assert!([None, tokens(input, output)].contains(&counted(&usage)), "{name} at {cut}: {usage:?}");
        }
    }
}

#[test]
fn any_program_can_say_it_in_one_last_line() {
    let said = b"working\n{\"report\": \"three files\", \"usage\": {\"model\": \"m\", \"input_tokens\": 9, \"output_tokens\": 1}}\n\n";
    let heard = heard(Speaks::Json, said);
    assert_eq!(heard.report.as_deref(), Some("three files"));
    assert_eq!((counted(&heard.usage), heard.usage.model.as_deref()), (tokens(9, 1), Some("m")));
    assert!(heard.last_line_is_ours && heard.failure.is_none());
}

#[test]
fn only_the_last_line_counts_and_only_if_it_is_one() {
    let last = |text: &str| heard(Speaks::Json, text.as_bytes());
    assert_eq!(last("{\"usage\": {\"input_tokens\": 1}}\nand then some words\n"), ParsedReport::default());
    assert_eq!(last("{\"something\": 1}\n"), ParsedReport::default());
    assert_eq!(last("[1]\n"), ParsedReport::default());
    assert_eq!(last(""), ParsedReport::default());
    let failed = last("{\"error\": \"no key\"}");
    assert_eq!(failed.failure.as_deref(), Some("no key"));
}

#[test]
fn a_count_that_cannot_be_meant_is_no_count() {
    let huge = "{\"input_tokens\": 18446744073709551615, \"micro_usd\": 1000000000001}";
    let odd = "{\"model\": \"a\\u001b[2Jb\"}";
    for usage in
        [huge, odd, "{\"input_tokens\": -1}", "{\"input_tokens\": 1.5}", "{\"inputs\": 3}", "7", "null"]
    {
        let heard = heard(Speaks::Json, format!("{{\"report\": \"x\", \"usage\": {usage}}}").as_bytes());
        assert!(heard.usage.is_unknown() && heard.report.is_some(), "{usage}");
    }
}

#[test]
fn an_error_that_is_called_a_success_is_an_error() {
    let line = br#"{"type":"result","subtype":"success","is_error":true,"api_error_status":401,"result":"API Error: 401 invalid key","usage":{"input_tokens":0,"output_tokens":0},"total_cost_usd":0}"#;
    let claude = heard(Speaks::Claude, line);
    assert_eq!(claude.failure.as_deref(), Some("API Error: 401 invalid key"));
    let codex =
        heard(Speaks::Codex, br#"{"type":"turn.failed","error":{"message":"unexpected status 401"}}"#);
    assert_eq!(codex.failure.as_deref(), Some("unexpected status 401"));
    let gemini = heard(Speaks::Gemini, br#"{"type":"result","status":"error","error":{"message":"quota"}}"#);
    assert_eq!(gemini.failure.as_deref(), Some("quota"));
    let error = br#"{"type":"error","error":{"name":"APIError","data":{"message":"no","statusCode":401}}}"#;
    assert_eq!(heard(Speaks::Opencode, error).failure.as_deref(), Some("HTTP 401: no"));
}

#[test]
fn caches_and_thinking_are_part_of_the_whole() {
    let claude = br#"{"type":"result","result":"ok","usage":{"input_tokens":10,"cache_creation_input_tokens":200,"cache_read_input_tokens":3000,"output_tokens":4},"total_cost_usd":0.0125}"#;
    let usage = heard(Speaks::Claude, claude).usage;
    assert_eq!((counted(&usage), usage.micro_usd), (tokens(3_210, 4), Some(12_500)));
    assert_eq!((usage.cache_read_tokens, usage.cache_write_tokens), (Some(3_000), Some(200)));
    let two = br#"{"type":"result","usage":{"input_tokens":1,"output_tokens":1},"modelUsage":{"a":{"inputTokens":5,"outputTokens":6,"cacheReadInputTokens":0,"cacheCreationInputTokens":0},"b":{"inputTokens":50,"outputTokens":60,"cacheReadInputTokens":1,"cacheCreationInputTokens":2}}}"#;
    let usage = heard(Speaks::Claude, two).usage;
    assert_eq!((counted(&usage), usage.model), (tokens(58, 66), None));
    let gemini = br#"{"type":"result","status":"success","stats":{"total_tokens":150,"input_tokens":100,"output_tokens":20,"cached":7}}"#;
    assert_eq!(counted(&heard(Speaks::Gemini, gemini).usage), tokens(100, 50));
}

#[test]
fn a_price_of_nothing_is_not_believed() {
    let step = br#"{"type":"step_finish","part":{"reason":"stop","tokens":{"input":100,"output":5,"reasoning":2,"cache":{"read":10,"write":1}},"cost":0}}"#;
    let usage = heard(Speaks::Opencode, step).usage;
    assert_eq!((counted(&usage), usage.micro_usd, usage.calls), (tokens(111, 7), None, Some(1)));
}

#[test]
fn one_step_that_says_nothing_makes_the_sum_unknown() {
    let good =
        r#"{"type":"step_finish","part":{"reason":"tool-calls","tokens":{"input":1,"output":1},"cost":0.1}}"#;
    let bad = r#"{"type":"step_finish","part":{"reason":"stop"}}"#;
    assert!(heard(Speaks::Opencode, format!("{good}\n{bad}\n").as_bytes()).usage.is_unknown());
    assert!(heard(Speaks::Opencode, good.as_bytes()).usage.is_unknown(), "more was to come");
}

#[test]
fn garbage_and_floods_count_for_nothing() {
    let garbage: Vec<u8> = (0..200_000u32).map(|n| (n * 31 % 251) as u8).collect();
    for speaks in Speaks::ALL {
        assert_eq!(heard(speaks, &garbage), ParsedReport::default());
        let deep = "[".repeat(100_000);
        assert_eq!(heard(speaks, deep.as_bytes()), ParsedReport::default());
        let mut reader = Reader::new(speaks, None);
        // A line that is too long, then a valid one.
        (0..LINE_MAX / 1024 + 9).for_each(|_| reader.take(&[b'x'; 1024]));
        assert!(reader.line.capacity() <= LINE_MAX * 2, "{}", reader.line.capacity());
        reader
            .take(b"\n{\"type\":\"result\",\"result\":\"after the flood\",\"report\":\"after the flood\"}\n");
        let after = reader.finish(true).report;
        let reads = matches!(speaks, Speaks::Claude | Speaks::Json);
        assert_eq!(after.as_deref(), reads.then_some("after the flood"), "{speaks:?}");
    }
}

#[test]
fn what_is_used_so_far_is_the_sum_of_the_calls() {
    let spent = |speaks, lines: &[&str]| {
        let mut reader = Reader::new(speaks, None);
        lines.iter().for_each(|line| reader.take(format!("{line}\n").as_bytes()));
        counted(&reader.spent())
    };
    let message = |id: &str, output: u64| {
        format!(
            r#"{{"type":"assistant","message":{{"id":"{id}","usage":{{"input_tokens":10,"cache_read_input_tokens":90,"output_tokens":{output}}}}}}}"#
        )
    };
    // A message arrives in parts, each with the usage of the whole so far.
    let parts = [message("a", 1), message("a", 5), message("b", 7)];
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    assert_eq!(spent(Speaks::Claude, &parts[..2]), tokens(100, 5));
    assert_eq!(spent(Speaks::Claude, &parts), tokens(200, 12));
    let step = r#"{"type":"step_finish","part":{"reason":"tool-calls","cost":0.1,"tokens":{"input":40,"output":2,"cache":{"read":60}}}}"#;
    assert_eq!(spent(Speaks::Opencode, &[step, step]), tokens(200, 4));
    // These report only at their end.
    assert_eq!(spent(Speaks::Codex, &parts), None);
    assert_eq!(spent(Speaks::Json, &parts), None);
}
