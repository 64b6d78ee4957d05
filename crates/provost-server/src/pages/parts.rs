//! Elements that several pages use: checks, verdicts, attempts and diagnostics.

use maud::{Markup, html};

use super::ansi::Ansi;
use super::markdown::markdown;
use super::status::word;
use super::text::{T, Ticks};
use super::times::instant;
use crate::layout::timeline::lasted;
use provost_core::model::test_results::{TestNames, TestSummary};
use provost_engine::observe::view::{AttemptView, CheckView, DiagnosticView, QuestionView, VerdictView};

/// Renders a check: the command, the rubric, or that a person confirms it.
pub(super) fn check(name: &str, check: &CheckView) -> Markup {
    html! {
        p class="quiet" {
            (name)
            @match check.kind {
                "human" => ": a person confirms it",
                "judge" => ": a model judges by this rubric (weaker than a command)",
                _ => ": provost runs this",
            }
        }
        @if let Some(text) = &check.text {
            @if check.kind == "shell" { (copy(text)) } @else { (markdown(text)) }
            @for line in &check.expectations { p class="quiet small" { "Expected: " code { (T(line)) } } }
        }
    }
}

pub(super) fn verdict(verdict: &VerdictView) -> Markup {
    // The words begin with the outcome, which is shown before them.
    let words = verdict.words.strip_prefix(verdict.outcome).unwrap_or(&verdict.words);
    html! {
        p {
            (word(verdict.outcome)) " "
            @if let Some(subject) = verdict.subject { (subject) " " }
            (T(words.trim_start_matches([':', ' ']))) " "
            span class="quiet" {
                "at " (T(&verdict.isolation)) ", " (lasted(verdict.duration_ms))
                @if let Some(tests) = verdict.tests { ", " (tests) " tests" }
                @if let Some(by) = &verdict.judged_by { ", " (T(by)) }
                @if let Some(why) = &verdict.uncontrolled { ", uncontrolled: " (T(why)) }
                @if let Some(at) = verdict.at { ", " (instant(at)) }
            }
        }
        @if let Some(results) = &verdict.test_results { (tests(results)) }
        @for line in &verdict.unmet { p class="bad" { "Not met: " (T(line)) } }
        @for remark in &verdict.remarks { p { "Note: " (T(remark)) } }
        @for (name, text) in [("Output", &verdict.stdout), ("Errors", &verdict.stderr)] {
            @if !text.is_empty() { p class="quiet" { (name) } (output(text)) }
        }
        @if !verdict.files.is_empty() {
            p class="quiet" { "Changed files: " (T(&verdict.files.join(", "))) (more(verdict.files_more)) }
        }
        @for line in &verdict.refused { p class="bad" { "Not taken over: " (T(line)) } }
        @if verdict.refused_more > 0 { p class="bad" { "Not taken over:" (more(verdict.refused_more)) } }
        @if !verdict.ignored.is_empty() {
            p class="quiet" {
                "Ignored by git, so not part of the check: "
                (T(&verdict.ignored.join(", "))) (more(verdict.ignored_more))
            }
        }
    }
}

/// Renders the results of single tests as a table: before the work, and after it.
fn tests(results: &TestSummary) -> Markup {
    let rows = test_rows(results);
    html! {
        p { "Tests: " (T(&results.counts())) }
        @if !rows.is_empty() {
            div class="scroll tests" tabindex="0" role="region" aria-label="Results of single tests" {
                table {
                    thead { tr { th { "Test" } th { "Before" } th { "After" } } }
                    tbody {
                        @for (before, after, names) in rows {
                            @for name in &names.names {
                                tr { td { code { (T(name)) } } td { (word(before)) } td { (word(after)) } }
                            }
                            @let rest = (names.count as usize).saturating_sub(names.names.len());
                            @if rest > 0 { tr { td { "and " (rest) " more" } td { (word(before)) } td { (word(after)) } } }
                        }
                    }
                }
            }
        }
    }
}

/// Returns the result before, the result after, and the tests with these results; the worst first.
fn test_rows(results: &TestSummary) -> Vec<(&'static str, &'static str, &TestNames)> {
    let flaky = ("unsteady", "unsteady", &results.flaky);
    let rows = match &results.changes {
        None => vec![("unknown", "failed", &results.failing), flaky],
        Some(changes) => vec![
            ("passed", "failed", &changes.broken),
            ("not there", "failed", &changes.new_failing),
            ("there", "gone", &changes.gone),
            ("ran", "skipped", &changes.skipped_now),
            flaky,
            ("failed", "failed", &changes.failed_before),
            ("failed", "passed", &changes.fixed),
            ("not there", "passed", &changes.new),
        ],
    };
    rows.into_iter().filter(|(.., names)| !names.is_empty()).collect()
}

fn more(count: u64) -> String {
    if count == 0 { String::new() } else { format!(" and {count} more") }
}

