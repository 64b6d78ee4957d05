//! The insight page: pass rates, attempts, cost and time of the steps that were tried, by agent, check,
//! repository and day.
//!
//! **Invariant:** an amount that was not counted is shown as unknown, never as zero.

use std::collections::BTreeMap;

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse as _, Response};
use maud::{Markup, html};
use provost_core::model::pass::Pass;
use provost_engine::observe::view::{PlanView, StepView};

use super::drawing;
use super::frame::{HtmlPage, Section};
use super::text::T;
use crate::layout::timeline::lasted;
use crate::partial::Main;
use crate::principal::Viewer;
use crate::problem::Answer;
use crate::state::{AppState, SharedState, ask};

/// Number of plans that are counted, the most recently changed first.
const PLANS_MAX: usize = 300;

/// A step that was tried.
struct Record {
    plan: String,
    repository: String,
    step: u32,
    agent: String,
    check: &'static str,
    /// The day of its last attempt.
    day: String,
    pass: Option<Pass>,
    attempts: usize,
    agent_ms: u64,
    check_ms: u64,
    tokens: Option<u64>,
    usd: Option<f64>,
}

impl Record {
    fn of(plan: &PlanView, step: &StepView) -> Option<Self> {
        let last = step.attempts.last()?;
        let checks = step.attempts.iter().flat_map(|attempt| &attempt.verdicts);
        Some(Self {
            plan: plan.card.id.0.clone(),
            repository: plan.card.repository.clone().unwrap_or_else(|| "unknown".to_owned()),
            step: step.number,
            agent: last.target.clone(),
            check: match step.contract.as_ref().map(|contract| contract.kind) {
                Some("shell") => "command",
                Some("judge") => "model",
                Some("human") => "person",
                _ => "none",
            },
            day: last.begun.to_string().get(..10).unwrap_or_default().to_owned(),
            pass: step.pass,
            attempts: step.attempts.len(),
            agent_ms: step.cost.agent_ms,
            check_ms: checks.map(|verdict| verdict.duration_ms).sum(),
            tokens: step.cost.tokens,
            usd: step.cost.usd,
        })
    }

    /// Returns its line of the CSV file.
    fn csv(&self) -> String {
        let number = |number: Option<String>| number.unwrap_or_default();
        let cells = [
            cell(&self.plan),
            cell(&self.repository),
            self.step.to_string(),
            cell(&self.agent),
            self.check.to_owned(),
            self.day.clone(),
            self.pass.map_or("not passed", Pass::key).to_owned(),
            self.attempts.to_string(),
            self.agent_ms.to_string(),
            self.check_ms.to_string(),
            number(self.tokens.map(|tokens| tokens.to_string())),
            number(self.usd.map(|usd| format!("{usd:.4}"))),
        ];
        cells.join(",")
    }
}

const CSV_HEAD: &str = "plan,repository,step,agent,check,day,result,attempts,agent_ms,check_ms,tokens,usd\n";

/// Quotes a text for CSV. A spreadsheet does not take it for a formula.
fn cell(text: &str) -> String {
    let guard = if text.starts_with(['=', '+', '-', '@', '\t', '\r']) { "'" } else { "" };
    format!("\"{guard}{}\"", text.replace('"', "\"\""))
}

fn records(app: &AppState) -> Answer<Vec<Record>> {
    let mut plans = app.overview.plans()?;
    plans.sort_by_key(|seen| std::cmp::Reverse(seen.moved));
    plans.truncate(PLANS_MAX);
    let mut records = Vec::new();
    for seen in plans.iter().filter(|seen| seen.run.started()) {
        let attempts = app.overview.attempts(&seen.id)?;
        let plan = PlanView::of(seen, &attempts, Vec::new());
        records.extend(plan.steps.iter().filter_map(|step| Record::of(&plan, step)));
    }
    Ok(records)
}

pub(super) async fn show(State(app): State<SharedState>, Viewer(principal): Viewer) -> Answer<Response> {
    ask(&app, move |app| {
        let after = app.overview.cursor()?.0;
        let body = app.news.kept("insight".to_owned(), after, || Ok(Main::from(body(&records(app)?))))?;
        let page = HtmlPage { title: "Insight".to_owned(), room: Section::Insight, live: None, body };
        Ok(page.shown(app, &principal, after))
    })
    .await
}

/// Answers a line for each step that was tried.
pub(super) async fn csv(State(app): State<SharedState>, _viewer: Viewer) -> Answer<Response> {
    let records = ask(&app, records).await?;
    let lines: Vec<String> = records.iter().map(Record::csv).collect();
    let head = [
        (header::CONTENT_TYPE, "text/csv; charset=utf-8"),
        (header::CONTENT_DISPOSITION, "attachment; filename=\"provost.csv\""),
    ];
    Ok((head, format!("{CSV_HEAD}{}\n", lines.join("\n"))).into_response())
}

