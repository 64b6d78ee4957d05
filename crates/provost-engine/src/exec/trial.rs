//! Tries a check before any agent is paid: on the base, and on the workspace as it is now, a commit or a patch,
//! as a run would check it.
//!
//! **Invariant:** nothing is recorded. A check never gets secrets here, and the network only if a person
//! approved the plan.

pub mod rating;
pub mod sabotage;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use provost_core::model::event::Revision;
use provost_core::model::plan::{Check, Shell, Span, Step, StepNumber};
use provost_core::model::verdict::{Isolation, Verdict};
use provost_core::rules::command::{HarnessCommand, Refusal};
use provost_core::rules::decide;
use provost_core::state::run::{Run, Stage};
use provost_host::check::judge;
use provost_host::exec::environment::{self, TrialTree};
use provost_host::plans::plan_file::{PlanChoice, PlanPlace};
use provost_host::process;
use provost_host::tree::Touches;

use self::rating::RatedContract;
use self::sabotage::{Named, SabotageRequest, SabotageTrial};
use crate::Error;
use crate::exec::approved_base::{PlanPaths, on_the_base};
use crate::exec::executor::Executor;
use crate::plan::harness::Harness;
use crate::plan::plan_registry::Here;
use crate::plan::reading::BoundPlan;
use crate::plan::recording;
use crate::settings::{Access, EngineSettings};

/// A plan of one step, for a command that is tried without a plan.
const PLAN: &str = "---\ntype: plan\nstatus: draft\nowner: me\ntouches: [\"**\"]\n---\n\n# Try\n\n## Steps\n\n\
                    ### 1. Try\n\n**target:** try\n\n**task:**\nTry it.\n\n**contract:**\n```shell\ntrue\n```\n\
                    exit_code == 0\n**on_fail:** abort\n";

/// How a check is tried.
#[derive(Clone, Copy)]
pub struct TrialRequest<'a> {
    pub on: TrialOn<'a>,
    /// Number of runs there.
    pub runs: u32,
    pub sabotage: Option<SabotageRequest<'a>>,
}

/// The tree that is tried beside the base.
#[derive(Clone, Copy, Debug)]
pub enum TrialOn<'a> {
    /// The workspace as it is now.
    Workspace,
    /// A commit, as a person names it.
    Commit(&'a str),
    /// The base with a patch.
    Patch(&'a [u8]),
}

/// The results of a check on both trees.
#[derive(Debug)]
pub struct Trial {
    pub command: String,
    pub level: Isolation,
    pub commit: Option<String>,
    /// `None` if it was interrupted.
    pub results: Option<TrialResults>,
    /// How good the check is.
    pub rating: Option<RatedContract>,
    pub sabotage: Option<SabotageTrial>,
}

#[derive(Debug)]
pub struct TrialResults {
    pub base: Verdict,
    /// The result on the workspace, the commit or the patch.
    pub tried: Verdict,
    /// The results of further runs there.
    pub again: Vec<Verdict>,
}

impl TrialResults {
    /// Returns how many of all runs beside the base held, and how many there were.
    pub fn held(&self) -> (usize, usize) {
        let all = || std::iter::once(&self.tried).chain(&self.again);
        (all().filter(|verdict| verdict.held()).count(), all().count())
    }

    /// Returns the tests that failed in some of these runs and not in others.
    pub fn unsteady_tests(&self) -> Vec<String> {
        let failing = |verdict: &Verdict| -> BTreeSet<String> {
            verdict.test_results.iter().flat_map(|results| results.failing.names.iter().cloned()).collect()
        };
        let first = failing(&self.tried);
        let differ = self
            .again
            .iter()
            .flat_map(|verdict| first.symmetric_difference(&failing(verdict)).cloned().collect::<Vec<_>>());
        differ.collect::<BTreeSet<_>>().into_iter().collect()
    }
}

/// Tries the contract of a step.
pub fn try_step(harness: &Harness, number: StepNumber, request: &TrialRequest<'_>) -> Result<Trial, Error> {
    let run = run_to_try(harness)?;
    if run.plan.step(number).is_none() {
        return Err(Refusal::NoSuchStep { step: number }.into());
    }
    tried(harness, &run, number, request, Named::ByTask)
}

/// Returns the run of a plan whose checks are tried.
pub(super) fn run_to_try(harness: &Harness) -> Result<Run, Error> {
    let (mut run, _) = recording::preview(harness)?;
    if matches!(run.stage, Stage::Draft | Stage::Verified) {
        // An approval refuses uncommitted files inside `touches`, so its base has the committed ones.
        let globs = run.plan.touches.iter().flatten().map(|glob| glob.value.clone());
        let touches = Touches::new(&globs.collect::<Vec<_>>()).map_err(environment::Error::from)?;
        run.binding.files.retain(|file| !touches.covers(file.path.as_bytes()));
    }
    Ok(run)
}

/// Tries a command without a plan.
pub fn try_command(
    settings: EngineSettings,
    command: &str,
    request: &TrialRequest<'_>,
) -> Result<Trial, Error> {
    let workspace = Here::of(&settings.cwd).workspace().to_path_buf();
    let place = PlanPlace {
        path: workspace.join("PLAN-try.md"),
        slug: "try".to_owned(),
        name: "try".to_owned(),
        dir: workspace.clone(),
        progress: workspace.join("progress-try.md"),
        workspace,
        why: PlanChoice::Name,
    };
    let harness = Harness::at(place, settings, Access::Read)?;
    let mut run = unrecorded(&harness, PLAN)?;
    if let Some(contract) =
        Arc::make_mut(&mut run.plan).steps.first_mut().and_then(|step| step.contract.as_mut())
        && let Check::Shell(shell) = &mut contract.check
    {
        *shell = Shell { command: command.to_owned(), body: Span::default(), ..shell.clone() };
    }
    // Caches of the workspace are copied anew each time: a person tries until the tools are right.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    run.revision = Revision(format!("try {}", now.as_nanos()));
    // The person typed the command.
    run.stage = Stage::Approved;
    tried(&harness, &run, StepNumber(1), request, Named::ByChanges)
}

/// Returns the state of a plan with this text that is in no log.
pub(super) fn unrecorded(harness: &Harness, text: &str) -> Result<Run, Error> {
    let BoundPlan { text, binding, .. } = BoundPlan::of(harness.site(), text.as_bytes());
    let mut run = Run::default();
    let record = HarnessCommand::Record { text, binding, author: None };
    decide::harness(&run, record)?.iter().for_each(|event| run.apply(event));
    Ok(run)
}

/// Returns why a check of this run must not be tried, if that is so.
pub(super) fn why_not(run: &Run, step: Option<&Step>, level: Isolation) -> Option<&'static str> {
    let is_approved = !matches!(run.stage, Stage::Draft | Stage::Verified);
    let wants_network = step.and_then(|step| step.network.as_ref()).is_some_and(|network| network.value);
    if step.is_some_and(|step| !step.secrets.is_empty()) {
        return Some("the step names secrets, and `provost try` gives none; `provost run` does");
    }
    if wants_network && !is_approved {
        return Some("the step asks for the network, and no person has approved the plan yet");
    }
    if !is_approved && !level.has_fence() {
        return Some(
            "this machine has no sandbox, and no person has approved the plan yet: approve it first, or try \
             the command itself (`provost try 'COMMAND'`)",
        );
    }
    None
}

