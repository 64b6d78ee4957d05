use provost_core::model::plan::StepNumber;
use provost_core::state::run::Run;
use provost_engine::Error;
use provost_engine::plan::harness::Harness;
use provost_engine::plan::step_changes::{self, StepChanges};
use provost_engine::settings::Access;
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::open_plan::Global;
use crate::outcome::{Answer, Outcome};
use crate::terminal;
use provost_core::rules::command::Refusal;

/// Show the files that a step changed, with the diff
///
/// For a step that passed: the diff from the tree its attempt started with to the tree its contract held on.
/// For any other step: what its last attempt left. Files that were changed outside of the step are listed
/// without a diff.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  provost changes                     every step of the active plan that has run
  provost changes 2                   step 2 of the active plan
  provost changes PLAN.md 2           step 2 of this plan
  provost changes 2 --stat            only the files and the number of lines")]
pub(super) struct Args {
    /// Path or name of the plan [default: the active plan]; a number alone is a step of the active plan
    plan: Option<String>,
    /// Number of the step
    step: Option<u32>,
    /// Print only the files, with the number of lines that were added and removed
    #[arg(long, alias = "names")]
    stat: bool,
}

pub(super) fn obey(global: &Global, args: Args) -> Answer {
    let (plan, step) = match (args.plan, args.step) {
        (Some(word), None) => match word.parse() {
            Ok(step) => (None, Some(step)),
            Err(_) => (Some(word), None),
        },
        given => given,
    };
    let harness = global.open(plan.as_deref(), Access::Read)?;
    let run = harness.run()?;
    let found = match step {
        Some(step) => vec![(StepNumber(step), step_changes::look(&harness, StepNumber(step))?)],
        None => every(&harness, &run)?,
    };
    if global.json {
        let steps: Vec<Value> = found.iter().map(|(step, work)| as_json(*step, work)).collect();
        terminal::print(&format!("{}\n", json!({ "plan": harness.id(), "steps": steps })))?;
        return Ok(Outcome::Done);
    }
    if found.is_empty() {
        terminal::advise("no step of this plan has run yet; start it with `provost run`");
    }
    let all: String = found.iter().map(|(step, work)| as_text(&run, *step, work, args.stat)).collect();
    terminal::page(&all)?;
    Ok(Outcome::Done)
}

fn every(harness: &Harness, run: &Run) -> Result<Vec<(StepNumber, StepChanges)>, Failure> {
    let mut found = Vec::new();
    for (step, _) in run.steps() {
        match step_changes::look(harness, step.number) {
            Ok(work) => found.push((step.number, work)),
            Err(Error::Refused(Refusal::NoTree | Refusal::NotTried { .. })) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(found)
}

fn as_text(run: &Run, step: StepNumber, work: &StepChanges, only_stat: bool) -> String {
    let state = run.state_word(step).replace('_', " ");
    let mut text = format!("step {step}: {} ({state})\n", run.title(step).unwrap_or_default());
    work.lines().iter().for_each(|line| text.push_str(&format!("  {line}\n")));
    if !only_stat {
        for file in &work.files {
            text.push('\n');
            text.push_str(&coloured(&file.unified()));
        }
    }
    text.push('\n');
    text
}

/// Colours the lines of a diff, on a terminal.
fn coloured(diff: &str) -> String {
    let line = |line: &str| match line.as_bytes().first() {
        Some(b'+') => terminal::coloured(line, "32"),
        Some(b'-') => terminal::coloured(line, "31"),
        Some(b'@') => terminal::coloured(line, "36"),
        _ => line.to_owned(),
    };
    diff.lines().map(|each| line(each) + "\n").collect()
}

fn as_json(step: StepNumber, work: &StepChanges) -> Value {
    let files: Vec<Value> = work
        .files
        .iter()
        .map(|file| {
            let (more, less) = file.count();
            json!({
                "path": file.path, "change": file.kind.word(), "added_lines": more, "removed_lines": less,
                "diff": file.unified(), "unshown": file.unshown,
            })
        })
        .collect();
    json!({ "step": step, "files": files, "others": work.others, "refused": work.refused })
}
