use provost_core::model::pass::Pass;
use provost_core::state::run::PostState;
use provost_core::text::summary::{PartialSum, StepRow};
use provost_engine::observe::compare::{self, ComparedPlan};
use serde_json::{Value, json};

use crate::open_plan::Global;
use crate::outcome::{Answer, Outcome};
use crate::{table, terminal};

/// Show two plans side by side: verdicts, attempts, cost, time and changed files
///
/// Matches steps by title, so that you can compare a fork with its original.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  provost compare PLAN.md second-try            a plan and its fork, by name
  provost compare PLAN.md ../app-b/PLAN.md --json")]
pub(super) struct Args {
    /// Path, name or log id of the first plan
    one: String,
    /// Path, name or log id of the second plan
    other: String,
}

/// Label of a row, and the function that returns the value of each side.
type Row = (&'static str, fn(&ComparedPlan) -> String);

pub(super) fn obey(global: &Global, args: Args) -> Answer {
    let settings = global.settings(None)?;
    let sides = [compare::side(&settings, &args.one)?, compare::side(&settings, &args.other)?];
    if global.json {
        let steps: Vec<Value> = titles(&sides)
            .iter()
            .map(|title| json!({ "title": title, "one": step(&sides[0], title), "other": step(&sides[1], title) }))
            .collect();
        let answer = json!({ "one": whole(&sides[0]), "other": whole(&sides[1]), "steps": steps });
        terminal::print(&format!("{answer}\n"))?;
        return Ok(Outcome::Done);
    }
    let rows: [Row; 7] = [
        ("stage", |side| side.row.stage.to_owned()),
        ("steps done", |side| {
            let (done, total) = side.run.progress();
            format!("{done}/{total}")
        }),
        ("postconditions", postconditions),
        ("attempts", |side| side.row.total.attempts.to_string()),
        ("agents, checks", |side| {
            format!("{}, {}", seconds(side.row.total.agent_ms), seconds(side.row.total.check_ms))
        }),
        ("tokens, cost", |side| {
            let usd = |micro: u64| format!("${:.2}", micro as f64 / 1e6);
            let (tokens, cost) = (side.row.total.tokens, side.row.total.micro_usd);
            format!("{}, {}", counted(tokens, |tokens| tokens.to_string()), counted(cost, usd))
        }),
        ("files changed", |side| side.files.len().to_string()),
    ];
    let whole = rows.iter().map(|(name, row)| vec![(*name).to_owned(), row(&sides[0]), row(&sides[1])]);
    let steps = titles(&sides).into_iter().map(|title| {
        let told =
            |side: &ComparedPlan| found(side, &title).map_or("-".to_owned(), |row| in_words(side, row));
        vec![title.clone(), told(&sides[0]), told(&sides[1])]
    });
    let head = ["", sides[0].name.as_str(), sides[1].name.as_str()];
    terminal::print(&table::lines(&head, &whole.chain(steps).collect::<Vec<_>>()))?;
    Ok(Outcome::Done)
}

/// Returns the titles of the first plan, then those that only the other has.
fn titles(sides: &[ComparedPlan; 2]) -> Vec<String> {
    let mut titles: Vec<String> = Vec::new();
    for side in sides {
        for row in &side.row.steps {
            if !titles.contains(&row.title) {
                titles.push(row.title.clone());
            }
        }
    }
    titles
}

fn found<'s>(side: &'s ComparedPlan, title: &str) -> Option<&'s StepRow> {
    side.row.steps.iter().find(|row| row.title == title)
}

fn in_words(side: &ComparedPlan, row: &StepRow) -> String {
    let role = side.run.role(row.number);
    let state = side.run.pass(row.number).map_or(row.state, Pass::word);
    format!("{state} by {role}, {} in {}", row.taken.attempts, seconds(row.taken.agent_ms))
}

fn postconditions(side: &ComparedPlan) -> String {
    let held = side.run.postconditions().filter(|(_, state)| matches!(state, PostState::Held(_))).count();
    format!("{held}/{}", side.run.postconditions().count())
}

fn seconds(ms: u64) -> String {
    format!("{:.1} s", ms as f64 / 1000.0)
}

fn counted(sum: PartialSum, say: impl Fn(u64) -> String) -> String {
    match sum.total() {
        Some(total) => say(total),
        None => "unknown".to_owned(),
    }
}

fn whole(side: &ComparedPlan) -> Value {
    let (done, total) = side.run.progress();
    let taken = &side.row.total;
    json!({
        "plan": side.plan, "name": side.name, "stage": side.row.stage, "done": done, "total": total,
        "attempts": taken.attempts, "agent_ms": taken.agent_ms, "check_ms": taken.check_ms,
        "tokens": taken.tokens.total(), "usd": taken.micro_usd.total().map(|micro| micro as f64 / 1e6),
        "files": side.files, "tree": side.run.tree,
    })
}

fn step(side: &ComparedPlan, title: &str) -> Value {
    found(side, title).map_or(Value::Null, |row| {
        json!({
            "number": row.number, "state": row.state, "pass": side.run.pass(row.number), "target": side.run.role(row.number),
            "attempts": row.taken.attempts, "agent_ms": row.taken.agent_ms,
            "verdict": side.run.step(row.number).and_then(|step| step.verdict.as_ref()).map(|v| v.outcome.word()),
            "usd": row.taken.micro_usd.total().map(|micro| micro as f64 / 1e6),
        })
    })
}
