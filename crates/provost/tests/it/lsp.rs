//! Tests `provost lsp` with a client that talks to the real process, and with Neovim.

mod client;
mod extension;
mod neovim;

use std::path::{Path, PathBuf};
use std::time::Instant;

use provost_rehearsal::skip;
use serde_json::{Value, json};

use crate::env::{Env, HONEST, plan};
use client::{Client, place, position};

/// A plan with letters of one, two and four bytes, and mistakes behind them.
const ODD: &str = "---\ntype: plan\nstatus: draft\nowner: test\ntouches: [\"out/**\"]\n---\n\n# Größe 😀\n\n## Steps\n\n\
    ### 1. Öl 😀 messen\n\n**target:** coder\n\n**task:**\nMiß 😀.\n\n**contarct:**\n```shell\ntest -f out/1\n```\nexit_code == 0\n\n\
    ### 2. Zwei\n\n**target:** coder\n\n**needs:** 1\n\n**task:**\nWeiter.\n\n**contract:**\n```shell\ntest -f out/ü😀 && false\n```\nexit_code is 0\n\n\
    ### Step 3: Drei\n\n**target:** coder\n\n**task:**\nFertig.\n\n**contract:** human\n";

fn uri(env: &Env, name: &str) -> String {
    format!("file://{}", env.work().join(name).display())
}

fn codes(diagnostics: &[Value]) -> Vec<&str> {
    diagnostics.iter().filter_map(|diagnostic| diagnostic["code"].as_str()).collect()
}

/// The diagnostics of `provost verify` in the form of the protocol: positions in UTF-16.
fn verified(env: &Env, name: &str, text: &str) -> Vec<String> {
    let answer = env.provost(&["verify", name, "--json", "--no-record"]);
    let lines: Vec<&str> = text.split('\n').collect();
    let units = |line: &Value, column: &Value| {
        let line = line.as_u64().unwrap() as usize - 1;
        let shown = lines.get(line).copied().unwrap_or_default();
        let before: String = shown.chars().take(column.as_u64().unwrap() as usize - 1).collect();
        format!("{line}:{}", before.encode_utf16().count())
    };
    let found = answer.json()["diagnostics"].as_array().cloned().expect("a list");
    let shown = found.iter().map(|each| {
        let hint = each["hint"].as_str().map(|hint| format!("\n{hint}")).unwrap_or_default();
        let message = each["message"].as_str().unwrap();
        let start = units(&each["line"], &each["column"]);
        let end = units(&each["end_line"], &each["end_column"]);
        format!("{} {} {start}-{end} {message}{hint}", each["code"], each["severity"])
    });
    shown.collect()
}

fn published(diagnostics: &[Value]) -> Vec<String> {
    let place = |place: &Value| format!("{}:{}", place["line"], place["character"]);
    let word = |severity: &Value| match severity.as_u64() {
        Some(1) => "error",
        Some(2) => "warning",
        _ => "advice",
    };
    let shown = diagnostics.iter().map(|each| {
        let (range, message) = (&each["range"], each["message"].as_str().unwrap());
        let (start, end) = (place(&range["start"]), place(&range["end"]));
        format!("{} \"{}\" {start}-{end} {message}", each["code"], word(&each["severity"]))
    });
    shown.collect()
}

/// Compares both on a text, and returns how many diagnostics there are.
fn compare(env: &Env, client: &mut Client, name: &str, text: &str) -> usize {
    env.write(name, text);
    let uri = uri(env, name);
    client.open(&uri, text);
    let found = published(&client.diagnostics(&uri, 1));
    assert_eq!(found, verified(env, name, text), "{name}:\n{text}");
    client.notify("textDocument/didClose", json!({ "textDocument": { "uri": uri } }));
    found.len()
}

fn texts_below(folder: &Path) -> Vec<String> {
    let mut texts = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        paths.sort();
        for path in paths {
            match path.extension().is_some_and(|extension| extension == "md") {
                _ if path.is_dir() => folders.push(path),
                true => texts.extend(std::fs::read_to_string(path)),
                false => {}
            }
        }
    }
    texts
}

