//! Runs a plan's checks on a merged tree of several plans.

use provost_core::model::event::CheckSubject;
use provost_core::model::plan::Check;
use provost_core::model::verdict::Verdict;
use provost_core::state::run::Run;
use provost_host::Interrupted;

use super::{Executor, TaskInput};

impl Executor<'_> {
    /// Runs one check on a kept tree, without any workspace. A check that held on this same tree at the end
    /// of its plan is not run again.
    pub fn judge_on(&self, run: &Run, subject: CheckSubject, tree: &str) -> Result<Verdict, Interrupted> {
        let TaskInput::Check(mut order) = self.check_order(run, subject, false) else {
            return Ok(Verdict::not_run(self.ground.level, "the plan has no such check"));
        };
        order.known &= run.tree.as_deref() == Some(tree) && run.isolation == Some(self.ground.level);
        order.with_work = false;
        order.tree = Some(tree.to_owned());
        let Some(Check::Shell(shell)) = order.check.clone() else {
            return Ok(Verdict::not_run(self.ground.level, "no command decides this"));
        };
        Ok(self.redacted(self.judge(&order, &shell)?))
    }
}
