use provost_core::model::plan::StepNumber;
use provost_core::model::verdict::{CheckOutcome, Excerpt, Verdict};
use provost_engine::exec::trial::{self, Trial, TrialResults};
use provost_engine::settings::Access;
use serde_json::json;

use crate::failure::Failure;
use crate::open_plan::Global;
use crate::outcome::{Answer, Outcome};
use crate::terminal;

/// Try a check on the base and on the workspace, before any agent is paid
///
/// Runs the contract of a step, or a command, as a run would check it: in the same sandbox, with the same
/// tools, on the last commit and on your files as they are now. Records nothing.
#[derive(clap::Args, Debug)]
#[command(
    override_usage = "provost try [OPTIONS] [PLAN] <STEP>\n       provost try [OPTIONS] <COMMAND>",
    after_help = "\
Examples:
  provost try 2                               the contract of step 2 of the active plan
  provost try PLAN.md 2 --json                for programs
  provost try 'python3 -m pytest -q'          any command, without a plan
  provost try 2 --runs 5                      is it flaky? five times on the workspace

Exit codes: 0 it holds on the workspace · 1 it does not hold there · 4 it could not be run, for example
because a tool is missing"
)]
pub(super) struct Args {
    /// Number of a step, after the path or name of its plan if it is not the active one; or a command, quoted
    #[arg(num_args = 0..=2, value_name = "STEP|COMMAND")]
    what: Vec<String>,
    /// Number of runs on the workspace; a check that gives two results on the same files is flaky
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    runs: u32,
}

pub(super) fn obey(global: &Global, args: Args) -> Answer {
    let trial = match args.what.as_slice() {
        [plan, step] => match step.parse() {
            Ok(step) => of_step(global, Some(plan), step, args.runs)?,
            Err(_) => {
                return Err(Failure::usage(
                    format!("`{step}` is not the number of a step"),
                    "Quote a command: provost try 'python3 -m pytest -q'",
                ));
            }
        },
        [one, ..] => match one.parse() {
            Ok(step) => of_step(global, None, step, args.runs)?,
            Err(_) => trial::try_command(global.settings(None)?, one, args.runs)?,
        },
        [] => return Err(Failure::usage("nothing to try", "For example: provost try 2")),
    };
    let Some(results) = &trial.results else { return Ok(Outcome::Interrupted) };
    match global.json {
        true => terminal::print_json(&json!({
            "command": trial.command,
            "isolation": trial.level,
            "commit": trial.commit,
            "base": results.base,
            "workspace": results.workspace,
            "again": results.again,
            "says": says(results),
        }))?,
        false => terminal::print(&report(&trial, results))?,
    }
    let (held, runs) = results.held();
    Ok(match &results.workspace.outcome {
        CheckOutcome::Held if held < runs => Outcome::PlanFailed,
        CheckOutcome::Held => Outcome::Done,
        CheckOutcome::NotRun { .. } => Outcome::Waiting,
        _ => Outcome::PlanFailed,
    })
}

fn of_step(global: &Global, plan: Option<&str>, step: u32, runs: u32) -> Result<Trial, Failure> {
    let harness = global.open(plan, Access::Read)?;
    Ok(trial::try_step(&harness, StepNumber(step), runs)?)
}

/// Both results beside each other, then what each of them printed.
fn report(trial: &Trial, results: &TrialResults) -> String {
    let TrialResults { base, workspace, .. } = results;
    let commit = trial.commit.as_deref().map_or("no commit".to_owned(), |commit| {
        format!("commit {}", commit.chars().take(12).collect::<String>())
    });
    let changed = workspace.tree.as_ref().map_or(0, |tree| tree.files.len() as u64 + tree.files_more);
    let changed = terminal::count(changed, "changed file");
    let mut text = String::new();
    let mut lines = trial.command.lines();
    text.push_str(&format!("$ {}\n", lines.next().unwrap_or_default()));
    lines.for_each(|line| text.push_str(&format!("  {line}\n")));
    let rows = [
        ["".to_owned(), "base".to_owned(), "workspace".to_owned()],
        ["tree".to_owned(), commit, changed],
        ["result".to_owned(), result(base), result(workspace)],
        ["tests".to_owned(), tests(base), tests(workspace)],
        ["time".to_owned(), time(base), time(workspace)],
    ];
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default();
    let (first, second) = (width(0), width(1));
    for [name, one, other] in rows.iter().filter(|row| row[1] != "–" || row[2] != "–") {
        text.push_str(format!("{name:first$}  {one:second$}  {other}").trim_end());
        text.push('\n');
    }
    if let Some(results) = workspace.test_results.as_ref().filter(|results| results.has_changes()) {
        text.push_str(&format!("tests: {}\n", results.counts()));
    }
    for (name, verdict) in [("base", base), ("workspace", workspace)] {
        text.push_str(&output(name, verdict));
    }
    if let Some(environment) = workspace.environment.as_ref().or(base.environment.as_ref()) {
        for (name, tool) in &environment.tools {
            text.push_str(format!("uses {name}: {} {}", tool.path, tool.version).trim_end());
            text.push('\n');
        }
    }
    text.push_str(&format!("{} ({})\n", says(results), trial.level));
    text
}

