//! The insight page: pass rates, attempts, cost and time of the steps that were tried, by agent, model, check,
//! repository and day; where the time goes; flaky and weak contracts.

mod contracts;
mod records;

use std::collections::BTreeMap;

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse as _, Response};
use maud::{Markup, html};

use self::records::{CSV_HEAD, Record, Records, Sum, grouped};
use super::drawing::{self, Columns};
use super::frame::{HtmlPage, Section, segment};
use super::text::T;
use crate::layout::timeline::lasted;
use crate::partial::Main;
use crate::principal::Viewer;
use crate::problem::Answer;
use crate::state::{SharedState, ask};

/// Number of contracts that are listed at most.
const CONTRACTS_MAX: usize = 50;

pub(super) async fn show(State(app): State<SharedState>, Viewer(principal): Viewer) -> Answer<Response> {
    ask(&app, move |app| {
        let after = app.overview.cursor()?.0;
        let body =
            app.news.kept("insight".to_owned(), after, || Ok(Main::from(body(&records::read(app)?))))?;
        let page = HtmlPage { title: "Insight".to_owned(), room: Section::Insight, live: None, body };
        Ok(page.shown(app, &principal, after))
    })
    .await
}

/// Answers a line for each step that was tried.
pub(super) async fn csv(State(app): State<SharedState>, _viewer: Viewer) -> Answer<Response> {
    let records = ask(&app, records::read).await?;
    let lines: Vec<String> = records.steps.iter().map(Record::csv).collect();
    let head = [
        (header::CONTENT_TYPE, "text/csv; charset=utf-8"),
        (header::CONTENT_DISPOSITION, "attachment; filename=\"provost.csv\""),
    ];
    Ok((head, format!("{CSV_HEAD}{}\n", lines.join("\n"))).into_response())
}

fn body(all: &Records) -> Markup {
    let records = &all.steps;
    let mut sum = Sum::default();
    records.iter().for_each(|record| sum.add(record));
    let days = grouped(records, |record| &record.day);
    html! {
        h1 { "Insight" }
        @if records.is_empty() {
            div class="empty" {
                strong { "No step was tried yet." }
                "Run an approved plan with " code { "provost run" } "; its numbers appear here."
            }
        } @else {
            p class="lead" {
                span { strong { (sum.verified) } " of " (sum.steps) " steps verified" }
                span { strong { (percent(sum.at_once, sum.steps)) } " passed with the first attempt" }
                span { strong { (sum.per_verified()) } " per verified step" }
                a href="/insight.csv" { "All steps as CSV" }
            }
            h2 { "Over time" }
            (over_time(&days))
            (table("Day", &days))
            h2 { "Time by kind" }
            (time(&sum, all.gate_ms, &days))
            h2 { "By agent" }
            (table("Agent", &grouped(records, |record| &record.agent)))
            h2 { "By model" }
            (table("Model", &grouped(records, |record| &record.model)))
            h2 { "By kind of check" }
            (table("Decided by", &grouped(records, |record| record.check)))
            h2 { "By repository" }
            (table("Repository", &grouped(records, |record| &record.repository)))
            h2 { "Flaky and weak contracts" }
            (doubted(records))
        }
    }
}

/// Renders the results of each day, and how many steps passed with their first attempt.
fn over_time(days: &BTreeMap<&str, Sum>) -> Markup {
    let each = |sum: &Sum| [sum.verified as u64, sum.weaker as u64, sum.open() as u64];
    let results = days.iter().map(|(day, sum)| ((*day).to_owned(), each(sum))).collect();
    let rates = days.iter().map(|(day, sum)| {
        ((*day).to_owned(), [sum.at_once * 100 / sum.steps.max(1), 0, 0].map(|part| part as u64))
    });
    let attempts = days
        .iter()
        .map(|(day, sum)| ((*day).to_owned(), [(sum.attempts * 10 / sum.steps.max(1)) as u64, 0, 0]));
    html! {
        div class="charts" {
            (drawing::columns(&Columns {
                title: "Steps",
                legend: [("check", "verified"), ("weaker", "passed in a weaker way"), ("broke", "not passed")],
                rows: results,
                words: |count| count.to_string(),
            }))
            (drawing::columns(&Columns {
                title: "Passed with the first attempt",
                legend: [("attempt", "share of the steps"), ("", ""), ("", "")],
                rows: rates.collect(),
                words: |share| format!("{share} %"),
            }))
            (drawing::columns(&Columns {
                title: "Attempts per step",
                legend: [("attempt", "attempts"), ("", ""), ("", "")],
                rows: attempts.collect(),
                words: |tenths| format!("{}.{}", tenths / 10, tenths % 10),
            }))
        }
    }
}

