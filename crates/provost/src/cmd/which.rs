use provost_engine::plan::plan_registry;
use provost_engine::settings::Access;
use provost_engine::{Error, PlanFileError};
use serde_json::json;

use crate::failure::Failure;
use crate::open_plan::Global;
use crate::outcome::{Answer, Outcome};
use crate::terminal;

/// Show which plan a command uses, and why
///
/// provost uses the plan that you name, else the one that the marker `.harness/active-plan` of this worktree
/// names, else `PLAN.md` if it is the only one. A marker that cannot be resolved is an error: provost does
/// not fall back to another plan.
///
/// With --porcelain (for scripts), prints the paths of the plan and of its progress file, separated by a
/// tab. Exit code 0: resolved; 1: there is no plan folder here; 2: the plan cannot be resolved, and nothing
/// is printed.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  provost which                       the active plan
  provost which fix-auth --json       for programs
  IFS=$'\\t' read -r plan progress < <(provost which --plan fix-auth --porcelain)")]
pub(super) struct Args {
    /// Path or name of the plan [default: the active plan]
    plan: Option<String>,
    /// Name of the plan (`foo` or `PLAN-foo.md`), never a path
    #[arg(long = "plan", value_name = "PLAN", conflicts_with = "plan")]
    named: Option<String>,
    /// Print the two paths, separated by a tab
    #[arg(long, conflicts_with = "json")]
    porcelain: bool,
}

pub(super) fn obey(global: &Global, args: Args) -> Answer {
    if args.porcelain || args.named.is_some() {
        return bridge(global, &args);
    }
    let harness = global.open(args.plan.as_deref(), Access::Read)?;
    let place = harness.place();
    if global.json {
        let answer = json!({
            "plan": harness.id(), "name": place.name, "path": place.path, "progress": place.progress,
            "workspace": place.workspace, "why": place.why.to_string(),
        });
        terminal::print(&format!("{answer}\n"))?;
    } else {
        terminal::print(&format!("{}\n", place.path.display()))?;
        terminal::talk(&format!("{}; workspace {}", place.why, place.workspace.display()));
    }
    Ok(Outcome::Done)
}

/// Prints the paths for other programs. Reads only, and does not open the log.
fn bridge(global: &Global, args: &Args) -> Answer {
    let cwd = global.cwd()?;
    let resolved = match (&args.named, &args.plan) {
        (None, Some(argument)) => plan_registry::resolve(Some(argument), &cwd),
        (named, _) => plan_registry::resolve_named(named.as_deref(), &cwd),
    };
    let place = match resolved {
        Err(Error::PlanFile(error @ PlanFileError::NoFolder { .. })) => {
            terminal::talk(&error.to_string());
            return Ok(Outcome::NoFolder);
        }
        resolved => resolved?,
    };
    let (plan, progress) = (place.path.display().to_string(), place.progress.display().to_string());
    if global.json {
        let answer = json!({
            "plan": plan_registry::id(&place), "name": place.name, "path": plan, "progress": progress,
            "workspace": place.workspace, "why": place.why.to_string(),
        });
        terminal::print(&format!("{answer}\n"))?;
        return Ok(Outcome::Done);
    }
    if [&plan, &progress].iter().any(|path| path.contains(['\t', '\n'])) {
        return Err(Failure::usage(
            format!("{plan:?} contains a tab or a line break, so --porcelain cannot print it"),
            "Use --json.",
        ));
    }
    terminal::print(&format!("{plan}\t{progress}\n"))?;
    Ok(Outcome::Done)
}
