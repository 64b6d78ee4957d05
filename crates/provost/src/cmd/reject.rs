use provost_core::rules::command::HumanCommand;
use provost_engine::plan::{commands, recording};
use provost_engine::settings::Access;

use crate::open_plan::Global;
use crate::outcome::{Answer, Outcome};
use crate::terminal;

/// Send the plan back to draft, with a reason
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  provost reject --reason \"wrong approach: keep the public API\"")]
pub(super) struct Args {
    /// Path or name of the plan [default: the active plan]
    plan: Option<String>,
    /// Reason, for the log and the next revision
    #[arg(long, short)]
    reason: String,
    /// Name to record in the log [default: your user name]
    #[arg(long, value_name = "NAME")]
    by: Option<String>,
}

pub(super) fn obey(global: &Global, args: Args) -> Answer {
    let harness = global.open(args.plan.as_deref(), Access::Write)?;
    commands::only_people(&harness)?;
    let reason = harness.redactor().text(&args.reason).into_owned();
    let by = args.by.unwrap_or_else(terminal::user);
    // Record a new plan first: the log needs it before a rejection.
    if !harness.run()?.exists() {
        recording::bring_up(&harness)?;
    }
    provost_engine::plan::commands::human(&harness, HumanCommand::Reject { reason, by })?;
    terminal::advise("rejected: the plan is a draft again; change it with `provost amend`");
    Ok(Outcome::Done)
}