fn result(verdict: &Verdict) -> String {
    match &verdict.outcome {
        CheckOutcome::Held => "holds".to_owned(),
        CheckOutcome::Broke { exit_code } => format!("fails (exit {exit_code})"),
        CheckOutcome::NotRun { .. } => "could not be run".to_owned(),
        outcome => outcome.to_string(),
    }
}

fn tests(verdict: &Verdict) -> String {
    match &verdict.test_results {
        Some(results) if results.failed > 0 => format!("{}, {} fail", results.run(), results.failed),
        Some(results) => results.run().to_string(),
        None => verdict.tests.map_or("–".to_owned(), |tests| tests.to_string()),
    }
}

fn time(verdict: &Verdict) -> String {
    match verdict.outcome {
        CheckOutcome::NotRun { .. } => "–".to_owned(),
        _ => format!("{} ms", verdict.duration_ms),
    }
}

/// Returns the output of a check, or why it could not be run.
fn output(name: &str, verdict: &Verdict) -> String {
    let mut text = format!("── {name} ──\n");
    if let CheckOutcome::NotRun { reason } = &verdict.outcome {
        text.push_str(&format!("{reason}\n"));
    }
    for unmet in verdict.unmet.iter().filter(|unmet| unmet.as_str() != "exit_code == 0") {
        text.push_str(&format!("not met: {unmet}\n"));
    }
    for excerpt in [&verdict.stdout, &verdict.stderr] {
        text.push_str(&shown(excerpt));
    }
    text
}

fn shown(excerpt: &Excerpt) -> String {
    let text = excerpt.to_string();
    let text = text.trim_end();
    if text.is_empty() { String::new() } else { format!("{text}\n") }
}

/// Whether tests changed for the better, and those that still fail failed before.
fn only_old_failures(results: &TrialResults) -> bool {
    let tests = results.workspace.test_results.as_ref();
    let changes = tests.and_then(|tests| tests.changes.as_ref());
    changes.is_some_and(|changes| {
        let is_better = !changes.fixed.is_empty() || !changes.new.is_empty();
        let is_worse =
            !changes.broken.is_empty() || !changes.new_failing.is_empty() || changes.gone_passing > 0;
        is_better && !is_worse && !changes.failed_before.is_empty()
    })
}

/// One sentence about what both results mean for a plan.
fn says(results: &TrialResults) -> String {
    let (base, workspace) = (&results.base.outcome, &results.workspace.outcome);
    let (held, runs) = results.held();
    if (1..runs).contains(&held) {
        let tests = results.unsteady_tests();
        let tests = if tests.is_empty() { String::new() } else { format!(": {}", tests.join(", ")) };
        return format!("it is flaky: it held in {held} of {runs} runs on the same files{tests}");
    }
    match (base, workspace) {
        (_, CheckOutcome::NotRun { reason }) => format!("the check could not be run: {reason}"),
        (CheckOutcome::Held, CheckOutcome::Held) => {
            "it holds before the work already: as a contract it would prove no progress".to_owned()
        }
        (CheckOutcome::Held, _) => "your changes break it".to_owned(),
        (CheckOutcome::Broke { .. }, CheckOutcome::Broke { .. }) if only_old_failures(results) => {
            "only tests fail that failed before: write `no new failures` after the block to allow them"
                .to_owned()
        }
        (_, CheckOutcome::Held) => {
            "it fails on the base and holds on the workspace: it shows the work".to_owned()
        }
        _ => "it fails on both: a good contract, if the work is not done yet".to_owned(),
    }
}
