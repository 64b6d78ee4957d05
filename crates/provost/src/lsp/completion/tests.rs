//! Completion, by a text with `¦` at the cursor and the text after the first proposal.

use super::super::documents::Document;
use super::super::names::Names;
use super::find;

fn names() -> Names {
    Names {
        roles: vec!["coder".to_owned(), "prüfer".to_owned()],
        checks: vec![("unit".to_owned(), "make check".to_owned())],
        topics: vec!["notes".to_owned()],
        plans: vec!["login".to_owned()],
        secrets: vec!["GH_TOKEN".to_owned()],
        workspace: None,
    }
}

/// Returns the labels, and the line of the cursor after the proposal that is named.
fn complete(text: &str, pick: &str) -> (Vec<String>, String) {
    let offset = text.find('¦').expect("a cursor");
    let document = Document::new("file:///PLAN.md".to_owned(), 1, text.replace('¦', ""));
    let items = find(&document, offset, names);
    let labels: Vec<String> = items.iter().map(|item| item["label"].as_str().unwrap().to_owned()).collect();
    let picked = items.iter().find(|item| item["label"] == pick);
    let picked = picked.unwrap_or_else(|| panic!("no {pick} in {labels:?}"));
    let change =
        serde_json::json!({ "range": picked["textEdit"]["range"], "text": picked["textEdit"]["newText"] });
    let line = text[..offset].matches('\n').count();
    let after = document.changed(2, vec![serde_json::from_value(change).unwrap()]);
    (labels, after.text.lines().nth(line).unwrap_or_default().to_owned())
}

fn labels(text: &str) -> Vec<String> {
    let offset = text.find('¦').expect("a cursor");
    let document = Document::new("file:///PLAN.md".to_owned(), 1, text.replace('¦', ""));
    let items = find(&document, offset, names);
    items.iter().map(|item| item["label"].as_str().unwrap().to_owned()).collect()
}

/// A step with these lines.
fn step(lines: &str) -> String {
    format!("---\nstatus: draft\n---\n# Ü 😀\n## Steps\n### 1. One\n**target:** coder\n\n### 2. Two\n{lines}")
}

#[test]
fn fields_are_completed_and_none_is_offered_twice() {
    let (fields, line) = complete(&step("**target:** coder\n**ta¦"), "task");
    assert_eq!(line, "**task:** ");
    assert!(fields.contains(&"contract".to_owned()) && !fields.contains(&"target".to_owned()), "{fields:?}");
    // The editor may have closed the stars.
    assert_eq!(complete(&step("**con¦**\n"), "contract").1, "**contract:** ");
    assert_eq!(complete(&step("¦"), "on_fail").1, "**on_fail:** ");
    assert_eq!(complete(&step("**tsak:** x").replace("**tsak", "**ts¦ak"), "task").1, "**task:** x");
    assert_eq!(labels(&step("**task:**\nWrite **bold** an¦")), [""; 0]);
    assert_eq!(labels("---\nstatus: draft\n---\n# P\n*¦"), ["Context", "Budget", "Priority"]);
}

#[test]
fn the_frontmatter_is_completed() {
    let (keys, line) = complete("---\nstatus: draft\nty¦\n---\n", "type");
    assert_eq!(line, "type: ");
    assert_eq!(keys, ["type", "owner", "depends_on", "touches", "require_red"]);
    assert_eq!(complete("---\nstatus:¦\n---\n", "draft").1, "status: draft");
    assert_eq!(complete("---\nstatus: dr¦aft\n---\n", "done").1, "status: done");
    assert_eq!(complete("---\ndepends_on: [a, l¦]\n---\n", "login").1, "depends_on: [a, login]");
    assert_eq!(complete("---\ndepends_on:\n  - ¦\n---\n", "login").1, "  - login");
}

#[test]
fn values_are_completed_by_their_field() {
    assert_eq!(complete(&step("**target:** ¦"), "prüfer").1, "**target:** prüfer");
    assert_eq!(complete(&step("**target:**¦"), "coder").1, "**target:** coder");
    assert_eq!(complete(&step("**git:** x¦"), "shared").1, "**git:** shared");
    assert_eq!(labels(&step("**hidden:** ¦")), ["yes", "no"]);
    assert_eq!(labels(&step("**contract:** ¦")), ["human", "judge"]);
    assert_eq!(complete(&step("**publishes:** a, ¦"), "notes").1, "**publishes:** a, notes");
    assert_eq!(complete(&step("**secrets:** ¦"), "GH_TOKEN").1, "**secrets:** GH_TOKEN");
    assert_eq!(complete(&step("**plan:** ¦"), "login").1, "**plan:** login");
    assert_eq!(labels(&step("**subscriptions:**\n- ¦")), ["file:", "topic:"]);
    assert_eq!(complete(&step("**subscriptions:**\n- topic:n¦"), "topic:notes").1, "- topic:notes");
}

#[test]
fn only_earlier_steps_can_be_needed() {
    let (numbers, line) = complete(&step("**needs:** ¦\n### 3. Three\n"), "1");
    assert_eq!(
        (numbers.as_slice(), line.as_str()),
        (["1".to_owned(), "none".to_owned()].as_slice(), "**needs:** 1")
    );
    let heading = step("").replace("2. Two", "2. Two (depends on ¦");
    assert_eq!(complete(&heading, "1").1, "### 2. Two (depends on 1");
}

#[test]
fn checks_and_expectations_are_completed() {
    assert_eq!(complete(&step("**contract:**\n```shell\nun¦\n```\n"), "unit").1, "check:unit");
    let (forms, line) =
        complete(&step("**contract:**\r\n```shell\r\ntrue\r\n```\r\nstd¦"), "stderr is empty");
    assert_eq!(line, "stderr is empty");
    assert!(
        forms.contains(&"stdout contains \"\"".to_owned()) && forms.contains(&"on_fail".to_owned()),
        "{forms:?}"
    );
    assert!(labels(&step("**contract:**\n¦")).contains(&"```shell".to_owned()));
    assert_eq!(labels(&step("**task:**\n```\nun¦\n```\n")), [""; 0]);
}
