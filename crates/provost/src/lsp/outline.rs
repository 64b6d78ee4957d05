//! The outline of a plan: its steps as symbols, and the parts that an editor can fold.

use provost_core::model::plan::{Check, Contract, Span};
use serde_json::{Value, json};

use super::documents::Document;

/// Kinds of symbols of the protocol.
const FUNCTION: u8 = 12;
const BOOLEAN: u8 = 17;

pub(super) fn symbols(document: &Document) -> Vec<Value> {
    let plan = document.plan();
    let symbol = |name: String, detail: &str, kind: u8, whole: Span, name_span: Span| {
        let end = whole.start + whole.of(&document.text).trim_end().len();
        let whole = Span::new(whole.start.min(name_span.start), end.max(name_span.end));
        json!({
            "name": name,
            "detail": detail,
            "kind": kind,
            "range": document.range(whole),
            "selectionRange": document.range(name_span),
        })
    };
    let steps = plan.steps.iter().map(|step| {
        let target = step.target.as_ref().map_or("", |target| target.value.as_str());
        symbol(format!("{}. {}", step.number, step.title), target, FUNCTION, step.section, step.heading)
    });
    let posts = plan.postconditions.iter().map(|post| {
        let name = format!("postcondition {}: {}", post.number, post.description);
        symbol(name, "", BOOLEAN, post.span, post.span)
    });
    steps.chain(posts).collect()
}

pub(super) fn folds(document: &Document) -> Vec<Value> {
    let plan = document.plan();
    let text = &document.text;
    let mut parts = Vec::new();
    if text.starts_with("---")
        && let Some(end) = text.find("\n---")
    {
        parts.push(Span::new(0, end + 4));
    }
    let body = |contract: &Contract| match &contract.check {
        Check::Shell(shell) => Some(shell.body),
        Check::Human | Check::Judge { .. } => None,
    };
    for step in &plan.steps {
        parts.push(step.section);
        parts.extend(step.precondition.iter().chain(&step.contract).filter_map(body));
    }
    parts.extend(plan.postconditions.iter().filter_map(|post| post.contract.as_ref()).filter_map(body));
    let lines = parts.into_iter().map(|part| document.lines_of(part));
    let lines = lines.filter(|(start, end)| end > start);
    lines.map(|(start, end)| json!({ "startLine": start, "endLine": end })).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "---\nstatus: draft\n---\n# P\n## Steps\n### 1. Öl 😀\n**target:** a\n**contract:**\n```\ntrue\ntrue\n```\n\n## Postconditions\n1. It works\n   ```\n   true\n   ```\n";

    #[test]
    fn steps_and_postconditions_are_symbols() {
        let document = Document::new("file:///PLAN.md".to_owned(), 1, TEXT.to_owned());
        let symbols = symbols(&document);
        let names: Vec<&str> = symbols.iter().filter_map(|symbol| symbol["name"].as_str()).collect();
        assert_eq!(names, ["1. Öl 😀", "postcondition 1: It works"]);
        assert_eq!(symbols[0]["selectionRange"]["end"], json!({ "line": 5, "character": 12 }));
        assert_eq!(symbols[0]["range"]["end"]["line"], 11);
    }

    #[test]
    fn the_frontmatter_the_steps_and_their_checks_fold() {
        let document = Document::new("file:///PLAN.md".to_owned(), 1, TEXT.to_owned());
        let folds: Vec<(u64, u64)> = folds(&document)
            .iter()
            .map(|fold| (fold["startLine"].as_u64().unwrap(), fold["endLine"].as_u64().unwrap()))
            .collect();
        assert_eq!(folds, [(0, 2), (5, 11), (9, 10)]);
    }
}
