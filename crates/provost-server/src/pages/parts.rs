//! Elements that several pages use: checks, verdicts, attempts and diagnostics.

use maud::{Markup, html};

use super::status::word;
use super::text::T;
use super::times::instant;
use crate::layout::timeline::lasted;
use provost_core::model::test_results::TestSummary;
use provost_engine::observe::view::{AttemptView, CheckView, DiagnosticView, VerdictView};

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
        @if let Some(text) = &check.text { pre { (T(text)) @for line in &check.expectations { "\n" (T(line)) } } }
    }
}

pub(super) fn verdict(verdict: &VerdictView) -> Markup {
    html! {
        p {
            (word(verdict.outcome)) " "
            @if let Some(subject) = verdict.subject { (subject) ": " }
            (T(&verdict.words)) " "
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
            @if !text.is_empty() { p class="quiet" { (name) } pre { (T(text)) } }
        }
        @if !verdict.files.is_empty() {
            p class="quiet" { "Taken over: " (T(&verdict.files.join(", "))) (more(verdict.files_more)) }
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

/// Renders the results of single tests: how many of each kind, and their names.
fn tests(results: &TestSummary) -> Markup {
    let none = Vec::new();
    let kinds = results.changes.as_ref().map_or(none, |changes| changes.kinds());
    html! {
        @if results.has_changes() || results.failed > 0 {
            details {
                summary { "Tests: " (T(&results.counts())) }
                @if kinds.is_empty() && !results.failing.is_empty() {
                    p class="quiet" { "failing: " (T(&results.failing.listed(usize::MAX))) }
                }
                @for (word, names) in kinds {
                    p class="quiet" { (word) ": " (T(&names.listed(usize::MAX))) }
                }
                @if !results.flaky.is_empty() {
                    p class="quiet" { "flaky: " (T(&results.flaky.listed(usize::MAX))) }
                }
            }
        }
    }
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
                @if let Some(end) = &attempt.end { span class="quiet" { (T(end)) } } @else { (word("in_progress")) }
            }
            div class="versus" {
                div {
                    h4 { "The agent says" }
                    @if is_silent { p class="quiet" { "Nothing" @if attempt.ended.is_none() { " yet" } "." } }
                    @for claim in &attempt.claims { p class="quiet" { "It claims:" } pre { (T(claim)) } }
                    @if !attempt.report.trim().is_empty() && !attempt.claims.contains(&attempt.report) {
                        p class="quiet" { "Its last output:" } pre { (T(&attempt.report)) }
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

pub(super) fn findings(found: &[DiagnosticView]) -> Markup {
    html! {
        ul {
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
