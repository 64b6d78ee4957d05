use std::io::IsTerminal as _;

use provost_engine::plan::plan_registry;

use crate::failure::Failure;
use crate::open_plan::Global;
use crate::outcome::Answer;
use crate::watch::Options;
use crate::{terminal, watch};

/// Watch plans in the terminal, and decide: agenda, plan, log, inbox
///
/// Live: what happens shows by itself. Approvals and answers go by the same door as `provost approve` and
/// `provost answer`, and each is asked for once more. `?` lists the keys. Quitting stops nothing.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  provost watch                       every plan of the state folder
  provost watch PLAN.md               open this plan first
  provost watch --here                only plans of this repository
  provost watch --no-color            the same without colours, as with NO_COLOR=1")]
pub struct Args {
    /// A plan to open first: a path or a name
    plan: Option<String>,
    /// Only plans of this repository
    #[arg(long)]
    here: bool,
    /// Without colours [default: as NO_COLOR says]
    #[arg(long)]
    no_color: bool,
    /// Leave the mouse to the terminal
    #[arg(long)]
    no_mouse: bool,
    /// Who decides [default: the user's name]
    #[arg(long, value_name = "NAME")]
    by: Option<String>,
}

pub fn obey(global: &Global, args: Args) -> Answer {
    const ELSEWHERE: &str =
        "`provost status` says where a plan stands, `provost log --follow` what happens; both have --json.";
    if global.json {
        return Err(Failure::usage("`watch` draws on a terminal and has nothing for programs", ELSEWHERE));
    }
    if !std::io::stdout().is_terminal() || !std::io::stdin().is_terminal() {
        return Err(Failure::usage("`watch` needs a terminal, on standard input and output", ELSEWHERE));
    }
    if std::env::var_os("TERM").is_some_and(|term| term == "dumb") {
        return Err(Failure::usage("this terminal (TERM=dumb) cannot be drawn on", ELSEWHERE));
    }
    let settings = global.settings_without_signals(None)?;
    let plan = match args.plan.as_deref() {
        Some(plan) => Some(plan_registry::id(&plan_registry::resolve(Some(plan), &settings.cwd)?)),
        None => None,
    };
    let options = Options {
        plan,
        here: args.here,
        colour: !args.no_color && terminal::colour_on_stdout(),
        mouse: !args.no_mouse,
        by: args.by.unwrap_or_else(terminal::user),
    };
    watch::look(settings, options)
}
