use provost_core::model::plan::StepNumber;
use provost_core::model::proof_map::ProofMap;
use provost_core::rules::command::Refusal;
use provost_core::state::run::Run;
use provost_engine::Error;
use provost_engine::exec::proof_map;
use provost_engine::plan::harness::Harness;
use provost_engine::plan::step_changes::{self, StepChanges};
use provost_engine::settings::Access;
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::open_plan::{Global, PlanWords};
use crate::outcome::{Answer, Outcome};
use crate::{proof_lines, terminal};

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
  provost changes 2 --stat            only the files and the number of lines
  provost changes 2 --proved          with the marks that `provost proved 2` found")]
pub(super) struct Args {
    #[command(flatten)]
    words: PlanWords,
    /// Print only the files, with the number of lines that were added and removed
    #[arg(long, alias = "names")]
    stat: bool,
    /// Show beside each changed line whether the contract proves it, as far as `provost proved` has found out
    #[arg(long, conflicts_with = "stat")]
    proved: bool,
}

pub(super) fn obey(global: &Global, args: Args) -> Answer {
    let (plan, step) = args.words.meant();
    let harness = global.open(plan, Access::Read)?;
    let run = harness.run()?;
    let found = match step {
        Some(step) => vec![(step, step_changes::look(&harness, step)?)],
        None => every(&harness, &run)?,
    };
    let map = |step: StepNumber| args.proved.then(|| known_map(&harness, step));
    if global.json {
        let json = |(step, work): &(StepNumber, StepChanges)| as_json(*step, work, map(*step).as_ref());
        let steps: Vec<Value> = found.iter().map(json).collect();
        terminal::print(&format!("{}\n", json!({ "plan": harness.id(), "steps": steps })))?;
        return Ok(Outcome::Done);
    }
    if found.is_empty() {
        terminal::advise("no step of this plan has run yet; start it with `provost run`");
    }
    let text =
        |(step, work): &(StepNumber, StepChanges)| as_text(&run, *step, work, args.stat, map(*step).as_ref());
    let all: String = found.iter().map(text).collect();
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

/// Returns what is known of the proof map of a step. A step without a map has no marks.
fn known_map(harness: &Harness, step: StepNumber) -> ProofMap {
    let map = proof_map::known(harness, step).unwrap_or_default();
    if map.hunks.is_empty() {
        terminal::advise(&format!("nothing is known about step {step} yet; run `provost proved {step}`"));
    }
    map
}

fn as_text(
    run: &Run,
    step: StepNumber,
    work: &StepChanges,
    only_stat: bool,
    map: Option<&ProofMap>,
) -> String {
    let state = run.state_word(step).replace('_', " ");
    let mut text = format!("step {step}: {} ({state})\n", run.title(step).unwrap_or_default());
    work.lines().iter().for_each(|line| text.push_str(&format!("  {line}\n")));
    if !only_stat {
        for file in &work.files {
            text.push('\n');
            text.push_str(&match map {
                Some(map) => proof_lines::with_margin(&file.unified(), &file.path, map, coloured),
                None => file.unified().lines().map(|line| coloured(line) + "\n").collect(),
            });
        }
    }
    text.push('\n');
    text
}

/// Colours a line of a diff, on a terminal.
fn coloured(line: &str) -> String {
    match line.as_bytes().first() {
        Some(b'+') => terminal::coloured(line, "32"),
        Some(b'-') => terminal::coloured(line, "31"),
        Some(b'@') => terminal::coloured(line, "36"),
        _ => line.to_owned(),
    }
}

fn as_json(step: StepNumber, work: &StepChanges, map: Option<&ProofMap>) -> Value {
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
    let mut value = json!({ "step": step, "files": files, "others": work.others, "refused": work.refused });
    if let Some(map) = map {
        value["hunks"] = json!(map.hunks);
    }
    value
}
