//! Says where you are and what to do next: `provost` without a command.

use provost_core::language::shell_word::quoted;
use provost_core::state::run::Stage;
use provost_engine::observe::agenda::{self, PlanEntry};
use provost_engine::observe::view::PlanState;
use provost_engine::plan::plan_registry::Here;
use provost_engine::project::{self, Language};
use serde::Serialize;

use crate::failure::Failure;
use crate::open_plan::Global;
use crate::outcome::{Answer, Outcome};
use crate::terminal;

const INIT: &str = "git init";
const COMMIT: &str = "git add -A && git commit -m start";
/// Most plans that are listed.
const PLANS_MAX: usize = 8;

/// A command, and what it does.
#[derive(Serialize)]
pub(crate) struct NextCommand {
    pub command: String,
    pub about: &'static str,
}

impl NextCommand {
    pub(crate) fn new(global: &Global, words: &str, about: &'static str) -> Self {
        let dir = global.dir.as_ref().map(|dir| quoted(&dir.to_string_lossy()));
        let dir = dir.map(|dir| format!(" -C {dir}")).unwrap_or_default();
        Self { command: format!("provost{dir} {words}").trim_end().to_owned(), about }
    }
}

/// Returns the commands as aligned lines.
pub(crate) fn lines(next: &[NextCommand]) -> String {
    let width = next.iter().map(|each| each.command.chars().count()).max().unwrap_or(0);
    next.iter().map(|each| format!("  {:<width$}   {}\n", each.command, each.about)).collect()
}

#[derive(Serialize)]
struct HereDocument<'a> {
    folder: &'a std::path::Path,
    /// It is in a git repository.
    repository: bool,
    language: Option<&'static str>,
    /// There is a provost.toml.
    configured: bool,
    plans: Vec<PlanLine>,
    next: Vec<NextCommand>,
}

/// A plan, its state in words, and the command for it.
#[derive(Serialize)]
struct PlanLine {
    name: String,
    state: String,
    #[serde(flatten)]
    next: NextCommand,
    #[serde(skip)]
    urgency: u8,
}

pub(crate) fn tell(global: &Global) -> Answer {
    let settings = global.settings_without_signals(None)?;
    let here = Here::of(&settings.cwd);
    let workspace = here.workspace();
    let mut plans: Vec<PlanLine> =
        agenda::read(&settings)?.listed.iter().map(|plan| line(global, plan)).collect();
    plans.sort_by_key(|plan| plan.urgency);
    let configured = workspace.join("provost.toml").is_file();
    let found = HereDocument {
        folder: workspace,
        repository: here.is_repository(),
        language: project::look(workspace, &settings.cwd, None).language.map(Language::title),
        configured,
        next: next(global, &here, configured, plans.is_empty()),
        plans,
    };
    if global.json {
        terminal::print_json(&found)?;
    } else {
        terminal::print(&text(&found))?;
    }
    Ok(Outcome::Done)
}

fn next(global: &Global, here: &Here, configured: bool, no_plans: bool) -> Vec<NextCommand> {
    let of = |words: &str, about| NextCommand::new(global, words, about);
    let demo = || of("demo", "watch an agent get caught: offline, no key");
    let git = |words: &str, about| {
        let dir = global.dir.as_ref().map(|dir| quoted(&dir.to_string_lossy()));
        let command = match dir {
            Some(dir) => format!("cd {dir} && {words}"),
            None => words.to_owned(),
        };
        NextCommand { command, about }
    };
    let mut next = match (no_plans, configured) {
        (true, _) if !here.is_repository() => vec![git(INIT, "make this folder a repository"), demo()],
        (true, _) if !here.has_commit() => vec![git(COMMIT, "plans start from a commit"), demo()],
        (true, false) => {
            vec![of("start", "set up agents and checks, and run a first verified step"), demo()]
        }
        (true, true) => vec![
            of("start", "run a first verified step"),
            of("new --list-templates", "list the templates for plans"),
        ],
        (false, _) => vec![of("new --list-templates", "list the templates for new plans")],
    };
    next.push(of("--help", "all commands"));
    next
}

fn text(found: &HereDocument<'_>) -> String {
    let place = found.folder.display();
    let language = found.language.map(|language| format!("{language}, ")).unwrap_or_default();
    let mut text = match (found.repository, found.plans.len()) {
        (false, 0) => format!("{place}: no git repository, no plans\n"),
        (_, 0) if found.configured => format!("{place}: {language}no plans yet\n"),
        (_, 0) => format!("{place}: {language}not set up for provost\n"),
        (_, count) => format!("{place}: {language}{}\n", terminal::count(count, "plan")),
    };
    text.push('\n');
    let width = |of: fn(&PlanLine) -> &str| {
        found.plans.iter().take(PLANS_MAX).map(|plan| of(plan).chars().count()).max().unwrap_or(0)
    };
    let (names, states) = (width(|plan| &plan.name), width(|plan| &plan.state));
    for plan in found.plans.iter().take(PLANS_MAX) {
        let PlanLine { name, state, next, .. } = plan;
        text.push_str(&format!("  {name:<names$}   {state:<states$}   {}\n", next.command));
    }
    match found.plans.len().saturating_sub(PLANS_MAX) {
        0 if found.plans.is_empty() => {}
        0 => text.push('\n'),
        more => text.push_str(&format!("  and {more} more: `provost list`\n\n")),
    }
    text + &lines(&found.next)
}

fn line(global: &Global, plan: &PlanEntry) -> PlanLine {
    let card = &plan.card;
    let name = quoted(&card.name);
    let steps = format!("{} {}", card.progress(), if card.total == 1 { "step" } else { "steps" });
    let of = |command: &str| format!("{command} {name}");
    let (urgency, words, about) = match card.state {
        _ if card.trouble.is_some() => (3, of("audit"), "check its log"),
        PlanState::WaitingForYou if card.stage == Stage::Verified => {
            (1, of("run"), "read it, approve it and run it")
        }
        PlanState::WaitingForYou => (0, "inbox".to_owned(), "list what waits for you"),
        PlanState::Failed => (2, of("status"), "show where"),
        PlanState::Idle => (3, of("run"), "continue it"),
        PlanState::Running => (4, of("status"), "show the state of each step"),
        PlanState::Draft => (5, of("verify"), "check the plan; nothing runs"),
        PlanState::Done if card.landed.is_some() => (7, of("status"), "show the state of each step"),
        PlanState::Done => (6, of("commit"), "commit the judged files to a branch"),
    };
    let state = match (&card.trouble, &card.landed) {
        (Some(_), _) => "has a problem".to_owned(),
        (None, Some(target)) => format!("landed on {target}"),
        (None, None) => format!("{}, {steps}", card.state.word()),
    };
    PlanLine { name: card.name.clone(), state, next: NextCommand::new(global, &words, about), urgency }
}

/// Returns an error if there is no repository, or no commit that a plan can start from.
pub(crate) fn needs_a_commit(here: &Here) -> Result<(), Failure> {
    let place = here.workspace().display();
    if !here.is_repository() {
        let message = format!("{place} is not in a git repository");
        return Err(Failure::usage(message, format!("`{INIT}` makes it one; `provost demo` needs none.")));
    }
    if !here.has_commit() {
        let message = format!("the repository {place} has no commit that a plan can start from");
        return Err(Failure::usage(message, format!("Commit your files: `{COMMIT}`.")));
    }
    Ok(())
}
