use provost_core::state::run::Stage;
use provost_engine::observe::agenda::{self, PlanEntry};
use serde_json::{Value, json};

use crate::open_plan::Global;
use crate::outcome::{Answer, Outcome};
use crate::{table, terminal};

/// List all plans of the repository, with their stages
///
/// Plans are `PLAN.md` and `PLAN-NAME.md` in the plan folder and at the root of the repository. A star
/// marks the active plan, which commands use if you name none.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  provost list                        every plan, its stage and its dependencies
  provost list --json                 for programs")]
pub struct Args {}

pub fn obey(global: &Global, _args: Args) -> Answer {
    let plans = agenda::read(&global.settings(None)?)?;
    let problems: Vec<String> = plans.agenda.problems().iter().map(ToString::to_string).collect();
    if global.json {
        let listed: Vec<Value> = plans.listed.iter().map(as_json).collect();
        let answer = json!({ "plans": listed, "dangling": plans.dangling, "problems": problems });
        terminal::print(&format!("{answer}\n"))?;
        return Ok(Outcome::Done);
    }
    let rows: Vec<Vec<String>> = plans.listed.iter().map(row).collect();
    if rows.is_empty() {
        terminal::talk(&format!(
            "no plans in {}; `provost new NAME` creates one",
            plans.listing.folder.display()
        ));
    } else {
        terminal::print(&table::lines(&["PLAN", "STAGE", "STEPS", "AFTER", "TITLE"], &rows))?;
    }
    for plan in &plans.listed {
        if let Some(trouble) = &plan.trouble {
            terminal::talk(&format!("{}: {trouble}", plan.path.display()));
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
    let star = if plan.is_active { "*" } else { "" };
    let more = match &plan.landed {
        _ if plan.is_running() => " (running)".to_owned(),
        Some(_) => " (landed)".to_owned(),
        None if plan.waits_for_person => " (waits for a person)".to_owned(),
        None if plan.stage == Stage::InProgress => " (idle)".to_owned(),
        None => String::new(),
    };
    let weaker = plan.weaker.as_ref().map(|weaker| format!(", {weaker}")).unwrap_or_default();
    vec![
        format!("{}{star}", plan.name),
        format!("{}{more}", plan.stage.word()),
        format!("{}/{}{weaker}", plan.done, plan.total),
        plan.depends_on.join(", "),
        plan.title.clone(),
    ]
}

fn as_json(plan: &PlanEntry) -> Value {
    json!({
        "plan": plan.id, "name": plan.name, "path": plan.path, "progress": plan.progress,
        "title": plan.title, "stage": plan.stage.word(), "landed": plan.landed, "done": plan.done, "total": plan.total,
        "weaker": plan.weaker, "waits_for_person": plan.waits_for_person,
        "depends_on": plan.depends_on, "touches": plan.touches, "active": plan.is_active,
        "running": plan.is_running(), "worktrees": plan.worktrees, "trouble": plan.trouble,
    })
}
