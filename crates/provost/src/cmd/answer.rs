use provost_core::command::HumanCommand;
use provost_core::event::Choice;
use provost_core::plan::StepNumber;
use provost_engine::harness::Access;

use crate::failure::Failure;
use crate::outcome::{Answer, Outcome};
use crate::place::Global;
use crate::terminal;

/// Decide about a step that waits for a person
///
/// retry: try again with fresh retries. skip: waive the step in your name; it never shows as passed.
/// abort: end the plan as failed. revise: send the plan back to draft. confirm: say that a
/// `human` contract holds.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  provost answer 2 retry                    step 2 of the active plan
  provost answer PLAN.md:2 skip --note \"done by hand, see #41\"
  provost answer post retry                 look at the postconditions again")]
pub struct Args {
    /// The step's number, `post` for the postconditions, either with `PLAN:` before it
    id: String,
    choice: ChoiceArg,
    /// Why
    #[arg(long, default_value = "")]
    note: String,
    /// Who answers [default: the user's name]
    #[arg(long, value_name = "NAME")]
    by: Option<String>,
}

#[derive(clap::ValueEnum, Clone, Copy, Debug)]
enum ChoiceArg {
    Retry,
    Skip,
    Abort,
    Revise,
    Confirm,
}

pub fn obey(global: &Global, args: Args) -> Answer {
    let (plan, item) = match args.id.rsplit_once(':') {
        Some((plan, item)) => (Some(plan), item),
        None => (None, args.id.as_str()),
    };
    let step = match item.parse::<u32>() {
        Ok(number) => Some(StepNumber(number)),
        Err(_) if item == "post" => None,
        Err(_) => return Err(Failure::usage(format!("`{item}` is no step"), "Give its number, or `post`.")),
    };
    let harness = global.open(plan, Access::Write)?;
    harness.only_people()?;
    let choice = match args.choice {
        ChoiceArg::Retry => Choice::Retry,
        ChoiceArg::Skip => Choice::Skip,
        ChoiceArg::Abort => Choice::Abort,
        ChoiceArg::Revise => Choice::Revise,
        ChoiceArg::Confirm => Choice::Confirm,
    };
    let note = harness.redactor().text(&args.note).into_owned();
    let by = args.by.unwrap_or_else(terminal::user);
    let run = harness.human(HumanCommand::Answer { step, choice, note, by })?;
    terminal::talk(&format!("the plan is {}; `provost run` goes on", run.stage.word()));
    Ok(Outcome::Done)
}
