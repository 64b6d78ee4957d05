//! Property tests: for any text there is no panic, spans are inside the text, and edits can be undone.

use proptest::prelude::*;
use provost_core::language::parse;
use provost_core::model::plan::{Check, Mark, Plan, Span};

use crate::{GOOD, diagnose, permissive};

/// Returns every span of a plan.
fn spans(plan: &Plan) -> Vec<Span> {
    let mut spans = Vec::new();
    spans.extend(plan.status.iter().chain(&plan.owner).map(|s| s.span));
    spans.extend(plan.depends_on.iter().chain(plan.touches.iter().flatten()).map(|s| s.span));
    spans.extend(plan.budget.iter().map(|s| s.span));
    spans.extend(plan.postconditions.iter().map(|p| p.span));
    for step in &plan.steps {
        spans.extend([step.heading, step.section, step.mark.span]);
        spans.extend(step.target.iter().chain(&step.task).chain(&step.plan).map(|s| s.span));
        spans.extend(step.budget.iter().map(|s| s.span));
        spans.extend(step.subscriptions.iter().map(|s| s.span));
        spans.extend(step.protect.iter().map(|s| s.span));
        for contract in step.contract.iter().chain(&step.precondition) {
            spans.push(contract.span);
            if let Check::Shell(shell) = &contract.check {
                spans.push(shell.body);
                spans.extend(shell.expectations.iter().map(|e| e.span));
            }
        }
    }
    spans
}

fn holds(text: &str) {
    let parsed = parse::plan(text);
    let said = diagnose(text, permissive);
    let fixes = said.iter().filter_map(|d| d.fix.as_ref()).map(|fix| fix.span);
    for span in spans(&parsed.plan).into_iter().chain(said.iter().map(|d| d.span)).chain(fixes) {
        assert!(text.get(span.start..span.end).is_some(), "{span:?} of {} in {text:?}", text.len());
    }
    let again = parse::plan(text);
    assert_eq!(again.plan, parsed.plan);
    assert_eq!(again.diagnostics, parsed.diagnostics);
    for step in &parsed.plan.steps {
        if let Some(Check::Shell(shell)) = step.contract.as_ref().map(|contract| &contract.check) {
            let script = provost_core::language::shell::read(&shell.command);
            provost_core::language::shell::tools(&shell.command, &script);
        }
    }
}

/// Checks that a mark can be added and removed, and nothing else changes.
fn marks_come_and_go(text: &str) {
    let before = parse::plan(text).plan;
    for (at, step) in before.steps.iter().enumerate() {
        for mark in Mark::ALL {
            let place = step.mark.span;
            let written = format!("{} ", mark.symbol());
            let mut marked = text.to_string();
            marked.replace_range(place.start..place.end, &written);
            let after = parse::plan(&marked).plan;
            assert_eq!(after.steps.len(), before.steps.len(), "{marked}");
            let found = &after.steps[at];
            assert_eq!(found.mark.mark, Some(mark));
            assert_eq!(found.title, step.title);
            assert_eq!(found.mark.span, Span::new(place.start, place.start + written.len()));
            marked.replace_range(found.mark.span.start..found.mark.span.end, place.of(text));
            assert_eq!(marked, text);
        }
    }
}

/// Generates fragments of plans, so that random texts are similar to plans.
fn piece() -> impl Strategy<Value = String> {
    let known = prop::sample::select(vec![
        "---\n",
        "status: draft\n",
        "touches: [\"a/**\"]\n",
        "# T\n",
        "## Steps\n",
        "### 1. A\n",
        "### 2. ✅ B\n",
        "### 3–N. C\n",
        "### Step 4: D\n",
        "**target:** c\n",
        "**task:** do\n",
        "**task:**\n",
        "**contract:**\n",
        "```shell\n",
        "```\n",
        "~~~\n",
        "make\n",
        "exit_code == 0\n",
        "**on_fail:** retry(1), then skip\n",
        "**needs:** 1, 2\n",
        "- file:a.md\n",
        "  - x\n",
        "> q\n",
        "<!-- ",
        " -->\n",
        "<b>",
        "\n",
        "\r\n",
        "\t",
        "    ",
        "## Postconditions\n",
        "1. One\n",
        "   ```\n",
        "**contarct:** x\n",
        "**target: x**\n",
        "---\n",
        "===\n",
        "[a]: b\n",
        "`",
        "**",
        "é",
        "👩\u{200d}💻",
        "\u{feff}",
        "\u{202e}",
        "\0",
        "&amp;",
        "\\",
        "$(a `b`",
        "stdout matches /(/\n",
        "**Budget:** max 1k tokens\n",
        "**budget:** $2, 3 minutes\n",
        "(depends on Task 1)\n",
        "####### x\n",
        "⏭\u{fe0f} ",
    ]);
    prop_oneof![8 => known.prop_map(str::to_string), 1 => "\\PC{0,8}", 1 => any::<char>().prop_map(|c| c.to_string())]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_are_read(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let (text, _) = parse::bytes(&bytes);
        holds(&text);
    }

    #[test]
    fn any_text_of_plan_pieces_is_read(pieces in prop::collection::vec(piece(), 0..40)) {
        holds(&pieces.concat());
        holds(&format!("---\nstatus: draft\n---\n# T\n## Steps\n### 1. A\n{}", pieces.concat()));
    }

    #[test]
    fn any_change_of_a_good_plan_is_read(at in 0..GOOD.len(), length in 0usize..60, piece in piece()) {
        let end = (at + length).min(GOOD.len());
        if GOOD.is_char_boundary(at) && GOOD.is_char_boundary(end) {
            holds(&format!("{}{piece}{}", &GOOD[..at], &GOOD[end..]));
        }
    }

    #[test]
    fn a_mark_in_any_plan_can_be_taken_back(title in "[ -~é✅❌👍]{1,20}", rest in prop::collection::vec(piece(), 0..10)) {
        marks_come_and_go(&format!("---\nstatus: draft\n---\n# T\n## Steps\n### 1. {title}\n{}", rest.concat()));
    }
}

#[test]
fn marks_in_the_good_plan_come_and_go() {
    marks_come_and_go(GOOD);
    marks_come_and_go(&GOOD.replace('\n', "\r\n"));
    marks_come_and_go(&GOOD.replace("### 2. Make", "### 2.   ❌ Make"));
}
