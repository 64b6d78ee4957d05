//! Tries what a contract would not notice: takes code out of a tree on which it holds, or sabotages it, as
//! `provost proved` does with a change.
//!
//! **Invariant:** nothing is recorded, and no tree is changed.

use std::path::PathBuf;

use provost_core::language::source_code::FileRole;
use provost_core::language::task_names;
use provost_core::model::plan::{Step, StepNumber, Subscription};
use provost_core::rules::command::Refusal;
use provost_core::state::run::Run;
use provost_host::exec::environment::{self, TrialTree};
use provost_host::tree::Touches;

use super::TrialResults;
use crate::Error;
use crate::exec::executor::Executor;
use crate::exec::proof_map::{self, Change, MadeMap, MapListener, MapSettings, MappedStep};
use crate::plan::harness::Harness;

/// The wish to try sabotages.
#[derive(Clone, Copy)]
pub struct SabotageRequest<'a> {
    /// Files to sabotage; without any, those that the task names.
    pub globs: &'a [String],
    pub settings: MapSettings,
    pub watch: MapListener<'a>,
}

/// Where the files to sabotage are named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Named {
    /// In the task, the subscriptions and `touches` of a step.
    ByTask,
    /// By the changes of the workspace, the commit or the patch.
    ByChanges,
}

/// What came of it.
#[derive(Debug)]
pub struct SabotageTrial {
    /// The contract held on the base only, not on the tree beside it.
    pub on_base: bool,
    pub result: Result<MadeMap, &'static str>,
}

const HOLDS_NOWHERE: &str =
    "the contract fails on both trees, so no sabotage can be tried: it has to hold on one of them first";
const NO_FILES: &str = "neither the task nor a change names a file with code; name some with --in 'src/**'";
const NO_TREE: &str = "at this level provost has no tree of its own to sabotage";

pub(super) fn run(
    harness: &Harness,
    executor: &Executor<'_>,
    run: &Run,
    number: StepNumber,
    results: &TrialResults,
    wanted: &SabotageRequest<'_>,
    named: Named,
) -> Result<SabotageTrial, Error> {
    let on_base = !results.tried.held();
    let verdict = if on_base { &results.base } else { &results.tried };
    let failed = |why| Ok(SabotageTrial { on_base, result: Err(why) });
    if !verdict.held() {
        return failed(HOLDS_NOWHERE);
    }
    let Some(tree) = verdict.tree_id() else { return failed(NO_TREE) };
    let Some(kept) = executor.kept_tree(tree) else { return failed(NO_TREE) };
    let step = run.plan.step(number);
    let task = step.and_then(|step| step.task.as_ref()).map_or("", |task| task.value.as_str());
    let names = task_names::of_text(task);
    let changed = executor.changed_paths(run, tree);
    let is_wanted = selection(run, step, &changed, wanted, named)?;
    let paths = kept.files().map_err(environment::Error::from)?;
    let paths: Vec<PathBuf> =
        paths.into_iter().filter(|path| path.to_str().is_some_and(&is_wanted)).collect();
    if paths.is_empty() {
        return failed(NO_FILES);
    }
    let order = executor.order_of(run, number).ok_or(Refusal::NoCommand { step: number })?;
    let contract = executor.on_tree(&order, tree).ok_or(Refusal::NoCommand { step: number })?;
    let contract = contract.knowing(verdict.clone());
    let empty = executor.trial_tree(run, TrialTree::Empty)?;
    let subject = MappedStep {
        shell: contract.shell().clone(),
        verdict: Some(verdict.clone()),
        level: Some(verdict.isolation),
        before: empty.id.clone(),
        after: tree.to_owned(),
    };
    let functions: &[String] = if named == Named::ByTask { &names.functions } else { &[] };
    let change = Change::of_files(empty, kept, paths, functions);
    let (state, stop) = (harness.state(), &harness.site().stop);
    let made = proof_map::make(state, &change, &subject, &contract, &wanted.settings, stop, wanted.watch);
    Ok(SabotageTrial { on_base, result: Ok(made) })
}

/// Decides whether a file is sabotaged.
type PathRule<'a> = Box<dyn Fn(&str) -> bool + 'a>;

/// Returns the rule that selects the files: by `--in`; else those that the task and the subscriptions name;
/// else `touches`. A command without a plan has its changes.
fn selection<'a>(
    run: &'a Run,
    step: Option<&'a Step>,
    changed: &'a [PathBuf],
    wanted: &'a SabotageRequest<'_>,
    named: Named,
) -> Result<PathRule<'a>, Error> {
    let is_code = |path: &str| FileRole::of_path(path) == FileRole::Code;
    let by_globs = |globs: &[String]| -> Result<PathRule<'a>, Error> {
        let touches = Touches::new(globs).map_err(environment::Error::from)?;
        Ok(Box::new(move |path: &str| is_code(path) && touches.covers(path.as_bytes())))
    };
    if !wanted.globs.is_empty() {
        return by_globs(wanted.globs);
    }
    if named == Named::ByChanges {
        let is_changed = |path: &str| changed.iter().any(|file| file.as_os_str() == path);
        return Ok(Box::new(move |path: &str| is_code(path) && is_changed(path)));
    }
    let task = step.and_then(|step| step.task.as_ref()).map_or("", |task| task.value.as_str());
    let mut names = task_names::of_text(task);
    let subscribed = step.into_iter().flat_map(|step| &step.subscriptions);
    names.paths.extend(subscribed.filter_map(|subscription| match &subscription.value {
        Subscription::File(path) => Some(path.clone()),
        Subscription::Topic(_) => None,
    }));
    if names.paths.iter().any(|path| is_code(path)) {
        return Ok(Box::new(move |path: &str| is_code(path) && names.has_path(path)));
    }
    let own = step.and_then(|step| step.touches.as_ref()).or(run.plan.touches.as_ref());
    let globs: Vec<String> = own.into_iter().flatten().map(|glob| glob.value.clone()).collect();
    by_globs(&globs)
}