#[test]
fn diagnostics_are_those_of_verify() {
    let env = Env::new(ODD).agent("true\n");
    let mut client = Client::start(&env);
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut texts = texts_below(&root.join("provost-core/test_data/plans"));
    texts.extend([ODD.to_owned(), ODD.replace('\n', "\r\n"), plan(&["true", "test -f out/2"], "escalate")]);
    let mut count = 0;
    for (number, text) in texts.iter().enumerate() {
        count += compare(&env, &mut client, &format!("PLAN-case{number}.md"), text);
    }
    assert!(texts.len() >= 9 && count > 20, "{count} in {}", texts.len());
    assert_eq!(client.finish(), Some(0));
}

#[test]
fn diagnostics_of_plans_of_other_projects_are_those_of_verify() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/cases/plans");
    let texts = texts_below(&folder);
    if texts.is_empty() {
        skip::cases(&folder.display().to_string());
    }
    let env = Env::new("");
    let mut client = Client::start(&env);
    let texts = texts.iter().filter(|text| !text.trim().is_empty());
    for (number, text) in texts.enumerate() {
        compare(&env, &mut client, &format!("PLAN-case{number}.md"), text);
    }
    assert_eq!(client.finish(), Some(0));
}

#[test]
fn positions_are_utf_16_and_edits_too() {
    for text in [ODD.to_owned(), ODD.replace('\n', "\r\n")] {
        let env = Env::new(&text).agent("true\n");
        let (mut client, uri) = (Client::start(&env), uri(&env, "PLAN.md"));
        client.open(&uri, &text);
        let found = client.diagnostics(&uri, 1);
        let expected = found.iter().find(|each| each["code"] == "P042").expect("the expectation");
        let at = text.find("exit_code is").unwrap();
        assert_eq!(expected["range"]["start"], position(&text, at), "{expected}");
        assert_eq!(expected["source"], "provost");
        let related = expected["relatedInformation"][0]["message"].as_str().unwrap();
        assert!(related.contains("provost verify --explain P042"), "{related}");
        // Behind an emoji and an umlaut on the same line.
        let (start, end) = (text.find("😀 messen").unwrap(), text.find(" messen").unwrap());
        let edit = |from: usize, to: usize, new: &str| json!({ "range": { "start": position(&text, from), "end": position(&text, to) }, "text": new });
        let front = text.find("Step 3:").unwrap();
        client.change(&uri, 2, json!([edit(start, end, "ü🚀"), edit(front, front + 7, "3.")]));
        let mut after = text.replace("😀 messen", "ü🚀 messen").replace("Step 3:", "3.");
        after = after.replace("contarct", "contract").replace("exit_code is 0", "exit_code == 0");
        let typo = after.find("**contract:**").unwrap();
        let place = position(&after, typo + 2);
        let until = position(&after, typo + 10);
        client.change(&uri, 3, json!([{ "range": { "start": place, "end": until }, "text": "contract" }]));
        let last = position(&after, after.rfind("== 0").unwrap());
        let until = json!({ "line": last["line"], "character": last["character"].as_u64().unwrap() + 2 });
        client.change(&uri, 4, json!([{ "range": { "start": last, "end": until }, "text": "==" }]));
        env.write("PLAN.md", &after);
        assert_eq!(published(&client.diagnostics(&uri, 4)), verified(&env, "PLAN.md", &after));
        let symbols =
            client.request("textDocument/documentSymbol", json!({ "textDocument": { "uri": uri } }));
        assert_eq!(symbols[0]["name"], "1. Öl ü🚀 messen", "{symbols}");
    }
}

#[test]
fn only_the_last_of_many_edits_counts() {
    let text = plan(&["test -f out/1"], "escalate");
    let env = Env::new(&text).agent("true\n");
    let (mut client, uri) = (Client::start(&env), uri(&env, "PLAN.md"));
    client.open(&uri, &text);
    for version in 2..=300 {
        client.replace(
            &uri,
            version,
            &text.replace("**target:** coder", &format!("**target:** role{version}")),
        );
        // Requests between the edits are answered with the text of their time.
        if version % 100 == 0 {
            let symbols =
                client.request("textDocument/documentSymbol", json!({ "textDocument": { "uri": uri } }));
            assert_eq!(symbols[0]["detail"], format!("role{version}"));
        }
    }
    let last = client.diagnostics(&uri, 300);
    assert!(last.iter().any(|each| each["message"].as_str().unwrap().contains("role300")), "{last:#?}");
    assert!(client.unread_diagnostics() < 50, "{} of 300 texts were verified", client.unread_diagnostics());
    assert_eq!(client.finish(), Some(0));
}

