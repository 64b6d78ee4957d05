use provost_core::model::plan::StepNumber;
use provost_engine::run::run_plan;
use provost_engine::settings::Access;
use serde_json::json;

use crate::failure::Failure;
use crate::open_plan::Global;
use crate::outcome::{Answer, Outcome};
use crate::terminal;

/// Run the contract of a passed step again, on the tree it passed on, and compare
///
/// Records nothing. Exit code 1 if the result differs from the recorded one.
#[derive(clap::Args, Debug)]
#[command(
    override_usage = "provost recheck [OPTIONS] [PLAN] <STEP>",
    after_help = "\
Examples:
  provost recheck 2                   step 2 of the active plan
  provost recheck PLAN.md 2 --json    for programs"
)]
pub(super) struct Args {
    /// Path or name of the plan [default: the active plan], and the number of the step
    #[arg(num_args = 0..=2, value_names = ["PLAN", "STEP"])]
    what: Vec<String>,
}

pub(super) fn obey(global: &Global, args: Args) -> Answer {
    let (plan, step) = match args.what.as_slice() {
        [plan, step] => (Some(plan.as_str()), step),
        [step, ..] => (None, step),
        [] => return Err(Failure::usage("no step given", "For example: provost recheck 2")),
    };
    let Ok(step) = step.parse() else {
        return Err(Failure::usage(
            format!("`{step}` is not the number of a step"),
            "For example: provost recheck 2",
        ));
    };
    let harness = global.open(plan, Access::Write)?;
    let found = run_plan::recheck(&harness, StepNumber(step))?;
    let Some(now) = found.now else { return Ok(Outcome::Interrupted) };
    let same = now.outcome == found.recorded.outcome;
    if global.json {
        let answer = json!({ "plan": harness.id(), "step": step, "same": same, "recorded": found.recorded, "now": now });
        terminal::print(&format!("{answer}\n"))?;
    } else {
        let tree = now.tree.as_ref().map_or("the workspace".to_owned(), |tree| {
            format!("tree {}", tree.id.chars().take(12).collect::<String>())
        });
        let word = if same { "the same" } else { "NOT the same" };
        terminal::print(&format!(
            "{word}: then {}, now {} ({}, {tree})\n",
            found.recorded.outcome, now.outcome, now.isolation
        ))?;
        let environments = found.recorded.environment.as_ref().zip(now.environment.as_ref());
        if let Some(difference) = environments.and_then(|(then, now)| then.difference(now)) {
            terminal::print(&format!("the check ran in a different environment: {difference}\n"))?;
        }
    }
    Ok(if same { Outcome::Done } else { Outcome::PlanFailed })
}
