use std::collections::BTreeMap;

use provost_core::fleet::agenda::{Agenda, AgendaEntry, Compatibility, StartState, StartablePlan};
use provost_core::language::globs::overlap::{GlobOverlap, Overlap};
use provost_engine::observe::agenda::{self, PlanEntry};
use serde::Serialize;

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
pub(super) struct Args {}

pub(super) fn obey(global: &Global, _args: Args) -> Answer {
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
        let listed: BTreeMap<&str, &PlanEntry> =
            plans.listed.iter().rev().map(|plan| (plan.card.name.as_str(), plan)).collect();
        let plans = agenda.entries().filter_map(|entry| {
            let plan = listed.get(entry.name.as_str())?;
            Some(ReadyPlan::of(agenda, entry, plan, &starts))
        });
        terminal::print_json(&ReadyDocument { plans: plans.collect(), together, problems })?;
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

#[derive(Serialize)]
struct ReadyDocument<'p> {
    plans: Vec<ReadyPlan<'p>>,
    /// Names of the plans that can run at once.
    together: Vec<&'p str>,
    problems: Vec<String>,
}

#[derive(Serialize)]
struct ReadyPlan<'p> {
    #[serde(flatten)]
    plan: &'p PlanEntry,
    standing: &'static str,
    waits_for: Vec<String>,
    /// Whether it can run together with the others; `None` if it cannot start.
    beside: Option<Beside<'p>>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Beside<'p> {
    Safe { safe: bool },
    Undeclared { safe: bool, undeclared: bool },
    Meets { safe: bool, meets: &'p str, globs: [&'p str; 2], path: Option<&'p str> },
}

impl<'p> ReadyPlan<'p> {
    fn of(agenda: &Agenda, entry: &AgendaEntry, plan: &'p PlanEntry, starts: &'p [StartablePlan]) -> Self {
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
            Compatibility::Safe => Beside::Safe { safe: true },
            Compatibility::Undeclared => Beside::Undeclared { safe: false, undeclared: true },
            Compatibility::Meets { plan, meeting } => Beside::Meets {
                safe: false,
                meets: plan,
                globs: [&meeting.globs.0, &meeting.globs.1],
                path: match &meeting.overlap {
                    Overlap::Shared(path) => Some(path),
                    _ => None,
                },
            },
        });
        Self { plan, standing, waits_for, beside }
    }
}
