use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use provost_core::model::plan::StepNumber;
use provost_core::model::verdict::{CheckOutcome, Excerpt, Verdict};
use provost_engine::exec::proof_map::{MapEvent, MapSettings};
use provost_engine::exec::trial::rating::RatedContract;
use provost_engine::exec::trial::sabotage::{SabotageRequest, SabotageTrial};
use provost_engine::exec::trial::{self, Trial, TrialOn, TrialRequest, TrialResults};
use provost_engine::settings::Access;
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::open_plan::Global;
use crate::outcome::{Answer, Outcome};
use crate::{proof_lines, terminal};

/// Longest patch.
const PATCH_BYTES: u64 = 16 << 20;

/// Try a check on the base and on the workspace, before any agent is paid
///
/// Runs the contract of a step, or a command, as a run would check it: in the same sandbox, with the same
/// tools, on the last commit and on your files as they are now, on a commit or with a patch. Then it rates the
/// check: it also runs it on an empty repository, and watches it. Records nothing.
#[derive(clap::Args, Debug)]
#[command(
    override_usage = "provost try [OPTIONS] [PLAN] <STEP>\n       provost try [OPTIONS] <COMMAND>",
    after_help = "\
Examples:
  provost try 2                               the contract of step 2 of the active plan
  provost try PLAN.md 2 --json                for programs
  provost try 'python3 -m pytest -q'          any command, without a plan
  provost try 2 --runs 5                      is it flaky? five times on the workspace
  provost try 2 --commit HEAD~1               on a commit instead of the workspace
  provost try 2 --patch fix.diff              on the base with a patch
  provost try 2 --sabotage                    what would it not notice?
  provost try 'make test' --sabotage --in 'src/**'

Exit codes: 0 it holds on the workspace, the commit or the patch · 1 it does not hold there · 2 there is no
such commit, or the patch cannot be used · 4 it could not be run, for example because a tool is missing"
)]
pub(super) struct Args {
    /// Number of a step, after the path or name of its plan if it is not the active one; or a command, quoted
    #[arg(num_args = 0..=2, value_name = "STEP|COMMAND")]
    what: Vec<String>,
    /// Number of runs beside the base; a check that gives two results on the same files is flaky
    #[arg(long, alias = "time", value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    runs: u32,
    /// Try it on this commit instead of the workspace: an id, a branch or a tag
    #[arg(long, value_name = "REV", conflicts_with = "patch")]
    commit: Option<String>,
    /// Try it on the base with this patch instead of the workspace; `-` reads it from standard input
    #[arg(long, value_name = "FILE")]
    patch: Option<PathBuf>,
    /// Take out and sabotage the code that the task names, and say what the check does not notice
    #[arg(long)]
    sabotage: bool,
    /// Files to sabotage; can be repeated [default: those that the task names, or that changed]
    #[arg(long = "in", value_name = "GLOB", requires = "sabotage")]
    within: Vec<String>,
    /// Number of sabotages at the same time [default: the number of cores]
    #[arg(long, short, requires = "sabotage", value_parser = clap::value_parser!(u16).range(1..=64))]
    jobs: Option<u16>,
    /// Longest time for all sabotages together
    #[arg(
        long,
        value_name = "TIME",
        default_value = "5m",
        requires = "sabotage",
        value_parser = humantime::parse_duration
    )]
    time_limit: Duration,
}

pub(super) fn obey(global: &Global, args: Args) -> Answer {
    let patch = args.patch.as_deref().map(|path| read_patch(global, path)).transpose()?;
    let cores = || std::thread::available_parallelism().map_or(1, usize::from);
    let jobs = args.jobs.map_or_else(cores, usize::from);
    let settings = MapSettings { jobs, time_limit: args.time_limit, all: false };
    let sabotage = SabotageRequest { globs: &args.within, settings, watch: &told };
    let request = TrialRequest {
        on: match (&args.commit, &patch) {
            (Some(commit), _) => TrialOn::Commit(commit),
            (None, Some(patch)) => TrialOn::Patch(patch),
            (None, None) => TrialOn::Workspace,
        },
        runs: args.runs,
        sabotage: args.sabotage.then_some(sabotage),
    };
    let trial = match args.what.as_slice() {
        [plan, step] => match step.parse() {
            Ok(step) => of_step(global, Some(plan), step, &request)?,
            Err(_) => {
                return Err(Failure::usage(
                    format!("`{step}` is not the number of a step"),
                    "Quote a command: provost try 'python3 -m pytest -q'",
                ));
            }
        },
        [one, ..] => match one.parse() {
            Ok(step) => of_step(global, None, step, &request)?,
            Err(_) => trial::try_command(global.settings(None)?, one, &request)?,
        },
        [] => return Err(Failure::usage("nothing to try", "For example: provost try 2")),
    };
    let Some(results) = &trial.results else { return Ok(Outcome::Interrupted) };
    let tree = TriedTree::of(&args, results);
    match global.json {
        true => terminal::print_json(&document(&trial, results, &tree))?,
        false => terminal::print(&report(&trial, results, &tree))?,
    }
    let (held, runs) = results.held();
    Ok(match &results.tried.outcome {
        CheckOutcome::Held if held < runs => Outcome::PlanFailed,
        CheckOutcome::Held => Outcome::Done,
        CheckOutcome::NotRun { .. } => Outcome::Waiting,
        _ => Outcome::PlanFailed,
    })
}