#[test]
fn invalid_messages_are_answered_with_errors_and_the_server_goes_on() {
    let env = Env::new(ODD);
    let mut client = Client::uninitialized(&env);
    assert!(client.refused("textDocument/hover", json!({})).contains("initialize"));
    client.write(b"this is no header\r\n");
    client.write(b"Content-Length: 5\r\n\r\n{\"a\":");
    for code in [-32700, -32700] {
        let answer = client.wait(|message| message["error"]["code"] == code);
        assert_eq!(answer["id"], Value::Null, "{answer}");
    }
    client.send(&json!([1, 2]));
    client.send(&json!({ "jsonrpc": "2.0", "id": 77 }));
    assert_eq!(client.wait(|message| message["error"]["code"] == -32600)["id"], Value::Null);
    assert_eq!(client.wait(|message| message["error"]["code"] == -32600)["id"], 77);
    client.request("initialize", json!({ "capabilities": {} }));
    assert!(client.refused("initialize", json!({})).contains("already"));
    assert!(client.refused("provost/unknown", json!({})).contains("no method"));
    assert!(client.refused("textDocument/hover", json!({ "textDocument": 1 })).contains("invalid type"));
    assert!(client.refused("textDocument/hover", place("file:///none.md", "a", "a")).contains("not open"));
    client.notify("textDocument/didChange", json!({ "nothing": true }));
    client.notify("$/cancelRequest", json!({ "id": 1 }));
    let uri = uri(&env, "PLAN.md");
    client.open(&uri, ODD);
    assert!(codes(&client.diagnostics(&uri, 1)).contains(&"P030"));
    assert_eq!(client.finish(), Some(0));
}

#[test]
fn the_server_ends_as_the_protocol_says() {
    let env = Env::new(ODD);
    assert_eq!(Client::start(&env).finish(), Some(0));
    assert_eq!(Client::start(&env).hang_up(), Some(0));
    assert_eq!(Client::uninitialized(&env).hang_up(), Some(0));
    let mut client = Client::start(&env);
    client.notify("exit", Value::Null);
    assert_eq!(client.exit_code(), Some(1), "an exit without a shutdown");
    let mut client = Client::start(&env);
    client.request("shutdown", Value::Null);
    assert!(client.refused("textDocument/hover", json!({})).contains("shut down"));
    client.write(b"Content-Length: 900\r\n\r\n{");
    assert_eq!(client.hang_up(), Some(0), "in the middle of a message");
}

#[test]
fn other_markdown_is_left_alone() {
    let env = Env::new(ODD);
    let (mut client, uri) = (Client::start(&env), uri(&env, "README.md"));
    let text = "# Read me\n\n### Step 1: nothing\n**contarct:**\n";
    client.open(&uri, text);
    assert_eq!(client.diagnostics(&uri, 1), [Value::Null; 0]);
    let document = json!({ "textDocument": { "uri": uri } });
    for method in ["textDocument/codeLens", "textDocument/documentSymbol", "textDocument/foldingRange"] {
        assert_eq!(client.request(method, document.clone()), json!([]), "{method}");
    }
    for method in ["textDocument/hover", "textDocument/completion", "textDocument/definition"] {
        assert_eq!(client.at(method, &uri, text, "**contarct"), Value::Null, "{method}");
    }
    // The same text as a plan is not.
    let text = format!("---\ntype: plan\n---\n{text}");
    client.replace(&uri, 2, &text);
    assert!(!client.diagnostics(&uri, 2).is_empty());
}

#[test]
fn a_plan_of_a_thousand_steps_is_diagnosed_while_other_requests_are_answered() {
    let contracts: Vec<String> =
        (1..=1000).map(|step| format!("test -f out/{step} && grep -q x out/{step}")).collect();
    let contracts: Vec<&str> = contracts.iter().map(String::as_str).collect();
    let text = plan(&contracts, "escalate");
    let env = Env::new(&text).agent("true\n");
    let (mut client, uri) = (Client::start(&env), uri(&env, "PLAN.md"));
    let begun = Instant::now();
    client.open(&uri, &text);
    let symbols = client.request("textDocument/documentSymbol", json!({ "textDocument": { "uri": uri } }));
    let symbols_after = begun.elapsed();
    assert_eq!(symbols.as_array().map(Vec::len), Some(1000));
    // Bash has yet to read a thousand contracts.
    assert_eq!(client.unread_diagnostics(), 0, "an answer waited for the diagnostics");
    client.diagnostics(&uri, 1);
    let first = begun.elapsed();
    let begun = Instant::now();
    client.replace(&uri, 2, &text.replace("### 999. Step 999", "### 999: Step 999"));
    assert!(codes(&client.diagnostics(&uri, 2)).contains(&"P023"));
    println!(
        "symbols after {symbols_after:?}, diagnostics after {first:?}, after an edit {:?}",
        begun.elapsed()
    );
}

