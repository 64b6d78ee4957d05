use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use provost_core::model::timestamp::Timestamp;
use provost_engine::observe::history::{History, PlanSelection};
use provost_engine::settings::Access;
use provost_engine::{Collector, Error, Query};

use crate::failure::Failure;
use crate::open_plan::Global;
use crate::outcome::{Answer, Outcome};
use crate::{hardening, terminal};

mod filter;
mod instant;
mod print;
mod table;
mod transcript;

use filter::Filter;
use print::Printer;

/// Longest delay until a follower notices an interruption; an event wakes it at once.
const HEED: Duration = Duration::from_millis(500);

/// Read the event log: events, a summary of time and cost, or a trace for other tools
///
/// By default, prints the events of the active plan. An event is shown if it passes all filters.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  provost log                                   all events
  provost log --follow                          all events, and new ones as they happen
  provost log --event CONTRACT_JUDGED --step 2  the verdicts of step 2
  provost log --all --class transient           transient failures of every plan
  provost log --since 10m --json                one event per line
  provost log --summary                         attempts, time and cost, by step and by agent
  provost log --transcript 2                    what the agent said and did in the last attempt at step 2
  provost log --transcript 2.1 --markdown a.md  the same of its first attempt, as a document
  provost log --otel > trace.json               the run as OpenTelemetry spans
  provost log --otel=http://localhost:4318      send the spans to a collector")]
pub(super) struct Args {
    /// Paths, names or ids of plans [default: the active plan]
    #[arg(value_name = "PLAN")]
    plans: Vec<String>,
    /// Show all plans of the state folder
    #[arg(long, short, conflicts_with = "plans")]
    all: bool,
    /// Keep printing new events
    #[arg(long, short, conflicts_with_all = ["until", "summary", "otel"])]
    follow: bool,
    /// Only events with this name; can be repeated
    #[arg(long, value_name = "EVENT", value_delimiter = ',')]
    event: Vec<String>,
    /// Only events about this step
    #[arg(long, alias = "task", value_name = "STEP")]
    step: Option<u32>,
    /// Only failures of this class and the events that followed: transient, permission, invalid_input,
    /// logic, unrecoverable or unknown
    #[arg(long, value_name = "CLASS")]
    class: Option<String>,
    /// Only events since a time (2026-11-15T03:00:00Z) or an age (10m, 2h, 1d)
    #[arg(long, value_name = "T")]
    since: Option<String>,
    /// Only events before a time or an age
    #[arg(long, value_name = "T")]
    until: Option<String>,
    /// Only the last N events
    #[arg(long, short = 'n', value_name = "N")]
    last: Option<u64>,
    /// Print attempts, failures, time, tokens and cost, by step and by agent
    #[arg(long, conflicts_with_all = ["otel", "event", "step", "class", "last"])]
    summary: bool,
    /// Print the run as an OpenTelemetry trace (OTLP JSON), or send it to a URL; `send` uses
    /// OTEL_EXPORTER_OTLP_ENDPOINT
    #[arg(
        long,
        value_name = "URL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "-",
        conflicts_with_all = ["event", "step", "class", "last", "since", "until"]
    )]
    otel: Option<String>,
    /// Print what the agent said and did in an attempt: the last one at step N, or attempt A as N.A. With
    /// `--json`, one entry per line
    #[arg(
        long,
        value_name = "N[.A]",
        conflicts_with_all = ["all", "follow", "event", "step", "class", "since", "until", "last", "summary", "otel"]
    )]
    transcript: Option<transcript::Which>,
    /// Write the transcript as a Markdown document to a file, or `-` for standard output
    #[arg(long, value_name = "FILE", requires = "transcript")]
    markdown: Option<PathBuf>,
}

