//! What attempts left on a git remote, if the trees of a plan are sent between machines.
//!
//! No machine has the workspace of such a plan. What the last attempt left takes its place, unless the attempt
//! worked beside others: then only its own step begins with it again.

use super::Run;
use crate::model::event::RemoteTree;
use crate::model::plan::StepNumber;

/// What an attempt left on the remote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteWork {
    pub left: RemoteTree,
    /// The passed tree that the attempt began with; `None` for the approved one.
    pub base: Option<String>,
    /// A step beside it has passed since, so it lacks the work of that step.
    pub is_behind: bool,
}

#[derive(Clone, Debug, Default)]
pub(super) struct SentTrees {
    is_used: bool,
    /// What takes the place of the workspace.
    in_place: Option<RemoteWork>,
    /// The tree that passed last, also under an earlier revision on the same commit.
    passed: Option<String>,
}

impl Run {
    /// Returns whether the trees of the plan are sent between machines.
    pub fn sends_trees(&self) -> bool {
        self.sent.is_used
    }

    /// Returns what takes the place of the workspace: what the last attempt left that did not work beside
    /// others.
    pub fn work_in_place(&self) -> Option<&RemoteWork> {
        self.sent.in_place.as_ref()
    }

    /// Returns the work that the contract of a step judges.
    pub fn work_to_judge(&self, number: StepNumber) -> Option<&RemoteWork> {
        let own = self.own_work(number).filter(|work| work.left.beside.is_some());
        own.or(self.work_in_place())
    }

    /// Returns the work that the next attempt at a step begins with.
    pub fn work_to_continue(&self, number: StepNumber, is_beside: bool) -> Option<&RemoteWork> {
        if is_beside { self.own_work(number) } else { self.work_to_judge(number) }
    }

    /// Returns the tree that passed last. Under a new revision it still has the work of the passed steps.
    pub fn last_passed(&self) -> Option<&str> {
        self.sent.passed.as_deref()
    }

    /// Returns all work that a check or an attempt may still need.
    pub fn sent_work(&self) -> impl Iterator<Item = &RemoteWork> {
        let own = self.steps.iter().filter_map(|step| step.work.as_deref());
        self.sent.in_place.iter().chain(own)
    }

    fn own_work(&self, number: StepNumber) -> Option<&RemoteWork> {
        self.step(number)?.work.as_deref()
    }

    /// Records what an attempt left. One that did not work beside others began with the tree that has passed by
    /// now: nothing else of the plan happened meanwhile.
    pub(super) fn left_on_remote(&mut self, number: StepNumber, left: &RemoteTree) {
        let base = match &left.beside {
            Some(start) => start.passed.clone(),
            None => self.tree.clone(),
        };
        let work = RemoteWork { left: left.clone(), base, is_behind: false };
        self.sent.is_used = true;
        if left.beside.is_none() {
            self.sent.in_place = Some(work.clone());
        }
        if let Some(step) = self.step_mut(number) {
            step.work = Some(Box::new(work));
        }
    }

    /// Records a tree that passed last.
    pub(super) fn note_passed(&mut self, tree: &str) {
        self.sent.passed = Some(tree.to_owned());
    }

    /// Forgets the work of a step that has passed. Returns whether it was done beside others.
    pub(super) fn settle_work(&mut self, number: StepNumber) -> bool {
        let is_beside = self.forget_work(number).is_some_and(|work| work.left.beside.is_some());
        if let (Some(work), true) = (&mut self.sent.in_place, is_beside) {
            work.is_behind = true;
        }
        is_beside
    }

    /// Forgets the work of a step.
    pub(super) fn forget_work(&mut self, number: StepNumber) -> Option<Box<RemoteWork>> {
        self.step_mut(number)?.work.take()
    }

    /// Forgets all trees, because they are based on another commit.
    pub(super) fn forget_sent(&mut self) {
        self.sent = SentTrees::default();
        self.steps.iter_mut().for_each(|step| step.work = None);
    }

    /// Returns whether what a person has confirmed or waived may be missing in the tree that passed: only what
    /// takes the place of the workspace has it then.
    pub(super) fn lacks_unseen_work(&self) -> bool {
        self.sends_trees() && self.unseen_work
    }
}