#[test]
fn hover_and_lenses_show_the_last_verdict_and_nothing_is_written() {
    let text = plan(&["test -f out/1", "test -f out/none"], "abort");
    let env = Env::new(&text).agent(HONEST).isolation("in-place");
    let (mut client, uri) = (Client::start(&env), uri(&env, "PLAN.md"));
    client.open(&uri, &text);
    assert_eq!(client.at("textDocument/hover", &uri, &text, "test -f out/1"), Value::Null, "there is no log");
    let lenses = |client: &mut Client| -> Vec<String> {
        let lenses = client.request("textDocument/codeLens", json!({ "textDocument": { "uri": uri } }));
        let titles = lenses.as_array().unwrap().iter().filter_map(|lens| lens["command"]["title"].as_str());
        titles.map(str::to_owned).collect()
    };
    assert_eq!(lenses(&mut client), ["approve in a terminal", "try the contract", "try the contract"]);
    assert!(!env.state().join("places").exists(), "reading has registered the plan");
    env.person().approve();
    env.provost(&["run", "--jobs", "1"]).exits(1);
    let events = env.events();
    let text = env.read("PLAN.md");
    client.replace(&uri, 2, &text);
    let shown = lenses(&mut client);
    assert!(
        shown[0].starts_with("failed, ") && shown.iter().all(|lens| !lens.contains("approve")),
        "{shown:?}"
    );
    assert!(
        shown.iter().any(|lens| lens.contains("passed") && lens.contains("last check: held")),
        "{shown:?}"
    );
    assert!(
        shown.iter().any(|lens| lens.starts_with("❌ failed; last check: broke: exit code 1")),
        "{shown:?}"
    );
    for needle in ["test -f out/none", "Step 2\n", "contract:**\n```shell\ntest -f out/none"] {
        let hover = client.at("textDocument/hover", &uri, &text, needle);
        let hover = hover["contents"]["value"].as_str().unwrap_or_default();
        assert!(hover.contains("Step 2: ❌ failed. Last check: broke: exit code 1"), "{needle}: {hover}");
    }
    // Another text is another revision, which can be approved again.
    client.replace(&uri, 3, &text.replace("Do part 2", "Do all of part 2"));
    assert!(lenses(&mut client).contains(&"approve in a terminal".to_owned()));
    assert_eq!(client.finish(), Some(0));
    assert_eq!(env.events(), events);
    assert_eq!(env.read("PLAN.md"), text);
}

