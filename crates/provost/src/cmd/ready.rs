use provost_core::fleet::agenda::{Agenda, AgendaEntry, Compatibility, StartState, StartablePlan};
use provost_core::language::globs::overlap::{GlobOverlap, Overlap};
use provost_engine::observe::agenda;
use serde_json::{Value, json};

use crate::open_plan::Global;
use crate::outcome::{Answer, Outcome};
use crate::{table, terminal};

/// List the plans that can start now, and those that can run at the same time
///
/// A plan can start when it is approved, the plans it depends on are done, and no person has to answer
/// first. Two plans can run at the same time if no path matches the `touches` of both; if a path does,
/// the output names one. A plan without `touches` runs alone.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  provost ready                       which plans can start, and what the others wait for
  provost ready --json                for programs: plans in `together` can run at once")]
pub struct Args {}

pub fn obey(global: &Global, _args: Args) -> Answer {
    let plans = agenda::read(&global.settings(None)?)?;
    let agenda = &plans.agenda;
    let starts = agenda.starts();
    let problems: Vec<String> = agenda.problems().iter().map(ToString::to_string).collect();
    let together: Vec<&str> = starts
        .iter()
        .filter(|start| start.beside == Compatibility::Safe)
        .map(|start| start.name.as_str())
        .collect();
    if global.json {
        let all: Vec<Value> = agenda.entries().map(|entry| as_json(agenda, entry, &starts)).collect();
        let answer = json!({ "plans": all, "together": together, "problems": problems });
        terminal::print(&format!("{answer}\n"))?;
        return Ok(Outcome::Done);
    }
    let mut rows = Vec::new();
    for entry in agenda.entries() {
        let words = match agenda.standing(entry) {
            StartState::Done => continue,
            StartState::Failed => ("failed", format!("`provost status {}` shows why", entry.name)),
            StartState::UnderWay => ("running", String::new()),
            StartState::Waits(on) => {
                let on: Vec<String> =
                    on.iter().map(|(name, stage)| format!("{name} ({})", stage.word())).collect();
                ("waits", format!("for {}", on.join(", ")))
            }
            StartState::Unsound(problem) => ("stuck", problem.to_string()),
            StartState::Broken(why) => ("stuck", format!("{why}: `provost verify {}`", entry.name)),
            StartState::Unapproved => {
                ("waits", format!("for approval: `provost show {0}`, then `provost approve {0}`", entry.name))
            }
            StartState::AsksAPerson => ("waits", "for a person: `provost inbox`".to_owned()),
            StartState::Ready => {
                let beside = starts.iter().find(|start| start.name == entry.name).map(|start| &start.beside);
                ("ready", beside.map(words).unwrap_or_default())
            }
        };
        rows.push(vec![entry.name.clone(), words.0.to_owned(), words.1]);
    }
    if rows.is_empty() {
        terminal::talk("no plan is left to start");
    } else {
        terminal::print(&table::lines(&["PLAN", "NOW", "WHY"], &rows))?;
    }
    if together.len() > 1 {
        terminal::print(&format!("\ntogether: {}\n", together.join(", ")))?;
    }
    for start in starts.iter().filter(|start| start.beside == Compatibility::Undeclared) {
        terminal::talk(&format!(
            "warning: {} has no `touches`, so it runs alone; add `touches:` to the plan",
            start.name
        ));
    }
    problems.iter().for_each(|problem| terminal::talk(&format!("warning: {problem}")));
    Ok(Outcome::Done)
}

fn words(beside: &Compatibility) -> String {
    match beside {
        Compatibility::Safe => String::new(),
        Compatibility::Undeclared => "alone: it has no `touches`".to_owned(),
        Compatibility::Meets { plan, meeting } => format!("not together with {plan}: {}", shared(meeting)),
    }
}

fn shared(meeting: &GlobOverlap) -> String {
    match &meeting.overlap {
        Overlap::Shared(path) => format!("both may change {path}"),
        Overlap::Undecided(why) => format!("provost cannot tell whether they share a path: {why}"),
        Overlap::None => String::new(),
    }
}

fn as_json(agenda: &Agenda, entry: &AgendaEntry, starts: &[StartablePlan]) -> Value {
    let (standing, waits_for) = match agenda.standing(entry) {
        StartState::Done => ("done", Vec::new()),
        StartState::Failed => ("failed", Vec::new()),
        StartState::UnderWay => ("running", Vec::new()),
        StartState::Ready => ("ready", Vec::new()),
        StartState::Waits(on) => ("waits", on.into_iter().map(|(name, _)| name).collect()),
        StartState::Unapproved => ("unapproved", Vec::new()),
        StartState::AsksAPerson => ("asks_a_person", Vec::new()),
        StartState::Unsound(_) | StartState::Broken(_) => ("stuck", Vec::new()),
    };
    let beside = starts.iter().find(|start| start.name == entry.name).map(|start| match &start.beside {
        Compatibility::Safe => json!({ "safe": true }),
        Compatibility::Undeclared => json!({ "safe": false, "undeclared": true }),
        Compatibility::Meets { plan, meeting } => {
            let witness = match &meeting.overlap {
                Overlap::Shared(path) => Some(path),
                _ => None,
            };
            json!({ "safe": false, "meets": plan, "globs": [meeting.globs.0, meeting.globs.1], "path": witness })
        }
    });
    json!({ "name": entry.name, "standing": standing, "waits_for": waits_for, "beside": beside })
}