/// Returns the executor on the base of a run, with the level of its checks.
pub(super) fn executor<'h>(harness: &'h Harness, run: &Run) -> Result<(Executor<'h>, Isolation), Error> {
    let _ = process::become_subreaper();
    // The sandbox hides this folder, so it has to exist.
    let state = harness.state();
    let made = provost_host::files::make_private_folder(state);
    made.map_err(|source| Error::Io { what: "make", path: state.to_owned(), source })?;
    let paths = PlanPaths::of(harness);
    let estate = paths.for_checks(harness);
    let (offer, seen) = environment::attest(harness.config().verify.isolation, &estate)?;
    let ground = on_the_base(harness, run, offer, seen.level, &estate)?;
    Ok((Executor::new(harness.site(), ground), seen.level))
}

fn tried(
    harness: &Harness,
    run: &Run,
    number: StepNumber,
    request: &TrialRequest<'_>,
    named: Named,
) -> Result<Trial, Error> {
    let (executor, level) = executor(harness, run)?;
    let step = run.plan.step(number);
    let command = match step.and_then(|step| step.contract.as_ref()).map(|contract| &contract.check) {
        Some(Check::Shell(shell)) => shell.command.clone(),
        Some(Check::Human | Check::Judge { .. }) | None => String::new(),
    };
    let commit = run.binding.base.clone();
    let no_command = command.is_empty().then_some("no command checks this step: a person or a model does");
    if let Some(reason) = no_command.or_else(|| why_not(run, step, level)) {
        let verdict = Verdict::not_run(level, reason);
        let results = Some(TrialResults { base: verdict.clone(), tried: verdict, again: Vec::new() });
        return Ok(Trial { command, level, commit, results, rating: None, sabotage: None });
    }
    let tree = match request.on {
        TrialOn::Workspace => None,
        TrialOn::Commit(name) => Some(executor.trial_tree(run, TrialTree::Commit(name))?),
        TrialOn::Patch(patch) => Some(executor.trial_tree(run, TrialTree::Patch(patch))?),
    };
    let id = tree.as_ref().map(|tree| tree.id.as_str());
    let results = executor.trial(run, number, request.runs, id).and_then(|(base, tried)| {
        let mut all = tried.into_iter();
        Some(TrialResults { base, tried: all.next()?, again: all.collect() })
    });
    let rating = match &results {
        Some(results) => rating::of_trial(&executor, run, number, results).ok(),
        None => None,
    };
    let sabotage = match (&results, &request.sabotage) {
        (Some(results), Some(wanted)) => {
            Some(sabotage::run(harness, &executor, run, number, results, wanted, named)?)
        }
        _ => None,
    };
    judge::leave();
    // An interrupted rating means that the person wants no more of it.
    let results = results.filter(|_| !harness.site().is_stopped());
    Ok(Trial { command, level, commit, results, rating, sabotage })
}