/// The sum of some records.
#[derive(Default)]
struct Sum {
    steps: usize,
    verified: usize,
    weaker: usize,
    at_once: usize,
    attempts: usize,
    agent_ms: u64,
    check_ms: u64,
    usd: f64,
    /// Steps whose cost is not known completely.
    uncounted: usize,
}

impl Sum {
    fn add(&mut self, record: &Record) {
        self.steps += 1;
        self.verified += usize::from(record.pass == Some(Pass::Verified));
        self.weaker += usize::from(record.pass.is_some_and(|pass| pass != Pass::Verified));
        self.at_once += usize::from(record.pass.is_some() && record.attempts == 1);
        self.attempts += record.attempts;
        self.agent_ms += record.agent_ms;
        self.check_ms += record.check_ms;
        self.usd += record.usd.unwrap_or(0.0);
        self.uncounted += usize::from(record.usd.is_none());
    }

    fn open(&self) -> usize {
        self.steps - self.verified - self.weaker
    }

    /// Returns the cost of a verified step, if all of the cost is known.
    fn per_verified(&self) -> String {
        match (self.uncounted, self.verified) {
            (0, 1..) => format!("${:.2}", self.usd / self.verified as f64),
            (0, 0) => "–".to_owned(),
            _ => "unknown".to_owned(),
        }
    }
}

fn grouped<'r>(records: &'r [Record], key: impl Fn(&'r Record) -> &'r str) -> BTreeMap<&'r str, Sum> {
    let mut groups: BTreeMap<&str, Sum> = BTreeMap::new();
    for record in records {
        groups.entry(key(record)).or_default().add(record);
    }
    groups
}

fn body(records: &[Record]) -> Markup {
    let mut all = Sum::default();
    records.iter().for_each(|record| all.add(record));
    let days = grouped(records, |record| &record.day);
    let bars: Vec<(String, [usize; 3])> =
        days.iter().map(|(day, sum)| ((*day).to_owned(), [sum.verified, sum.weaker, sum.open()])).collect();
    html! {
        h1 { "Insight" }
        @if records.is_empty() {
            div class="empty" {
                strong { "No step was tried yet." }
                "Run an approved plan with " code { "provost run" } "; its numbers appear here."
            }
        } @else {
            p class="lead" {
                span { strong { (all.verified) } " of " (all.steps) " steps verified" }
                span { strong { (percent(all.at_once, all.steps)) } " passed with the first attempt" }
                span { strong { (all.per_verified()) } " per verified step" }
                span { strong { (lasted(all.agent_ms)) } " of agents, " strong { (lasted(all.check_ms)) } " of checks" }
                a href="/insight.csv" { "All steps as CSV" }
            }
            h2 { "By day" }
            (drawing::days(&bars))
            (table("Day", &days))
            h2 { "By agent" }
            (table("Agent", &grouped(records, |record| &record.agent)))
            h2 { "By kind of check" }
            (table("Decided by", &grouped(records, |record| record.check)))
            h2 { "By repository" }
            (table("Repository", &grouped(records, |record| &record.repository)))
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
                            td class="number" { (sum.per_verified()) }
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Pass, Record, Sum, cell};

    fn record(pass: Option<Pass>, attempts: usize, usd: Option<f64>) -> Record {
        Record {
            plan: "a-1".to_owned(),
            repository: "shop".to_owned(),
            step: 1,
            agent: "=coder".to_owned(),
            check: "command",
            day: "2026-01-31".to_owned(),
            pass,
            attempts,
            agent_ms: 10,
            check_ms: 5,
            tokens: None,
            usd,
        }
    }

    #[test]
    fn a_cost_that_was_not_counted_is_unknown() {
        let sum = |records: &[Record]| {
            let mut sum = Sum::default();
            records.iter().for_each(|record| sum.add(record));
            (sum.verified, sum.weaker, sum.open(), sum.at_once, sum.per_verified())
        };
        let verified = || record(Some(Pass::Verified), 1, Some(0.5));
        let told = |sum: (usize, usize, usize, usize, String)| format!("{sum:?}");
        assert_eq!(told(sum(&[verified(), record(None, 3, Some(0.5))])), "(1, 0, 1, 1, \"$1.00\")");
        assert_eq!(
            told(sum(&[verified(), record(Some(Pass::Judged), 2, None)])),
            "(1, 1, 0, 1, \"unknown\")"
        );
        assert_eq!(told(sum(&[record(None, 1, Some(0.0))])), "(0, 0, 1, 0, \"–\")");
    }

    #[test]
    fn a_text_in_the_csv_is_no_formula() {
        assert_eq!(cell("=1+1"), "\"'=1+1\"");
        assert_eq!(cell("say \"hi\", then"), "\"say \"\"hi\"\", then\"");
        let line = record(Some(Pass::HeldBefore), 2, None).csv();
        assert_eq!(line, "\"a-1\",\"shop\",1,\"'=coder\",command,2026-01-31,held_before,2,10,5,,");
    }
}
