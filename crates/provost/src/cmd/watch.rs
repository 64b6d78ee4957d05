use std::io::IsTerminal as _;

use provost_engine::plan::plan_registry;

use crate::failure::Failure;
use crate::open_plan::Global;
use crate::outcome::Answer;
use crate::watch::Options;
use crate::{terminal, watch};

/// Watch plans and decide in the terminal: agenda, plan, log, inbox
///
/// The screen updates by itself. Approvals and answers work like `provost approve` and `provost answer`, and
/// each asks for confirmation. `?` lists the keys. Quitting stops no run.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  provost watch                       every plan of the state folder
  provost watch PLAN.md               open this plan first
  provost watch --here                only plans of this repository
  provost watch --no-color            without colours, like NO_COLOR=1")]
pub(super) struct Args {
    /// Path or name of the plan to open first
    plan: Option<String>,
    /// Only plans of this repository
    #[arg(long)]
    here: bool,
    /// Use no colours [default: follow NO_COLOR]
    #[arg(long)]
    no_color: bool,
    /// Do not use the mouse
    #[arg(long)]
    no_mouse: bool,
    /// Name to record in the log [default: your user name]
    #[arg(long, value_name = "NAME")]
    by: Option<String>,
}

pub(super) fn obey(global: &Global, args: Args) -> Answer {
    const ELSEWHERE: &str = "Use `provost status` or `provost log --follow`; both have --json.";
    if global.json {
        return Err(Failure::usage("`watch` draws on a terminal and has no --json output", ELSEWHERE));
    }
    if !std::io::stdout().is_terminal() || !std::io::stdin().is_terminal() {
        return Err(Failure::usage("`watch` needs a terminal, on standard input and output", ELSEWHERE));
    }
    if std::env::var_os("TERM").is_some_and(|term| term == "dumb") {
        return Err(Failure::usage("`watch` cannot draw on this terminal (TERM=dumb)", ELSEWHERE));
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
