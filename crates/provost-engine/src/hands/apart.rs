//! Where agents work that work side by side, and how what has passed comes into the workspace.
//!
//! **Invariant:** the workspace is brought up to what is durable, and never back.

use std::sync::{MutexGuard, PoisonError};

use provost_core::model::approved_spec;
use provost_core::model::plan::Step;
use provost_core::state::run::Run;
use provost_host::ground::Beginning;
use provost_host::tree;
use provost_host::tree::Apart;

use super::{AttemptOrder, Hands};

/// What the workspace has to hold before a deed begins, where agents work elsewhere.
pub struct Home {
    seq: u64,
    pub(super) tree: String,
    /// Steps that are over, and need no tree of their own any more.
    over: Vec<String>,
}

impl Hands<'_> {
    /// The tree it works in, if not in the workspace.
    pub(super) fn apart(&self, order: &AttemptOrder) -> Result<Option<Apart>, String> {
        let plan = self.site.id.to_string();
        if !order.apart {
            self.ground.forget_apart(&plan, &order.place);
            return Ok(None);
        }
        let beginning = Beginning {
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

    /// Brings the workspace up to what has passed, where agents work elsewhere. Never back: of two deeds the
    /// one that was begun first may come last.
    pub(super) fn come_home(&self, home: Option<&Home>) -> Result<(), tree::Error> {
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

    /// At rest the workspace holds what has passed.
    pub(crate) fn leave(&self, run: &Run) -> Result<(), tree::Error> {
        self.come_home(self.home(run).as_ref())
    }
}

/// What the tree of a step is called by: its number and its text, so that what was left of another step of
/// that number is not found there.
pub(super) fn place(run: &Run, step: &Step) -> String {
    let digest = approved_spec::step_digest(&run.text, step).to_string();
    format!("{}-{}", step.number, &digest[..12])
}

/// What a step may change, where it says so.
pub(super) fn globs(step: &Step) -> Option<Vec<String>> {
    step.touches.as_ref().map(|globs| globs.iter().map(|glob| glob.value.clone()).collect())
}

/// What the workspace has to hold, in a plan some steps of which are carried out elsewhere.
pub(super) fn home(run: &Run) -> Option<Home> {
    if !run.has_areas {
        return None;
    }
    let apart = |step: &&Step| run.works_apart(step.number);
    let is_over = |step: &&Step| run.step(step.number).is_some_and(|step| step.state.is_settled());
    let tree = run.tree.clone().filter(|_| run.plan.steps.iter().any(|step| apart(&step)))?;
    let over = run.plan.steps.iter().filter(apart).filter(is_over).map(|step| place(run, step));
    Some(Home { seq: run.seq, tree, over: over.collect() })
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
