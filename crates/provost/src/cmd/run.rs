use provost_core::run::{Run, Stage};
use provost_engine::drive::Rest;
use provost_engine::harness::{Access, Harness};

use crate::failure::Failure;
use crate::outcome::{Answer, Outcome};
use crate::place::Global;
use crate::terminal::{self, Gate, Live};

/// Verify, gate and execute the plan; the same command resumes it
///
/// Each step goes to a fresh agent; when the agent is gone, the harness runs the step's contract. What
/// does not hold is retried with what the judge saw, or waits for a person, as the plan says.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  provost run PLAN.md                 ask at the gate, then run
  provost run --jobs 2                independent steps side by side
  provost run --json                  one event a line")]
pub struct Args {
    /// A path, a name, or nothing for the active plan
    plan: Option<String>,
    /// How many independent steps may run side by side
    #[arg(long, short, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    jobs: u16,
}

pub fn obey(global: &Global, args: Args) -> Answer {
    let harness = global.open(args.plan.as_deref(), Access::Write)?;
    harness.only_people()?;
    let (run, reading) = match harness.bring_up() {
        Ok(brought) => brought,
        Err(provost_engine::Error::Diagnosed { text, diagnostics }) => {
            let colour = terminal::colour_on_stderr();
            let name = &harness.place().name;
            terminal::talk(&crate::diagnose::terminal(&text, name, &diagnostics, colour));
            return Ok(Outcome::Diagnosed);
        }
        Err(error) => return Err(error.into()),
    };
    match run.stage {
        Stage::Done | Stage::Failed => return rested(&run),
        Stage::Draft | Stage::Verified | Stage::Approved | Stage::InProgress => {}
    }
    harness.ready_to_drive(&run)?;
    let run = match gate(&harness, run, reading.as_ref())? {
        Passage::Open(run) => run,
        Passage::Closed(outcome) => return Ok(outcome),
    };
    let live = Live::new(global.json, &run);
    // The drive reads the log for itself; a large plan need not be held three times.
    drop((run, reading));
    drive(&harness, live, usize::from(args.jobs))
}

enum Passage {
    Open(Box<Run>),
    Closed(Outcome),
}

/// A policy that covers the plan, a person at a terminal, or nobody: then the plan waits.
fn gate(
    harness: &Harness,
    run: Run,
    reading: Option<&provost_engine::reading::Reading>,
) -> Result<Passage, Failure> {
    if run.stage != Stage::Verified {
        return Ok(Passage::Open(Box::new(run)));
    }
    let (run, hearing) = harness.ask_policies(&run)?;
    if run.stage != Stage::Verified {
        return Ok(Passage::Open(Box::new(run)));
    }
    for line in hearing.silent {
        terminal::talk(&line);
    }
    let run = harness.request_approval()?;
    if !terminal::is_interactive() {
        terminal::talk(&format!(
            "the plan waits for approval: `provost show`, then `provost approve --revision {}`",
            run.revision.short()
        ));
        return Ok(Passage::Closed(Outcome::Waiting));
    }
    Ok(match terminal::gate(harness, &run, reading, terminal::user())? {
        Gate::Approved(run) => Passage::Open(run),
        Gate::Rejected => Passage::Closed(Outcome::Refused),
        Gate::Waiting => Passage::Closed(Outcome::Waiting),
    })
}

fn drive(harness: &Harness, mut live: Live, jobs: usize) -> Answer {
    let (run, rest) = harness.drive(jobs, &mut |run, sealed, event| live.event(run, sealed, event))?;
    live.end();
    match rest {
        Rest::Nothing => rested(&run),
        Rest::Interrupted => {
            terminal::talk("interrupted; the same command goes on");
            Ok(Outcome::Interrupted)
        }
        Rest::LawChanged(changes) => {
            terminal::talk("stopped before the next step: the plan file is not what was approved");
            for change in changes {
                terminal::talk(&format!("  {change}"));
            }
            terminal::talk("restore it, or run again to have the new text verified and approved");
            Ok(Outcome::Waiting)
        }
    }
}

/// The run is at rest by itself: say where.
fn rested(run: &Run) -> Answer {
    Ok(match run.stage {
        Stage::Done => Outcome::Done,
        Stage::Failed => {
            terminal::talk("the plan has failed; `provost status` says where, `provost answer` goes on");
            Outcome::PlanFailed
        }
        Stage::Draft => {
            terminal::talk("the plan went back to draft");
            Outcome::Waiting
        }
        Stage::Verified | Stage::Approved | Stage::InProgress => {
            terminal::talk("waiting for a person: `provost status` says for what");
            Outcome::Waiting
        }
    })
}
