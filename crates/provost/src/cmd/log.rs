use std::ops::ControlFlow;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use provost_core::chain::{Sealed, Timestamp};
use provost_core::plan::StepNumber;
use provost_core::render;
use provost_core::run::Run;
use provost_engine::Query;
use provost_engine::harness::{Access, Harness};

use crate::failure::Failure;
use crate::outcome::{Answer, Outcome};
use crate::place::Global;
use crate::terminal;

/// Read the event log of a plan
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  provost log                                   everything that happened
  provost log --follow                          and what happens next
  provost log --event CONTRACT_JUDGED --task 2  what the judge saw of step 2
  provost log --since 10m --json                one event a line")]
pub struct Args {
    /// A path, a name, or nothing for the active plan
    plan: Option<String>,
    /// Go on printing events as they happen
    #[arg(long, short)]
    follow: bool,
    /// Only events of this name; may be given more than once
    #[arg(long, value_name = "EVENT", value_delimiter = ',')]
    event: Vec<String>,
    /// Only events about this step
    #[arg(long, alias = "step", value_name = "N")]
    task: Option<u32>,
    /// Only events since a time (2026-11-15T03:00:00Z) or an age (10m, 2h, 1d)
    #[arg(long, value_name = "T")]
    since: Option<String>,
    /// Only the last N events
    #[arg(long, short = 'n', value_name = "N")]
    last: Option<u64>,
}

pub fn obey(global: &Global, args: Args) -> Answer {
    let harness =
        global.open(args.plan.as_deref(), if args.follow { Access::Write } else { Access::Read })?;
    let mut query = Query {
        plan: Some(harness.id().clone()),
        step: args.task.map(StepNumber),
        names: args.event.iter().map(|name| name.to_uppercase()).collect(),
        since: args.since.as_deref().map(since).transpose()?,
        ..Query::default()
    };
    let mut cursor = harness.log().cursor().map_err(provost_engine::Error::from)?;
    query.through = Some(cursor);
    let mut printer = Printer { json: global.json, run: Run::default(), failed: None };
    match args.last {
        Some(limit) => last(&harness, &query, limit, &mut printer)?,
        None => print(&harness, &query, &mut printer)?,
    }
    if !args.follow {
        return Ok(Outcome::Done);
    }
    loop {
        let now = harness.wait(cursor, Duration::from_secs(3600))?;
        if now == cursor {
            continue;
        }
        let fresh = Query { after: Some(cursor), through: Some(now), ..query.clone() };
        cursor = now;
        print(&harness, &fresh, &mut printer)?;
    }
}

fn print(harness: &Harness, query: &Query, printer: &mut Printer) -> Result<(), Failure> {
    harness.each(query, &mut |sealed| printer.print(&sealed))?;
    printer.failed.take().map_or(Ok(()), Err)
}

/// The newest, in the order in which they happened.
fn last(harness: &Harness, query: &Query, limit: u64, printer: &mut Printer) -> Result<(), Failure> {
    let newest = Query { newest_first: true, limit: Some(limit), ..query.clone() };
    let mut events = Vec::new();
    harness.each(&newest, &mut |sealed| {
        events.push(sealed);
        ControlFlow::Continue(())
    })?;
    for sealed in events.iter().rev() {
        let _ = printer.print(sealed);
    }
    printer.failed.take().map_or(Ok(()), Err)
}

struct Printer {
    json: bool,
    run: Run,
    failed: Option<Failure>,
}

impl Printer {
    fn print(&mut self, sealed: &Sealed) -> ControlFlow<()> {
        let line = if self.json { sealed.line() } else { self.words(sealed) };
        match terminal::print(&format!("{line}\n")) {
            Ok(()) => ControlFlow::Continue(()),
            Err(failure) => {
                self.failed = Some(failure);
                ControlFlow::Break(())
            }
        }
    }

    fn words(&mut self, sealed: &Sealed) -> String {
        let event = sealed.event();
        if let Ok(event) = &event {
            self.run.apply(event);
        }
        let words = match event {
            Ok(event) => render::event(&self.run, &event).words,
            Err(error) => error.to_string(),
        };
        let step = sealed.step.map_or(String::new(), |step| format!("step {step}: "));
        format!("{:>4} {} {:<24} {step}{words}", sealed.seq, sealed.at, sealed.name)
    }
}

fn since(text: &str) -> Result<Timestamp, Failure> {
    let instant = match humantime::parse_duration(text) {
        Ok(age) => SystemTime::now().checked_sub(age).unwrap_or(UNIX_EPOCH),
        Err(_) => humantime::parse_rfc3339_weak(text)
            .or_else(|_| humantime::parse_rfc3339_weak(&format!("{text}T00:00:00Z")))
            .map_err(|_| {
                Failure::usage(
                    format!("`{text}` is neither a time nor an age"),
                    "Write 2026-11-15T03:00:00Z, 2026-11-15, 10m, 2h or 1d.",
                )
            })?,
    };
    Ok(Timestamp(instant.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64))
}
