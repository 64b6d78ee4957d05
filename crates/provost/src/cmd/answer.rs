use provost_core::language::parse;
use provost_core::model::event::Choice;
use provost_core::model::plan::StepNumber;
use provost_core::model::usage::Amount;
use provost_core::rules::command::{HumanCommand, Refusal};
use provost_core::rules::inbox::{self, FailedPart};
use provost_core::state::run::{Run, Stage};
use provost_engine::observe::inbox as listing;
use provost_engine::plan::harness::Harness;
use provost_engine::settings::Access;

use crate::failure::Failure;
use crate::open_plan::Global;
use crate::outcome::{Answer, Outcome};
use crate::terminal;

/// Answer an item that waits for a person
///
/// retry: try again with fresh retries. skip: waive the step in your name; it never shows as passed.
/// abort: end the plan as failed. revise: send the plan back to draft. confirm: confirm that a `human`
/// contract holds. If a budget ran out, retry continues with what is left of it, or under new limits with
/// `--budget`; steps that passed do not run again.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  provost answer e12 retry                  the item that `provost inbox` shows as e12
  provost answer 2 retry                    step 2 of the active plan
  provost answer PLAN.md:2 skip --note \"done by hand, see #41\"
  provost answer post retry                 check the postconditions again
  provost answer 3 retry --budget 'max $3, 400k tokens'   new limits for the budget")]
pub(super) struct Args {
    /// Id from `provost inbox` (`e12`), number of a step, or `post` for the postconditions; write `PLAN:`
    /// before it to name the plan
    id: String,
    choice: ChoiceArg,
    /// Reason, for the log
    #[arg(long, default_value = "")]
    note: String,
    /// With retry, if a budget ran out: its new limits; limits that you leave out stay
    #[arg(long, value_name = "LIMITS", value_parser = limits)]
    budget: Option<Amount>,
    /// Name to record in the log [default: your user name]
    #[arg(long, value_name = "NAME")]
    by: Option<String>,
}

/// Parses limits as they are written in a plan.
fn limits(text: &str) -> Result<Amount, String> {
    let form = "write them as `max 200k tokens, $1.50, 20 minutes`";
    parse::budget(text).map(Amount::from).map_err(|part| format!("cannot read `{part}`; {form}"))
}

#[derive(clap::ValueEnum, Clone, Copy, Debug)]
enum ChoiceArg {
    Retry,
    Skip,
    Abort,
    Revise,
    Confirm,
}

pub(super) fn obey(global: &Global, args: Args) -> Answer {
    let choice = match args.choice {
        ChoiceArg::Retry => Choice::Retry,
        ChoiceArg::Skip => Choice::Skip,
        ChoiceArg::Abort => Choice::Abort,
        ChoiceArg::Revise => Choice::Revise,
        ChoiceArg::Confirm => Choice::Confirm,
    };
    let (harness, step) = match inbox::is_id(&args.id) {
        true => by_item(global, &args.id, choice)?,
        false => by_step(global, &args.id)?,
    };
    provost_engine::plan::commands::only_people(&harness)?;
    let note = harness.redactor().text(&args.note).into_owned();
    let by = args.by.unwrap_or_else(terminal::user);
    let command = match (args.budget, step, choice) {
        (None, step, choice) => HumanCommand::Answer { step, choice, note, by },
        (Some(budget), Some(step), Choice::Retry) => HumanCommand::Raise { step, budget, note, by },
        (Some(_), ..) => {
            return Err(Failure::usage(
                "`--budget` needs `retry` and a step".to_owned(),
                "`provost inbox` shows which step waits for a budget.",
            ));
        }
    };
    let run = provost_engine::plan::commands::human(&harness, command)?;
    if global.json {
        let answered = serde_json::json!({
            "plan": harness.id(), "step": step, "choice": choice, "stage": run.stage.word(),
        });
        terminal::print(&format!("{answered}\n"))?;
    } else {
        terminal::advise(&format!("the plan is {}; {}", run.stage.word(), next(&run)));
    }
    Ok(Outcome::Done)
}

fn next(run: &Run) -> String {
    match run.stage {
        Stage::Failed | Stage::Done => match FailedPart::of(run) {
            Some(part) => {
                format!("nothing more runs. To take that back: `provost answer {} retry`", part.id())
            }
            None => "nothing more runs".to_owned(),
        },
        Stage::Draft => "change it, then run `provost run` to approve it again".to_owned(),
        Stage::Verified | Stage::Approved | Stage::InProgress => "`provost run` continues it".to_owned(),
    }
}

/// Finds an inbox item by its id: first in this repository, then in all of them.
fn by_item(global: &Global, typed: &str, choice: Choice) -> Result<(Harness, Option<StepNumber>), Failure> {
    for everywhere in [false, true] {
        let listing = listing::list(&global.settings(None)?, everywhere)?;
        match inbox::named(&listing.items, typed).as_slice() {
            [] => {}
            [item] if item.kind.is_at_gate() => {
                let commands: Vec<&str> = item.choices.iter().map(|offer| offer.command.as_str()).collect();
                return Err(Failure::usage(
                    format!("`{}` does not fit an item that waits at the gate", choice.word()),
                    format!("Use one of: {}.", commands.join(" · ")),
                ));
            }
            [item] => {
                let harness = listing::open(global.settings(None)?, item, Access::Write)?;
                global.keep_for_hints(listing::path_from(&global.cwd()?, &harness).as_deref());
                return Ok((harness, item.step));
            }
            several => {
                let ids: Vec<String> = several.iter().map(|item| item.id.to_string()).collect();
                return Err(Failure::usage(
                    format!("`{typed}` is ambiguous: {}", ids.join(" or ")),
                    "Use the whole id.",
                ));
            }
        }
    }
    Err(provost_engine::Error::from(Refusal::NoSuchItem { id: typed.to_owned() }).into())
}

/// Finds a step by its number, or the postconditions by `post`; the plan's name may come before it.
fn by_step(global: &Global, typed: &str) -> Result<(Harness, Option<StepNumber>), Failure> {
    let (plan, item) = match typed.rsplit_once(':') {
        Some((plan, item)) => (Some(plan), item),
        None => (None, typed),
    };
    let step = match item.parse::<u32>() {
        Ok(number) => Some(StepNumber(number)),
        Err(_) if item == "post" => None,
        Err(_) => {
            return Err(Failure::usage(
                format!("`{item}` is neither an inbox item nor a step"),
                "Use an id from `provost inbox` such as `e12`, a step's number, or `post`.",
            ));
        }
    };
    Ok((global.open(plan, Access::Write)?, step))
}