fn of_step(
    global: &Global,
    plan: Option<&str>,
    step: u32,
    request: &TrialRequest<'_>,
) -> Result<Trial, Failure> {
    let harness = global.open(plan, Access::Read)?;
    Ok(trial::try_step(&harness, StepNumber(step), request)?)
}

fn read_patch(global: &Global, path: &Path) -> Result<Vec<u8>, Failure> {
    let failed = |source| Failure::Io { what: format!("read {}", path.display()), source };
    let mut patch = Vec::new();
    match path.as_os_str() == "-" {
        true => std::io::stdin().take(PATCH_BYTES + 1).read_to_end(&mut patch),
        false => std::fs::File::open(global.cwd()?.join(path))
            .and_then(|file| file.take(PATCH_BYTES + 1).read_to_end(&mut patch)),
    }
    .map_err(failed)?;
    match patch.len() as u64 > PATCH_BYTES {
        true => Err(Failure::usage("the patch is longer than 16 MiB", "Try a part of it.")),
        false => Ok(patch),
    }
}

/// Shows the progress of sabotages.
fn told(event: MapEvent<'_>) {
    match event {
        MapEvent::Begun { level, hunks, known } => {
            let known = if known > 0 { format!(", {known} known") } else { String::new() };
            let hunks = terminal::count(hunks, "part");
            terminal::talk(&format!("sabotage of {hunks} of the code{known}; the check runs at {level}"));
        }
        MapEvent::OtherEnvironment(difference) => {
            terminal::talk(&format!("the check runs in a different environment: {difference}"));
        }
        MapEvent::Decided { hunk, done, of } => {
            terminal::talk(&format!("[{done}/{of}] {} {}", hunk.mark.sign(), hunk.place()));
        }
    }
}

/// The tree beside the base, in words.
struct TriedTree {
    /// The word for the column and for programs.
    word: &'static str,
    /// The commit, the patch or the number of changes.
    name: String,
}

impl TriedTree {
    fn of(args: &Args, results: &TrialResults) -> Self {
        match (&args.commit, &args.patch) {
            (Some(commit), _) => Self { word: "commit", name: commit.clone() },
            (None, Some(patch)) => Self { word: "patch", name: patch.display().to_string() },
            (None, None) => {
                let tree = results.tried.tree.as_ref();
                let changed = tree.map_or(0, |tree| tree.files.len() as u64 + tree.files_more);
                Self { word: "workspace", name: terminal::count(changed, "changed file") }
            }
        }
    }
}

fn document(trial: &Trial, results: &TrialResults, tree: &TriedTree) -> Value {
    let sabotage = trial.sabotage.as_ref().map(|sabotage| match &sabotage.result {
        Ok(made) => {
            let mut map = proof_lines::json_map(made);
            map["on"] = json!(if sabotage.on_base { "base" } else { tree.word });
            map
        }
        Err(why) => json!({ "not_tried": why }),
    });
    let mut document = json!({
        "command": trial.command,
        "isolation": trial.level,
        "commit": trial.commit,
        "on": { "kind": tree.word, "name": tree.name },
        "base": results.base,
        "tried": results.tried,
        "again": results.again,
        "says": says(results, tree.word),
        "score": trial.rating,
        "sabotage": sabotage,
    });
    if tree.word == "workspace" {
        document["workspace"] = json!(results.tried);
    }
    document
}