/// Renders how much time agents and checks took, and how long steps and plans waited for a person.
fn time(all: &Sum, gate_ms: u64, days: &BTreeMap<&str, Sum>) -> Markup {
    let parts = [
        ("Agents", all.agent_ms),
        ("Checks", all.check_ms),
        ("Waiting for an answer of a person", all.person_ms),
        ("Waiting for an approval at the gate", gate_ms),
    ];
    let whole: u64 = parts.iter().map(|(_, ms)| ms).sum();
    let rows = days.iter().map(|(day, sum)| ((*day).to_owned(), [sum.agent_ms, sum.check_ms, sum.person_ms]));
    html! {
        (drawing::columns(&Columns {
            title: "Time of the steps",
            legend: [("attempt", "agents"), ("check", "checks"), ("waits", "waiting for a person")],
            rows: rows.collect(),
            words: lasted,
        }))
        div class="scroll" tabindex="0" role="region" aria-label="Time by kind" {
            table {
                thead { tr { th { "Part" } th class="number" { "Time" } th class="number" { "Share" } } }
                tbody {
                    @for (name, ms) in parts {
                        tr { td { (name) } td class="number" { (lasted(ms)) } td class="number" { (ms * 100 / whole.max(1)) " %" } }
                    }
                }
            }
        }
    }
}

/// Lists the contracts that something speaks against.
fn doubted(records: &[Record]) -> Markup {
    let found: Vec<&Record> = records.iter().filter(|record| !record.doubts.is_empty()).collect();
    html! {
        @if found.is_empty() { p class="quiet" { "The recorded verdicts show none." } }
        @else {
            div class="scroll" tabindex="0" role="region" aria-label="Flaky and weak contracts" {
                table {
                    thead { tr { th { "Step" } th { "Contract" } th { "Doubts" } } }
                    tbody {
                        @for record in found.iter().take(CONTRACTS_MAX) {
                            tr {
                                td { a href={ "/plans/" (segment(&record.plan)) "/steps/" (record.step) } { (T(&record.title)) ", step " (record.step) } }
                                td { code { (T(&drawing::short(record.contract.as_deref().unwrap_or("none"), 60))) } }
                                td { @for doubt in &record.doubts { div { (T(doubt)) } } }
                            }
                        }
                    }
                }
            }
            @if found.len() > CONTRACTS_MAX { p class="quiet" { (found.len() - CONTRACTS_MAX) " more are in the CSV file." } }
            p class="quiet small" { code { "provost try PLAN STEP --runs 5" } " tells whether a check is flaky, and rates it." }
        }
    }
}

fn percent(part: usize, whole: usize) -> String {
    format!("{} %", (part * 100).checked_div(whole).unwrap_or(0))
}

fn table(name: &str, groups: &BTreeMap<&str, Sum>) -> Markup {
    let heads = [
        "Steps",
        "Verified",
        "Weaker",
        "Not passed",
        "First attempt",
        "Attempts",
        "Agents",
        "Checks",
        "Waiting",
        "Per verified",
    ];
    html! {
        div class="scroll" tabindex="0" role="region" aria-label=(name) {
            table {
                thead { tr { th { (name) } @for head in heads { th class="number" { (head) } } } }
                tbody {
                    @for (key, sum) in groups {
                        tr {
                            td { (T(key)) }
                            td class="number" { (sum.steps) }
                            td class="number" { (sum.verified) }
                            td class="number" { (sum.weaker) }
                            td class="number" { (sum.open()) }
                            td class="number" { (percent(sum.at_once, sum.steps)) }
                            td class="number" { (sum.attempts) }
                            td class="number" { (lasted(sum.agent_ms)) }
                            td class="number" { (lasted(sum.check_ms)) }
                            td class="number" { (lasted(sum.person_ms)) }
                            td class="number" { (sum.per_verified()) }
                        }
                    }
                }
            }
        }
    }
}
