use provost_engine::plan::{commands, recording};
use std::collections::BTreeMap;
use std::path::PathBuf;

use provost_core::language::template::{self, Template};
use provost_core::model::usage::Usage;
use provost_engine::manage::draft::{self, Draft, DraftRounds, Goal, Round};
use provost_engine::plan::harness::Harness;
use provost_engine::plan::reading::BoundPlan;
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::open_plan::Global;
use crate::outcome::{Answer, Outcome};
use crate::{diagnose, terminal};

/// Create a plan: a skeleton, from a template, or drafted from a goal
///
/// The plan becomes PLAN-NAME.md in the plan folder; an existing file is never overwritten. With --goal, the
/// role that [plan] names in provost.toml (default: planner) drafts it. provost verifies each draft and
/// sends it back for errors and for steps that are vague or cannot be checked, up to --rounds times. The
/// plan then waits for approval: this command approves and runs nothing.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  provost new tidy-up                                a skeleton to edit
  provost new fix-423 --template bugfix --set issue=423
  provost new --list-templates                       list the templates and their parameters
  provost new login --goal \"log in with a passkey\" --context docs/auth.md

Exit codes: 0 created · 1 the planner wrote no plan · 3 created with errors · 4 drafted, waits for approval")]
pub(super) struct Args {
    /// Name of the plan: a-z, 0-9, `.`, `_`, `-`
    #[arg(required_unless_present = "list_templates")]
    name: Option<String>,
    /// Goal in your own words; a planner agent drafts the plan
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["template", "set"])]
    goal: Option<String>,
    /// File to give to the planner; can be repeated
    #[arg(long, value_name = "FILE", requires = "goal")]
    context: Vec<PathBuf>,
    /// Maximum number of drafts [default: 4, or [plan] rounds]
    #[arg(long, value_name = "N", requires = "goal", value_parser = clap::value_parser!(u32).range(1..=20))]
    rounds: Option<u32>,
    /// Name of a template
    #[arg(long, value_name = "TEMPLATE")]
    template: Option<String>,
    /// Parameter of the template; can be repeated
    #[arg(long, value_name = "NAME=VALUE")]
    set: Vec<String>,
    /// List the templates and their parameters, then stop
    #[arg(long)]
    list_templates: bool,
}

impl Args {
    pub(super) fn starts_agents(&self) -> bool {
        self.goal.is_some()
    }
}

pub(super) fn obey(global: &Global, args: Args) -> Answer {
    if args.list_templates {
        return list(global);
    }
    let name = args.name.clone().unwrap_or_default();
    match &args.goal {
        Some(goal) => from_goal(global, &name, goal, &args),
        None => from_template(global, &name, &args),
    }
}

fn list(global: &Global) -> Answer {
    let known = draft::templates(&global.cwd()?);
    if global.json {
        let shown: Vec<Value> = known.iter().map(described).collect();
        terminal::print(&format!("{}\n", json!({ "templates": shown })))?;
        return Ok(Outcome::Done);
    }
    for each in known {
        let from = each.path.map(|path| format!("  ({})", path.display())).unwrap_or_default();
        match each.template {
            Ok(template) => {
                terminal::print(&format!("{}: {}{from}\n", each.name, template.about))?;
                for parameter in template.parameters.iter().filter(|each| each.name != template::NAME) {
                    terminal::print(&format!("    {parameter}\n"))?;
                }
            }
            Err(problem) => terminal::print(&format!("{}: cannot be used, {problem}{from}\n", each.name))?,
        }
    }
    Ok(Outcome::Done)
}

fn described(known: &draft::NamedTemplate) -> Value {
    let (about, parameters, problem) = match &known.template {
        Ok(template) => (template.about.as_str(), template.parameters.as_slice(), None),
        Err(problem) => ("", &[][..], Some(problem.to_string())),
    };
    let parameters: Vec<Value> = parameters
        .iter()
        .filter(|each| each.name != template::NAME)
        .map(|each| json!({ "name": each.name, "kind": each.kind.word(), "default": each.default, "about": each.about }))
        .collect();
    json!({ "name": known.name, "about": about, "path": known.path, "parameters": parameters, "problem": problem })
}

fn from_template(global: &Global, name: &str, args: &Args) -> Answer {
    let wanted = args.template.as_deref().unwrap_or(template::BLANK);
    let template = find(global, wanted)?;
    let values = values(&args.set)?;
    let harness = global.upcoming(name)?;
    let text = template.fill(name, &values).map_err(|problem| {
        Failure::usage(problem.to_string(), "`provost new --list-templates` shows every parameter.")
    })?;
    let reading = recording::check_text(&harness, text.into_bytes())?;
    draft::found(&harness, &reading.text)?;
    draft::record_template(&harness, wanted)?;
    show(global, &harness, &reading, None)?;
    if reading.errors() {
        terminal::talk(&format!("the plan has errors; edit it, then run `provost verify {name}`"));
        return Ok(Outcome::Diagnosed);
    }
    terminal::talk(&format!("next: edit the plan, then run `provost run {name}`"));
    Ok(Outcome::Done)
}

