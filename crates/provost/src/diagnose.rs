//! Renders diagnostics for people and programs: terminal, JSON, SARIF.
//!
//! All three renderings take a list of [`Diagnostic`]s in any order. None of them decides anything.
//!
//! **Invariant:** lines count from 1, columns count characters from 1, in every rendering.

use std::path::Path;

use annotate_snippets::{AnnotationKind, Group, Level, Patch, Renderer, Snippet};
use provost_core::language::diagnostic::{Code, Diagnostic, Severity};
use provost_core::model::plan::Span;
use serde_json::{Value, json};

/// Maximum length of a line that is shown around a span.
const WIDEST: usize = 160;

/// Returns the clickable path of the plan file: relative to the current folder, if it is below it.
pub(crate) fn file_name(path: &Path) -> String {
    let here = std::env::current_dir().unwrap_or_default();
    path.strip_prefix(here).unwrap_or(path).display().to_string()
}

/// Renders diagnostics like rustc: line, span, hint, fix, and a summary line.
pub(crate) fn terminal(text: &str, file_name: &str, diagnostics: &[Diagnostic], colour: bool) -> String {
    let renderer = if colour { Renderer::styled() } else { Renderer::plain() };
    let lines = Lines::new(text);
    let mut out = String::new();
    for diagnostic in diagnostics {
        out.push_str(&renderer.render(&groups(text, file_name, diagnostic, &lines)));
        out.push_str("\n\n");
    }
    out.push_str(&summary(file_name, diagnostics));
    out
}

fn groups<'a>(
    text: &'a str,
    file_name: &'a str,
    diagnostic: &'a Diagnostic,
    lines: &Lines<'_>,
) -> Vec<Group<'a>> {
    let level = match diagnostic.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
        Severity::Advice => Level::NOTE.with_name("advice"),
    };
    let title = level.primary_title(diagnostic.message.as_str()).id(diagnostic.code.id());
    let window = Window::around(text, diagnostic.span, lines);
    let snippet = Snippet::source(window.source)
        .line_start(window.line)
        .path(file_name)
        .annotation(AnnotationKind::Primary.span(window.start..window.end));
    let mut first = title.element(snippet);
    if let Some(hint) = &diagnostic.hint {
        first = first.element(Level::HELP.message(hint.as_str()));
    }
    let mut groups = vec![first];
    if let Some(fix) = &diagnostic.fix {
        let window = Window::around(text, fix.span, lines);
        // A fix that does not fit its line is left to the hint.
        if window.whole {
            let patch = Patch::new(window.start..window.end, fix.replacement.as_str());
            let snippet = Snippet::source(window.source).line_start(window.line).path(file_name).patch(patch);
            groups.push(Level::HELP.secondary_title("write").element(snippet));
        }
    }
    groups
}

/// The part of the text that is shown: the line in which a span starts, cut if it is very long. Rendering the
/// whole text for each of a thousand diagnostics would be too slow.
struct Window<'a> {
    source: &'a str,
    line: usize,
    start: usize,
    end: usize,
    /// The span is inside the window.
    whole: bool,
}

impl<'a> Window<'a> {
    fn around(text: &'a str, span: Span, lines: &Lines<'_>) -> Self {
        let at = lines.index(span.start);
        let (from, to) = lines.bounds(at);
        let (start, end) = (span.start.clamp(from, to), span.end.clamp(from, to));
        let whole = span.end <= to;
        let mut left = if start - from > WIDEST { start - WIDEST / 2 } else { from };
        let mut right = to.min(left + 2 * WIDEST).max(end.min(left + 4 * WIDEST));
        while !text.is_char_boundary(left) {
            left -= 1;
        }
        while !text.is_char_boundary(right) {
            right -= 1;
        }
        let end = end.min(right);
        Self {
            source: &text[left..right],
            line: at + 1,
            start: start - left,
            end: end.max(start) - left,
            whole: whole && end >= span.end,
        }
    }
}

/// Returns a summary such as `PLAN.md: 2 errors, 1 warning`.
pub(crate) fn summary(file_name: &str, diagnostics: &[Diagnostic]) -> String {
    let count = |severity: Severity| diagnostics.iter().filter(|d| d.severity == severity).count();
    let plural = |count: usize, word: &str| match count {
        1 => format!("1 {word}"),
        count => format!("{count} {word}s"),
    };
    let mut parts = Vec::new();
    match count(Severity::Error) {
        0 => {}
        errors => parts.push(plural(errors, "error")),
    }
    match count(Severity::Warning) {
        0 => {}
        warnings => parts.push(plural(warnings, "warning")),
    }
    match count(Severity::Advice) {
        0 => {}
        suggestions => parts.push(plural(suggestions, "suggestion")),
    }
    match parts.as_slice() {
        [] => format!("{file_name}: no problems\n"),
        parts => format!("{file_name}: {}\n", parts.join(", ")),
    }
}

