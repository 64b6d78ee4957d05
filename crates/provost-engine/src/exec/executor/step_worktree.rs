//! Worktrees of steps that run in parallel, and how passed work gets into the workspace.
//!
//! **Invariant:** the workspace is only ever updated to newer durable state, never set back.

use std::sync::{MutexGuard, PoisonError};

use provost_core::model::approved_spec;
use provost_core::model::plan::Step;
use provost_core::state::run::Run;
use provost_host::exec::environment::StepWorktreeStart;
use provost_host::tree;
use provost_host::tree::Apart;

use super::{AttemptOrder, Executor};

/// State that the workspace must have before a task starts, if agents work in their own worktrees.
pub(super) struct WorkspaceSync {
    seq: u64,
    pub(super) tree: String,
    /// Steps that are settled and need no worktree any more.
    over: Vec<String>,
}

impl Executor<'_> {
    /// Returns the worktree that the attempt works in, or `None` if it works in the workspace.
    pub(super) fn apart(&self, order: &AttemptOrder) -> Result<Option<Apart>, String> {
        let plan = self.site.id.to_string();
        if !order.apart {
            self.ground.forget_apart(&plan, &order.place);
            return Ok(None);
        }
        let beginning = StepWorktreeStart {
            plan: &plan,
            step: &order.place,
            tree: order.tree.as_deref(),
            touches: &order.touches,
        };
        let made = self.ground.set_apart(&beginning);
        made.map(Some).map_err(|error| format!("no tree of its own could be made for it: {}", told(&error)))
    }

    pub(super) fn at_home(&self) -> MutexGuard<'_, (u64, Vec<String>)> {
        self.at_home.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Updates the workspace to the passed work, if agents work in their own worktrees. Never sets it back:
    /// of two tasks, the one that started first may finish last.
    pub(super) fn come_home(&self, home: Option<&WorkspaceSync>) -> Result<(), tree::Error> {
        let Some(home) = home else { return Ok(()) };
        let mut at_home = self.at_home();
        if at_home.0 >= home.seq {
            return Ok(());
        }
        let plan = self.site.id.to_string();
        let left = self.ground.bring_home(&plan, &home.tree)?;
        home.over.iter().for_each(|step| self.ground.forget_apart(&plan, step));
        at_home.0 = home.seq;
        at_home.1.extend(left);
        Ok(())
    }

    /// Updates the workspace to the passed work when the loop stops.
    pub(crate) fn leave(&self, run: &Run) -> Result<(), tree::Error> {
        self.come_home(self.home(run).as_ref())
    }
}

/// Returns the name of a step's worktree: its number and a digest of its text, so that leftovers of another
/// step with that number are not found there.
pub(super) fn place(run: &Run, step: &Step) -> String {
    let digest = approved_spec::step_digest(&run.text, step).to_string();
    format!("{}-{}", step.number, &digest[..12])
}

/// Returns the globs the step may change, if it declares any.
pub(super) fn globs(step: &Step) -> Option<Vec<String>> {
    step.touches.as_ref().map(|globs| globs.iter().map(|glob| glob.value.clone()).collect())
}

/// Returns the state the workspace must have, if some steps of the plan work in their own worktrees.
pub(super) fn home(run: &Run) -> Option<WorkspaceSync> {
    if !run.has_areas {
        return None;
    }
    let apart = |step: &&Step| run.works_apart(step.number);
    let is_over = |step: &&Step| run.step(step.number).is_some_and(|step| step.state.is_settled());
    let tree = run.tree.clone().filter(|_| run.plan.steps.iter().any(|step| apart(&step)))?;
    let over = run.plan.steps.iter().filter(apart).filter(is_over).map(|step| place(run, step));
    Some(WorkspaceSync { seq: run.seq, tree, over: over.collect() })
}

pub(super) fn not_home(error: &tree::Error) -> String {
    format!("the workspace could not be brought up to what has passed: {}", told(error))
}

pub(super) fn told(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}
