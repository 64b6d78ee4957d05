//! Lists the facts that verification needs, and holds the answers.
//!
//! Core does no IO, so it asks: [`questions`] lists what matters for a plan, a survey of the machine answers
//! once, and `verify` uses the answers. The same answers give the same diagnostics.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashSet};

use crate::language::runner::{self, RunnerStart};
use crate::language::shell;
use crate::model::plan::{Check, Contract, Plan, Spanned, Step, Subscription};

/// Questions for the survey, each once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Questions {
    /// Paths relative to the workspace, from subscriptions and contracts: do they exist?
    pub files: BTreeSet<String>,
    /// Program names: are they on PATH?
    pub tools: BTreeSet<String>,
    /// Absolute paths that checks name, and whether the check only reads there: can a check see them?
    pub paths: BTreeMap<String, bool>,
    /// Scripts: does `bash -n` accept them?
    pub scripts: BTreeSet<String>,
    /// Topics: does a topic file of that name exist?
    pub topics: BTreeSet<String>,
    /// Other plans by slug: what do they wait for?
    pub plans: BTreeSet<String>,
    /// Globs of `touches`: do they name what git ignores?
    pub globs: BTreeSet<String>,
}

/// The answers of the survey. Facts that were not asked for are absent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// The workspace is inside a git repository.
    pub git: bool,
    /// The slug of the plan itself, for cycles between plans.
    pub slug: String,
    /// The roles that resolve to an agent.
    pub targets: BTreeSet<String>,
    /// The existing ones of the files asked for.
    pub files: BTreeSet<String>,
    /// The missing ones of the tools asked for.
    pub missing_tools: BTreeSet<String>,
    /// The paths asked for that exist, or whose folder does, and that no check can see.
    pub unseen: BTreeSet<String>,
    /// Secrets that the configuration allows for checks.
    pub secrets: BTreeSet<String>,
    /// The scripts asked for that bash rejects, with its message.
    pub broken_scripts: BTreeMap<String, String>,
    /// bash is not installed here, so no script was checked.
    pub no_bash: bool,
    /// Why agents can see hidden contracts on this machine.
    pub in_sight: Option<String>,
    /// The configured judge of contracts that no command decides.
    pub judge: Option<String>,
    /// A file of the judge's own program that is in a folder where agents work.
    pub judge_within: Option<String>,
    /// Roles that use the same model as the judge.
    pub judges_models: BTreeSet<String>,
    /// Roles whose program an attempt could not start, and why.
    pub not_startable: BTreeMap<String, String>,
    pub topics: BTreeSet<String>,
    /// Every plan that was found, with the slugs of the plans it depends on and of its sub-plans.
    pub plans: BTreeMap<String, Vec<String>>,
    /// The globs asked for that match something git ignores.
    pub ignored_globs: BTreeSet<String>,
}

/// Lists the facts that verification of this plan needs.
pub fn questions(plan: &Plan) -> Questions {
    let mut seen = Seen::default();
    seen.plans.extend(plan.depends_on.iter().map(|slug| slug.value.as_str()));
    for step in &plan.steps {
        for subscription in &step.subscriptions {
            match &subscription.value {
                Subscription::File(path) => seen.files.insert(path),
                Subscription::Topic(name) => seen.topics.insert(name),
            };
        }
        seen.plans.extend(step.plan.iter().map(|slug| slug.value.as_str()));
        for contract in step.precondition.iter().chain(&step.contract) {
            ask_about(contract, &mut seen);
        }
    }
    for contract in plan.postconditions.iter().filter_map(|postcondition| postcondition.contract.as_ref()) {
        ask_about(contract, &mut seen);
    }
    seen.tools.extend(plan.named_checks.values().flat_map(|check| &check.needs).map(Cow::from));
    let mut files = owned(seen.files);
    files.extend(plan.steps.iter().flat_map(test_files));
    Questions {
        files,
        tools: seen.tools.into_iter().map(Cow::into_owned).collect(),
        paths: seen.paths,
        scripts: owned(seen.scripts),
        topics: owned(seen.topics),
        plans: owned(seen.plans),
        globs: globs_of(plan).map(|glob| glob.value.clone()).collect(),
    }
}

/// Returns the globs of the plan and its steps.
pub(crate) fn globs_of(plan: &Plan) -> impl Iterator<Item = &Spanned<String>> {
    let of_steps = plan.steps.iter().flat_map(|step| step.touches.iter().flatten());
    plan.touches.iter().flatten().chain(of_steps)
}

fn test_files(step: &Step) -> Vec<String> {
    match step.contract.as_ref().map(|contract| &contract.check) {
        Some(Check::Shell(shell)) => files_of(runner::started(&shell.command)),
        _ => Vec::new(),
    }
}

/// Returns the test files that the contract names to its runners.
pub fn files_of(started: Vec<RunnerStart>) -> Vec<String> {
    let places = started
        .into_iter()
        // A contract that is meant to fail also names its files.
        .map(|started| RunnerStart { negated: false, ..started })
        .filter_map(|started| runner::selection(&started).ok())
        .flat_map(|chosen| chosen.places);
    places.filter(|path| path.rsplit('/').next().is_some_and(|name| name.contains('.'))).collect()
}

/// Collects borrowed values: most occur many times, and only the distinct ones are copied at the end.
#[derive(Default)]
struct Seen<'p> {
    files: HashSet<&'p str>,
    tools: HashSet<Cow<'p, str>>,
    paths: BTreeMap<String, bool>,
    scripts: HashSet<&'p str>,
    topics: HashSet<&'p str>,
    plans: HashSet<&'p str>,
}

fn owned(set: HashSet<&str>) -> BTreeSet<String> {
    set.into_iter().map(str::to_string).collect()
}

fn ask_about<'p>(contract: &'p Contract, seen: &mut Seen<'p>) {
    let Check::Shell(shell) = &contract.check else { return };
    if seen.scripts.insert(&shell.command) {
        let script = shell::read(&shell.command);
        seen.tools.extend(shell::tools(&shell.command, &script).into_iter().map(|tool| tool.name));
        for path in shell::outer_paths(&shell.command) {
            *seen.paths.entry(path.path).or_default() |= path.looked_at;
        }
    }
}
