use std::time::Duration;

use provost_engine::manage::stop::{self, StopOutcome};
use provost_engine::plan::commands;
use provost_engine::settings::Access;
use serde_json::json;

use crate::failure::Failure;
use crate::open_plan::Global;
use crate::outcome::{Answer, Outcome};
use crate::terminal;

/// Longest time that a run may take to end its agents and checks.
const PATIENCE: Duration = Duration::from_secs(60);

/// Stop the run of a plan, as Ctrl-C in its terminal does
///
/// Finds the process by the lock that it holds on the plan, asks it to end, and waits until it has ended.
/// `provost run` continues the plan. If no run works on the plan, nothing happens.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  provost stop                        the run of the active plan
  provost stop fix-auth --json        for programs")]
pub(super) struct Args {
    /// Path or name of the plan [default: the active plan]
    plan: Option<String>,
}

pub(super) fn obey(global: &Global, args: Args) -> Answer {
    let harness = global.open(args.plan.as_deref(), Access::Write)?;
    commands::only_people(&harness)?;
    let (pid, outcome) = match stop::stop(&harness, PATIENCE)? {
        StopOutcome::NoRun => {
            terminal::advise(
                "no run works on this plan; `provost queue` shows the plans that a process works on",
            );
            (None, Outcome::Done)
        }
        StopOutcome::Ended(holder) => {
            terminal::advise(&format!(
                "stopped the run (process {}); `provost run` continues the plan",
                holder.pid
            ));
            (Some(holder.pid), Outcome::Done)
        }
        StopOutcome::NotHere(holder, why) => {
            terminal::talk(&format!("not stopped: {holder}: {why}"));
            (None, Outcome::Refused)
        }
        StopOutcome::Ending(holder) => {
            return Err(Failure::Io {
                what: format!("see process {} end within {} seconds", holder.pid, PATIENCE.as_secs()),
                source: std::io::ErrorKind::TimedOut.into(),
            });
        }
    };
    if global.json {
        terminal::print_json(&json!({ "plan": harness.id(), "stopped": pid.is_some(), "pid": pid }))?;
    }
    Ok(outcome)
}
