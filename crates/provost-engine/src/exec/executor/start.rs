//! The tree an attempt starts with in the workspace, so that it is credited only with its own changes.

use provost_core::model::event::StartTree;
use provost_core::model::plan::StepNumber;
use provost_core::state::run::Run;
use provost_host::exec::environment::Outset;
use provost_host::tree;

use super::step_worktree::{globs, told};
use super::{AttemptOrder, Executor};
use crate::plan::uncommitted::own_trees;

/// Input to find the tree that an attempt starts with.
pub(super) struct StartTreeInput {
    /// Tree that the previous steps left.
    tree: Option<String>,
    touches: Option<Vec<String>>,
    /// Last attempt, if it is not settled: the tree it started with and the one it left.
    before: Option<(String, Option<String>)>,
    own: Vec<String>,
}

impl Executor<'_> {
    /// Returns the tree that an attempt at the step starts with now. `None` if the agent does not work in the
    /// workspace, if an external session does the work, or if checks run in the workspace itself.
    pub(super) fn start(&self, run: &Run, number: StepNumber) -> Result<Option<StartTree>, tree::Error> {
        self.beginning(run, number).map_or(Ok(None), |beginning| self.find_start(&beginning))
    }

    pub(super) fn beginning(&self, run: &Run, number: StepNumber) -> Option<StartTreeInput> {
        let apart = self.side_by_side && run.works_apart(number);
        let has_tree = self.ground.level.has_clean_tree() && self.workplace.is_workspace();
        if !self.dispatches || self.session.is_some() || !has_tree || apart {
            return None;
        }
        Some(StartTreeInput {
            tree: self.tree(run),
            touches: run.plan.step(number).and_then(globs),
            before: run.last_attempt(number).map(|(start, left)| (start.to_owned(), left.map(str::to_owned))),
            own: own_trees(run),
        })
    }

    fn find_start(&self, beginning: &StartTreeInput) -> Result<Option<StartTree>, tree::Error> {
        let StartTreeInput { tree, touches, before, own } = beginning;
        let before = before.as_ref().map(|(start, left)| (start.as_str(), left.as_deref()));
        let start =
            self.ground.start(&Outset { tree: tree.as_deref(), touches: touches.as_deref(), before, own })?;
        Ok(start.map(|start| StartTree { tree: start.tree.id.clone(), others: start.others }))
    }

    /// Returns the tree of this attempt's start: as announced, or as found now.
    pub(super) fn start_of(&self, order: &AttemptOrder) -> Result<Option<StartTree>, String> {
        match (&order.start, &order.beginning) {
            (Some(start), _) => Ok(Some(start.clone())),
            (None, Some(beginning)) => self.find_start(beginning).map_err(|error| told(&error)),
            (None, None) => Ok(None),
        }
    }

    /// Keeps what the attempt left as a tree and returns its id; `None` if it cannot be kept.
    pub(super) fn left_by(&self, order: &AttemptOrder, start: Option<&StartTree>) -> Option<String> {
        self.ground.keep_work(&start?.tree, order.own_touches.as_deref()).ok().flatten()
    }
}
