//! Code actions: the fixes of diagnostics, one by one and all at once.

use provost_core::language::diagnostic::{Diagnostic, Fix};
use serde_json::{Value, json};

use super::diagnostics;
use super::documents::Document;
use super::positions::Range;

/// Longest replacement that a title quotes, in characters.
const QUOTED: usize = 60;

/// Returns the actions for a range. `only` has the kinds that the client asks for, if it asks for some.
pub(super) fn find(
    document: &Document,
    range: Range,
    found: &[Diagnostic],
    only: Option<&[String]>,
) -> Vec<Value> {
    let asks_for = |kind: &str| {
        only.is_none_or(|only| {
            only.iter().any(|asked| kind == asked || kind.starts_with(&format!("{asked}.")))
        })
    };
    let mut actions = Vec::new();
    let span = document.span(range);
    let touches = |diagnostic: &&Diagnostic| {
        let fix = diagnostic.fix.as_ref().map_or(diagnostic.span, |fix| fix.span);
        let meets = |start: usize, end: usize| start <= span.end && span.start <= end;
        meets(diagnostic.span.start, diagnostic.span.end) || meets(fix.start, fix.end)
    };
    if asks_for("quickfix") {
        for diagnostic in found.iter().filter(touches) {
            let Some(fix) = &diagnostic.fix else { continue };
            actions.push(json!({
                "title": format!("{}: {}", diagnostic.code, title(fix)),
                "kind": "quickfix",
                "isPreferred": true,
                "diagnostics": [diagnostics::shown(document, diagnostic, false)],
                "edit": document.workspace_edit(vec![document.edit(fix.span, &fix.replacement)]),
            }));
        }
    }
    let all = compatible(found);
    if asks_for("source.fixAll.provost") && all.len() > 1 {
        let edits = all.iter().map(|fix| document.edit(fix.span, &fix.replacement)).collect();
        actions.push(json!({
            "title": format!("fix all {} problems that have a fix", all.len()),
            "kind": "source.fixAll.provost",
            "edit": document.workspace_edit(edits),
        }));
    }
    actions
}

fn title(fix: &Fix) -> String {
    let text = fix.replacement.trim();
    match text {
        "" if fix.replacement.is_empty() => "remove it".to_owned(),
        "" => "separate it".to_owned(),
        _ if text.contains('\n') || text.chars().count() > QUOTED => {
            "write it as provost reads it".to_owned()
        }
        _ => format!("write `{text}`"),
    }
}

/// Returns the fixes in the order of the text, without those that overlap an earlier one.
fn compatible(found: &[Diagnostic]) -> Vec<&Fix> {
    let mut fixes: Vec<&Fix> = found.iter().filter_map(|diagnostic| diagnostic.fix.as_ref()).collect();
    fixes.sort_by_key(|fix| fix.span);
    fixes.dedup();
    let mut end = None;
    fixes.retain(|fix| {
        let is_free = end.is_none_or(|end| fix.span.start >= end);
        if is_free {
            // Two insertions at the same place would be in no certain order.
            end = Some(fix.span.end.max(fix.span.start + 1));
        }
        is_free
    });
    fixes
}

#[cfg(test)]
mod tests {
    use provost_core::language::parse;

    use super::*;

    fn apply(document: &Document, edits: &Value) -> String {
        let edits: Vec<Value> = edits.as_array().unwrap().iter().rev().cloned().collect();
        let changes = edits.iter().map(|edit| json!({ "range": edit["range"], "text": edit["newText"] }));
        let changes = changes.map(|change| serde_json::from_value(change).unwrap()).collect();
        document.changed(2, changes).text
    }

    #[test]
    fn all_fixes_together_remove_what_they_are_for() {
        let text = "---\nstatus: draft\n---\n# ü😀\n## Steps\n### Step 1: Eins\n**target:** a\n**task:** x\n\
                    **contarct:**\n```\ntrue\n```\n### Task 2) Zwei\n**target:** a\n**tsak:** x\n**contract:** human\n";
        let document = Document::new("file:///PLAN.md".to_owned(), 1, text.to_owned());
        let found = parse::plan(text).diagnostics;
        let whole = serde_json::from_value(json!({
            "start": { "line": 0, "character": 0 }, "end": { "line": 99, "character": 0 } }));
        let whole: Range = whole.unwrap();
        let actions = find(&document, whole, &found, None);
        let kinds: Vec<&str> = actions.iter().filter_map(|action| action["kind"].as_str()).collect();
        assert!(kinds.iter().filter(|kind| **kind == "quickfix").count() >= 2, "{actions:#?}");
        let last = actions.last().unwrap();
        assert_eq!(last["kind"], "source.fixAll.provost");
        let fixed = apply(&document, &last["edit"]["changes"]["file:///PLAN.md"]);
        assert!(fixed.contains("### 1. Eins") && fixed.contains("### 2. Zwei"), "{fixed}");
        // Under the headings there are fields now, which have fixes of their own.
        let document = Document::new("file:///PLAN.md".to_owned(), 2, fixed.clone());
        let actions = find(&document, whole, &parse::plan(&fixed).diagnostics, None);
        let edit = &actions.last().unwrap()["edit"]["changes"]["file:///PLAN.md"];
        let left = parse::plan(&apply(&document, edit)).diagnostics;
        assert!(left.iter().all(|each| each.fix.is_none()), "{left:#?}");
    }

    #[test]
    fn only_the_kinds_that_are_asked_for_are_given() {
        let text = "---\nstatus: draft\n---\n# P\n## Steps\n### Step 1: One\n**contract:** human\n";
        let document = Document::new("file:///PLAN.md".to_owned(), 1, text.to_owned());
        let found = parse::plan(text).diagnostics;
        let at = |line: u32| {
            let position = json!({ "line": line, "character": 4 });
            serde_json::from_value(json!({ "start": position, "end": position })).unwrap()
        };
        let titles = |line: u32, only: Option<&[String]>| -> Vec<String> {
            let actions = find(&document, at(line), &found, only);
            actions.iter().map(|action| action["title"].as_str().unwrap().to_owned()).collect()
        };
        assert_eq!(titles(5, None), ["P023: write `1.`"]);
        assert_eq!(titles(5, Some(&["quickfix".to_owned()])).len(), 1);
        assert_eq!(titles(5, Some(&["refactor".to_owned()])).len(), 0);
        assert_eq!(titles(0, None).len(), 0);
    }
}
