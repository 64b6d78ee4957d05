//! Rates a contract that was tried: by its text, on an empty tree, and by runs under observation.
//!
//! **Invariant:** the runs here decide nothing: the verdicts of a trial come from runs without observation.

use std::time::Duration;

use provost_core::language::facts::files_of;
use provost_core::language::observation::{self, Observation, REORDERED, TestOrder};
use provost_core::language::{contract_signs, runner, shell, test_files};
use provost_core::model::contract_traits::{ContractTraits, Evidence};
use provost_core::model::plan::StepNumber;
use provost_core::model::verdict::{CheckOutcome, Verdict};
use provost_core::rules::contract_score::{self, ContractScore};
use provost_core::state::run::Run;
use provost_host::Interrupted;
use provost_host::exec::environment::TrialTree;
use provost_host::tree::Base;
use serde::Serialize;

use super::TrialResults;
use crate::exec::executor::Executor;
use crate::exec::executor::varied::TreeContract;
use crate::exec::proof_map::VariedContract as _;
use crate::plan::kept_trees;

/// A check that takes longer is not run again to rate it.
const SLOW: Duration = Duration::from_secs(120);
/// Most files whose code is read, and the longest of them.
const FILES_MAX: usize = 100;
const FILE_BYTES: u64 = 256 * 1024;
/// Files that an observed run changed and that are named.
const NAMED_MAX: usize = 3;

/// How good a contract is, and what could not be tried.
#[derive(Debug, Serialize)]
pub struct RatedContract {
    #[serde(flatten)]
    pub score: ContractScore,
    /// Sentences about what was not tried.
    pub untried: Vec<String>,
}

/// Rates the contract of a step by its results on both trees.
pub(super) fn of_trial(
    executor: &Executor<'_>,
    run: &Run,
    number: StepNumber,
    results: &TrialResults,
) -> Result<RatedContract, Interrupted> {
    let TrialResults { base, tried, .. } = results;
    let shown = if tried.held() || !base.held() { tried } else { base };
    let order = executor.order_of(run, number);
    let tree = shown.tree_id().map(str::to_owned).or_else(|| executor.standing_tree(run));
    let contract = order.as_ref().and_then(|order| executor.on_tree(order, tree.as_deref()?));
    let mut untried = Vec::new();
    let (mut traits, seen) = match &contract {
        Some(contract) => of_contract(executor, contract, tree.as_deref(), shown, &mut untried)?,
        None => {
            untried.push("At this level provost has no tree of its own to run it again on.".to_owned());
            (ContractTraits::default(), None)
        }
    };
    let step = run.plan.step(number);
    traits.holds_on_base = base.held() && !step.is_some_and(|step| step.is_guard());
    let (held, runs) = results.held();
    if (1..runs).contains(&held) {
        traits.flaky = Some(format!("it held in {held} of {runs} runs on the same files"));
    }
    if let Some(order) = order.as_ref().filter(|_| may_run_again(shown)) {
        let empty = executor.trial_tree(run, TrialTree::Empty).ok();
        let on_empty = empty.as_ref().and_then(|empty| executor.on_tree(order, &empty.id));
        let verdict = on_empty.map(|contract| contract.once(None, limit(shown))).transpose()?;
        traits.holds_on_empty = verdict.is_some_and(|verdict| verdict.held());
    }
    let is_green = seen.is_some_and(|seen| seen.exit_code == 0);
    if let (Some(contract), true) = (&contract, is_green && traits.order.is_none()) {
        traits.order = reordered(contract, shown, &mut untried)?;
    }
    Ok(RatedContract { score: contract_score::rate(&traits), untried })
}

