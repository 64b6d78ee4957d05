//! Parses a text into a plan and diagnostics.
//!
//! Parsing never fails: any input gives a plan (perhaps an empty one) and a list of its mistakes, each with
//! its span. Fields are read from the Markdown tree, never from comments, raw HTML or anything else that is
//! invisible on the rendered page.
//!
//! **Invariant:** no input causes a panic, and the time is linear in the length of the text.
//! **Invariant:** the parser never guesses: a section that it cannot read as a step is not a step.

use std::borrow::Cow;

use crate::language::diagnostic::{Code, Diagnostic, say};
use crate::model::plan::{Plan, Span};

mod blocks;
mod characters;
mod check;
mod field;
mod free;
mod frontmatter;
mod heading;
mod pieces;
mod reader;
mod step;
mod values;

pub use values::budget;

/// Larger files are rejected: no person could have read them.
pub const LARGEST_BYTES: usize = 16 * 1024 * 1024;

/// Maximum number of diagnostics shown per code; for the rest only the count is reported.
const MOST_OF_A_CODE: usize = 100;

pub struct ParseResult {
    pub plan: Plan,
    /// Diagnostics in the order of the text. With those of `verify::plan` they are complete.
    pub diagnostics: Vec<Diagnostic>,
}

pub fn plan(text: &str) -> ParseResult {
    in_pieces(text, pieces::USUAL)
}

/// Reads a plan in pieces of at least `piece` bytes; the result does not depend on the size.
fn in_pieces(text: &str, piece: usize) -> ParseResult {
    let mut sink = Sink::default();
    let mut plan = Plan::default();
    if text.len() > LARGEST_BYTES {
        sink.push(say::too_large(text.len()));
        return ParseResult { plan, diagnostics: sink.finish() };
    }
    let visible = text.trim_start_matches('\u{feff}').trim();
    if visible.is_empty() {
        sink.push(say::empty());
        return ParseResult { plan, diagnostics: sink.finish() };
    }
    characters::inspect(text, &mut sink);
    let body = frontmatter::read(text, &mut plan, &mut sink);
    // Estimate the number of steps from the headings, so that a long list is not copied as it grows.
    plan.steps.reserve_exact(text.matches("\n#").count().min(text.len() / 64));
    reader::read(text, body, piece, &mut plan, &mut sink);
    plan.steps.shrink_to_fit();
    ParseResult { plan, diagnostics: sink.finish() }
}

/// Reads only the frontmatter, for callers that need the dependencies of a plan.
pub fn frontmatter(text: &str) -> Plan {
    let mut plan = Plan::default();
    if text.len() <= LARGEST_BYTES {
        frontmatter::read(text, &mut plan, &mut Sink::default());
    }
    plan
}

/// Returns the name of every field of a step, with a sentence about the form of its value.
pub fn fields() -> impl Iterator<Item = (&'static str, &'static str)> {
    field::Field::ALL.into_iter().map(|field| (field.name(), field.form()))
}

/// Decodes a file, with a diagnostic if it is not UTF-8. Invalid bytes become `\u{fffd}`, so such a text must
/// only be shown, never parsed or hashed.
pub fn bytes(bytes: &[u8]) -> (Cow<'_, str>, Option<Diagnostic>) {
    match std::str::from_utf8(bytes) {
        Ok(text) => (Cow::Borrowed(text), None),
        Err(error) => {
            let shown = bytes.get(..error.valid_up_to().min(4096)).unwrap_or(&[]);
            (String::from_utf8_lossy(shown), Some(say::not_text(error.valid_up_to())))
        }
    }
}

/// Collects diagnostics and caps the number per code.
pub(crate) struct Sink {
    kept: Vec<Diagnostic>,
    /// By code: the number of diagnostics, and the index of the last kept one.
    counts: Vec<(usize, usize)>,
}

impl Default for Sink {
    fn default() -> Self {
        Self { kept: Vec::new(), counts: vec![(0, 0); Code::ALL.len()] }
    }
}

