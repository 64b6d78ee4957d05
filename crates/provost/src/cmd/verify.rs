use std::path::PathBuf;

use provost_core::language::{diagnostic, verify};
use provost_core::model::event::Revision;
use provost_core::model::verdict::CheckOutcome;
use provost_engine::exec::deep_look::{self, DeepRow};
use provost_engine::plan::harness::Harness;
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
/// provost records the plan as verified in its log. Your files stay as they are. With --deep, provost also
/// runs every contract in the sandbox.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  provost verify                      the active plan
  provost verify PLAN.md --json       for programs
  provost verify --sarif=plan.sarif   for code scanning
  provost verify --deep               also run every contract on the base, and watch it
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
    /// Run every contract on the base, and report what it does besides its result: network, git, files, clock
    #[arg(long, conflicts_with = "explain")]
    deep: bool,
    /// Check only; do not record a clean plan as verified
    #[arg(long)]
    no_record: bool,
}

impl Args {
    pub(super) fn starts_checks(&self) -> bool {
        self.deep
    }
}

pub(super) fn obey(global: &Global, args: Args) -> Answer {
    if let Some(code) = &args.explain {
        return explain(code);
    }
    let harness = global.open(args.plan.as_deref(), Access::Read)?;
    let mut reading = recording::check(&harness)?;
    let rows = match args.deep && !reading.errors() {
        true => deep(&harness, &mut reading, global.json || args.sarif.is_some())?,
        false => Vec::new(),
    };
    if args.deep && reading.errors() {
        terminal::talk("the plan has errors, so no contract was run");
    }
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
        let mut document = json(harness.id().0.as_str(), &revision, &reading);
        if args.deep {
            document["contracts"] = serde_json::json!(rows);
        }
        terminal::print(&format!("{document}\n"))?;
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

/// Runs the contracts and adds what they did to the diagnostics.
fn deep(harness: &Harness, reading: &mut BoundPlan, is_quiet: bool) -> Result<Vec<DeepRow>, Failure> {
    let rows = deep_look::look(harness, &mut |row| {
        if !is_quiet {
            terminal::talk(&deep_line(row));
        }
    })?;
    let found = verify::contracts_that_ran(&reading.plan, &DeepRow::traits_of(&rows));
    reading.diagnostics.extend(found);
    reading.diagnostics.sort_by_key(|diagnostic| (diagnostic.span, diagnostic.code));
    Ok(rows)
}

/// Describes one contract: where it is, its result on the base, and what it did.
fn deep_line(row: &DeepRow) -> String {
    let result = match &row.verdict.outcome {
        CheckOutcome::Held => "holds on the base".to_owned(),
        CheckOutcome::NotRun { .. } => "was not run".to_owned(),
        CheckOutcome::Broke { exit_code } => format!("fails on the base (exit {exit_code})"),
        outcome => format!("fails on the base ({outcome})"),
    };
    let seconds = row.verdict.duration_ms as f64 / 1000.0;
    let traits = &row.traits;
    let found = [
        ("network", traits.network.is_some()),
        ("random values", traits.chance.is_some()),
        ("clock", traits.clock.is_some()),
        ("changes files", traits.writes.is_some()),
        ("git", traits.git.is_some()),
        ("cannot run", traits.cannot_run.is_some()),
    ];
    let found: Vec<&str> = found.iter().filter(|(_, has)| *has).map(|(name, _)| *name).collect();
    let found = if found.is_empty() { "nothing to report".to_owned() } else { found.join(", ") };
    let mut line = format!("{}: {result}, {seconds:.1} s; {found}", row.place);
    row.untried.iter().for_each(|sentence| line.push_str(&format!("\n  {sentence}")));
    line
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
