use provost_engine::plan::commands;
use std::path::PathBuf;

use provost_core::language::shell_word::quoted;
use provost_core::model::plan::StepNumber;
use provost_engine::manage::fork::{self, ForkOptions};
use provost_engine::settings::Access;
use serde_json::json;

use crate::open_plan::Global;
use crate::outcome::{Answer, Outcome};
use crate::terminal;

/// Fork a plan at a step: run it and the steps after it again, in a new worktree
///
/// Makes a branch with the tree that the step started from, a worktree of that branch, and in it a new plan
/// with the steps from that one on, for another role if you pass --target. The original plan does not
/// change. Run the new plan like any other; `provost compare` shows both.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  provost fork --from 2 --target reviewer           branch and plan NAME-from-2
  provost fork PLAN.md --from 2 --name second-try
  provost run --dir ../app-second-try --jobs 2      then run it
  provost compare PLAN.md second-try                and compare both")]
pub(super) struct Args {
    /// Path or name of the plan [default: the active plan]
    plan: Option<String>,
    /// First step to run again
    #[arg(long, value_name = "STEP")]
    from: u32,
    /// Role for all these steps [default: the role of each step]
    #[arg(long, value_name = "ROLE")]
    target: Option<String>,
    /// Name of the new plan [default: NAME-from-STEP]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Folder of the new worktree [default: next to this one]
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,
}

pub(super) fn obey(global: &Global, args: Args) -> Answer {
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
        let folder = quoted(&forked.folder.display().to_string());
        terminal::talk(&format!(
            "next: `provost run --dir {folder}`; after that, `provost compare {} {name}`",
            quoted(&place.name)
        ));
    }
    Ok(Outcome::Done)
}