fn find(global: &Global, wanted: &str) -> Result<Template, Failure> {
    let known = draft::templates(&global.cwd()?);
    let names: Vec<String> = known.iter().map(|each| each.name.clone()).collect();
    match known.into_iter().find(|each| each.name == wanted).map(|each| each.template) {
        Some(Ok(template)) => Ok(template),
        Some(Err(problem)) => Err(Failure::usage(
            format!("template `{wanted}` cannot be used: {problem}"),
            "Correct the file of the template.",
        )),
        None => {
            let message = format!("there is no template `{wanted}`; there are {}", names.join(", "));
            Err(Failure::usage(message, "`provost new --list-templates` describes them."))
        }
    }
}

fn values(set: &[String]) -> Result<BTreeMap<String, String>, Failure> {
    let mut values = BTreeMap::new();
    for each in set {
        let Some((name, value)) = each.split_once('=') else {
            return Err(Failure::usage(format!("`--set {each}` has no value"), "Write --set NAME=VALUE."));
        };
        if values.insert(name.trim().to_owned(), value.to_owned()).is_some() {
            return Err(Failure::usage(
                format!("`{}` is set twice", name.trim()),
                "Set each parameter once.",
            ));
        }
    }
    Ok(values)
}

fn from_goal(global: &Global, name: &str, goal: &str, args: &Args) -> Answer {
    if goal.trim().is_empty() {
        return Err(Failure::usage("the goal is empty", "Describe the goal: --goal \"…\"."));
    }
    let cwd = global.cwd()?;
    let mut context = Vec::new();
    for path in &args.context {
        let at = cwd.join(path);
        if !at.is_file() {
            let message = format!("{} is not a file", path.display());
            return Err(Failure::usage(message, "Pass an existing file to --context."));
        }
        context.push((path.display().to_string(), at));
    }
    let harness = global.upcoming(name)?;
    commands::only_people(&harness)?;
    let role = &harness.config().plan.role;
    if !harness.config().agents.contains_key(role) {
        return Err(provost_engine::Error::NoAgent { roles: vec![role.clone()] }.into());
    }
    let goal = Goal { goal: goal.to_owned(), context, rounds: args.rounds };
    let drafting = draft::draft(&harness, &goal, &mut told)?;
    let reading = match &drafting.drafted {
        Draft::Interrupted => {
            terminal::talk("interrupted; no plan was made");
            return Ok(Outcome::Interrupted);
        }
        Draft::Nothing { why } => {
            let rounds = terminal::count(drafting.rounds, "round");
            terminal::talk(&format!("the planner wrote no plan in {rounds}: {why}"));
            return Ok(Outcome::PlanFailed);
        }
        Draft::Plan(reading) => reading,
    };
    // Keep the draft even if it has errors, because it cost money.
    draft::found(&harness, &reading.text)?;
    if reading.errors() {
        show(global, &harness, reading, Some(&drafting))?;
        terminal::talk(&format!(
            "the draft still has errors after {}; edit it, then run `provost verify {name}`",
            terminal::count(drafting.rounds, "round")
        ));
        return Ok(Outcome::Diagnosed);
    }
    let recorded = draft::record_draft(&harness, &drafting)?;
    let run = commands::request_approval(&harness)?;
    let left = provost_core::text::planner::objections(&reading.diagnostics).len();
    show(global, &harness, recorded.as_ref().unwrap_or(reading), Some(&drafting))?;
    if left > 0 {
        terminal::talk(&format!(
            "{} left after {}; read them before you approve",
            terminal::count(left, "objection"),
            terminal::count(drafting.rounds, "round")
        ));
    }
    terminal::talk(&format!(
        "the plan waits for approval: `provost show {name}`, then `provost approve {name} --revision {}`",
        run.revision.short()
    ));
    Ok(Outcome::Waiting)
}

fn told(round: &Round) {
    match round.reasons.len() {
        0 => terminal::talk(&format!("round {} of {}: no objections", round.number, round.of)),
        count => {
            let reasons = if count == 1 { "1 reason".to_owned() } else { format!("{count} reasons") };
            let back = if round.number == round.of { "objected to" } else { "sent back" };
            terminal::talk(&format!("round {} of {}: {back}, {reasons}", round.number, round.of));
            for reason in round.reasons.iter().take(5) {
                terminal::talk(&format!("  {reason}"));
            }
        }
    }
}

/// Prints the path of the new plan, and its diagnostics.
fn show(
    global: &Global,
    harness: &Harness,
    reading: &BoundPlan,
    drafting: Option<&DraftRounds>,
) -> Result<(), Failure> {
    let place = harness.place();
    if !global.json {
        let said = &reading.diagnostics;
        if !said.is_empty() {
            let colour = terminal::colour_on_stderr();
            terminal::talk(&diagnose::terminal(&reading.text, &place.name, said, colour));
        }
        return terminal::print(&format!("{}\n", place.path.display()));
    }
    let (steps, revision) = (reading.plan.steps.len(), &reading.revision.0);
    let mut shown =
        diagnose::json(&reading.text, harness.id().0.as_str(), revision, steps, &reading.diagnostics);
    shown["name"] = json!(place.name);
    shown["path"] = json!(place.path);
    if let Some(drafting) = drafting {
        shown["rounds"] = json!(drafting.rounds);
        shown["usage"] =
            json!(drafting.usage.iter().filter(|each| !each.is_unknown()).collect::<Vec<&Usage>>());
    }
    terminal::print(&format!("{shown}\n"))
}