/// Returns the traits of a contract with a verdict on a kept tree, by its text and by a run under
/// observation, and what that run saw.
pub(crate) fn of_contract(
    executor: &Executor<'_>,
    contract: &TreeContract<'_>,
    tree: Option<&str>,
    verdict: &Verdict,
    untried: &mut Vec<String>,
) -> Result<(ContractTraits, Option<Observation>), Interrupted> {
    let command = &contract.shell().command;
    let kept = tree.and_then(|tree| executor.kept_tree(tree));
    let files = kept.map(|kept| texts(&kept, command, verdict)).unwrap_or_default();
    let mut traits = contract_signs::of_contract(command, &files);
    if let CheckOutcome::NotRun { reason } = &verdict.outcome {
        traits.cannot_run = Some(reason.clone());
        return Ok((traits, None));
    }
    if !may_run_again(verdict) {
        untried.push("It takes more than two minutes, so it was not run again to watch it.".to_owned());
        return Ok((traits, None));
    }
    let seen = observed(contract, verdict, TestOrder::Usual)?;
    match &seen {
        Some(seen) => add(&mut traits, seen),
        None => untried.push("It could not be watched, so network, git and files are not known.".to_owned()),
    }
    Ok((traits, seen))
}

fn may_run_again(verdict: &Verdict) -> bool {
    verdict.outcome.is_result() && Duration::from_millis(verdict.duration_ms) <= SLOW
}

fn limit(verdict: &Verdict) -> Duration {
    Duration::from_millis(verdict.duration_ms) * 3 + Duration::from_secs(30)
}

fn observed(
    contract: &TreeContract<'_>,
    verdict: &Verdict,
    order: TestOrder,
) -> Result<Option<Observation>, Interrupted> {
    let command = observation::command(&contract.shell().command, order);
    let seen = contract.once(Some(command), limit(verdict).min(contract.timeout()))?;
    Ok(observation::read(&seen.stdout.to_string()))
}

/// Adds what a run showed; it is worth more than what the text shows.
fn add(traits: &mut ContractTraits, seen: &Observation) {
    if seen.lost_packets > 0 {
        let packets =
            if seen.lost_packets == 1 { "1 packet" } else { &format!("{} packets", seen.lost_packets) };
        traits.network = Some(Evidence::seen(format!("{packets} found no way out of the sandbox")));
    }
    if seen.git {
        traits.git = Some(Evidence::seen("it called `git`"));
    }
    if seen.changes > 0 {
        let mut names = seen.changed.iter().take(NAMED_MAX).cloned().collect::<Vec<_>>().join(", ");
        let more = seen.changes.saturating_sub(seen.changed.len().min(NAMED_MAX) as u64);
        if more > 0 {
            names.push_str(&format!(" and {more} more"));
        }
        traits.writes = Some(Evidence::seen(names));
    }
}

/// Runs the contract with its tests in another order, if its runner can do that.
fn reordered(
    contract: &TreeContract<'_>,
    verdict: &Verdict,
    untried: &mut Vec<String>,
) -> Result<Option<Evidence>, Interrupted> {
    if verdict.runners.is_empty() || verdict.tests.is_some_and(|tests| tests < 2) || !may_run_again(verdict) {
        return Ok(None);
    }
    if !verdict.runners.iter().any(|name| REORDERED.contains(&name.as_str())) {
        let names = verdict.runners.join(", ");
        untried.push(format!("The order of tests was not tried: provost cannot change that of {names}."));
        return Ok(None);
    }
    let seen = observed(contract, verdict, TestOrder::Other)?;
    let failed = seen.filter(|seen| seen.exit_code != 0);
    Ok(failed.map(|seen| Evidence::seen(format!("in another order it exited with {}", seen.exit_code))))
}

/// Returns the files that a contract names, with their texts; all tests, if it runs tests and names none.
fn texts(tree: &Base, command: &str, verdict: &Verdict) -> Vec<(String, String)> {
    let started = runner::started(command);
    let runs_tests = !started.is_empty() || !verdict.runners.is_empty();
    let mut named = shell::named_files(command);
    named.extend(files_of(started));
    let listed = tree.files().unwrap_or_default();
    let paths = listed.iter().filter_map(|path| path.to_str());
    let is_named = |path: &&str| {
        named.iter().any(|name| name == path || path.starts_with(&format!("{}/", name.trim_end_matches('/'))))
    };
    let mut wanted: Vec<&str> = paths.clone().filter(is_named).collect();
    if wanted.is_empty() && runs_tests {
        wanted = paths.filter(|path| test_files::is_test(path)).collect();
    }
    let read = |path: &&str| {
        let text = kept_trees::text(tree, path.as_ref(), FILE_BYTES).ok().flatten()?;
        Some(((*path).to_owned(), text))
    };
    wanted.iter().take(FILES_MAX).filter_map(read).collect()
}