pub(super) fn obey(global: &Global, args: Args) -> Answer {
    let since = args.since.as_deref().map(instant::read).transpose()?;
    let until = args.until.as_deref().map(instant::read).transpose()?;
    if let (Some(since), Some(until)) = (since, until)
        && since >= until
    {
        return Err(Failure::usage(
            format!("--since ({since}) must be earlier than --until ({until})"),
            "Give an earlier --since or a later --until.",
        ));
    }
    let mut filter = Filter::read(&args.event, args.class.as_deref())?;
    let wanted = if args.all { PlanSelection::All } else { PlanSelection::Plans(args.plans) };
    let access = if args.follow { Access::Write } else { Access::Read };
    let settings = global.settings(None)?;
    let history = History::open(&settings, &wanted, access)?;
    if let Some(which) = args.transcript {
        return transcript::show(global, &history, which, args.markdown.as_deref());
    }
    if args.summary {
        tell_of_archived(&history)?;
        return summary(global, &history, since, until);
    }
    if let Some(place) = &args.otel {
        return trace(&history, place);
    }
    filter.of(&history, args.step, since, until);
    let cursor = history.cursor()?;
    filter.query.through = Some(cursor);
    let mut printer = Printer::new(global.json, history.chosen().is_none_or(|chosen| chosen.len() > 1));
    let print = &mut |sealed| printer.print(&sealed);
    match args.last {
        Some(limit) => filter.last(&history, limit, print)?,
        None => filter.all(&history, print)?,
    }
    printer.result()?;
    tell_of_archived(&history)?;
    if !printer.has_printed && !args.follow && !global.json {
        let asks_for_some = !args.event.is_empty()
            || args.class.is_some()
            || args.step.is_some()
            || since.is_some()
            || until.is_some();
        terminal::talk(match asks_for_some {
            true => "no event matches these options",
            false => "the log has no event of this plan yet; start it with `provost run`",
        });
    }
    if args.follow { follow(&history, filter, printer, &settings.stop) } else { Ok(Outcome::Done) }
}

/// Says how many plans `--all` leaves out.
fn tell_of_archived(history: &History) -> Result<(), Failure> {
    match history.left_out()? {
        0 => {}
        1 => terminal::talk("1 plan is archived: name it to read it"),
        count => terminal::talk(&format!("{count} plans are archived: name a plan to read it")),
    }
    Ok(())
}

/// Prints new events until the process is interrupted.
fn follow(history: &History, mut filter: Filter, mut printer: Printer, stop: &AtomicBool) -> Answer {
    while !stop.load(Ordering::Relaxed) {
        let cursor = filter.query.through.unwrap_or_default();
        let now = history.wait(cursor, HEED)?;
        if now == cursor {
            continue;
        }
        filter.query = Query { after: Some(cursor), through: Some(now), ..filter.query };
        filter.all(history, &mut |sealed| printer.print(&sealed))?;
        printer.result()?;
    }
    Ok(Outcome::Interrupted)
}

fn summary(global: &Global, history: &History, since: Option<Timestamp>, until: Option<Timestamp>) -> Answer {
    let summary = history.summary(since, until)?;
    let text = if global.json { format!("{}\n", table::json(&summary)) } else { summary.to_string() };
    terminal::print(&text)?;
    Ok(Outcome::Done)
}

/// Writes the trace to standard output, or sends it to a collector.
fn trace(history: &History, place: &str) -> Answer {
    let environment = hardening::environment();
    let collector = match place {
        "-" => None,
        "send" => Some(Collector::from_environment(&environment).map_err(Error::from)?),
        url => Some(Collector::at(url, &environment).map_err(Error::from)?),
    };
    let mut unwritten = None;
    let sent = history.trace(&mut |request| match &collector {
        None => terminal::print(&format!("{}\n", request.line())).map_err(|failure| {
            unwritten = Some(failure);
            // Only stops the trace; the caller reports `unwritten`.
            let source = std::io::ErrorKind::BrokenPipe.into();
            Error::Io { what: "write to", path: "/dev/stdout".into(), source }
        }),
        Some(collector) => {
            if let Some(said) = collector.post(&request.line())? {
                terminal::talk(&format!("the collector says: {said}"));
            }
            Ok(())
        }
    });
    if let Some(failure) = unwritten {
        return Err(failure);
    }
    let sent = sent?;
    if sent == 0 {
        terminal::talk("the log is empty, so there is no trace");
    } else if let Some(collector) = &collector {
        terminal::talk(&format!("{} sent to {}", terminal::count(sent, "span"), collector.address()));
    }
    Ok(Outcome::Done)
}
