//! Every feature on every beginning of a plan: a person types it letter by letter.

use provost_core::language::parse;
use serde_json::json;

use super::documents::Document;
use super::names::Names;
use super::positions::Range;
use super::{actions, completion, definition, hover, lenses, outline, rename};

const TEXT: &str = "---\ntype: plan\nstatus: draft\ntouches: [\"a/**\", 'ü']\ndepends_on:\n- b\n---\n\n# Größe 😀\n**Budget:** $1\n\n\
    ## Steps\n\n### 1. ✅ Öl 😀\n**target:** coder\n**subscriptions:**\n- file:a\n- topic:ü\n**task:**\nMiß `x`.\n**contract:**\n\
    ```shell\ntest -f ü😀\n```\nexit_code == 0\nstdout contains \"ü\"\n**on_fail:** retry(1), then abort\n\n\
    ### 2. Zwei (depends on Task 1)\n**plan:** login\n**publishes:** a, b\n~~~\n## Postconditions\n1. Gut\n   ```\n   true\n   ```\n   stderr is empty\n";

/// Asks every feature about one place.
fn ask_all(document: &Document, offset: usize) {
    let found = parse::plan(&document.text).diagnostics;
    completion::find(document, offset, Names::default);
    hover::find(document, offset, &found, || None);
    definition::find(document, offset, || None);
    if rename::prepare(document, offset).is_some() {
        let _ = rename::edits(document, offset, "1");
        let _ = rename::edits(document, offset, "ü");
    }
    let position = document.range(provost_core::model::plan::Span::at(offset)).start;
    let range: Range =
        serde_json::from_value(json!({ "start": position, "end": position })).expect("a range");
    actions::find(document, range, &found, None);
}

#[test]
fn no_beginning_of_a_plan_is_too_odd() {
    let other_ends = [TEXT.replace('\n', "\r\n"), TEXT.replace("\n\n", "\r\r\n")];
    // Every place with the usual ends of lines; a part of them with others, because each is parsed.
    for (text, every) in [TEXT.to_owned()].into_iter().chain(other_ends).zip([1, 7, 7]) {
        for (at, _) in text.char_indices().step_by(every) {
            let document = Document::new("file:///PLAN.md".to_owned(), 1, text[..at].to_owned());
            ask_all(&document, at);
        }
    }
}

#[test]
fn no_place_in_a_plan_is_too_odd() {
    for text in [TEXT.to_owned(), TEXT.replace('\n', "\r\n"), TEXT.replace("\n\n", "\r\r\n")] {
        let document = Document::new("file:///PLAN.md".to_owned(), 1, text.clone());
        outline::symbols(&document);
        outline::folds(&document);
        lenses::find(&document, None);
        for (at, _) in text.char_indices().step_by(3) {
            ask_all(&document, at);
        }
    }
}
