use provost_engine::observe::agenda::{self, PlanEntry};
use serde::Serialize;

use crate::open_plan::Global;
use crate::outcome::{Answer, Outcome};
use crate::{table, terminal};

/// List all plans of the repository, with their states
///
/// Plans are `PLAN.md` and `PLAN-NAME.md` in the plan folder and at the root of the repository. A star
/// marks the active plan, which commands use if you name none. States: draft, waiting for you, running, idle
/// (approved, and no process runs it), done, failed.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  provost list                        every plan, its state and its dependencies
  provost list --json                 for programs")]
pub(super) struct Args {}

pub(super) fn obey(global: &Global, _args: Args) -> Answer {
    let plans = agenda::read(&global.settings(None)?)?;
    let problems: Vec<String> = plans.agenda.problems().iter().map(ToString::to_string).collect();
    if global.json {
        let (plans_here, plans, dangling) = (&plans, &plans.listed, plans.dangling.as_deref());
        let archived = &plans_here.archived;
        terminal::print_json(&ListDocument { plans, archived, dangling, problems })?;
        return Ok(Outcome::Done);
    }
    let rows: Vec<Vec<String>> = plans.listed.iter().map(row).collect();
    if rows.is_empty() && plans.archived.is_empty() {
        terminal::talk(&format!(
            "no plans in {}; `provost new NAME` creates one",
            plans.listing.folder.display()
        ));
    } else if !rows.is_empty() {
        terminal::print(&table::lines(&["PLAN", "STATE", "STEPS", "AFTER", "TITLE"], &rows))?;
    }
    match plans.archived.as_slice() {
        [] => {}
        [name] => terminal::talk(&format!("1 plan is archived: `provost log {name}` reads it")),
        names => terminal::talk(&format!("{} plans are archived: `provost log NAME` reads one", names.len())),
    }
    for plan in &plans.listed {
        if let Some(trouble) = &plan.card.trouble {
            terminal::talk(&format!("{}: {trouble}", plan.file.display()));
        }
    }
    problems.iter().for_each(|problem| terminal::talk(problem));
    plans.dangling.iter().for_each(|dangling| terminal::talk(&format!("DANGLING: {dangling}")));
    if !plans.listing.copies.is_empty() {
        let copies = match plans.listing.copies.len() {
            1 => "1 conflict copy is".to_owned(),
            count => format!("{count} conflict copies are"),
        };
        terminal::talk(&format!("{copies} next to the plans: `provost doctor` lists them"));
    }
    Ok(Outcome::Done)
}

fn row(plan: &PlanEntry) -> Vec<String> {
    let card = &plan.card;
    let star = if plan.is_active { "*" } else { "" };
    let landed = if card.landed.is_some() { " (landed)" } else { "" };
    let weaker = card.weaker.as_ref().map(|weaker| format!(", {weaker}")).unwrap_or_default();
    vec![
        format!("{}{star}", card.name),
        format!("{}{landed}", terminal::state_word(card.state)),
        format!("{}{weaker}", card.progress()),
        card.depends_on.join(", "),
        card.title.clone(),
    ]
}

#[derive(Serialize)]
struct ListDocument<'p> {
    plans: &'p [PlanEntry],
    archived: &'p [String],
    dangling: Option<&'p str>,
    problems: Vec<String>,
}
