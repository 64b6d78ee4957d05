//! The guided first run: looks at the repository, tries its checks, writes the configuration, and runs a
//! first plan.
//!
//! **Invariant:** without a yes of the person nothing is written, and no plan is approved.

mod checks;
mod config_text;
mod first_plan;
mod report;
pub(crate) mod result_words;
mod roles;

use std::path::{Path, PathBuf};

use provost_engine::plan::commands;
use provost_engine::plan::harness::Harness;
use provost_engine::plan::plan_registry::{self, Here};
use provost_engine::project::{self, CheckCandidates, Language, Project};
use provost_engine::settings::EngineSettings;

use crate::clients::install_manifest::Ledger;
use crate::clients::{Change, Ground, difference};
use crate::failure::Failure;
use crate::open_plan::Global;
use crate::outcome::{Answer, Outcome};
use crate::{clients, here, terminal};
use report::StartReport;

/// Name of the plan.
const PLAN: &str = "first";

pub(crate) struct StartOptions {
    pub yes: bool,
    pub dry_run: bool,
    pub agent: Option<String>,
    pub language: Option<Language>,
    /// The command that runs the tests.
    pub check: Option<String>,
}

pub(crate) fn guide(global: &Global, options: &StartOptions) -> Answer {
    let settings = global.settings(None)?;
    let here = Here::of(&settings.cwd);
    here::needs_a_commit(&here)?;
    let mut report = StartReport::new(global, here.workspace());
    let outcome = match plan_registry::resolve(Some(PLAN), &settings.cwd).is_ok() {
        true => {
            report.say(&format!("the plan `{PLAN}` exists, so provost continues it"));
            first_plan::run(global, options, &mut report)?
        }
        false => set_up(global, options, &settings, &here, &mut report)?,
    };
    report.end(outcome)?;
    Ok(outcome)
}

fn set_up(
    global: &Global,
    options: &StartOptions,
    settings: &EngineSettings,
    here: &Here,
    report: &mut StartReport<'_>,
) -> Answer {
    let ground = ground(settings, here)?;
    let project = look(here, &settings.cwd, options);
    report.project(&project);
    if project.checks.is_empty() {
        return Err(Failure::usage(
            "provost found no Python, Node, Rust or Go project in this repository, and no `make test`",
            "Name the command that runs your tests: `provost start --test 'COMMAND'`.",
        ));
    }
    let had_folder = here.workspace().join(".harness").exists();
    let outcome = propose(global, options, settings, &ground, &project, report);
    if !had_folder {
        // Opening the plan made the folder; if nothing was written into it, it goes again.
        clients::clear(&[here.workspace().join(".harness")]);
    }
    outcome
}

fn propose(
    global: &Global,
    options: &StartOptions,
    settings: &EngineSettings,
    ground: &Ground,
    project: &Project,
    report: &mut StartReport<'_>,
) -> Answer {
    let harness = global.upcoming(PLAN)?;
    commands::only_people(&harness)?;
    let may_ask = terminal::is_interactive() && !global.json && !options.yes;
    let roles = roles::choose(&harness, ground, options, may_ask)?;
    report.agents(&roles);
    if !options.yes && !options.dry_run && !may_ask {
        report.untried(project);
        report.say("nothing was run or written: `provost start --yes` goes on without a question, `provost start --dry-run` only tries the checks");
        return Ok(Outcome::Waiting);
    }
    let tried = checks::run(&harness, project, report)?;
    let Some(choice) = first_plan::choose(project, &tried, &roles) else {
        report.say("no test command runs here, so nothing could check a first step; nothing was written");
        report.say("mend what is named above, or choose the command: `provost start --test 'COMMAND'`");
        return Ok(Outcome::Diagnosed);
    };
    let text = first_plan::text(&settings.cwd, &choice)?;
    let changes = proposed_files(&harness, ground, settings, options, may_ask, (&roles, &tried))?;
    for change in &changes {
        let name = change.path.strip_prefix(&ground.workspace).unwrap_or(&change.path);
        report.show(&difference::unified(
            &name.to_string_lossy(),
            change.now.as_deref(),
            Some(change.after()),
        ));
    }
    report.say(&format!("and .harness/PLAN-{PLAN}.md, a plan with one step: {}", choice.about));
    if options.dry_run {
        report.show(&text);
        return Ok(Outcome::Done);
    }
    if may_ask && !terminal::agrees("Write these files?")? {
        report.say("nothing was written");
        return Ok(Outcome::Waiting);
    }
    write(settings, &changes, report)?;
    first_plan::write(global, &text, report)?;
    first_plan::run(global, options, report)
}

fn look(here: &Here, cwd: &Path, options: &StartOptions) -> Project {
    let mut project = project::look(here.workspace(), cwd, options.language);
    if let Some(command) = &options.check {
        project.checks.retain(|check| check.name != project::TEST);
        let own = CheckCandidates { name: project::TEST, commands: vec![command.clone()] };
        project.checks.insert(0, own);
    }
    project
}

fn ground(settings: &EngineSettings, here: &Here) -> Result<Ground, Failure> {
    let home = settings.environment.iter().find(|(name, _)| name == "HOME").map(|(_, home)| home);
    let home = home.ok_or_else(|| Failure::usage("HOME is not set", "Set it to your home folder."))?;
    Ok(Ground {
        program: "provost".to_owned(),
        workspace: here.workspace().to_owned(),
        home: PathBuf::from(home),
        user: false,
        environment: settings.environment.clone(),
    })
}

/// Returns the changes to the configuration and, if the person wants it, to the ignore rules.
fn proposed_files(
    harness: &Harness,
    ground: &Ground,
    settings: &EngineSettings,
    options: &StartOptions,
    may_ask: bool,
    (roles, tried): (&roles::Roles, &[provost_engine::exec::check_trial::TriedCheck]),
) -> Result<Vec<Change>, Failure> {
    let ignores = match may_ask && !options.dry_run {
        true => terminal::agrees("Let git ignore provost's progress files (.harness/.gitignore)?")?,
        false => true,
    };
    let tables = config_text::tables(harness, roles, tried);
    let wanted = ground.starting(&config_text::whole(&tables), &tables, ignores);
    let ledger = Ledger::open(&settings.state);
    let mut changes = Vec::new();
    for wanted in wanted {
        let change = wanted.change(&ledger, ground.project_root(), &[]);
        changes.extend(change.map_err(|trouble| {
            Failure::usage(
                format!("{} cannot be changed: {trouble}", wanted.path.display()),
                "Correct the file, then run `provost start` again.",
            )
        })?);
    }
    Ok(changes)
}

fn write(settings: &EngineSettings, changes: &[Change], report: &mut StartReport<'_>) -> Result<(), Failure> {
    let ledger = Ledger::open(&settings.state);
    for change in changes {
        change.write(&ledger).map_err(|trouble| {
            Failure::usage(
                format!("{} was not written: {trouble}", change.path.display()),
                "Correct this, then run `provost start` again.",
            )
        })?;
        report.wrote(&change.path);
    }
    Ok(())
}