/// The score with its reasons, one a line.
fn rated(rating: &RatedContract) -> String {
    let score = &rating.score;
    let mut text = format!("score: {} of 100, {}\n", score.points, score.grade.word());
    for reason in &score.reasons {
        text.push_str(&format!("  -{} {} {}\n", reason.minus, reason.says, reason.advice));
    }
    for sentence in &rating.untried {
        text.push_str(&format!("  {sentence}\n"));
    }
    text
}

/// The sabotages that were tried, and those that the check did not notice.
fn sabotaged(sabotage: &SabotageTrial, word: &str) -> String {
    let made = match &sabotage.result {
        Ok(made) => made,
        Err(why) => return format!("no sabotage was tried: {why}\n"),
    };
    let on = if sabotage.on_base { "base" } else { word };
    let mut text = proof_lines::text(&format!("sabotage of the code ({on}):"), made);
    let unnoticed: Vec<String> = made
        .map
        .hunks
        .iter()
        .filter(|hunk| hunk.mark == provost_core::model::proof_map::HunkMark::Unproved)
        .map(|hunk| hunk.place())
        .collect();
    text.push_str(&match unnoticed.as_slice() {
        [] => "it noticed every sabotage that could be tried\n".to_owned(),
        places => format!("it would not notice mistakes in {}\n", places.join(", ")),
    });
    text
}

/// Both results beside each other, then what each of them printed.
fn report(trial: &Trial, results: &TrialResults, tree: &TriedTree) -> String {
    let TrialResults { base, tried, .. } = results;
    let commit = trial.commit.as_deref().map_or("no commit".to_owned(), |commit| {
        format!("commit {}", commit.chars().take(12).collect::<String>())
    });
    let mut text = String::new();
    let mut lines = trial.command.lines();
    text.push_str(&format!("$ {}\n", lines.next().unwrap_or_default()));
    lines.for_each(|line| text.push_str(&format!("  {line}\n")));
    let rows = [
        ["".to_owned(), "base".to_owned(), tree.word.to_owned()],
        ["tree".to_owned(), commit, tree.name.clone()],
        ["result".to_owned(), result(base), result(tried)],
        ["tests".to_owned(), tests(base), tests(tried)],
        ["time".to_owned(), time(base), time(tried)],
    ];
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default();
    let (first, second) = (width(0), width(1));
    for [name, one, other] in rows.iter().filter(|row| row[1] != "–" || row[2] != "–") {
        text.push_str(format!("{name:first$}  {one:second$}  {other}").trim_end());
        text.push('\n');
    }
    if let Some(results) = tried.test_results.as_ref().filter(|results| results.has_changes()) {
        text.push_str(&format!("tests: {}\n", results.counts()));
    }
    for (name, verdict) in [("base", base), (tree.word, tried)] {
        text.push_str(&output(name, verdict));
    }
    if let Some(environment) = tried.environment.as_ref().or(base.environment.as_ref()) {
        for (name, tool) in &environment.tools {
            text.push_str(format!("uses {name}: {} {}", tool.path, tool.version).trim_end());
            text.push('\n');
        }
    }
    text.push_str(&format!("{} ({})\n", says(results, tree.word), trial.level));
    text.extend(trial.rating.as_ref().map(rated));
    text.extend(trial.sabotage.as_ref().map(|sabotage| sabotaged(sabotage, tree.word)));
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
    let tests = results.tried.test_results.as_ref();
    let changes = tests.and_then(|tests| tests.changes.as_ref());
    changes.is_some_and(|changes| {
        let is_better = !changes.fixed.is_empty() || !changes.new.is_empty();
        let is_worse =
            !changes.broken.is_empty() || !changes.new_failing.is_empty() || changes.gone_passing > 0;
        is_better && !is_worse && !changes.failed_before.is_empty()
    })
}

/// One sentence about what both results mean for a plan.
fn says(results: &TrialResults, word: &str) -> String {
    let (base, workspace) = (&results.base.outcome, &results.tried.outcome);
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
        (CheckOutcome::Held, _) if word == "workspace" => "your changes break it".to_owned(),
        (CheckOutcome::Held, _) => format!("it holds on the base and not on the {word}"),
        (CheckOutcome::Broke { .. }, CheckOutcome::Broke { .. }) if only_old_failures(results) => {
            "only tests fail that failed before: write `no new failures` after the block to allow them"
                .to_owned()
        }
        (_, CheckOutcome::Held) => {
            format!("it fails on the base and holds on the {word}: it shows the work")
        }
        _ => "it fails on both: a good contract, if the work is not done yet".to_owned(),
    }
}
