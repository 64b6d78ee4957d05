use std::path::PathBuf;
use std::time::{Duration, Instant};

use provost_core::model::plan::StepNumber;
use provost_core::rules::command::Refusal;
use provost_core::state::run::{Run, StepState};
use provost_engine::Error;
use provost_engine::exec::proof_map::{MadeMap, MapEvent, MapSettings};
use provost_engine::plan::harness::Harness;
use provost_engine::run::proved;
use provost_engine::settings::Access;
use provost_engine::{Put, write_report};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::open_plan::{Global, PlanWords};
use crate::outcome::{Answer, Outcome};
use crate::{proof_lines, terminal};

/// Show which parts of a step's change its contract proves
///
/// Takes each hunk of the change out of the tree that was judged, or puts a small sabotage into it, and runs
/// the contract in the same sandbox. A hunk is proved if the contract fails then. This is a lower bound: a
/// proved hunk is one that the contract notices, which does not make it right. Records nothing in the log;
/// results are kept, and no run is repeated.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  provost proved                      every step of the active plan that has passed
  provost proved 2                    step 2 of the active plan
  provost proved PLAN.md 2 --all      also tests, documents and configuration
  provost proved 2 --time-limit 2m    what is found in two minutes
  provost proved 2 --sarif            the unproved hunks, for code scanning

Marks: ✓ proved · ✗ unproved · ? not buildable alone · – not tried")]
pub(super) struct Args {
    #[command(flatten)]
    words: PlanWords,
    /// Number of runs at the same time [default: the number of cores]
    #[arg(long, short, value_parser = clap::value_parser!(u16).range(1..=64))]
    jobs: Option<u16>,
    /// Longest time for all runs together
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = humantime::parse_duration)]
    time_limit: Duration,
    /// Try also tests, documents and configuration
    #[arg(long)]
    all: bool,
    /// Write the unproved hunks as SARIF 2.1.0 to this file, or print them
    #[arg(
        long,
        value_name = "FILE",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "-",
        conflicts_with = "json"
    )]
    sarif: Option<PathBuf>,
}

/// A step with its map.
type StepMap = (StepNumber, MadeMap);

pub(super) fn obey(global: &Global, args: Args) -> Answer {
    let (plan, step) = args.words.meant();
    let harness = global.open(plan, Access::Read)?;
    let run = harness.run()?;
    let maps = match step {
        Some(step) => vec![(step, made(&harness, step, &args, args.time_limit)?)],
        None => every(&harness, &run, &args)?,
    };
    if maps.is_empty() {
        terminal::advise("no step of this plan has passed by a command yet; start it with `provost run`");
    }
    print(global, &harness, &run, &args, &maps)?;
    Ok(match () {
        () if maps.iter().any(|(_, made)| made.interrupted) => Outcome::Interrupted,
        () if maps.iter().any(|(_, made)| made.broken.is_some()) => Outcome::PlanFailed,
        () => Outcome::Done,
    })
}

fn print(
    global: &Global,
    harness: &Harness,
    run: &Run,
    args: &Args,
    maps: &[StepMap],
) -> Result<(), Failure> {
    if let Some(path) = &args.sarif {
        let sarif = format!("{:#}\n", proof_lines::sarif(maps));
        return match path.as_os_str() == "-" {
            true => terminal::print(&sarif),
            false => write_report(&harness.place().workspace, path, sarif.as_bytes(), Put::Whole)
                .map_err(|source| Failure::Io { what: format!("write {}", path.display()), source }),
        };
    }
    if global.json {
        let steps: Vec<Value> = maps.iter().map(|(step, made)| proof_lines::json(*step, made)).collect();
        return terminal::print(&format!("{}\n", json!({ "plan": harness.id(), "steps": steps })));
    }
    let texts = maps.iter().map(|(step, made)| {
        let title = run.title(*step).unwrap_or_default();
        proof_lines::text(&format!("step {step}: {title}"), made)
    });
    terminal::print(&texts.collect::<Vec<_>>().join("\n"))
}

/// Makes the maps of all steps that passed, within the time limit of all together.
fn every(harness: &Harness, run: &Run, args: &Args) -> Result<Vec<StepMap>, Failure> {
    let ends = Instant::now() + args.time_limit;
    let mut found = Vec::new();
    let passed = run.steps().filter(|(_, step)| step.state == StepState::Passed);
    for number in passed.map(|(step, _)| step.number) {
        match made(harness, number, args, ends.saturating_duration_since(Instant::now())) {
            Ok(made) => {
                let is_over = made.interrupted;
                found.push((number, made));
                if is_over {
                    break;
                }
            }
            Err(Error::Refused(Refusal::NoTree | Refusal::NotTried { .. } | Refusal::NoCommand { .. })) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(found)
}

fn made(harness: &Harness, step: StepNumber, args: &Args, time_limit: Duration) -> Result<MadeMap, Error> {
    let cores = || std::thread::available_parallelism().map_or(1, usize::from);
    let jobs = args.jobs.map_or_else(cores, usize::from);
    let settings = MapSettings { jobs, time_limit, all: args.all };
    proved::map(harness, step, &settings, &|event| match event {
        MapEvent::Begun { level, hunks, known } => {
            let known = if known > 0 { format!(", {known} known") } else { String::new() };
            let hunks = terminal::count(hunks, "hunk");
            terminal::talk(&format!("step {step}: {hunks}{known}; the contract runs at {level}"));
        }
        MapEvent::OtherEnvironment(difference) => {
            terminal::talk(&format!("the contract runs in a different environment: {difference}"));
        }
        MapEvent::Decided { hunk, done, of } => {
            terminal::talk(&format!("[{done}/{of}] {} {}", hunk.mark.sign(), hunk.place()));
        }
    })
}
