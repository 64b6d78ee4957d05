//! The git remote that carries trees between machines: its address, its credentials, and the names of its refs.
//!
//! The address of the remote is in a file of the state folder or is given to a worker when it starts. It is
//! never in a workspace: an agent that can write there could redirect the work.
//!
//! **Invariant:** credentials of the remote are never passed to an agent and never written down.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use provost_core::model::chain::PlanId;
use provost_core::model::hash::Hash;
use provost_core::model::plan::StepNumber;
use provost_core::state::run::Run;
use provost_engine::Error;
use provost_engine::workplace::PlanFiles;
use provost_host::tree::{Base, Remote, Trees, opens_a_remote};

/// The environment that this process was started with.
static VARIABLES: Mutex<Vec<(OsString, OsString)>> = Mutex::new(Vec::new());

/// Why a plan cannot run on other machines that has no base commit.
pub(crate) const NO_COMMIT: &str = "it was approved without a base commit";

/// Fetches a tree of the plan that passed on a worker.
pub(crate) fn fetch_passed(
    remote: &Remote,
    plan: &PlanFiles<'_>,
    trees: &Trees,
    tree: &str,
) -> Result<Option<Base>, Error> {
    let commit = plan.run.binding.base.as_deref().filter(|_| plan.run.sends_trees());
    let Some(commit) = commit else { return Ok(None) };
    let fetched = trees.receive(remote, commit, &passed_name(plan.id, tree), tree);
    fetched.map(Some).map_err(Error::Carry)
}

/// Returns the ref of what an attempt left; the epoch separates successive holders of the lease.
pub(crate) fn attempt_name(plan: &PlanId, step: StepNumber, attempt: u32, epoch: u64) -> String {
    format!("refs/provost/{}/{step}/a{attempt}-e{epoch}", word(plan))
}

pub(crate) fn passed_name(plan: &PlanId, tree: &str) -> String {
    format!("refs/provost/{}/passed/{tree}", word(plan))
}

pub(crate) fn approved_name(plan: &PlanId, run: &Run) -> String {
    format!("refs/provost/{}/approved/{}", word(plan), run.revision.0)
}

/// Returns whether the name of a ref, after that of its plan, is one of an attempt.
pub(crate) fn is_attempt(rest: &str) -> bool {
    rest.split('/').next().is_some_and(|step| step.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Returns the folder of what this machine fetched from the remote, for all workspaces.
pub(crate) fn depot(state: &Path, remote: &Remote) -> PathBuf {
    let digest = Hash::of(remote.to_string().as_bytes()).to_string();
    state.join("depots").join(&digest[..16])
}

/// Returns the plan id as a part of a ref name.
pub(crate) fn word(plan: &PlanId) -> String {
    plan.0.chars().map(|c| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' }).collect()
}

fn file(state: &Path) -> PathBuf {
    state.join("remote.url")
}

/// Returns the remote address that a person set for this state folder.
pub fn address(state: &Path) -> Result<Option<String>, Error> {
    let path = file(state);
    match fs::read_to_string(&path) {
        Ok(text) => Ok(Some(text.trim().to_owned())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(Error::Io { what: "read where trees are carried from", path, source }),
    }
}

/// Sets or removes the address. Only a person may do this.
pub fn set_address(state: &Path, address: Option<&str>) -> Result<(), Error> {
    let path = file(state);
    let io = |source| Error::Io { what: "write where trees are carried to", path: path.clone(), source };
    match address {
        Some(address) => {
            remote(address)?;
            fs::create_dir_all(state).and_then(|()| fs::write(&path, format!("{address}\n"))).map_err(io)
        }
        None => match fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(io(error)),
            _ => Ok(()),
        },
    }
}

/// Moves the credentials of a remote out of the agents' environment into this process, if a remote is set.
pub fn keep_the_keys(state: &Path, environment: &mut Vec<(OsString, OsString)>) {
    keep(environment, file(state).exists());
}

/// Moves the credentials of a remote out of the agents' environment, for a process that is given a remote.
pub fn keep_all_keys(environment: &mut Vec<(OsString, OsString)>) {
    keep(environment, true);
}

fn keep(environment: &mut Vec<(OsString, OsString)>, has_remote: bool) {
    let mut variables = VARIABLES.lock().unwrap_or_else(PoisonError::into_inner);
    for (name, value) in environment.iter() {
        match variables.iter_mut().find(|(known, _)| known == name) {
            Some(known) => known.1.clone_from(value),
            None => variables.push((name.clone(), value.clone())),
        }
    }
    environment.retain(|(name, _)| !opens_a_remote(name, has_remote));
}

/// Returns the remote at an address, with its credentials.
pub fn remote(address: &str) -> Result<Remote, Error> {
    let variables = VARIABLES.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(Remote::new(address, &variables)?)
}

pub(crate) fn remote_of(state: &Path) -> Result<Option<Remote>, Error> {
    address(state)?.map(|address| remote(&address)).transpose()
}

/// Returns the identifier of this machine, meaning all processes that share this state folder; generates it
/// once.
pub fn machine(state: &Path) -> Result<String, Error> {
    use std::hash::{BuildHasher as _, RandomState};
    let path = state.join("machine");
    let io = |source| Error::Io { what: "note which machine this is in", path: path.clone(), source };
    if !path.exists() {
        let made = format!("{:016x}", RandomState::new().hash_one(std::process::id()));
        let new = state.join(format!("machine.{made}"));
        fs::create_dir_all(state).and_then(|()| fs::write(&new, &made)).map_err(io)?;
        // The first process has named it.
        let _ = fs::hard_link(&new, &path);
        let _ = fs::remove_file(&new);
    }
    Ok(fs::read_to_string(&path).map_err(io)?.trim().to_owned())
}