/// Returns the output of `verify --json`.
pub(crate) fn json(
    text: &str,
    plan: &str,
    revision: &str,
    steps: usize,
    diagnostics: &[Diagnostic],
) -> Value {
    let lines = Lines::new(text);
    let diagnostics: Vec<Value> = diagnostics
        .iter()
        .map(|diagnostic| {
            let mut value = json!({
                "code": diagnostic.code.id(),
                "severity": diagnostic.severity.word(),
                "message": diagnostic.message,
                "hint": diagnostic.hint,
                "fix": diagnostic.fix.as_ref().map(|fix| {
                    let mut value = lines.range(fix.span);
                    value["replacement"] = json!(fix.replacement);
                    value
                }),
            });
            merge(&mut value, lines.range(diagnostic.span));
            value
        })
        .collect();
    json!({ "plan": plan, "revision": revision, "steps": steps, "diagnostics": diagnostics })
}

fn merge(into: &mut Value, from: Value) {
    if let (Value::Object(into), Value::Object(from)) = (into, from) {
        into.extend(from);
    }
}

/// Returns SARIF 2.1.0 for code hosts.
pub(crate) fn sarif(text: &str, file_name: &str, diagnostics: &[Diagnostic]) -> Value {
    let lines = Lines::new(text);
    let rules: Vec<Value> = Code::ALL.iter().map(|code| rule(*code)).collect();
    let results: Vec<Value> =
        diagnostics.iter().map(|diagnostic| result(diagnostic, file_name, &lines)).collect();
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": {
                "name": "provost",
                "semanticVersion": env!("CARGO_PKG_VERSION"),
                "rules": rules,
            } },
            "columnKind": "unicodeCodePoints",
            "results": results,
        }],
    })
}

fn rule(code: Code) -> Value {
    json!({
        "id": code.id(),
        "shortDescription": { "text": code.title() },
        "help": { "text": code.page(), "markdown": code.page() },
        "defaultConfiguration": { "level": level(code.severity()) },
    })
}

fn level(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Advice => "note",
    }
}

fn result(diagnostic: &Diagnostic, file_name: &str, lines: &Lines<'_>) -> Value {
    let artifact = json!({ "uri": uri(file_name) });
    let words = match &diagnostic.hint {
        Some(hint) => format!("{}. {hint}", diagnostic.message),
        None => diagnostic.message.clone(),
    };
    let mut result = json!({
        "ruleId": diagnostic.code.id(),
        "ruleIndex": diagnostic.code as usize,
        "level": level(diagnostic.severity),
        "message": { "text": words },
        "locations": [{ "physicalLocation": { "artifactLocation": artifact, "region": lines.region(diagnostic.span) } }],
    });
    if let Some(fix) = &diagnostic.fix {
        let replacement = json!({
            "deletedRegion": lines.region(fix.span),
            "insertedContent": { "text": fix.replacement },
        });
        result["fixes"] = json!([{ "artifactChanges": [{
            "artifactLocation": { "uri": uri(file_name) },
            "replacements": [replacement],
        }] }]);
    }
    result
}

/// Returns a relative URI: forward slashes, and special characters as percent codes.
pub(crate) fn uri(file_name: &str) -> String {
    let mut uri = String::with_capacity(file_name.len());
    for byte in file_name.replace('\\', "/").bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' | b'/' => {
                uri.push(char::from(byte))
            }
            other => uri.push_str(&format!("%{other:02X}")),
        }
    }
    uri
}

/// Maps byte offsets to lines and columns.
struct Lines<'t> {
    text: &'t str,
    starts: Vec<usize>,
}