#[test]
fn names_of_the_configuration_and_files_are_completed() {
    let text = plan(&["true"], "escalate").replace("**target:** coder", "**target:** \n**protect:** src/");
    let env = Env::new(&text).agent("true\n");
    env.write(
        "provost.toml",
        "[agents.tester]\ndriver = \"command\"\ncommand = [\"true\"]\n[checks.unit]\nrun = \"make check\"\n",
    );
    env.write("src/main.rs", "");
    let (mut client, uri) = (Client::start(&env), uri(&env, "PLAN.md"));
    client.open(&uri, &text);
    let mut labels = |needle: &str| -> Vec<String> {
        let found = client.at("textDocument/completion", &uri, &text, needle);
        found.as_array().unwrap().iter().map(|item| item["label"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(labels("\n**protect"), ["tester"]);
    assert_eq!(labels("\n\n**task"), ["src/main.rs"]);
    assert_eq!(labels("\n```\nexit"), ["unit"]);
    // From a role to its section.
    let text = text.replace("**target:** \n", "**target:** tester\n");
    client.replace(&uri, 2, &text);
    let found = client.at("textDocument/definition", &uri, &text, "tester\n");
    assert!(found["uri"].as_str().unwrap().ends_with("/provost.toml"), "{found}");
    assert_eq!(found["range"]["end"], json!({ "line": 0, "character": 15 }));
}

#[test]
fn fixes_renames_and_definitions_are_edits_of_the_text() {
    let env = Env::new(ODD).agent("true\n");
    let (mut client, uri) = (Client::start(&env), uri(&env, "PLAN.md"));
    client.open(&uri, ODD);
    client.diagnostics(&uri, 1);
    let at = place(&uri, ODD, "contarct");
    let range = json!({ "start": at["position"], "end": at["position"] });
    let context = json!({ "diagnostics": [], "only": ["quickfix"] });
    let params = json!({ "textDocument": { "uri": uri }, "range": range, "context": context });
    let actions = client.request("textDocument/codeAction", params);
    let edit = &actions[0]["edit"]["changes"][&uri][0];
    assert_eq!(edit["newText"].as_str().map(|text| text.contains("contract")), Some(true), "{actions}");
    assert_eq!(edit["range"]["start"]["line"], at["position"]["line"]);
    let text = ODD.replace("Step 3:", "3.").replace("contarct", "contract").replace("is 0", "== 0");
    client.replace(&uri, 2, &text);
    let defined = client.at("textDocument/definition", &uri, &text, "1\n\n**task:**\nWeiter");
    assert_eq!(defined["range"]["start"], position(&text, text.find("1. Öl").unwrap()), "{defined}");
    let prepared = client.at("textDocument/prepareRename", &uri, &text, "Zwei");
    assert_eq!(prepared["placeholder"], "Zwei");
    let mut params = place(&uri, &text, "2. Zwei");
    params["newName"] = json!("1");
    let renamed = client.request("textDocument/rename", params.clone());
    let moved = renamed["changes"][&uri][0]["newText"].as_str().unwrap();
    assert!(
        moved.starts_with("### 1. Zwei") && moved.contains("### 2. Öl") && moved.contains("**needs:** 2"),
        "{moved}"
    );
    params["newName"] = json!("9");
    assert!(client.refused("textDocument/rename", params).contains("between 1 and 3"));
    let folds = client.request("textDocument/foldingRange", json!({ "textDocument": { "uri": uri } }));
    assert!(folds.as_array().unwrap().len() >= 3, "{folds}");
}

#[test]
fn a_contract_is_tried_from_the_editor_and_a_plan_is_only_approved_by_a_person() {
    let text = plan(&["test -f out/1"], "escalate");
    let env = Env::new(&text).agent("true\n");
    if !env.has_fences() {
        return;
    }
    let (mut client, uri) = (Client::start(&env), uri(&env, "PLAN.md"));
    client.open(&uri, &text);
    let call = |command: &str, arguments: Value| json!({ "command": command, "arguments": arguments });
    client.request("workspace/executeCommand", call("provost.try", json!([uri, 1])));
    assert!(client.shown().starts_with("step 1: it fails on both"));
    client.request("workspace/executeCommand", call("provost.try", json!([uri, 7])));
    assert!(client.shown().starts_with("step 7: the contract was not tried"));
    client.replace(&uri, 2, &format!("{text}\n"));
    let unsaved = client.refused("workspace/executeCommand", call("provost.try", json!([uri, 1])));
    assert!(unsaved.contains("save the plan first"), "{unsaved}");
    client.request("workspace/executeCommand", call("provost.approve", json!([uri])));
    let told = client.shown();
    assert!(told.contains("in a terminal: provost approve /") && told.ends_with("PLAN.md"), "{told}");
    assert!(env.provost(&["log", "--json"]).out.is_empty(), "nothing is recorded");
    assert!(
        client
            .refused("workspace/executeCommand", call("provost.run", json!([uri])))
            .contains("no such command")
    );
}

#[test]
fn a_new_document_and_a_broken_configuration_are_parsed() {
    let env = Env::new(ODD);
    let mut client = Client::start(&env);
    let new = uri(&env, "PLAN-new.md");
    client.open(&new, ODD);
    assert!(codes(&client.diagnostics(&new, 1)).contains(&"P030"));
    env.write("provost.toml", "[agents.coder\n");
    let uri = uri(&env, "PLAN.md");
    client.open(&uri, ODD);
    assert!(codes(&client.diagnostics(&uri, 1)).contains(&"P030"));
    assert!(client.shown().starts_with("the plan is only parsed: "));
}
