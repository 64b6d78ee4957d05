//! Runs the contract of a step on a kept tree, as it is and with one file changed, and on trees that are made
//! for a trial.

use std::path::PathBuf;
use std::time::Duration;

use provost_core::model::event::CheckSubject;
use provost_core::model::plan::{Check, Shell, Span, StepNumber};
use provost_core::model::verdict::{Isolation, Verdict};
use provost_core::rules::command::Refusal;
use provost_core::state::run::Run;
use provost_host::Interrupted;
use provost_host::check::negative_control::Doubts;
use provost_host::exec::environment::{self, CheckSpec, Comparison, FileEdit, TrialTree};
use provost_host::tree::{self, Base};

use super::check::CheckOrder;
use super::{Executor, TaskInput};
use crate::Error;
use crate::exec::proof_map::VariedContract;

/// The contract of a step, and the kept tree that it runs on.
pub(crate) struct TreeContract<'e> {
    executor: &'e Executor<'e>,
    order: &'e CheckOrder,
    shell: &'e Shell,
    tree: &'e str,
    /// Its tests are compared with nothing.
    is_alone: bool,
    /// The verdict of the contract on the tree as it is, if that is known.
    pub(super) held: Option<Verdict>,
}

impl<'a> Executor<'a> {
    /// Returns the order for runs of a step's contract that are not part of the loop.
    pub(crate) fn order_of(&self, run: &Run, number: StepNumber) -> Option<Box<CheckOrder>> {
        self.order_for(run, CheckSubject::Final(number))
    }

    /// Returns the order for runs of any check that are not part of the loop.
    pub(crate) fn order_for(&self, run: &Run, subject: CheckSubject) -> Option<Box<CheckOrder>> {
        match self.check_order(run, subject, false) {
            TaskInput::Check(order) => Some(order),
            TaskInput::Attempt(_) | TaskInput::Errand(_) | TaskInput::Nothing => None,
        }
    }

    /// Returns the id of the tree that the next step would start with; `None` if the level has no trees of
    /// its own.
    pub(crate) fn standing_tree(&self, run: &Run) -> Option<String> {
        self.tree(run).or_else(|| self.ground.base_id().map(str::to_owned))
    }

    /// Makes the tree of a trial, and keeps it.
    pub(crate) fn trial_tree(&self, run: &Run, wanted: TrialTree<'_>) -> Result<Base, Error> {
        let made =
            self.ground.trial_tree(wanted, self.tree(run).as_deref()).map_err(|error| match error {
                tree::Error::NoCommit { .. } | tree::Error::PatchRefused { .. } => Error::TrialTree(error),
                error => environment::Error::from(error).into(),
            })?;
        made.ok_or(Error::Refused(Refusal::NoOwnTree { level: self.ground.level }))
    }

    /// Returns the paths at which a kept tree differs from the one that the next step would start with.
    pub(crate) fn changed_paths(&self, run: &Run, tree: &str) -> Vec<PathBuf> {
        let before = self.standing_tree(run).unwrap_or_default();
        let pair = self.ground.kept_pair(&before, tree).ok().flatten();
        pair.map(|pair| pair.paths).unwrap_or_default()
    }

    /// Opens a kept tree.
    pub(crate) fn kept_tree(&self, id: &str) -> Option<Base> {
        self.ground.kept_tree(id).ok().flatten()
    }

    /// Returns the contract for runs on a kept tree; `None` if no command decides it.
    pub(crate) fn on_tree<'e>(&'e self, order: &'e CheckOrder, tree: &'e str) -> Option<TreeContract<'e>>
    where
        'a: 'e,
    {
        match &order.check {
            Some(Check::Shell(shell)) => {
                Some(TreeContract { executor: self, order, shell, tree, is_alone: false, held: None })
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

impl<'e> TreeContract<'e> {
    /// Runs the same command with other expectations, and compares its tests with nothing.
    pub(super) fn alone(self, shell: &'e Shell) -> Self {
        Self { shell, is_alone: true, ..self }
    }

    /// Sets the verdict of the contract on the tree as it is.
    pub(crate) fn knowing(self, held: Verdict) -> Self {
        Self { held: Some(held), ..self }
    }

    /// Runs another command in the place of the contract, once and without negative controls; `None` runs
    /// the contract itself.
    pub(crate) fn once(&self, command: Option<String>, limit: Duration) -> Result<Verdict, Interrupted> {
        let other = command.map(|command| Shell { command, body: Span::default(), expectations: Vec::new() });
        let tag = self.tag(0);
        let case = CheckSpec {
            shell: other.as_ref().unwrap_or(self.shell),
            compare: Comparison::Nothing,
            ..self.case(limit, &tag)
        };
        Ok(self.executor.redacted(self.executor.ground.judge_once(&case, None)?))
    }

    /// Returns the contract.
    pub(crate) fn shell(&self) -> &Shell {
        self.shell
    }

    // Not the tag of an attempt, whose processes may be ended at any time: a run may be under way.
    fn tag(&self, worker: usize) -> String {
        format!("{}/proved/{}/{worker}", self.executor.site.id, std::process::id())
    }

    fn case<'c>(&'c self, timeout: Duration, tag: &'c str) -> CheckSpec<'c> {
        let usual = self.executor.case(self.order, self.shell, tag);
        CheckSpec {
            timeout,
            tree: Some(self.tree),
            start: None,
            with_work: false,
            apart: None,
            doubts: Doubts::default(),
            reuses: false,
            compare: if self.is_alone { Comparison::Nothing } else { usual.compare },
            ..usual
        }
    }
}
