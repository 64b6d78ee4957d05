//! The environment of a planner: it reads the workspace, and writes only into a folder for its answer.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use provost_core::model::verdict::Isolation;
use provost_host::exec::environment::{self, ExecEnv, RunPaths};
use provost_host::process;
use provost_store::{Holder, Lease};
use tempfile::TempDir;

use crate::Error;
use crate::exec::confined;
use crate::plan::harness::{self, Harness};
use crate::plan::plan_context;
use crate::run::run_environment;

pub(super) struct PlannerEnv {
    pub ground: ExecEnv,
    pub level: Isolation,
    /// The folder for the answer.
    pub desk: TempDir,
    launcher: Vec<OsString>,
    secrets: Vec<PathBuf>,
    /// An agent works here, so commands for people must see a lease.
    _lease: Lease,
}

impl PlannerEnv {
    /// Takes the workspace for this purpose, and finds out the isolation level.
    pub(super) fn prepare(harness: &Harness, purpose: &str) -> Result<Self, Error> {
        let failed = |what, path: &Path| {
            let path = path.to_owned();
            move |source| Error::Io { what, path, source }
        };
        process::become_subreaper().map_err(failed("take in orphans in", Path::new("/proc/self")))?;
        let holder = Holder::here(format!("{purpose} {}", harness.id()), plan_context::now());
        let timeout = harness.config().run.lease_timeout;
        let _lease = harness::lease(harness, &harness.workspace_lease(), &holder, timeout)?;
        let launcher = confined::launcher(&harness.site().launcher);
        let secrets = run_environment::secrets(harness);
        let paths = paths(harness, &launcher, &secrets);
        let (features, seen) = environment::attest(harness.config().verify.isolation, &paths)?;
        let ground = ExecEnv::to_read(features, seen.level, &paths);
        let desk = ground.desk().map_err(failed("make a folder in", harness.state()))?;
        Ok(Self { ground, level: seen.level, desk, launcher, secrets, _lease })
    }

    pub(super) fn paths<'a>(&'a self, harness: &'a Harness) -> RunPaths<'a> {
        paths(harness, &self.launcher, &self.secrets)
    }
}

fn paths<'a>(harness: &'a Harness, launcher: &'a [OsString], secrets: &'a [PathBuf]) -> RunPaths<'a> {
    RunPaths {
        workspace: &harness.place().workspace,
        state: harness.state(),
        read_only: &[],
        secrets,
        launcher,
    }
}
