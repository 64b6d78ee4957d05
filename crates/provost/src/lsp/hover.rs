//! Hover: the meaning of a field, a key, an expectation or a diagnostic, and the last verdict of a step.

use provost_core::language::diagnostic::Diagnostic;
use provost_core::model::plan::{Span, Step, StepNumber};
use provost_core::state::run::{Run, StepRun};
use provost_engine::observe::view::VerdictView;
use serde_json::{Value, json};

use super::documents::Document;
use super::place::{self, LineKind, Part};
use super::reference;

/// Most characters of a check's output that are shown.
const OUTPUT: usize = 1_000;

/// Returns what a person should know about an offset. `run` is asked for only if a step is meant.
pub(super) fn find(
    document: &Document,
    offset: usize,
    found: &[Diagnostic],
    run: impl FnOnce() -> Option<Run>,
) -> Option<Value> {
    let place = place::find(&document.text, offset);
    let within = |span: &Span| span.start <= offset && offset <= span.end;
    let (mut parts, mut span) = (Vec::new(), place.line);
    let verdict = |run: Option<Run>| {
        let step = document.step_at(offset)?;
        last_verdict(&run?, step)
    };
    match place.kind {
        LineKind::Key { name, name_span, .. } if within(&name_span) => {
            span = name_span;
            parts.extend(reference::key(name).map(|text| format!("**{name}**: {text}")));
        }
        LineKind::Field { name, name_span, .. } if within(&name_span) => {
            span = name_span;
            let text = match place.part {
                Part::Step => reference::field(name),
                Part::Preamble => reference::preamble(name),
                _ => None,
            };
            parts.extend(text.map(|text| format!("**{name}**: {text}")));
            if name.eq_ignore_ascii_case("contract") {
                parts.extend(verdict(run()));
            }
        }
        LineKind::AfterCheck => parts.extend(reference::expectation(place.line.of(&document.text))),
        LineKind::Heading if place.part == Part::Step => parts.extend(verdict(run())),
        LineKind::Command { field: Some(field) } if field.eq_ignore_ascii_case("contract") => {
            parts.extend(verdict(run()));
        }
        _ => {}
    }
    let pages = found.iter().filter(|diagnostic| within(&diagnostic.span)).map(|diagnostic| diagnostic.code);
    let mut pages: Vec<_> = pages.collect();
    pages.dedup();
    parts.extend(pages.iter().map(|code| code.page().trim().to_owned()));
    if parts.is_empty() {
        return None;
    }
    let contents = json!({ "kind": "markdown", "value": parts.join("\n\n---\n\n") });
    Some(json!({ "contents": contents, "range": document.range(span) }))
}

/// Returns what the log says about a step: its state, and its last verdict. `None` if the log knows another
/// step by this number, or has no verdict on it.
fn last_verdict(run: &Run, step: &Step) -> Option<String> {
    let verdict = VerdictView::of(known(run, step)?.verdict.as_ref()?);
    let mut text =
        format!("Step {}: {}. Last check: {}", step.number, state_of(run, step.number), verdict.words);
    text.push_str(&format!(" ({}, {} ms", verdict.isolation, verdict.duration_ms));
    if let Some(tests) = verdict.tests {
        text.push_str(&format!(", {tests} tests"));
    }
    text.push(')');
    for unmet in &verdict.unmet {
        text.push_str(&format!("\n- not met: `{unmet}`"));
    }
    for remark in &verdict.remarks {
        text.push_str(&format!("\n- {remark}"));
    }
    for output in [&verdict.stdout, &verdict.stderr] {
        let output = last(output.trim());
        if !output.is_empty() {
            // Indented, because no output can end an indented block.
            let lines: String = output.lines().map(|line| format!("\n    {line}")).collect();
            text.push_str(&format!("\n\n{}", lines.trim_start_matches('\n')));
        }
    }
    Some(text)
}

/// Returns the state of a step in words, with its mark.
pub(super) fn state_of(run: &Run, number: StepNumber) -> String {
    let mark = run.mark(number).map(|mark| format!("{} ", mark.symbol())).unwrap_or_default();
    format!("{mark}{}", run.word(number).replace('_', " "))
}

/// Returns the state of a step, if the step of this number in the log has the same title.
pub(super) fn known<'r>(run: &'r Run, step: &Step) -> Option<&'r StepRun> {
    run.plan.step(step.number).filter(|known| known.title == step.title)?;
    run.step(step.number)
}

fn last(output: &str) -> &str {
    let skipped = output.chars().count().saturating_sub(OUTPUT);
    output.char_indices().nth(skipped).map_or("", |(at, _)| &output[at..])
}

#[cfg(test)]
mod tests {
    use provost_core::language::parse;

    use super::*;

    const TEXT: &str = "---\nstatus: draft\n---\n# P\n**Budget:** $1\n## Steps\n### 1. Öl 😀\n**hidden:** yes\n**tsak:** x\n**contract:**\n```\ntrue\n```\nstdout is empty\n";

    fn hover(needle: &str) -> Option<String> {
        let document = Document::new("file:///PLAN.md".to_owned(), 1, TEXT.to_owned());
        let found = parse::plan(TEXT).diagnostics;
        let shown = find(&document, TEXT.find(needle).unwrap(), &found, || None)?;
        Some(shown["contents"]["value"].as_str().unwrap().to_owned())
    }

    #[test]
    fn fields_keys_and_expectations_are_explained() {
        assert!(hover("status").unwrap().contains("written by the harness"));
        assert!(hover("Budget").unwrap().contains("comma-separated list of tokens"));
        assert!(hover("hidden").unwrap().contains("hidden from the agent"));
        assert!(hover("stdout is").unwrap().starts_with("Holds when nothing was written"));
        assert_eq!(hover("yes"), None);
        assert_eq!(hover("true"), None, "without a log nothing is said about a contract");
    }

    #[test]
    fn a_place_with_a_diagnostic_shows_its_page() {
        let text = hover("tsak").unwrap();
        assert!(text.starts_with("# P030: ") && text.contains("## Why"), "{text}");
    }

    #[test]
    fn only_the_end_of_a_long_output_is_shown() {
        let long = "ü".repeat(OUTPUT + 5);
        assert_eq!(last(&long).chars().count(), OUTPUT);
        assert_eq!(last("short"), "short");
        assert_eq!(last(""), "");
    }
}
