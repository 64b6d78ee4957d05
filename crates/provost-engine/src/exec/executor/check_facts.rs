//! What the state of a run says about a check: its contract, what is known of it, and what it is compared with.

use provost_core::model::event::{CheckSubject, StartTree};
use provost_core::model::plan::{Check, Contract, Plan, Step};
use provost_core::model::verdict::Verdict;
use provost_core::state::run::Run;
use provost_host::check::negative_control::{BaseResult, Doubts};

/// Returns the check of a subject, and the step it belongs to.
pub(super) fn checked(plan: &Plan, subject: CheckSubject) -> (Option<&Contract>, Option<&Step>) {
    match subject {
        CheckSubject::Precondition(number) => {
            (plan.step(number).and_then(|step| step.precondition.as_ref()), plan.step(number))
        }
        CheckSubject::Contract(number) | CheckSubject::Control(number) | CheckSubject::Final(number) => {
            (plan.step(number).and_then(|step| step.contract.as_ref()), plan.step(number))
        }
        CheckSubject::Postcondition(number) => {
            let found = plan.postconditions.iter().find(|post| post.number == number);
            (found.and_then(|post| post.contract.as_ref()), None)
        }
    }
}

/// Returns the tree whose test results those of a check are compared with; the outer `None` compares nothing.
/// `trees` are the one of the check, and the one that the plan's work started with.
pub(super) fn compared_with(
    run: &Run,
    subject: CheckSubject,
    begins: Option<&StartTree>,
    [tree, before]: [&Option<String>; 2],
) -> Option<Option<String>> {
    match subject {
        CheckSubject::Control(_) | CheckSubject::Precondition(_) => None,
        CheckSubject::Contract(_) => Some(begins.map(|start| start.tree.clone()).or_else(|| tree.clone())),
        CheckSubject::Final(number) => {
            let start = run.step(number).and_then(|step| step.start.as_ref());
            Some(start.map(|start| start.tree.clone()).or_else(|| before.clone()))
        }
        CheckSubject::Postcondition(_) => Some(before.clone()),
    }
}

/// Returns the share of the changed code that a contract has to prove, in percent.
pub(super) fn min_proved(run: &Run, subject: CheckSubject) -> Option<u8> {
    let CheckSubject::Contract(number) = subject else { return None };
    run.plan.step(number)?.min_proved(run.binding.terms.min_proved)
}

/// Returns whether a check after all steps is known to hold on the tree they left.
pub(super) fn is_known(run: &Run, subject: CheckSubject, contract: Option<&Contract>) -> bool {
    matches!(subject, CheckSubject::Final(_) | CheckSubject::Postcondition(_))
        && contract.is_some_and(|contract| match &contract.check {
            Check::Shell(shell) => run.held_on_tree(shell),
            Check::Human | Check::Judge { .. } => false,
        })
}

/// Returns what is known of a check from before the work, and whether to run it with a planted failing test.
pub(super) fn doubts(run: &Run, subject: CheckSubject) -> Doubts {
    let CheckSubject::Contract(number) = subject else { return Doubts::default() };
    let before = run.step(number).and_then(|step| {
        let runners = step.runners_before.clone();
        step.held_before.map(|held| BaseResult { held, tests: step.tests_before, runners })
    });
    let writes_tests = run.plan.step(number).is_some_and(Step::writes_tests);
    Doubts { before, writes_tests, bite: held_apart(run, subject).is_none() }
}

/// Returns the verdict of a contract that held in the step's own worktree and is judged again together with
/// what other steps left meanwhile.
pub(super) fn held_apart(run: &Run, subject: CheckSubject) -> Option<&Verdict> {
    let CheckSubject::Contract(number) = subject else { return None };
    run.step(number)?.verdict.as_ref().filter(|verdict| run.is_held_apart(number) && verdict.held())
}

/// Returns whether the agent's changes take part in a check; `left_alone` are changes that others made in the
/// workspace.
pub(super) fn takes_work(run: &Run, subject: CheckSubject, left_alone: bool) -> bool {
    match subject {
        CheckSubject::Precondition(_) | CheckSubject::Contract(_) => true,
        CheckSubject::Control(_) => false,
        // Changes that others made in the workspace take part in the final checks, as always.
        CheckSubject::Final(_) | CheckSubject::Postcondition(_) => run.has_unseen_work() || left_alone,
    }
}
