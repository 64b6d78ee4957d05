use provost_core::model::plan::StepNumber;
use provost_core::rules::command::HumanCommand;
use provost_engine::observe::notifier;
use provost_engine::plan::{commands, recording};
use provost_engine::settings::Access;

use crate::open_plan::Global;
use crate::outcome::{Answer, Outcome};
use crate::terminal;

/// Hold the plan at the gate with a question
///
/// The plan waits until you amend or approve it; until then no policy approves it.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  provost ask --question \"What does 'sync' mean?\" --step 2")]
pub(super) struct Args {
    /// Path or name of the plan [default: the active plan]
    plan: Option<String>,
    /// The question
    #[arg(long, short)]
    question: String,
    /// Number of the step that it is about [default: the whole plan]
    #[arg(long, value_name = "STEP")]
    step: Option<u32>,
    /// Name to record in the log [default: your user name]
    #[arg(long, value_name = "NAME")]
    by: Option<String>,
}

pub(super) fn obey(global: &Global, args: Args) -> Answer {
    let harness = global.open(args.plan.as_deref(), Access::Write)?;
    commands::only_people(&harness)?;
    recording::bring_up(&harness)?;
    let question = harness.redactor().text(&args.question).into_owned();
    let by = args.by.unwrap_or_else(terminal::user);
    let run = commands::human(&harness, HumanCommand::Ask { question, by, step: args.step.map(StepNumber) })?;
    let notices = notifier::notices(&harness)?;
    notices.look(&run);
    notices.finish().iter().for_each(|line| terminal::talk(line));
    terminal::advise("the plan waits at the gate; answer with `provost amend` or `provost approve`");
    Ok(Outcome::Done)
}
