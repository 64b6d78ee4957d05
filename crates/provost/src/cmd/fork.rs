use provost_engine::plan::commands;
use std::path::PathBuf;

use provost_core::model::plan::StepNumber;
use provost_engine::manage::fork;
use provost_engine::manage::fork::ForkOptions;
use provost_engine::settings::Access;
use serde_json::json;

use crate::open_plan::Global;
use crate::outcome::{Answer, Outcome};
use crate::terminal;

/// Run the rest of a plan again, from where a step began, side by side
///
/// Makes a branch with the tree the step was first given, a worktree of it, and in it a plan of its own: the
/// steps from that one on, for another role if you say so. The plan it comes from stays as it is. Run the
/// new one like any other; `provost compare` shows both.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  provost fork --from 2 --target reviewer           branch and plan NAME-from-2
  provost fork PLAN.md --from 2 --name second-try
  provost run --dir ../app-second-try --jobs 2      then run it
  provost compare PLAN.md second-try                and look at both")]
pub struct Args {
    /// A path, a name, or nothing for the active plan
    plan: Option<String>,
    /// The first step that is run again
    #[arg(long, value_name = "STEP")]
    from: u32,
    /// The role that carries all of them out [default: their own]
    #[arg(long, value_name = "ROLE")]
    target: Option<String>,
    /// What the new plan is called [default: NAME-from-STEP]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Where its worktree is made [default: beside this one]
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,
}

pub fn obey(global: &Global, args: Args) -> Answer {
    let harness = global.open(args.plan.as_deref(), Access::Write)?;
    commands::only_people(&harness)?;
    let place = harness.place();
    let name =
        args.name.unwrap_or_else(|| format!("{}-from-{}", place.slug.replace(['.', '_'], "-"), args.from));
    let beside = || {
        let own = place.workspace.file_name().unwrap_or_default().to_string_lossy();
        place.workspace.with_file_name(format!("{own}-{name}"))
    };
    let folder = match args.folder {
        Some(folder) => global.cwd()?.join(folder),
        None => beside(),
    };
    let wanted = ForkOptions {
        from: StepNumber(args.from),
        target: args.target,
        name: name.clone(),
        folder,
        by: terminal::user(),
        home: std::env::var_os("HOME").map(Into::into),
    };
    let forked = fork::make(&harness, &wanted)?;
    if global.json {
        let answer = json!({
            "plan": harness.id(), "from": args.from, "name": name, "branch": forked.branch,
            "commit": forked.commit, "folder": forked.folder, "file": forked.plan,
        });
        terminal::print(&format!("{answer}\n"))?;
    } else {
        terminal::print(&format!("{} on branch {}\n", forked.plan.display(), forked.branch))?;
        let folder = forked.folder.display();
        terminal::talk(&format!(
            "next: `provost run --dir {folder}`, then `provost compare {} {name}`",
            place.name
        ));
    }
    Ok(Outcome::Done)
}
