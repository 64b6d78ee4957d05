//! Runs the contract of a step on a kept tree, as it is and with one file changed.

use std::time::Duration;

use provost_core::model::event::CheckSubject;
use provost_core::model::plan::{Check, Shell, StepNumber};
use provost_core::model::verdict::{Isolation, Verdict};
use provost_core::state::run::Run;
use provost_host::Interrupted;
use provost_host::check::negative_control::Doubts;
use provost_host::exec::environment::{CheckSpec, FileEdit};

use super::check::CheckOrder;
use super::{Executor, TaskInput};
use crate::exec::proof_map::VariedContract;

/// The contract of a step, and the kept tree that it runs on.
pub(crate) struct TreeContract<'e> {
    executor: &'e Executor<'e>,
    order: &'e CheckOrder,
    shell: &'e Shell,
    tree: &'e str,
    /// The verdict of the contract on the tree as it is, if that is known.
    pub(super) held: Option<Verdict>,
}

impl<'a> Executor<'a> {
    /// Returns the order for runs of a step's contract that are not part of the loop.
    pub(crate) fn order_of(&self, run: &Run, number: StepNumber) -> Option<Box<CheckOrder>> {
        match self.check_order(run, CheckSubject::Final(number), false) {
            TaskInput::Check(order) => Some(order),
            TaskInput::Attempt(_) | TaskInput::Errand(_) | TaskInput::Nothing => None,
        }
    }

    /// Returns the contract for runs on a kept tree; `None` if no command decides it.
    pub(crate) fn on_tree<'e>(&'e self, order: &'e CheckOrder, tree: &'e str) -> Option<TreeContract<'e>>
    where
        'a: 'e,
    {
        match &order.check {
            Some(Check::Shell(shell)) => {
                Some(TreeContract { executor: self, order, shell, tree, held: None })
            }
            Some(Check::Human | Check::Judge { .. }) | None => None,
        }
    }
}

impl VariedContract for TreeContract<'_> {
    fn level(&self) -> Isolation {
        self.executor.ground.level
    }

    fn timeout(&self) -> Duration {
        self.order.timeout
    }

    fn control(&self) -> Result<Verdict, Interrupted> {
        if let Some(held) = &self.held {
            return Ok(held.clone());
        }
        if let Some(reason) = &self.order.unseen {
            return Ok(Verdict::not_run(self.level(), reason.as_str()));
        }
        let tag = self.tag(0);
        let verdict = self.executor.ground.judge(&self.case(self.order.timeout, &tag))?;
        Ok(self.executor.redacted(verdict))
    }

    fn varied(&self, edit: &FileEdit<'_>, limit: Duration, worker: usize) -> Result<Verdict, Interrupted> {
        let tag = self.tag(worker);
        let verdict = self.executor.ground.judge_varied(&self.case(limit, &tag), edit)?;
        Ok(self.executor.redacted(verdict))
    }

    fn redacted(&self, text: &str) -> String {
        self.executor.site.redactor.text(text).into_owned()
    }
}

impl TreeContract<'_> {
    // Not the tag of an attempt, whose processes may be ended at any time: a run may be under way.
    fn tag(&self, worker: usize) -> String {
        format!("{}/proved/{}/{worker}", self.executor.site.id, std::process::id())
    }

    fn case<'c>(&'c self, timeout: Duration, tag: &'c str) -> CheckSpec<'c> {
        CheckSpec {
            timeout,
            tree: Some(self.tree),
            start: None,
            with_work: false,
            apart: None,
            doubts: Doubts::default(),
            known: None,
            ..self.executor.case(self.order, self.shell, tag)
        }
    }
}
