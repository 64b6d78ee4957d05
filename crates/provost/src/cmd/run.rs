use provost_core::inbox::{self, Kind};
use provost_core::run::{Run, Stage};
use provost_engine::drive::Rest;
use provost_engine::harness::{Access, Harness};
use provost_engine::inbox::Woken;
use provost_engine::notice::Notices;

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
  provost run --wait                  stay until it is done, whoever has to answer first
  provost run --json                  one event a line")]
pub struct Args {
    /// A path, a name, or nothing for the active plan
    plan: Option<String>,
    /// How many independent steps may run side by side
    #[arg(long, short, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    jobs: u16,
    /// Stay when a person is waited for, and go on when they have answered
    #[arg(long, short)]
    wait: bool,
}

pub fn obey(global: &Global, args: Args) -> Answer {
    let harness = global.open(args.plan.as_deref(), Access::Write)?;
    harness.only_people()?;
    let notices = harness.notices()?;
    notices.silent.iter().for_each(|line| terminal::talk(line));
    let answer = run(global, &harness, &notices, &args);
    notices.finish().iter().for_each(|line| terminal::talk(line));
    answer
}

/// Until it rests, or, if that is wanted, until nobody has to be waited for any more.
fn run(global: &Global, harness: &Harness, notices: &Notices<'_>, args: &Args) -> Answer {
    loop {
        let (outcome, waits) = once(global, harness, notices, usize::from(args.jobs))?;
        if !args.wait || outcome != Outcome::Waiting {
            return Ok(outcome);
        }
        if !waits {
            continue;
        }
        terminal::talk("staying until somebody has answered; Ctrl-C ends that, and the same command goes on");
        match harness.wait_for_a_person(notices)? {
            Woken::GoOn => {}
            Woken::Draft => {
                terminal::talk("the plan went back to draft");
                return Ok(Outcome::Refused);
            }
            Woken::Interrupted => {
                terminal::talk("interrupted; the same command goes on");
                return Ok(Outcome::Interrupted);
            }
        }
    }
}

/// As far as it goes without a person. Whether one is waited for comes along: where the plan file is not
/// what was approved, there is nobody to be waited for yet.
fn once(
    global: &Global,
    harness: &Harness,
    notices: &Notices<'_>,
    jobs: usize,
) -> Result<(Outcome, bool), Failure> {
    let (run, reading) = match harness.bring_up() {
        Ok(brought) => brought,
        Err(provost_engine::Error::Diagnosed { text, diagnostics }) => {
            let colour = terminal::colour_on_stderr();
            let name = &harness.place().name;
            terminal::talk(&crate::diagnose::terminal(&text, name, &diagnostics, colour));
            return Ok((Outcome::Diagnosed, false));
        }
        Err(error) => return Err(error.into()),
    };
    match run.stage {
        Stage::Done | Stage::Failed => return Ok((rested(harness, &run)?, true)),
        Stage::Draft | Stage::Verified | Stage::Approved | Stage::InProgress => {}
    }
    harness.ready_to_drive(&run)?;
    let run = match gate(harness, notices, run, reading.as_ref())? {
        Passage::Open(run) => run,
        Passage::Closed(outcome) => return Ok((outcome, true)),
    };
    let live = Live::new(global.json, &run);
    // The drive reads the log for itself; a large plan need not be held three times.
    drop((run, reading));
    drive(harness, notices, live, jobs)
}

enum Passage {
    Open(Box<Run>),
    Closed(Outcome),
}

/// A policy that covers the plan, a person at a terminal, or nobody: then the plan waits.
fn gate(
    harness: &Harness,
    notices: &Notices<'_>,
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
    notices.look(&run);
    if !terminal::is_interactive() {
        terminal::talk(&format!(
            "the plan waits for approval: `provost show`, then `provost approve --revision {}`; it is in `provost inbox`",
            run.revision.short()
        ));
        return Ok(Passage::Closed(Outcome::Waiting));
    }
    Ok(match terminal::gate(harness, &run, reading, terminal::user())? {
        Gate::Approved(run) => Passage::Open(run),
        Gate::Rejected => Passage::Closed(Outcome::Refused),
        Gate::Waiting => {
            // What was said may have been a question.
            notices.look(&harness.run()?);
            Passage::Closed(Outcome::Waiting)
        }
    })
}

fn drive(
    harness: &Harness,
    notices: &Notices<'_>,
    mut live: Live,
    jobs: usize,
) -> Result<(Outcome, bool), Failure> {
    let (run, rest) = harness.drive(jobs, &mut |run, sealed, event| {
        live.event(run, sealed, event);
        notices.hear(run, event);
    })?;
    live.end();
    match rest {
        Rest::Nothing => {
            notices.look(&run);
            Ok((rested(harness, &run)?, true))
        }
        Rest::Interrupted => {
            terminal::talk("interrupted; the same command goes on");
            Ok((Outcome::Interrupted, false))
        }
        Rest::LawChanged(changes) => {
            terminal::talk("stopped before the next step: the plan file is not what was approved");
            for change in changes {
                terminal::talk(&format!("  {change}"));
            }
            terminal::talk("restore it, or run again to have the new text verified and approved");
            Ok((Outcome::Waiting, false))
        }
    }
}

/// The run is at rest by itself: say where, and what waits.
fn rested(harness: &Harness, run: &Run) -> Answer {
    let items = harness.items(run)?;
    let outcome = match run.stage {
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
            terminal::talk("waiting for a person: `provost inbox` says for what");
            Outcome::Waiting
        }
    };
    for item in &items {
        let choices: Vec<&str> = item.choices.iter().map(|offer| offer.choice).collect();
        let id = inbox::short(&items, item);
        let answer = match item.kind {
            Kind::Approval | Kind::Question => "provost approve".to_owned(),
            _ => format!("provost answer {id} {}", choices.join("|")),
        };
        terminal::talk(&format!("  {item}\n    {answer}; `provost inbox {id}` says more"));
    }
    Ok(outcome)
}
