//! Drafts plans from goals: a role drafts and provost verifies, until the draft is good enough or the rounds
//! are used up. The result is a plan file that waits at the gate.
//!
//! **Invariant:** nothing here approves a plan or overwrites an existing one.

use crate::plan::recording;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use provost_core::language::plan_writer;
use provost_core::language::template::{self, Template, TemplateProblem};
use provost_core::model::check_author::CheckAuthor;
use provost_core::model::event::AttemptEnd;
use provost_core::model::plan::StepNumber;
use provost_core::model::usage::{Amount, Usage};

use provost_core::text::planner::{self, PlannerRequest, RejectedDraft};
use provost_core::text::prompt::PromptContext;
use provost_host::agent::AttemptReport;
use provost_host::exec::environment::ExecEnv;
use provost_host::plans::plan_file;
use provost_host::{files, git, project};

use super::planner_env::PlannerEnv;
use crate::Error;
use crate::exec::consult::{self, ConsultRequest};
use crate::exec::metering::RunMetering;
use crate::plan::harness::Harness;
use crate::plan::reading::BoundPlan;

/// Maximum size of a context file for the planner.
const CONTEXT_BYTES: usize = 64 * 1024;
const DRAFT_BYTES: usize = 1 << 20;
/// File that the planner may write instead of printing the plan.
const ANSWER: &str = "PLAN.md";

/// Request for a draft.
pub struct Goal {
    pub goal: String,
    /// Context files, as given and as resolved paths.
    pub context: Vec<(String, PathBuf)>,
    /// Maximum number of rounds; `None` for the configured one.
    pub rounds: Option<u32>,
}

/// Result of one round, for progress output.
pub struct Round {
    pub number: u32,
    pub of: u32,
    /// Why the draft goes back to the planner; empty if it does not.
    pub reasons: Vec<String>,
}

pub enum Draft {
    /// The planner returned no plan.
    Nothing {
        why: String,
    },
    /// The last draft with its remaining diagnostics.
    Plan(Box<BoundPlan>),
    Interrupted,
}

pub struct DraftRounds {
    pub drafted: Draft,
    pub rounds: u32,
    /// Usage of each round, as far as it was counted.
    pub usage: Vec<Usage>,
}

/// Has the planner draft a new plan. Writes nothing.
pub fn draft(harness: &Harness, goal: &Goal, watch: &mut dyn FnMut(&Round)) -> Result<DraftRounds, Error> {
    let env = PlannerEnv::prepare(harness, "draft")?;
    rounds(harness, goal, &env.ground, env.desk.path(), watch)
}

fn rounds(
    harness: &Harness,
    goal: &Goal,
    ground: &ExecEnv,
    desk: &Path,
    watch: &mut dyn FnMut(&Round),
) -> Result<DraftRounds, Error> {
    let planning = &harness.config().plan;
    let of = goal.rounds.unwrap_or(planning.rounds).max(1);
    let context: Vec<PromptContext> =
        goal.context.iter().map(|(name, path)| context(&harness.place().workspace, name, path)).collect();
    // The roles of the planner and the judge are not for work.
    let judge = harness.config().judge.role.as_ref();
    let workers =
        harness.config().agents.keys().filter(|role| **role != planning.role && Some(*role) != judge);
    let roles: Vec<String> = workers.cloned().collect();
    let answer = desk.join(ANSWER);
    let file = answer.to_string_lossy().into_owned();
    let request = PlannerRequest { goal: &goal.goal, context: &context, roles: &roles, file: Some(&file) };
    let metering = RunMetering::default();
    let mut usage = Vec::new();
    let mut last: Option<BoundPlan> = None;
    let mut reasons: Vec<String> = Vec::new();
    for number in 1..=of {
        let text = last.as_ref().map(|reading| reading.text.as_str());
        let returned = (number > 1).then(|| RejectedDraft { text, reasons: reasons.clone() });
        let question = ConsultRequest {
            role: &planning.role,
            prompt: &planner::ask(&request, returned.as_ref()),
            round: number,
            step: StepNumber(0),
            timeout: harness.config().run.step_timeout,
            tag: &format!("{}/draft/{number}", harness.id()),
            sees: &harness.place().workspace,
            answers: Some(desk),
            answer_schema: None,
            limit: Amount::default(),
        };
        let said = match consult::ask(harness.site(), ground, &metering, &question) {
            Err(provost_host::Interrupted) => {
                return Ok(DraftRounds { drafted: Draft::Interrupted, rounds: number, usage });
            }
            Ok(Err(why)) => {
                return Ok(DraftRounds { drafted: Draft::Nothing { why }, rounds: number, usage });
            }
            Ok(Ok(said)) => said,
        };
        usage.push(said.usage.clone());
        let text = written(&answer, harness).or_else(|| planner::found_in(&said.report));
        let _ = std::fs::remove_file(&answer);
        reasons = match text {
            Some(text) => {
                let (reading, reasons) = verified(harness, &text)?;
                last = Some(reading);
                reasons
            }
            None => vec![missing(&said)],
        };
        watch(&Round { number, of, reasons: reasons.clone() });
        let is_hopeless = matches!(said.end, AttemptEnd::NotStarted { .. });
        if reasons.is_empty() || is_hopeless || number == of {
            let why = reasons.pop().unwrap_or_default();
            let drafted = last.map_or(Draft::Nothing { why }, |reading| Draft::Plan(Box::new(reading)));
            return Ok(DraftRounds { drafted, rounds: number, usage });
        }
    }
    Ok(DraftRounds { drafted: Draft::Nothing { why: "no round was run".to_owned() }, rounds: 0, usage })
}

