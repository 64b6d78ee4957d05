//! Prepares the execution environment of a run: attests the isolation of this machine, then prepares the
//! approved base.

use std::path::PathBuf;

use provost_core::model::event::Probe;
use provost_core::rules::command::HarnessCommand;
use provost_core::rules::decide;
use provost_core::state::run::Run;
use provost_host::exec::environment::{ExecEnv, RunPaths};
use provost_host::sandbox;
use provost_host::sandbox::Attestation;
use provost_store::Fence;

use crate::Error;
use crate::exec::approved_base::{PlanPaths, on_the_tree, tree_beside};
use crate::journal::log_locator;
use crate::plan::harness::Harness;
use crate::run::run_strategy::{ProgressListener, RunStrategy};

/// Refuses if the trees of the plan travel and none can be fetched here: the workspace does not show the
/// work.
pub fn can_see_the_work(harness: &Harness, run: &Run) -> Result<(), Error> {
    match run.sends_trees() && harness.workplace.is_workspace() {
        true => Err(Error::CarriedElsewhere { plan: harness.id().clone() }),
        false => Ok(()),
    }
}

/// Attests the isolation of this machine, records it, and prepares the execution environment before any
/// agent runs. `took_over` names the process whose run this one continues.
pub(crate) fn prepare(
    harness: &Harness,
    strategy: &dyn RunStrategy,
    took_over: Option<String>,
    run: &mut Run,
    fence: &Fence,
    told: &mut ProgressListener<'_>,
) -> Result<ExecEnv, Error> {
    let secrets = secrets(harness);
    let paths = PlanPaths::of(harness);
    let paths = RunPaths { secrets: &secrets, ..paths.for_checks(harness) };
    let demand = harness.config().verify.isolation;
    // Both take long in a large repository. The tree belongs to the approval, not to the level.
    let attest = || strategy.attest(demand, &paths, &harness.place().path);
    let (attested, tree) = tree_beside(harness, run, &paths, strategy.starts_agents(), attest);
    let (features, attestation) = attested?;
    let level = attestation.level;
    if let Some(why) = harness.workplace.refuses_level(level) {
        return Err(Error::NotCarried { plan: harness.id().clone(), why: why.to_owned() });
    }
    record(harness, strategy, took_over, run, attestation, fence, told)?;
    on_the_tree(harness, run, features, level, &paths, tree)
}

/// Returns the paths that no agent may see: the keys of the git remote, the key that signs proofs, and the
/// credentials of the log.
pub(crate) fn secrets(harness: &Harness) -> Vec<PathBuf> {
    let environment = &harness.site().environment;
    let mut keys = harness.workplace.key_files(environment);
    let secret = harness.config().proof.ssh_key.clone();
    keys.extend(secret.filter(|secret| !keys.iter().any(|key| secret.starts_with(key))));
    keys.extend(log_locator::credential_files(harness.state(), environment));
    keys
}

/// Records the attested level.
fn record(
    harness: &Harness,
    strategy: &dyn RunStrategy,
    took_over: Option<String>,
    run: &mut Run,
    seen: Attestation,
    fence: &Fence,
    told: &mut ProgressListener<'_>,
) -> Result<(), Error> {
    let require_red = harness.config().verify.require_red;
    let is_known =
        (run.isolation, run.require_red, run.agent_outside) == (Some(seen.level), require_red, false);
    let Some(before) = strategy.before_attestation(run, is_known)? else { return Ok(()) };
    if !before.is_empty() {
        harness.tell(run, &before, Some(fence), told)?;
    }
    let probe =
        |probe: sandbox::SelfTestProbe| Probe { name: probe.name, held: probe.held, detail: probe.detail };
    let command = HarnessCommand::Attested {
        level: seen.level,
        require_red,
        probes: seen.probes.into_iter().map(probe).collect(),
        kernel: seen.kernel,
        bubblewrap: seen.bubblewrap,
        agent_outside: !strategy.starts_agents(),
        took_over,
    };
    let events = decide::harness(run, command)?;
    harness.tell(run, &events, Some(fence), told)
}
