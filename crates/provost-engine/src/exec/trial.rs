//! Tries a check before any agent is paid: on the base, and on the workspace as it is now, as a run would
//! check it.
//!
//! **Invariant:** nothing is recorded. A check never gets secrets here, and the network only if a person
//! approved the plan.

use std::collections::BTreeSet;
use std::time::{SystemTime, UNIX_EPOCH};

use provost_core::model::event::Revision;
use provost_core::model::plan::{Check, Shell, Span, StepNumber};
use provost_core::model::verdict::{Isolation, Verdict};
use provost_core::rules::command::{HarnessCommand, Refusal};
use provost_core::rules::decide;
use provost_core::state::run::{Run, Stage};
use provost_host::check::judge;
use provost_host::exec::environment;
use provost_host::plans::plan_file::{PlanChoice, PlanPlace};
use provost_host::process;
use provost_host::tree::Touches;

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

/// The results of a check on both trees.
#[derive(Debug)]
pub struct Trial {
    pub command: String,
    pub level: Isolation,
    pub commit: Option<String>,
    /// `None` if it was interrupted.
    pub results: Option<TrialResults>,
}

#[derive(Debug)]
pub struct TrialResults {
    pub base: Verdict,
    pub workspace: Verdict,
    /// The results of further runs on the workspace.
    pub again: Vec<Verdict>,
}

impl TrialResults {
    /// Returns how many of all runs on the workspace held, and how many there were.
    pub fn held(&self) -> (usize, usize) {
        let all = || std::iter::once(&self.workspace).chain(&self.again);
        (all().filter(|verdict| verdict.held()).count(), all().count())
    }

    /// Returns the tests that failed in some runs on the workspace and not in others.
    pub fn unsteady_tests(&self) -> Vec<String> {
        let failing = |verdict: &Verdict| -> BTreeSet<String> {
            verdict.test_results.iter().flat_map(|results| results.failing.names.iter().cloned()).collect()
        };
        let first = failing(&self.workspace);
        let differ = self
            .again
            .iter()
            .flat_map(|verdict| first.symmetric_difference(&failing(verdict)).cloned().collect::<Vec<_>>());
        differ.collect::<BTreeSet<_>>().into_iter().collect()
    }
}

/// Tries the contract of a step, `runs` times on the workspace.
pub fn try_step(harness: &Harness, number: StepNumber, runs: u32) -> Result<Trial, Error> {
    let (mut run, _) = recording::preview(harness)?;
    if matches!(run.stage, Stage::Draft | Stage::Verified) {
        // An approval refuses uncommitted files inside `touches`, so its base has the committed ones.
        let globs = run.plan.touches.iter().flatten().map(|glob| glob.value.clone());
        let touches = Touches::new(&globs.collect::<Vec<_>>()).map_err(environment::Error::from)?;
        run.binding.files.retain(|file| !touches.covers(file.path.as_bytes()));
    }
    if run.plan.step(number).is_none() {
        return Err(Refusal::NoSuchStep { step: number }.into());
    }
    tried(harness, &run, number, runs)
}

/// Tries a command on the last commit and, `runs` times, on the workspace, without a plan.
pub fn try_command(settings: EngineSettings, command: &str, runs: u32) -> Result<Trial, Error> {
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
    if let Some(contract) = run.plan.steps.first_mut().and_then(|step| step.contract.as_mut())
        && let Check::Shell(shell) = &mut contract.check
    {
        *shell = Shell { command: command.to_owned(), body: Span::default(), ..shell.clone() };
    }
    // Caches of the workspace are copied anew each time: a person tries until the tools are right.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    run.revision = Revision(format!("try {}", now.as_nanos()));
    // The person typed the command.
    run.stage = Stage::Approved;
    tried(&harness, &run, StepNumber(1), runs)
}

/// Returns the state of a plan with this text that is in no log.
pub(super) fn unrecorded(harness: &Harness, text: &str) -> Result<Run, Error> {
    let BoundPlan { text, binding, .. } = BoundPlan::of(harness.site(), text.as_bytes());
    let mut run = Run::default();
    let record = HarnessCommand::Record { text, binding, author: None };
    decide::harness(&run, record)?.iter().for_each(|event| run.apply(event));
    Ok(run)
}

fn tried(harness: &Harness, run: &Run, number: StepNumber, runs: u32) -> Result<Trial, Error> {
    let _ = process::become_subreaper();
    // The sandbox hides this folder, so it has to exist.
    let state = harness.state();
    let made = provost_host::files::make_private_folder(state);
    made.map_err(|source| Error::Io { what: "make", path: state.to_owned(), source })?;
    let paths = PlanPaths::of(harness);
    let estate = paths.for_checks(harness);
    let (offer, seen) = environment::attest(harness.config().verify.isolation, &estate)?;
    let contract = run.plan.step(number).and_then(|step| step.contract.as_ref());
    let command = match contract.map(|contract| &contract.check) {
        Some(Check::Shell(shell)) => shell.command.clone(),
        Some(Check::Human | Check::Judge { .. }) | None => String::new(),
    };
    let is_approved = !matches!(run.stage, Stage::Draft | Stage::Verified);
    let level = seen.level;
    let commit = run.binding.base.clone();
    let not_run = |reason: &str| {
        let verdict = Verdict::not_run(level, reason);
        let results = Some(TrialResults { base: verdict.clone(), workspace: verdict, again: Vec::new() });
        Ok(Trial { command: command.clone(), level, commit: commit.clone(), results })
    };
    let step = run.plan.step(number);
    let wants_network = step.and_then(|step| step.network.as_ref()).is_some_and(|network| network.value);
    if command.is_empty() {
        return not_run("no command checks this step: a person or a model does");
    }
    if step.is_some_and(|step| !step.secrets.is_empty()) {
        return not_run("the step names secrets, and `provost try` gives none; `provost run` does");
    }
    if wants_network && !is_approved {
        return not_run("the step asks for the network, and no person has approved the plan yet");
    }
    if !is_approved && !level.has_fence() {
        return not_run(
            "this machine has no sandbox, and no person has approved the plan yet: approve it first, or try \
             the command itself (`provost try 'COMMAND'`)",
        );
    }
    let hands = Executor::new(harness.site(), on_the_base(harness, run, offer, level, &estate)?);
    let results = hands.trial(run, number, runs).and_then(|(base, workspace)| {
        let mut all = workspace.into_iter();
        Some(TrialResults { base, workspace: all.next()?, again: all.collect() })
    });
    judge::leave();
    Ok(Trial { command: command.clone(), level, commit: commit.clone(), results })
}
