//! How the executor uses the place where agents work: the workspace, or a tree from another machine.
//!
//! **Invariant:** an attempt's tree and a passed tree are where other machines find them before the log
//! names them.

use provost_core::model::event::{BesideStart, CheckSubject, RemoteTree};
use provost_core::model::plan::GitPolicy;
use provost_core::model::run_policy::AgentAccess;
use provost_core::model::verdict::Verdict;
use provost_core::state::run::Run;
use provost_host::Interrupted;
use provost_host::tree::Apart;

use super::step_worktree::{WorkspaceSync, home};
use super::{AttemptOrder, CheckOrder, Executor};
use crate::workplace::{SentAttempt, StartTrees, Workplace};

impl<'a> Executor<'a> {
    /// Sets where agents work, and the epoch of the plan's lease.
    pub fn at(self, workplace: &'a dyn Workplace, epoch: u64) -> Self {
        Self { workplace, epoch, ..self }
    }

    /// Returns `None` if agents work elsewhere: no workspace has to be updated then.
    pub(super) fn home(&self, run: &Run) -> Option<WorkspaceSync> {
        home(run).filter(|_| self.workplace.is_workspace())
    }

    /// Gives an agent that works elsewhere a clone instead of the shared repository of the workspace.
    pub(super) fn within_reach(&self, reach: AgentAccess) -> AgentAccess {
        match reach.git {
            GitPolicy::Shared if !self.workplace.is_workspace() => {
                AgentAccess { git: GitPolicy::Clone, ..reach }
            }
            _ => reach,
        }
    }

    /// Returns the tree that agents see instead of the workspace, if they work elsewhere.
    pub(super) fn stands_for_the_workspace(&self, run: &Run) -> Option<String> {
        match self.workplace.is_workspace() {
            true => None,
            false => self.workplace.left_tree(run).or_else(|| self.tree(run)),
        }
    }

    /// Returns the folder an agent works in, or `None` if it works in the workspace.
    pub(super) fn begin_in(&self, order: &AttemptOrder) -> Result<Option<Apart>, String> {
        if self.workplace.is_workspace() {
            return self.apart(order);
        }
        let start = StartTrees {
            plan: &self.site.id,
            place: &order.place,
            passed: order.tree.as_deref(),
            left: order.left.as_ref(),
        };
        self.workplace.begin(&self.ground, &start)
    }

    /// Returns the folder a check takes over changes from, or why it is missing; `None` for the workspace.
    pub(super) fn checked_files(
        &self,
        run: &Run,
        subject: CheckSubject,
        with_work: bool,
    ) -> Result<Option<Apart>, String> {
        let step = match subject {
            CheckSubject::Contract(step) => Some(step),
            _ => None,
        };
        let (passed, left) = (self.tree(run), self.workplace.work_to_judge(run, step));
        let (passed, left) = (passed.as_deref(), left.as_ref());
        let start = StartTrees { plan: &self.site.id, place: "", passed, left };
        self.workplace.checked_files(&self.ground, &start, with_work)
    }

    /// Sends what the agent left to other machines. Returns notes about files that were not sent.
    pub(super) fn send_left(
        &self,
        order: &AttemptOrder,
        folder: Option<&Apart>,
    ) -> Result<(Option<RemoteTree>, Vec<String>), Interrupted> {
        let Some(folder) = folder else { return Ok((None, Vec::new())) };
        self.workplace.send_left(&SentAttempt {
            environment: &self.ground,
            plan: &self.site.id,
            step: order.step,
            attempt: order.attempt,
            epoch: self.epoch,
            folder,
            beside: order.apart.then(|| BesideStart { passed: order.tree.clone() }),
            stop: &self.site.stop,
        })
    }

    /// Sends a tree that held to other machines, so that they can continue from it, before the verdict is
    /// reported.
    pub(super) fn send_passed(&self, order: &CheckOrder, verdict: Verdict) -> Result<Verdict, Interrupted> {
        let goes_on = matches!(
            order.subject,
            CheckSubject::Contract(_) | CheckSubject::Final(_) | CheckSubject::Postcondition(_)
        );
        let tree = verdict.tree.as_ref().map(|tree| tree.id.clone());
        // A tree that the check began with came from there.
        let Some(tree) = tree.filter(|tree| goes_on && verdict.held() && order.tree.as_ref() != Some(tree))
        else {
            return Ok(verdict);
        };
        Ok(match self.workplace.send_passed(&self.ground, &self.site.id, &tree, &self.site.stop)? {
            Ok(()) => verdict,
            Err(why) => Verdict::not_run(self.ground.level, format!("it held, and could not be kept: {why}")),
        })
    }
}
