//! Prepares the execution environment on the approved base, for runs, for checks before an approval and for
//! the merge train.

use std::ffi::OsString;
use std::path::PathBuf;

use provost_core::model::verdict::{CheckEnvironment, Isolation};
use provost_core::state::run::Run;
use provost_host::exec::environment::{ApprovedFiles, CheckSettings, ExecEnv, RunPaths};
use provost_host::sandbox::SandboxFeatures;
use provost_host::tree::ImportLimits;

use crate::Error;
use crate::exec::confined;
use crate::plan::harness::{self, Harness};
use crate::plan::kept_trees;

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
    let verify = &harness.config().verify;
    let all = [String::from("**")];
    let touches: Vec<String> = match &run.plan.touches {
        Some(touches) => touches.iter().map(|glob| glob.value.clone()).collect(),
        None => all.to_vec(),
    };
    let copies = kept_trees::copy_trust(harness);
    let approval = ApprovedFiles {
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
    };
    Ok(ExecEnv::prepare(features, level, paths, &approval)?)
}
