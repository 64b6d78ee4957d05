//! The first plan: chosen by the result of the tests, approved by the person, and run.

use std::collections::BTreeMap;
use std::path::Path;

use provost_core::language::template;
use provost_core::model::verdict::CheckOutcome;
use provost_core::state::run::{Run, Stage};
use provost_core::text::render;
use provost_engine::exec::check_trial::TriedCheck;
use provost_engine::manage::draft;
use provost_engine::observe::inbox;
use provost_engine::plan::harness::Harness;
use provost_engine::plan::{commands, recording};
use provost_engine::project::{self, Project};
use provost_engine::run::{run_plan, starting};
use provost_engine::settings::Access;

use super::report::StartReport;
use super::roles::Roles;
use super::{PLAN, StartOptions};
use crate::failure::Failure;
use crate::open_plan::Global;
use crate::outcome::{Answer, Outcome};
use crate::plan_document::ShownPlan;
use crate::run_view::Live;
use crate::terminal::{self, Gate};

/// A template for the first plan, with the facts of the project.
pub(super) struct FirstPlan {
    template: &'static str,
    facts: BTreeMap<String, String>,
    role: String,
    pub about: &'static str,
}

/// Chooses the plan: mend tests that fail, or add a test. `None` if no test command runs here.
pub(super) fn choose(project: &Project, tried: &[TriedCheck], roles: &Roles) -> Option<FirstPlan> {
    let test = tried.iter().find(|check| check.name == project::TEST)?;
    let (template, about) = match test.verdict.outcome {
        CheckOutcome::Held => (template::FIRST_TEST, "add a test"),
        CheckOutcome::Broke { .. } if project.has_tests => (template::MEND_TESTS, "make the tests pass"),
        CheckOutcome::Broke { .. } => (template::FIRST_TEST, "add the first test"),
        _ => return None,
    };
    if template == template::FIRST_TEST && project.first_test.is_none() {
        return None;
    }
    let mut facts = project.facts();
    facts.insert("test".to_owned(), test.command.clone());
    Some(FirstPlan { template, facts, role: roles.worker.clone(), about })
}

/// Returns the text of the plan.
pub(super) fn text(cwd: &Path, choice: &FirstPlan) -> Result<String, Failure> {
    let known = draft::templates_for(cwd, &choice.facts);
    let found = known.into_iter().find(|each| each.name == choice.template).map(|each| each.template);
    let values = BTreeMap::from([("role".to_owned(), choice.role.clone())]);
    let filled = match found {
        Some(Ok(template)) => template.fill(PLAN, &values),
        Some(Err(problem)) => Err(problem),
        None => return Err(unusable(choice, "it does not exist")),
    };
    filled.map_err(|problem| unusable(choice, &problem.to_string()))
}

fn unusable(choice: &FirstPlan, problem: &str) -> Failure {
    Failure::usage(
        format!("the template `{}` cannot be used: {problem}", choice.template),
        "`provost new --list-templates` lists the templates; a file in .harness/templates overrides a built-in one.",
    )
}

/// Writes the plan file.
pub(super) fn write(global: &Global, text: &str, report: &mut StartReport<'_>) -> Result<(), Failure> {
    let harness = global.upcoming(PLAN)?;
    draft::found(&harness, text)?;
    report.wrote(&harness.place().path);
    Ok(())
}

/// Has the plan approved, runs it and reports the verdict.
pub(super) fn run(global: &Global, options: &StartOptions, report: &mut StartReport<'_>) -> Answer {
    let harness = global.open(Some(PLAN), Access::Write)?;
    commands::only_people(&harness)?;
    let (run, reading) = recording::bring_up(&harness)?;
    // Advice, such as about the number of steps, would only distract here.
    let reading = reading.filter(|reading| reading.warnings() > 0);
    let mut stage = run.stage;
    if !matches!(stage, Stage::Done | Stage::Failed) {
        starting::ready_to_drive(&harness, &run)?;
    }
    if stage == Stage::Verified {
        let run = commands::request_approval(&harness)?;
        if !global.json {
            terminal::tell_of_base(&harness, &run);
        }
        stage = match approved(&harness, &run, reading.as_ref(), options, global.json)? {
            Gate::Approved(run) => run.stage,
            Gate::Rejected => return ended(&harness, report, Outcome::Refused),
            Gate::Waiting => return ended(&harness, report, Outcome::Waiting),
        };
    }
    if matches!(stage, Stage::Approved | Stage::InProgress) {
        drive(global, &harness)?;
    }
    let outcome = match harness.run()?.stage {
        Stage::Done => Outcome::Done,
        Stage::Failed => Outcome::PlanFailed,
        Stage::Draft | Stage::Verified | Stage::Approved | Stage::InProgress => Outcome::Waiting,
    };
    ended(&harness, report, outcome)
}

/// Asks the person at the terminal; with `--yes` the person has approved already.
fn approved(
    harness: &Harness,
    run: &Run,
    reading: Option<&provost_engine::plan::reading::BoundPlan>,
    options: &StartOptions,
    is_quiet: bool,
) -> Result<Gate, Failure> {
    if !options.yes && terminal::is_interactive() && !is_quiet {
        return terminal::gate(harness, run, reading, terminal::user());
    }
    if !options.yes {
        let name = &harness.place().name;
        terminal::talk(&format!(
            "the plan waits for approval: `provost show {name}`, then `provost approve {name} --revision {}`",
            run.revision.short()
        ));
        return Ok(Gate::Waiting);
    }
    if !is_quiet {
        terminal::talk(&render::plan(run));
    }
    let by = format!("{} (by provost start --yes)", terminal::user());
    let run = commands::approve(harness, run, run.revision.clone(), by)?;
    Ok(match run.approved_by.is_some() {
        true => Gate::Approved(Box::new(run)),
        false => Gate::Waiting,
    })
}

fn drive(global: &Global, harness: &Harness) -> Result<(), Failure> {
    let live = (!global.json).then(|| harness.run().map(|run| Live::new(false, &run))).transpose()?;
    run_plan::drive(harness, 1, &mut |run, sealed, event| {
        live.iter().for_each(|live| live.event(run, sealed, event));
    })?;
    live.into_iter().for_each(Live::end);
    Ok(())
}

/// Reports the state of the plan and what waits for the person.
fn ended(harness: &Harness, report: &mut StartReport<'_>, outcome: Outcome) -> Answer {
    let run = harness.run()?;
    for item in inbox::plan_items(harness, &run)? {
        report.say(&format!("  {item}"));
    }
    report.plan(ShownPlan::of(harness, run, false)?);
    Ok(outcome)
}
