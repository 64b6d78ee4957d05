//! Plans whose trees travel between machines by a git remote.
//!
//! The machine that has the approved commit pushes it once. A worker makes its own workspace from it
//! (`remote_tree/remote_workspace.rs`), fetches the passed tree and what the last attempt left, and pushes the
//! result of its own work. The log says which tree that is; checks trust the log, not the remote.

use provost_core::model::event::RemoteTree;
use provost_core::state::run::Run;
use provost_host::exec::environment;
use provost_host::tree::{Base, Remote, Trees};

use crate::Error;
use crate::plan::harness::Harness;
use crate::plan::tree_transport::{approved_name, passed_name, remote_of};

mod remote_workspace;

pub use crate::plan::tree_transport::{
    TreeTransport, WaitListener, address, keep_all_keys, keep_the_keys, machine, remote, set_address,
};
pub use remote_workspace::open;

pub(crate) fn trees_of(harness: &Harness) -> Result<Trees, Error> {
    Ok(environment::trees_of(&harness.place().workspace, harness.state())?)
}

/// Pushes what the plan was approved on, if a remote is set. Returns whether one is.
pub fn offer_base(harness: &Harness, run: &Run) -> Result<bool, Error> {
    match remote_of(harness.state())? {
        Some(remote) => send_base(harness, run, &remote).map(|()| true),
        None => Ok(false),
    }
}

/// Pushes what the plan was approved on to this remote, from a machine that has it.
pub fn send_base(harness: &Harness, run: &Run, remote: &Remote) -> Result<(), Error> {
    let none =
        || Error::NotCarried { plan: harness.id().clone(), why: remote_workspace::NO_COMMIT.to_owned() };
    let commit = run.binding.base.as_deref().ok_or_else(none)?;
    let trees = trees_of(harness)?;
    let failed = Error::Carry;
    trees.send_commit(remote, commit).map_err(failed)?;
    // Files that the contracts name are approved as they are, committed or not.
    let plain = trees.base("", Some(commit), &[], &[]).map_err(failed)?;
    let approved = trees.base(&run.revision.0, Some(commit), &run.binding.files, &[]).map_err(failed)?;
    let approved = trees.with_included(approved, &run.binding.included).map_err(failed)?;
    if plain.id != approved.id {
        trees.send(remote, commit, &approved, &approved_name(harness.id(), run)).map_err(failed)?;
    }
    // Workers continue from the tree that a run on this machine has passed.
    let passed = run.tree.as_deref().filter(|_| run.work.is_none());
    let passed = passed.map(|tree| trees.kept(tree, &harness.config().verify.caches)).transpose();
    if let Some(passed) = passed.map_err(failed)?.flatten() {
        trees.send(remote, commit, &passed, &passed_name(harness.id(), &passed.id)).map_err(failed)?;
    }
    Ok(())
}

/// Returns a tree that a contract held on, from this machine or from the remote.
pub(crate) fn kept(harness: &Harness, run: &Run, trees: &Trees, id: &str) -> Result<Option<Base>, Error> {
    let failed = Error::Carry;
    if let Some(kept) = trees.kept(id, caches(harness, run)).map_err(failed)? {
        return Ok(Some(kept));
    }
    let (Some(RemoteTree { .. }), Some(commit)) = (&run.work, run.binding.base.as_deref()) else {
        return Ok(None);
    };
    let none = || Error::CarriedElsewhere { plan: harness.id().clone() };
    let remote = remote_of(harness.state())?.ok_or_else(none)?;
    let name = passed_name(harness.id(), id);
    Ok(Some(trees.receive(&remote, commit, &name, id).map_err(failed)?))
}

/// Returns the caches that are part of kept trees; none if trees travel, because caches stay on one machine.
pub(crate) fn caches<'h>(harness: &'h Harness, run: &Run) -> &'h [String] {
    if run.work.is_some() { &[] } else { &harness.config().verify.caches }
}
