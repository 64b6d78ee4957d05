use std::path::PathBuf;

use provost_core::language::diagnostic;
use provost_core::model::event::Revision;
use provost_engine::plan::reading::BoundPlan;
use provost_engine::plan::{commands, recording};
use provost_engine::settings::Access;
use provost_engine::{Put, write_report};

use crate::failure::Failure;
use crate::open_plan::Global;
use crate::outcome::{Answer, Outcome};
use crate::{diagnose, terminal};

/// Check a plan without running anything
///
/// Parses the plan and checks it statically: numbering, missing or duplicate fields, shell syntax, masked
/// exit codes, tools on PATH, subscriptions, order, cycles, targets and budget. If there is no error,
/// provost records the plan as verified in its log. Your files stay as they are.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  provost verify                      the active plan
  provost verify PLAN.md --json       for programs
  provost verify --sarif=plan.sarif   for code scanning
  provost verify --explain P012       what a code means")]
pub(super) struct Args {
    /// Path or name of the plan [default: the active plan]
    plan: Option<String>,
    /// Write the diagnostics as SARIF 2.1.0 to this file, or print them
    #[arg(
        long,
        value_name = "FILE",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "-",
        conflicts_with = "json"
    )]
    sarif: Option<PathBuf>,
    /// Explain a diagnostic code, then stop
    #[arg(long, value_name = "CODE")]
    explain: Option<String>,
    /// Check only; do not record a clean plan as verified
    #[arg(long)]
    no_record: bool,
}

pub(super) fn obey(global: &Global, args: Args) -> Answer {
    if let Some(code) = &args.explain {
        return explain(code);
    }
    let harness = global.open(args.plan.as_deref(), Access::Read)?;
    let reading = recording::check(&harness)?;
    // The base of a started plan includes its own work, so use the same revision as `show`.
    let revision = recording::preview(&harness)?.0.revision;
    let file = diagnose::file_name(&harness.place().path);
    if let Some(path) = &args.sarif {
        let sarif = format!("{:#}\n", diagnose::sarif(&reading.text, &file, &reading.diagnostics));
        match path.as_os_str() == "-" {
            true => terminal::print(&sarif)?,
            false => write_report(&harness.place().workspace, path, sarif.as_bytes(), Put::Whole)
                .map_err(|source| Failure::Io { what: format!("write {}", path.display()), source })?,
        }
    } else if global.json {
        terminal::print(&format!("{}\n", json(harness.id().0.as_str(), &revision, &reading)))?;
    } else {
        let colour = terminal::colour_on_stdout();
        terminal::print(&diagnose::terminal(&reading.text, &file, &reading.diagnostics, colour))?;
        let steps = reading.plan.steps.len();
        let steps = if steps == 1 { "1 step".to_owned() } else { format!("{steps} steps") };
        let words = format!("{steps}, revision {}\n", revision.short());
        terminal::print(&words)?;
    }
    if reading.errors() {
        return Ok(Outcome::Diagnosed);
    }
    if !args.no_record {
        // A log that cannot be written does not fail the command, because its purpose is the check.
        let recorded = global.open(args.plan.as_deref(), Access::Write).and_then(|harness| {
            commands::only_people(&harness)?;
            Ok(recording::note_verified(&harness)?)
        });
        if let Err(error) = recorded {
            terminal::talk(&format!("not recorded as verified: {error}"));
        }
    }
    Ok(Outcome::Done)
}

fn json(plan: &str, revision: &Revision, reading: &BoundPlan) -> serde_json::Value {
    diagnose::json(&reading.text, plan, &revision.0, reading.plan.steps.len(), &reading.diagnostics)
}

fn explain(code: &str) -> Answer {
    match diagnostic::explain(code) {
        Some(page) => {
            terminal::print(page)?;
            Ok(Outcome::Done)
        }
        None => Err(Failure::usage(format!("there is no diagnostic {code}"), "Codes look like P012.")),
    }
}
