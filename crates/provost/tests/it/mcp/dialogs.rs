//! Tests decisions in dialogs of the client: with the official Python client, whose callback is the person.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use super::client::Client;
use super::official::{python_client, variables};
use super::{IN_PLACE, claim, events, two_steps, workspace};
use crate::env::Env;

const NAMED: &str = "[mcp]\ngate = \"person\"\nelicitation = [\"official\"]\n";

/// Runs the client, and returns its lines; `None` if it cannot be installed here.
fn talk(env: &Env, client: &str, answers: &Value) -> Option<Vec<String>> {
    let folder = python_client()?;
    let output = Command::new("python3")
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/mcp/dialogs.py"))
        .arg(env!("CARGO_BIN_EXE_provost"))
        .arg(variables(env).to_string())
        .args([client, &answers.to_string()])
        .current_dir(env.work())
        .env("PYTHONPATH", folder)
        .output()
        .expect("python3");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    Some(said.lines().map(str::to_owned).collect())
}

#[track_caller]
fn has(line: &str, words: &[&str]) {
    words.iter().for_each(|words| assert!(line.contains(words), "no `{words}` in: {line}"));
}

#[test]
fn a_person_approves_and_answers_in_a_dialog_and_the_passes_are_self_checked() {
    let env = workspace(&format!("{IN_PLACE}{NAMED}"));
    let answers = json!([["accept", { "approve": true }], ["accept", { "answer": "any text" }]]);
    let Some(said) = talk(&env, "official", &answers) else { return };
    has(&said[0], &["asked ['approve'] provost asks you, not the agent.", "check: test -s out.txt"]);
    has(&said[1], &["plan_create ok", "in a dialog of official.", "Next: step 1"]);
    has(&said[2], &["asked ['answer']", "step 1: which text?"]);
    has(&said[3], &["step_update ok Your user answers: any text", "Next: step 1"]);
    let log = events(&env, "write-it");
    let of = |name: &str| log.iter().find(|event| event["event"] == name).expect(name)["details"].clone();
    assert_eq!(of("GATE_APPROVED")["by"]["dialog"]["client"], "official");
    let answered = of("HUMAN_ANSWERED");
    assert_eq!((&answered["choice"], &answered["note"]), (&json!("retry"), &json!("any text")));
    has(answered["by"].as_str().unwrap_or_default(), &["in a dialog of official"]);
    env.provost(&["audit", "write-it"]).exits(0);
    // The agent may have answered itself, so this is no verified pass.
    env.write("out.txt", "x");
    let mut client = Client::under_a_shell(&env, &["--plan", "write-it"]);
    client.call("step_update", claim(1)).says("It counts as self-checked").says("The plan is done");
    assert_eq!(env.provost(&["status", "write-it", "--json"]).json()["steps"][0]["pass"], "self_checked");
}

#[test]
fn a_declined_dialog_decides_nothing_and_neither_does_a_form_without_a_tick() {
    for first in [json!(["decline", null]), json!(["cancel", null]), json!(["accept", { "approve": false }])]
    {
        let env = workspace(&format!("{IN_PLACE}{NAMED}"));
        let Some(said) = talk(&env, "official", &json!([first])) else { return };
        has(&said[1], &["plan_create ok", "It waits for a person", "was not approved in the dialog"]);
        has(&said[2], &["step_update refused", "waits for a person's approval"]);
        assert!(events(&env, "write-it").iter().all(|event| event["event"] != "GATE_APPROVED"));
    }
}

#[test]
fn no_dialog_is_shown_by_a_client_that_nobody_named() {
    let env = workspace(&format!("{IN_PLACE}[mcp]\ngate = \"person\"\n"));
    let Some(said) = talk(&env, "official", &json!([])) else { return };
    has(&said[0], &["plan_create ok", "It waits for a person"]);
    let env = workspace(&format!("{IN_PLACE}{NAMED}"));
    let Some(said) = talk(&env, "another", &json!([])) else { return };
    has(&said[0], &["plan_create ok", "It waits for a person"]);
}

#[test]
fn a_client_inside_another_agents_client_shows_no_dialog() {
    let env = workspace(&format!("{IN_PLACE}{NAMED}"));
    // This process is the client of an agent, and the next client is started from it.
    let mut outer = Client::start(&env, &["--session", "outer"]);
    outer.call("plan_create", two_steps()).says("It waits for a person");
    let Some(said) = talk(&env, "official", &json!([])) else { return };
    has(&said[0], &["plan_create ok", "It waits for a person"]);
}