/// Verifies a draft. Returns it with the reasons for which it goes back to the planner.
fn verified(harness: &Harness, text: &str) -> Result<(BoundPlan, Vec<String>), Error> {
    let reading = recording::check_text(harness, plan_writer::with_red_first(text).into_bytes())?;
    let objections = planner::objections(&reading.diagnostics);
    let reasons = objections.iter().map(|each| planner::reason(&reading.text, each));
    let count = planner::count_objection(&reading.text, &reading.plan);
    let reasons = reasons.chain(count).collect();
    Ok((reading, reasons))
}

/// Records a plan without errors that a model drafted, with the usage of the draft.
pub fn record_draft(harness: &Harness, drafting: &DraftRounds) -> Result<Option<BoundPlan>, Error> {
    let reading = recording::check(harness)?;
    if reading.errors() {
        return Ok(None);
    }
    let planner = CheckAuthor::Planner(harness.config().plan.role.clone());
    recording::record_text_of(harness, &reading, planner, &drafting.usage)?;
    let run = recording::record(harness, &reading)?;
    recording::project(harness, &run);
    Ok(Some(reading))
}

/// Records that a template wrote the plan file. If it has errors, a person has to edit it first.
pub fn record_template(harness: &Harness, name: &str) -> Result<(), Error> {
    let reading = recording::check(harness)?;
    if !reading.errors() {
        recording::record_text_of(harness, &reading, CheckAuthor::Template(name.to_owned()), &[])?;
    }
    Ok(())
}

/// Creates the plan file, if none exists.
pub fn found(harness: &Harness, text: &str) -> Result<(), Error> {
    Ok(plan_file::create(&harness.place().path, text.as_bytes())?)
}

fn context(workspace: &Path, name: &str, path: &Path) -> PromptContext {
    let content = files::beginning(workspace, path, CONTEXT_BYTES).map_err(|error| error.to_string());
    PromptContext { name: format!("file:{name}"), content }
}

/// Returns the file that the planner wrote, if it is not empty.
fn written(path: &Path, harness: &Harness) -> Option<String> {
    let desk = path.parent()?;
    let text = files::beginning(desk, path, DRAFT_BYTES).ok().filter(|text| !text.trim().is_empty())?;
    Some(harness.redactor().text(&text).into_owned())
}

fn missing(said: &AttemptReport) -> String {
    match said.end {
        AttemptEnd::Exited { exit_code: 0 } => {
            "the planner's answer has no plan; a plan begins with `---` and `status: draft`".to_owned()
        }
        _ => format!("the planner returned no plan: {}", consult::end_of(said)),
    }
}

/// A template with its name and origin.
pub struct NamedTemplate {
    pub name: String,
    /// `None` for a built-in template.
    pub path: Option<PathBuf>,
    pub template: Result<Template, TemplateProblem>,
}

/// Returns every template: the user's own, which override built-in ones of the same name, then the built-in
/// ones. Their defaults follow the project: its test command, its folders.
pub fn templates(cwd: &Path) -> Vec<NamedTemplate> {
    let workspace = git::top(cwd).unwrap_or_else(|| cwd.to_owned());
    templates_for(cwd, &project::look(&workspace, cwd, None).facts())
}

/// Returns every template, with these facts of the project in its defaults.
pub fn templates_for(cwd: &Path, facts: &BTreeMap<String, String>) -> Vec<NamedTemplate> {
    let read = |text: &str| Template::read(text).map(|template| template.for_project(facts));
    let folder = plan_file::templates(cwd);
    let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut own: Vec<PathBuf> =
        entries.filter(|path| path.extension().is_some_and(|extension| extension == "md")).collect();
    own.sort();
    let mut known: Vec<NamedTemplate> = own
        .into_iter()
        .filter_map(|path| {
            let text = files::beginning(cwd, &path, DRAFT_BYTES).ok()?;
            let name = path.file_stem()?.to_string_lossy().into_owned();
            Some(NamedTemplate { name, path: Some(path), template: read(&text) })
        })
        .collect();
    for (name, text) in template::BUILT_IN {
        if !known.iter().any(|other| other.name == name) {
            known.push(NamedTemplate { name: name.to_owned(), path: None, template: read(text) });
        }
    }
    known
}
