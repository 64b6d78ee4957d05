//! Prepares the execution environment on the approved base, for runs, for checks before an approval and for
//! the merge train.

use std::ffi::OsString;
use std::panic::resume_unwind;
use std::path::PathBuf;
use std::thread;

use provost_core::model::verdict::{CheckEnvironment, Isolation};
use provost_core::state::run::Run;
use provost_host::config::Demand;
use provost_host::exec::environment::{
    ApprovedFiles, CheckSettings, Error as EnvironmentError, ExecEnv, PreparedTree, RunPaths,
};
use provost_host::sandbox::SandboxFeatures;
use provost_host::tree::ImportLimits;

use crate::Error;
use crate::exec::confined;
use crate::plan::harness::{self, Harness};
use crate::plan::kept_trees;

/// A tree that was made before the level of the run was known, or why it could not be made.
pub(crate) type EarlyTree = Result<PreparedTree, EnvironmentError>;

/// Paths of a plan that [`RunPaths`] borrows.
pub(crate) struct PlanPaths {
    read_only: Vec<PathBuf>,
    launcher: Vec<OsString>,
}

impl PlanPaths {
    pub(crate) fn of(harness: &Harness) -> Self {
        Self {
            read_only: harness::own_files(harness),
            launcher: confined::launcher(&harness.site().launcher),
        }
    }

    /// Returns the paths for checks; they name no key that signs proofs.
    pub(crate) fn for_checks<'a>(&'a self, harness: &'a Harness) -> RunPaths<'a> {
        RunPaths {
            workspace: &harness.place().workspace,
            state: harness.state(),
            read_only: &self.read_only,
            secrets: &[],
            launcher: &self.launcher,
        }
    }
}

/// Prepares the execution environment on the approved base.
pub(crate) fn on_the_base(
    harness: &Harness,
    run: &Run,
    features: Option<SandboxFeatures>,
    level: Isolation,
    paths: &RunPaths<'_>,
) -> Result<ExecEnv, Error> {
    on_the_base_with(harness, run, features, level, paths, None)
}

/// Prepares it with the tools of an earlier check.
pub(crate) fn on_the_base_with(
    harness: &Harness,
    run: &Run,
    features: Option<SandboxFeatures>,
    level: Isolation,
    paths: &RunPaths<'_>,
    recorded: Option<&CheckEnvironment>,
) -> Result<ExecEnv, Error> {
    with_approved_files(harness, run, recorded, |approval| {
        Ok(ExecEnv::prepare(features, level, paths, approval)?)
    })
}

/// Makes the tree of the approved base while `meanwhile` runs, if the configuration allows a level with a sandbox.
/// `adopts` is that of [`ApprovedFiles`].
pub(crate) fn tree_beside<T>(
    harness: &Harness,
    run: &Run,
    paths: &RunPaths<'_>,
    adopts: bool,
    meanwhile: impl FnOnce() -> T,
) -> (T, Option<EarlyTree>) {
    if matches!(harness.config().verify.isolation, Demand::Exactly(level) if !level.has_fence()) {
        return (meanwhile(), None);
    }
    with_approved_files(harness, run, None, |approval| {
        let approval = ApprovedFiles { adopts, ..*approval };
        thread::scope(|scope| {
            let make = || PreparedTree::make(paths, &approval);
            // If no thread can start, the tree is made later.
            let making = thread::Builder::new().spawn_scoped(scope, make).ok();
            let done = meanwhile();
            (done, making.map(|making| making.join().unwrap_or_else(|panic| resume_unwind(panic))))
        })
    })
}

/// Prepares the execution environment on a tree that was made before, if it was. A level without a sandbox needs a
/// tree that was made after the level was recorded: only then it trusts no copy that such agents can change.
pub(crate) fn on_the_tree(
    harness: &Harness,
    run: &Run,
    features: Option<SandboxFeatures>,
    level: Isolation,
    paths: &RunPaths<'_>,
    tree: Option<EarlyTree>,
) -> Result<ExecEnv, Error> {
    with_approved_files(harness, run, None, |approval| {
        let early = tree.filter(|_| level.has_fence());
        let make = || early.unwrap_or_else(|| PreparedTree::make(paths, approval));
        Ok(ExecEnv::prepare_on(features, level, paths, approval, make)?)
    })
}

fn with_approved_files<T>(
    harness: &Harness,
    run: &Run,
    recorded: Option<&CheckEnvironment>,
    then: impl FnOnce(&ApprovedFiles<'_>) -> T,
) -> T {
    let verify = &harness.config().verify;
    let all = [String::from("**")];
    let touches: Vec<String> = match &run.plan.touches {
        Some(touches) => touches.iter().map(|glob| glob.value.clone()).collect(),
        None => all.to_vec(),
    };
    let copies = kept_trees::copy_trust(harness);
    then(&ApprovedFiles {
        revision: &run.revision.0,
        commit: run.binding.base.as_deref(),
        files: &run.binding.files,
        included: &run.binding.included,
        touches: &touches,
        caches: kept_trees::caches(harness, run),
        limits: ImportLimits {
            as_git: !harness.workplace.is_workspace(),
            ..ImportLimits::of_file(verify.max_file)
        },
        // A session works in the workspace without being watched.
        adopts: !run.agent_outside,
        copies: &copies,
        recorded,
        wanted: CheckSettings {
            provision: &verify.provision,
            build_caches: verify.build_caches,
            stop: Some(&harness.site().stop),
        },
    })
}