impl<'t> Lines<'t> {
    fn new(text: &'t str) -> Self {
        let breaks = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at + 1);
        Self { text, starts: std::iter::once(0).chain(breaks).collect() }
    }

    fn index(&self, at: usize) -> usize {
        self.starts.partition_point(|start| *start <= at).saturating_sub(1)
    }

    /// Returns where a line starts and ends, without its line break.
    fn bounds(&self, index: usize) -> (usize, usize) {
        let start = self.starts.get(index).copied().unwrap_or(0);
        let end = self.starts.get(index + 1).map_or(self.text.len(), |next| next - 1);
        let line = self.text.get(start..end).unwrap_or("");
        (start, start + line.trim_end_matches('\r').len())
    }

    fn place(&self, at: usize) -> (usize, usize) {
        let index = self.index(at.min(self.text.len()));
        let start = self.starts.get(index).copied().unwrap_or(0);
        let column = self.text.get(start..at).map_or(0, |before| before.chars().count());
        (index + 1, column + 1)
    }

    fn range(&self, span: Span) -> Value {
        let ((line, column), (end_line, end_column)) =
            (self.place(span.start), self.place(span.end.max(span.start)));
        json!({ "line": line, "column": column, "end_line": end_line, "end_column": end_column })
    }

    fn region(&self, span: Span) -> Value {
        let ((line, column), (end_line, end_column)) =
            (self.place(span.start), self.place(span.end.max(span.start)));
        json!({ "startLine": line, "startColumn": column, "endLine": end_line, "endColumn": end_column })
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use provost_core::language::parse;

    use super::*;

    const PLAN: &str = "---\nstatus: draft\n---\n# Über ✅\n## Steps\n### 1) Büild\n### 2. Test\n**targte:** coder\n**task:** é **x** <!-- y -->\n**contract:** human\n";

    #[test]
    fn the_terminal_shows_line_place_hint_and_fix() {
        let said = parse::plan(PLAN).diagnostics;
        expect![[r#"
            error[P023]: this heading is not a step, so provost runs nothing under it
             --> PLAN.md:6:1
              |
            6 | ### 1) Büild
              | ^^^^^^^^^^^^
              |
              = help: Write `### 1. Title`: a number, a dot, a space, the title.
            help: write
              |
            6 - ### 1) Büild
            6 + ### 1. Büild
              |

            error[P030]: unknown field `targte`
             --> PLAN.md:8:3
              |
            8 | **targte:** coder
              |   ^^^^^^
              |
              = help: Did you mean `target`? If it is not a field, write it without the colon.
            help: write
              |
            8 - **targte:** coder
            8 + **target:** coder
              |

            warning[P005]: provost does not read HTML and comments in a step
             --> PLAN.md:9:19
              |
            9 | **task:** é **x** <!-- y -->
              |                   ^^^^^^^^^^
              |
              = help: Write it in plain Markdown, or delete it: no agent and no check sees it.

            PLAN.md: 2 errors, 1 warning
        "#]]
        .assert_eq(&terminal(PLAN, "PLAN.md", &said, false));
    }

    #[test]
    fn json_counts_characters_from_one() {
        let parsed = parse::plan(PLAN);
        let value = json(PLAN, "x", "abc", parsed.plan.steps.len(), &parsed.diagnostics);
        expect![[r#"
            {
              "code": "P030",
              "severity": "error",
              "message": "unknown field `targte`",
              "hint": "Did you mean `target`? If it is not a field, write it without the colon.",
              "fix": {
                "line": 8,
                "column": 3,
                "end_line": 8,
                "end_column": 9,
                "replacement": "target"
              },
              "line": 8,
              "column": 3,
              "end_line": 8,
              "end_column": 9
            }"#]]
        .assert_eq(&serde_json::to_string_pretty(&value["diagnostics"][1]).unwrap());
        assert_eq!(value["plan"], "x");
        assert_eq!(value["steps"], 1);
    }

    #[test]
    fn sarif_has_the_shape_code_hosts_ask_for() {
        let said = parse::plan(PLAN).diagnostics;
        let sarif = sarif(PLAN, "plans/PLAN a.md", &said);
        assert_eq!(sarif["version"], "2.1.0");
        let run = &sarif["runs"][0];
        let rules = run["tool"]["driver"]["rules"].as_array().unwrap();
        let results = run["results"].as_array().unwrap();
        assert_eq!(results.len(), said.len());
        for result in results {
            let index = result["ruleIndex"].as_u64().unwrap() as usize;
            assert_eq!(rules[index]["id"], result["ruleId"]);
            assert!(["error", "warning", "note"].contains(&result["level"].as_str().unwrap()));
            assert!(!result["message"]["text"].as_str().unwrap().is_empty());
            let location = &result["locations"][0]["physicalLocation"];
            assert_eq!(location["artifactLocation"]["uri"], "plans/PLAN%20a.md");
            let region = &location["region"];
            for part in ["startLine", "startColumn", "endLine", "endColumn"] {
                assert!(region[part].as_u64().unwrap() >= 1);
            }
        }
    }

    #[test]
    fn places_at_the_edges_of_odd_texts_are_rendered() {
        for text in
            ["", "\n", "é", "\r\n\r\n", &"x".repeat(5_000), &"é\n".repeat(300), "a\u{1b}[31mb\u{202e}"]
        {
            for (start, end) in [(0, 0), (0, text.len()), (text.len(), text.len())] {
                let said = Diagnostic::new(Code::Empty, Span::new(start, end), "odd")
                    .fix(Span::new(start, end), "y\nz");
                let shown = terminal(text, "PLAN.md", std::slice::from_ref(&said), true);
                assert!(!shown.contains("\u{1b}[31mb"), "{shown}");
                json(text, "x", "y", 0, std::slice::from_ref(&said));
                sarif(text, "PLAN.md", &[said]);
            }
        }
    }
}
