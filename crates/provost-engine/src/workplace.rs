//! Where the agents of a plan work, and where trees come from that this machine does not have.
//!
//! In the usual build agents work in the workspace, and every tree is made on this machine. The cluster
//! provides other places: a worker without the workspace, and a machine that knows the git remote of the
//! workers.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use provost_core::model::chain::PlanId;
use provost_core::model::event::{BesideStart, RemoteTree};
use provost_core::model::plan::StepNumber;
use provost_core::model::verdict::Isolation;
use provost_core::state::run::Run;
use provost_host::Interrupted;
use provost_host::exec::environment::{ExecEnv, LeftWork};
use provost_host::tree::{Apart, Base, Trees};

use crate::Error;

/// A place where agents work. The default of each method is that of the workspace on this machine.
pub trait Workplace: fmt::Debug + Send + Sync {
    /// Returns whether agents work in the workspace of this machine, or in worktrees beside it.
    fn is_workspace(&self) -> bool {
        true
    }

    /// Returns why no agent can work here at this level, if so.
    fn refuses_level(&self, _level: Isolation) -> Option<&'static str> {
        None
    }

    /// Returns files and folders with keys of this place; no agent may see them.
    fn key_files(&self, _environment: &[(OsString, OsString)]) -> Vec<PathBuf> {
        Vec::new()
    }

    /// Called when a person has approved the plan.
    fn approved(&self, _plan: &PlanFiles<'_>) -> Result<(), Error> {
        Ok(())
    }

    /// Returns a tree of the plan that this machine does not have.
    fn fetch(&self, plan: &PlanFiles<'_>, _trees: &Trees, _tree: &str) -> Result<Option<Base>, Error> {
        match plan.run.sends_trees() {
            true => Err(Error::CarriedElsewhere { plan: plan.id.clone() }),
            false => Ok(None),
        }
    }

    /// Returns the tree that takes the place of the workspace, if this machine has it.
    fn left_tree(&self, _run: &Run) -> Option<String> {
        None
    }

    /// Returns what an attempt at the step begins with beside what has passed, if this machine has it.
    fn work_to_continue(&self, _run: &Run, _step: StepNumber, _is_beside: bool) -> Option<LeftWork> {
        None
    }

    /// Returns the work that a check takes over; that of a step, if its contract is checked.
    fn work_to_judge(&self, _run: &Run, _step: Option<StepNumber>) -> Option<LeftWork> {
        None
    }

    /// Makes the folder that an attempt works in; `None` for the workspace.
    fn begin(&self, _environment: &ExecEnv, _start: &StartTrees<'_>) -> Result<Option<Apart>, String> {
        Ok(None)
    }

    /// Returns the folder that a check takes the agent's changes from, or why it is missing; `None` for the
    /// workspace. `with_work` says whether it takes any.
    fn checked_files(
        &self,
        _environment: &ExecEnv,
        _start: &StartTrees<'_>,
        _with_work: bool,
    ) -> Result<Option<Apart>, String> {
        Ok(None)
    }

    /// Sends what an attempt left to other machines. Returns notes about files that were not sent.
    fn send_left(
        &self,
        _attempt: &SentAttempt<'_>,
    ) -> Result<(Option<RemoteTree>, Vec<String>), Interrupted> {
        Ok((None, Vec::new()))
    }

    /// Sends a tree that passed to other machines. Returns why it cannot be kept there, if so.
    fn send_passed(
        &self,
        _environment: &ExecEnv,
        _plan: &PlanId,
        _tree: &str,
        _stop: &AtomicBool,
    ) -> Result<Result<(), String>, Interrupted> {
        Ok(Ok(()))
    }
}

/// The workspace of this machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct LocalWorkplace;

impl Workplace for LocalWorkplace {}

/// The plan whose trees are asked for.
pub struct PlanFiles<'a> {
    pub id: &'a PlanId,
    pub run: &'a Run,
    pub workspace: &'a Path,
    pub state: &'a Path,
    /// Folders that are part of the trees that this machine keeps.
    pub caches: &'a [String],
}

/// The trees that an attempt or a check begins with.
pub struct StartTrees<'a> {
    pub plan: &'a PlanId,
    /// Name of the step's folder.
    pub place: &'a str,
    /// Tree that has passed.
    pub passed: Option<&'a str>,
    /// What attempts left elsewhere.
    pub left: Option<&'a LeftWork>,
}

/// An attempt that has ended, and the folder it worked in.
pub struct SentAttempt<'a> {
    pub environment: &'a ExecEnv,
    pub plan: &'a PlanId,
    pub step: StepNumber,
    pub attempt: u32,
    /// Epoch of the plan's lease; it separates successive holders.
    pub epoch: u64,
    pub folder: &'a Apart,
    /// What it began with, if it worked beside others.
    pub beside: Option<BesideStart>,
    pub stop: &'a AtomicBool,
}
