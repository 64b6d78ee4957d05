//! The data of the insight page: a record of each step that was tried, its line of the CSV file, and sums.
//!
//! **Invariant:** an amount that was not counted is unknown, never zero.

use std::collections::BTreeMap;

use provost_core::model::pass::Pass;
use provost_core::text::summary::PlanRow;
use provost_engine::observe::overview::AttemptRecord;
use provost_engine::observe::view::{PlanView, StepView};

use super::contracts;
use crate::problem::Answer;
use crate::state::AppState;

/// Number of plans that are counted, the most recently changed first.
const PLANS_MAX: usize = 300;

/// A step that was tried.
pub(super) struct Record {
    pub plan: String,
    pub title: String,
    pub repository: String,
    pub step: u32,
    pub agent: String,
    /// The model of its last attempt, as its provider names it.
    pub model: String,
    pub check: &'static str,
    /// The day of its last attempt.
    pub day: String,
    pub pass: Option<Pass>,
    pub attempts: usize,
    pub agent_ms: u64,
    pub check_ms: u64,
    /// Time that it waited for a person.
    pub person_ms: u64,
    pub tokens: Option<u64>,
    pub usd: Option<f64>,
    pub contract: Option<String>,
    /// Why its contract is flaky or weak; empty if nothing is known against it.
    pub doubts: Vec<String>,
}

impl Record {
    fn of(plan: &PlanView, step: &StepView, attempts: &[AttemptRecord], spent: &PlanRow) -> Option<Self> {
        let last = step.attempts.last()?;
        let checks = step.attempts.iter().flat_map(|attempt| &attempt.verdicts);
        let own = || attempts.iter().filter(|attempt| attempt.step.0 == step.number);
        let model = own().rev().find_map(|attempt| attempt.usage.model.clone());
        let row = spent.steps.iter().find(|row| row.number.0 == step.number);
        Some(Self {
            plan: plan.card.id.0.clone(),
            title: plan.card.title.clone(),
            repository: plan.card.repository.clone().unwrap_or_else(|| "unknown".to_owned()),
            step: step.number,
            agent: last.target.clone(),
            model: model.unwrap_or_else(|| "unknown".to_owned()),
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
            person_ms: row.map_or(0, |row| row.taken.person_ms),
            tokens: step.cost.tokens,
            usd: step.cost.usd,
            contract: step.contract.as_ref().and_then(|contract| contract.command.clone()),
            doubts: contracts::doubts(step, own()),
        })
    }

    /// Returns its line of the CSV file.
    pub(super) fn csv(&self) -> String {
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
            cell(&self.model),
            self.person_ms.to_string(),
            cell(&self.doubts.join("; ")),
        ];
        cells.join(",")
    }
}

pub(super) const CSV_HEAD: &str = "plan,repository,step,agent,check,day,result,attempts,agent_ms,check_ms,tokens,usd,model,person_ms,doubts\n";

/// Quotes a text for CSV. A spreadsheet does not take it for a formula.
fn cell(text: &str) -> String {
    let guard = if text.starts_with(['=', '+', '-', '@', '\t', '\r']) { "'" } else { "" };
    format!("\"{guard}{}\"", text.replace('"', "\"\""))
}

/// All records, and the time that plans waited for a person at their gates.
#[derive(Default)]
pub(super) struct Records {
    pub steps: Vec<Record>,
    pub gate_ms: u64,
}

pub(super) fn read(app: &AppState) -> Answer<Records> {
    let mut plans = app.overview.plans()?;
    plans.sort_by_key(|seen| std::cmp::Reverse(seen.moved));
    plans.truncate(PLANS_MAX);
    let mut records = Records::default();
    for seen in plans.iter().filter(|seen| seen.run.started()) {
        let attempts = app.overview.attempts(&seen.id)?;
        let spent = app.overview.effort(seen)?;
        let plan = PlanView::of(seen, &attempts, Vec::new());
        records.steps.extend(plan.steps.iter().filter_map(|step| Record::of(&plan, step, &attempts, &spent)));
        records.gate_ms += spent.itself.person_ms;
    }
    Ok(records)
}

/// The sum of some records.
#[derive(Default)]
pub(super) struct Sum {
    pub steps: usize,
    pub verified: usize,
    pub weaker: usize,
    pub at_once: usize,
    pub attempts: usize,
    pub agent_ms: u64,
    pub check_ms: u64,
    pub person_ms: u64,
    usd: f64,
    /// Steps whose cost is not known completely.
    uncounted: usize,
}

impl Sum {
    pub(super) fn add(&mut self, record: &Record) {
        self.steps += 1;
        self.verified += usize::from(record.pass == Some(Pass::Verified));
        self.weaker += usize::from(record.pass.is_some_and(|pass| pass != Pass::Verified));
        self.at_once += usize::from(record.pass.is_some() && record.attempts == 1);
        self.attempts += record.attempts;
        self.agent_ms += record.agent_ms;
        self.check_ms += record.check_ms;
        self.person_ms += record.person_ms;
        self.usd += record.usd.unwrap_or(0.0);
        self.uncounted += usize::from(record.usd.is_none());
    }

    pub(super) fn open(&self) -> usize {
        self.steps - self.verified - self.weaker
    }

    /// Returns the cost of a verified step, if all of the cost is known.
    pub(super) fn per_verified(&self) -> String {
        match (self.uncounted, self.verified) {
            (0, 1..) => format!("${:.2}", self.usd / self.verified as f64),
            (0, 0) => "–".to_owned(),
            _ => "unknown".to_owned(),
        }
    }
}

pub(super) fn grouped<'r>(
    records: &'r [Record],
    key: impl Fn(&'r Record) -> &'r str,
) -> BTreeMap<&'r str, Sum> {
    let mut groups: BTreeMap<&str, Sum> = BTreeMap::new();
    for record in records {
        groups.entry(key(record)).or_default().add(record);
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::{Pass, Record, Sum, cell};

    fn record(pass: Option<Pass>, attempts: usize, usd: Option<f64>) -> Record {
        Record {
            plan: "a-1".to_owned(),
            title: "A".to_owned(),
            repository: "shop".to_owned(),
            step: 1,
            agent: "=coder".to_owned(),
            model: "m-1".to_owned(),
            check: "command",
            day: "2026-01-31".to_owned(),
            pass,
            attempts,
            agent_ms: 10,
            check_ms: 5,
            person_ms: 7,
            tokens: None,
            usd,
            contract: None,
            doubts: Vec::new(),
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
        assert_eq!(
            line,
            "\"a-1\",\"shop\",1,\"'=coder\",command,2026-01-31,held_before,2,10,5,,,\"m-1\",7,\"\""
        );
    }
}