impl Sink {
    pub(crate) fn push(&mut self, diagnostic: Diagnostic) {
        let (count, last) = &mut self.counts[diagnostic.code as usize];
        *count += 1;
        if *count <= MOST_OF_A_CODE {
            *last = self.kept.len();
            self.kept.push(diagnostic);
        }
    }

    pub(crate) fn finish(mut self) -> Vec<Diagnostic> {
        for (count, last) in &self.counts {
            if let Some(more) = count.checked_sub(MOST_OF_A_CODE).filter(|more| *more > 0) {
                self.kept[*last].message.push_str(&format!(" (and {more} more of this kind)"));
            }
        }
        self.kept.sort_by_key(|diagnostic| (diagnostic.span.start, diagnostic.severity));
        self.kept
    }
}

/// Returns the visible part of a span.
fn visible_text<'t>(text: &'t str, span: Span, hidden: &[Span]) -> Cow<'t, str> {
    // Both lists are sorted, so only the cuts near the span are tested.
    let from = hidden.partition_point(|cut| cut.end <= span.start);
    let mut cuts = hidden[from..].iter().take_while(|cut| cut.start < span.end).peekable();
    if cuts.peek().is_none() {
        return Cow::Borrowed(span.of(text));
    }
    let mut shown = String::with_capacity(span.end.saturating_sub(span.start));
    let mut at = span.start;
    for cut in cuts {
        shown.push_str(text.get(at..cut.start.max(at)).unwrap_or(""));
        at = at.max(cut.end);
    }
    shown.push_str(text.get(at..span.end).unwrap_or(""));
    Cow::Owned(shown)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::in_pieces;

    /// Parses the text as a whole and in the smallest pieces, and compares the results.
    fn same(text: &str) {
        let whole = in_pieces(text, usize::MAX);
        let cut = in_pieces(text, 1);
        assert_eq!(whole.plan, cut.plan, "{text}");
        assert_eq!(whole.diagnostics, cut.diagnostics, "{text}");
    }

    const LINES: &[&str] = &[
        "# Title",
        "## Steps",
        "### 1. One",
        "### 2. Two ✅",
        "#### deeper",
        "#no heading",
        "**target:** coder",
        "**task:**",
        "text",
        "**contract:**",
        "```shell",
        "```",
        "~~~",
        "````",
        "   ```",
        "    ```",
        "- item",
        "  ```sh",
        "> quote",
        "> ```",
        "<!-- x",
        "-->",
        "<div>",
        "</div>",
        "[a]: http://x",
        "[a]",
        "exit_code == 0",
        "**on_fail:** abort",
        "",
        "",
        "===",
        "---",
        "# in a fence?",
        "## Postconditions",
        "1. it works",
        "`` ` ``",
        "``` a`b",
        "~~~ a`b",
        "\t```",
        "*a",
        "b*",
        "a < b",
    ];

    proptest! {
        #[test]
        fn a_plan_in_pieces_is_the_plan(picks in prop::collection::vec(0..LINES.len(), 0..60)) {
            let lines: Vec<&str> = picks.iter().map(|pick| LINES[*pick]).collect();
            same(&format!("---\ntype: plan\nstatus: draft\n---\n{}\n", lines.join("\n")));
        }

        #[test]
        fn any_text_in_pieces_is_the_text(text in "[#` ~<>\\[\\]:\\-*a1.\n]{0,200}") {
            same(&text);
        }
    }

    #[test]
    fn a_long_plan_is_cut_and_stays_the_same() {
        let mut text = String::from("---\ntype: plan\nstatus: draft\nowner: me\n---\n# Long\n\n## Steps\n");
        for number in 1..=2000 {
            text.push_str(&format!(
                "\n### {number}. Step\n**target:** a\n**task:**\nDo `it`.\n**contract:**\n```shell\n# no heading\ntest -f {number}\n```\n"
            ));
        }
        same(&text);
        assert_eq!(in_pieces(&text, 1).plan.steps.len(), 2000);
        assert!(super::pieces::end(&text, 0, 1000) < 1200, "nothing was cut");
    }
}
