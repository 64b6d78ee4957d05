mod prompts;

use provost_agent::overhead::{self, OverheadResult, OverheadSettings, Sum};
use serde_json::json;

use crate::failure::Failure;
use crate::open_plan::Global;
use crate::outcome::{Answer, Outcome};
use crate::terminal;

/// Measure the cost and the benefit of plans and prompts
///
/// Uses scripted models, or yours, and temporary folders. The same seed gives the same numbers.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  provost bench plan-overhead
  provost bench plan-overhead --stop-rate 0.3 --tasks 50 --seed 7 --json
  provost bench prompts --system new-prompt.md")]
pub(super) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand, Debug)]
enum What {
    PlanOverhead(PlanOverhead),
    Prompts(prompts::Args),
}

/// Run the same tasks with and without plan tools, with a model that stops early
///
/// Each task asks for a number of files. In each turn with work left, the scripted model says at the given
/// rate that it is done. Without a plan, the loop believes it; with a plan, the answer is refused until the
/// plan is complete. Turns, tokens and dollars show the cost, false completions the benefit. Tokens are
/// estimated from bytes.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  provost bench plan-overhead --stop-rate 0.3 --tasks 50 --seed 7")]
struct PlanOverhead {
    /// Number of tasks
    #[arg(long, default_value_t = 40, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    tasks: u32,
    /// Number of files that each task asks for
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=12))]
    parts: u32,
    /// Share of turns in which the model stops early, 0 to 1
    #[arg(long, default_value_t = 0.15, value_name = "RATE")]
    stop_rate: f64,
    /// Seed of the random numbers
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Dollars per million input tokens
    #[arg(long, default_value_t = 3.0, value_name = "USD")]
    usd_in: f64,
    /// Dollars per million output tokens
    #[arg(long, default_value_t = 15.0, value_name = "USD")]
    usd_out: f64,
}

pub(super) fn obey(global: &Global, args: Args) -> Answer {
    match args.what {
        What::PlanOverhead(args) => plan_overhead(global, &args),
        What::Prompts(args) => prompts::obey(global, args),
    }
}

fn plan_overhead(global: &Global, args: &PlanOverhead) -> Answer {
    if !(0.0..=1.0).contains(&args.stop_rate) {
        return Err(Failure::usage("--stop-rate must be between 0 and 1", "0.15 is every seventh turn."));
    }
    if !(0.0..1e6).contains(&args.usd_in) || !(0.0..1e6).contains(&args.usd_out) {
        return Err(Failure::usage(
            "a price must be between 0 and 1000000",
            "Give dollars per million tokens.",
        ));
    }
    let order = OverheadSettings {
        tasks: args.tasks,
        parts: args.parts,
        stop_rate: args.stop_rate,
        seed: args.seed,
        usd_in: args.usd_in,
        usd_out: args.usd_out,
    };
    let broken = |source| Failure::Io { what: "run the benchmark in a temporary folder".to_owned(), source };
    let folder = tempfile::tempdir().map_err(broken)?;
    let measured = overhead::measure(order, folder.path()).map_err(broken)?;
    if global.json {
        terminal::print(&format!("{}\n", json!(measured)))?;
    } else {
        terminal::print(&table(&measured))?;
    }
    Ok(Outcome::Done)
}

type Column = (&'static str, fn(&Sum) -> f64, usize);

fn table(measured: &OverheadResult) -> String {
    let OverheadSettings { tasks, parts, stop_rate, seed, .. } = measured.order;
    let mut out = format!(
        "{tasks} tasks of {parts} files; the model stops early at {:.0} % of its turns; seed {seed}\n\n{:<20}{:>14}{:>14}{:>14}\n",
        stop_rate * 100.0,
        "",
        "no plan",
        "plan",
        "difference"
    );
    let rows: [Column; 8] = [
        ("turns", |sum| sum.turns as f64, 0),
        ("tokens in", |sum| sum.input_tokens as f64, 0),
        ("tokens out", |sum| sum.output_tokens as f64, 0),
        ("dollars", |sum| sum.usd, 4),
        ("answers refused", |sum| sum.refusals as f64, 0),
        ("completed", |sum| sum.completed as f64, 0),
        ("false completions", |sum| sum.false_completions as f64, 0),
        ("unfinished, said so", |sum| sum.unfinished as f64, 0),
    ];
    for (name, value, digits) in rows {
        let (off, on) = (value(&measured.without_plan), value(&measured.with_plan));
        out.push_str(&format!("{name:<20}{off:>14.digits$}{on:>14.digits$}{:>+14.digits$}\n", on - off));
    }
    out
}
