//! Trees that travel between machines: an attempt starts with a tree from the remote, and its result is
//! pushed.
//!
//! **Invariant:** an attempt's tree and a passed tree are on the remote before the log names them.

use std::sync::atomic::Ordering;
use std::time::Duration;

use provost_core::model::event::{CheckSubject, RemoteTree};
use provost_core::model::plan::GitPolicy;
use provost_core::model::run_policy::AgentAccess;
use provost_core::model::verdict::Verdict;
use provost_core::state::run::Run;
use provost_host::Interrupted;
use provost_host::tree::{Apart, Error as TreeError};

use super::step_worktree::{WorkspaceSync, home, told};
use super::{AttemptOrder, CheckOrder, EAR, Executor};
use crate::plan::tree_transport::{self, TreeTransport};

/// Pause before a remote that does not answer is tried again.
const PAUSE: Duration = Duration::from_secs(1);

/// Sends trees for the current holder of the plan's lease.
#[derive(Clone, Copy)]
pub(super) struct Courier<'a> {
    carrying: &'a TreeTransport,
    epoch: u64,
}

impl<'a> Executor<'a> {
    pub fn carrying(self, carrying: Option<&'a TreeTransport>, epoch: u64) -> Self {
        Self { courier: carrying.map(|carrying| Courier { carrying, epoch }), ..self }
    }

    /// Returns `None` if trees travel: no workspace has to be updated then.
    pub(super) fn home(&self, run: &Run) -> Option<WorkspaceSync> {
        home(run).filter(|_| self.courier.is_none())
    }

    /// Gives the agent a clone instead of the shared repository, which is on another machine.
    pub(super) fn within_reach(&self, reach: AgentAccess) -> AgentAccess {
        match (self.courier, reach.git) {
            (Some(_), GitPolicy::Shared) => AgentAccess { git: GitPolicy::Clone, ..reach },
            _ => reach,
        }
    }

    /// Returns the tree that the last attempt left, if it is available.
    pub(super) fn work(&self, run: &Run) -> Option<String> {
        let courier = self.courier?;
        let work = run.work.as_ref().filter(|_| courier.carrying.unverifiable().is_none())?;
        Some(work.tree.clone())
    }

    /// Returns the tree that agents see instead of the workspace, if trees travel.
    pub(super) fn stands_for_the_workspace(&self, run: &Run) -> Option<String> {
        self.courier?;
        self.work(run).or_else(|| self.tree(run))
    }

    /// Returns the tree an agent works in, or `None` if it works in the workspace.
    pub(super) fn begin_in(&self, order: &AttemptOrder) -> Result<Option<Apart>, String> {
        let Some(courier) = self.courier else { return self.apart(order) };
        if let Some(lost) = courier.carrying.nothing_to_begin_with() {
            return Err(lost);
        }
        let plan = self.site.id.to_string();
        let made = self.ground.set_out(&plan, &order.place, order.tree.as_deref(), order.work.as_deref());
        made.map(Some).map_err(|error| format!("no tree could be made for it: {}", told(&error)))
    }

    /// Returns the files a check takes over changes from, or why they are missing. `None` if trees do not
    /// travel, `Some(Ok(None))` if the check takes over nothing.
    pub(super) fn laid_out(&self, run: &Run, with_work: bool) -> Option<Result<Option<Apart>, String>> {
        let carrying = self.courier?.carrying;
        let lost = if with_work { carrying.unverifiable() } else { carrying.nothing_to_begin_with() };
        if let Some(lost) = lost {
            return Some(Err(lost));
        }
        if !with_work {
            return Some(Ok(None));
        }
        let (plan, passed, work) = (self.site.id.to_string(), self.tree(run), self.work(run));
        let laid = self.ground.laid_out(&plan, passed.as_deref(), work.as_deref());
        Some(laid.map(Some).map_err(|error| told(&error)))
    }

    /// Sends what the agent left. Returns notes about files that were not sent.
    pub(super) fn send_on(
        &self,
        order: &AttemptOrder,
        apart: Option<&Apart>,
    ) -> Result<(Option<RemoteTree>, Vec<String>), Interrupted> {
        let (Some(courier), Some(apart)) = (self.courier, apart) else { return Ok((None, Vec::new())) };
        let gathered = match self.ground.gather(apart) {
            Ok(gathered) => gathered,
            Err(error) => {
                return Ok((None, vec![format!("what it left cannot be carried: {}", told(&error))]));
            }
        };
        let mut notes: Vec<String> =
            gathered.refused.iter().map(|path| format!("left behind: {path}")).collect();
        let name = tree_transport::attempt_name(&self.site.id, order.step, order.attempt, courier.epoch);
        if let Err(why) = self.send_stubbornly(courier, &gathered.tree.id, &name)? {
            notes.push(format!("what it left was not carried: {why}"));
            return Ok((None, notes));
        }
        let (tree, machine) = (gathered.tree.id.clone(), courier.carrying.machine.clone());
        Ok((Some(RemoteTree { tree, name, machine }), notes))
    }

    /// Sends a tree that held to the remote, so that other machines can continue from it, before the verdict
    /// is reported.
    pub(super) fn kept_for_others(
        &self,
        order: &CheckOrder,
        verdict: Verdict,
    ) -> Result<Verdict, Interrupted> {
        let goes_on = matches!(
            order.subject,
            CheckSubject::Contract(_) | CheckSubject::Final(_) | CheckSubject::Postcondition(_)
        );
        let tree = verdict.tree.as_ref().map(|tree| tree.id.clone());
        let (Some(courier), Some(tree), true) = (self.courier, tree, goes_on && verdict.held()) else {
            return Ok(verdict);
        };
        // The tree came from the remote.
        if order.tree.as_ref() == Some(&tree) {
            return Ok(verdict);
        }
        let name = tree_transport::passed_name(&self.site.id, &tree);
        Ok(match self.send_stubbornly(courier, &tree, &name)? {
            Ok(()) => verdict,
            Err(why) => Verdict::not_run(self.ground.level, format!("it held, and could not be kept: {why}")),
        })
    }

    /// Sends a tree and retries as long as the remote does not answer. Returns why the remote refuses, if it
    /// does.
    fn send_stubbornly(
        &self,
        courier: Courier<'_>,
        tree: &str,
        name: &str,
    ) -> Result<Result<(), String>, Interrupted> {
        loop {
            match self.ground.send(&courier.carrying.remote, tree, name) {
                Ok(()) => return Ok(Ok(())),
                Err(error @ TreeError::Unreachable { .. }) => {
                    (courier.carrying.told)(&format!("{name} waits to be sent: {error}"));
                }
                Err(error) => return Ok(Err(told(&error))),
            }
            for _ in 0..PAUSE.as_millis() / EAR.as_millis() {
                if self.site.stop.load(Ordering::Relaxed) {
                    return Err(Interrupted);
                }
                std::thread::sleep(EAR);
            }
        }
    }
}