/// Renders one attempt: the agent's words on one side, provost's verdicts on the other, the transcript below.
pub(super) fn attempt(attempt: &AttemptView, transcript: &Markup) -> Markup {
    let is_silent = attempt.claims.is_empty() && attempt.report.trim().is_empty();
    html! {
        section class="sheet" id={ "attempt-" (attempt.number) } {
            header {
                h3 { "Attempt " (attempt.number) }
                @if attempt.passed { (word("passed")) }
                span class="quiet" { (T(&attempt.target)) " · " (instant(attempt.begun)) }
                @if let Some(ms) = attempt.duration_ms { span class="quiet" { (lasted(ms)) } }
                @if let Some(tokens) = attempt.tokens { span class="quiet" { (tokens) " tokens" } }
                @match &attempt.end {
                    Some(end) => span class="quiet" { (T(end)) }
                    None => (word("in_progress")),
                }
            }
            div class="versus" {
                div {
                    h4 { "The agent says" }
                    @if is_silent { p class="quiet" { "Nothing" @if attempt.ended.is_none() { " yet" } "." } }
                    @for claim in &attempt.claims { p class="quiet" { "It claims:" } (said_by_agent(claim)) }
                    @if !attempt.report.trim().is_empty() && !attempt.claims.contains(&attempt.report) {
                        p class="quiet" { "Its last output:" } (said_by_agent(&attempt.report))
                    }
                    @for note in &attempt.notes { p class="quiet" { (T(note)) } }
                }
                div {
                    h4 { "provost checked" }
                    @if attempt.verdicts.is_empty() { p class="quiet" { "No check has run." } }
                    @for seen in &attempt.verdicts { (verdict(seen)) }
                }
            }
            @if let Some(failure) = &attempt.failure {
                p { "Failure" @if let Some(class) = attempt.class { " (" (class) ")" } ": " (T(failure)) }
            }
            @for line in &attempt.followed { p { "Then: " (T(line)) } }
            (transcript)
        }
    }
}

/// Renders output of a program; its lines are not wrapped.
pub(super) fn output(text: &str) -> Markup {
    html! { pre class="output" tabindex="0" { (Ansi(text)) } }
}

/// Renders a command with a button that copies it.
pub(super) fn copy(command: &str) -> Markup {
    html! {
        div class="command" {
            pre { (T(command)) }
            button class="copy scripted" type="button" data-copy=(T(command)) { "Copy" }
        }
    }
}

/// Renders the words of an agent; they are wrapped.
pub(super) fn said_by_agent(text: &str) -> Markup {
    html! { pre class="said" { (T(text)) } }
}

/// Renders what people asked about a step.
pub(super) fn questions(asked: &[QuestionView]) -> Markup {
    html! {
        @for each in asked {
            p class=(if each.current { "note wait" } else { "note" }) {
                strong { (T(&each.by)) " asks: " } (T(&each.question))
                @if !each.current { span class="quiet" { " (about an earlier revision)" } }
            }
        }
    }
}

/// Renders the values of the configuration that an approval covers, as rows of a list: what comes before the
/// first colon is the name of the row.
pub(super) fn policy(lines: &[String]) -> Markup {
    html! {
        @for line in lines {
            @match line.split_once(": ").filter(|(name, _)| name.len() <= 40) {
                Some((name, words)) => { dt { (Ticks(&capital(name))) } dd { (Ticks(words)) } }
                None => { dt { "Rule" } dd { (Ticks(line)) } }
            }
        }
    }
}

/// Returns the text with a capital letter, unless it is the name of something.
fn capital(text: &str) -> String {
    let is_phrase = text.contains(' ') || text == "isolation";
    if is_phrase { titled(text) } else { text.to_owned() }
}

/// Returns the text with a capital letter.
pub(super) fn titled(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

pub(super) fn findings<'d>(found: impl IntoIterator<Item = &'d DiagnosticView>) -> Markup {
    html! {
        ul class="findings" {
            @for each in found {
                li {
                    (word(each.severity)) " line " (each.line) ": " (T(&each.message)) " "
                    code class="quiet" { (T(&each.code)) }
                    @if let Some(hint) = &each.hint { div class="quiet" { (T(hint)) } }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use provost_core::model::test_results::{TestResult, TestResults};

    use super::test_rows;

    #[test]
    fn single_tests_are_listed_before_and_after_the_worst_first() {
        use TestResult::{Failed, Passed, Skipped};
        let results = |all: &[(&str, TestResult)]| {
            TestResults::of(all.iter().map(|(name, result)| ((*name).to_owned(), *result)))
        };
        let before = results(&[("a", Failed), ("b", Passed), ("c", Passed), ("d", Passed)]);
        let after = results(&[("a", Passed), ("b", Failed), ("c", Skipped), ("e", Passed)]);
        let told = |before: Option<&TestResults>| -> Vec<String> {
            let summary = after.summary(before, &BTreeSet::new());
            let rows = test_rows(&summary).into_iter();
            rows.map(|(before, after, names)| format!("{names}: {before}, {after}")).collect()
        };
        assert_eq!(
            told(Some(&before)),
            [
                "b: passed, failed",
                "d: there, gone",
                "c: ran, skipped",
                "a: failed, passed",
                "e: not there, passed"
            ]
        );
        assert_eq!(told(None), ["b: unknown, failed"]);
    }
}
