//! What a machine with the workspace exchanges with the git remote of the workers: it pushes what a person
//! approved, and fetches what passed.

use std::sync::Arc;

use provost_core::state::run::Run;
use provost_engine::Error;
use provost_engine::plan::harness::Harness;
use provost_engine::plan::kept_trees;
use provost_engine::workplace::{PlanFiles, Workplace};
use provost_host::exec::environment;
use provost_host::tree::{Base, Remote, Trees};

use crate::remote::{NO_COMMIT, approved_name, fetch_passed, passed_name, remote_of};

/// The workspace of this machine, and the remote that a person set for its state folder.
#[derive(Clone, Copy, Debug, Default)]
struct WorkspaceWithRemote;

/// Returns the workplace of a machine with the workspace.
pub fn workplace() -> Arc<dyn Workplace> {
    Arc::new(WorkspaceWithRemote)
}

impl Workplace for WorkspaceWithRemote {
    fn approved(&self, plan: &PlanFiles<'_>) -> Result<(), Error> {
        match remote_of(plan.state)? {
            Some(remote) => send(plan, &remote),
            None => Ok(()),
        }
    }

    fn fetch(&self, plan: &PlanFiles<'_>, trees: &Trees, tree: &str) -> Result<Option<Base>, Error> {
        if !plan.run.sends_trees() {
            return Ok(None);
        }
        let none = || Error::CarriedElsewhere { plan: plan.id.clone() };
        fetch_passed(&remote_of(plan.state)?.ok_or_else(none)?, plan, trees, tree)
    }
}

/// Pushes what the plan was approved on, if a remote is set. Returns whether one is.
pub fn push(harness: &Harness, run: &Run) -> Result<bool, Error> {
    match remote_of(harness.state())? {
        Some(remote) => push_to(harness, run, &remote).map(|()| true),
        None => Ok(false),
    }
}

/// Pushes what the plan was approved on to this remote, from a machine that has it.
pub(crate) fn push_to(harness: &Harness, run: &Run, remote: &Remote) -> Result<(), Error> {
    send(&kept_trees::files(harness, run), remote)
}

fn send(plan: &PlanFiles<'_>, remote: &Remote) -> Result<(), Error> {
    let run = plan.run;
    let none = || Error::NotCarried { plan: plan.id.clone(), why: NO_COMMIT.to_owned() };
    let commit = run.binding.base.as_deref().ok_or_else(none)?;
    let trees = environment::trees_of(plan.workspace, plan.state)?;
    let failed = Error::Carry;
    trees.send_commit(remote, commit).map_err(failed)?;
    // Files that the contracts name are approved as they are, committed or not.
    let plain = trees.base("", Some(commit), &[], &[]).map_err(failed)?;
    let approved = trees.base(&run.revision.0, Some(commit), &run.binding.files, &[]).map_err(failed)?;
    let approved = trees.with_included(approved, &run.binding.included).map_err(failed)?;
    if plain.id != approved.id {
        trees.send(remote, commit, &approved, &approved_name(plan.id, run)).map_err(failed)?;
    }
    // Workers continue from the tree that a run on this machine has passed.
    let passed = run.tree.as_deref().filter(|_| !run.sends_trees());
    let passed = passed.map(|tree| trees.kept(tree, plan.caches)).transpose();
    if let Some(passed) = passed.map_err(failed)?.flatten() {
        trees.send(remote, commit, &passed, &passed_name(plan.id, &passed.id)).map_err(failed)?;
    }
    Ok(())
}
