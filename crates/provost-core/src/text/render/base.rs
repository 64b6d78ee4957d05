//! Results of a plan's checks on the base, before the approval.
//!
//! A check that holds there cannot show that the work was done; the gate shows this to the approver. provost
//! stores the results beside the log, for the gate and for the control check of the first steps. They decide
//! nothing.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::model::plan::{Check, Contract, Plan, StepNumber};
use crate::model::test_results::tests;
use crate::model::verdict::{CheckOutcome, Verdict};

/// The results for one revision.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BaseLook {
    pub revision: String,
    pub steps: BTreeMap<StepNumber, Verdict>,
    pub postconditions: BTreeMap<u32, Verdict>,
}

impl BaseLook {
    /// Counts the checks that already hold.
    pub fn holding(&self) -> usize {
        self.steps.values().chain(self.postconditions.values()).filter(|verdict| verdict.held()).count()
    }
}

/// Describes one result.
pub fn words(outcome: &CheckOutcome) -> String {
    match outcome {
        CheckOutcome::Held => "holds already".to_owned(),
        CheckOutcome::Broke { exit_code: 0 } => "does not hold, as it should be".to_owned(),
        CheckOutcome::Broke { exit_code } => format!("fails (exit {exit_code}), as it should"),
        CheckOutcome::NotRun { reason } => format!("could not be tried: {reason}"),
        outcome => format!("not known: {outcome}"),
    }
}

/// Returns lines for the gate: how many checks already hold, then one line per check.
pub fn lines(plan: &Plan, look: &BaseLook) -> Vec<String> {
    let mut lines = Vec::new();
    let (mut holding, mut broken) = (0, 0);
    let mut tell = |what: String, found: Option<&Verdict>, guards: bool| {
        let held = found.is_some_and(Verdict::held);
        holding += u32::from(held);
        broken +=
            usize::from(found.is_some_and(|verdict| matches!(verdict.outcome, CheckOutcome::Broke { .. })));
        let said = found.map_or("not tried".to_owned(), |verdict| words(&verdict.outcome));
        let guards = if guards && held { ", as it is meant to (guard)" } else { "" };
        let failing = found.and_then(failing_tests).unwrap_or_default();
        lines.push(format!("  {what}: {said}{guards}{failing}"));
    };
    for step in plan.steps.iter().filter(|step| is_shell(step.contract.as_ref())) {
        tell(format!("step {}", step.number), look.steps.get(&step.number), step.is_guard());
    }
    for post in plan.postconditions.iter().filter(|post| is_shell(post.contract.as_ref())) {
        tell(format!("postcondition {}", post.number), look.postconditions.get(&post.number), false);
    }
    lines.insert(0, headline(holding, broken, lines.len()));
    lines
}

/// Returns which tests fail on the base.
fn failing_tests(verdict: &Verdict) -> Option<String> {
    let results = verdict.test_results.as_ref().filter(|results| results.failed > 0)?;
    let verb = if results.failed == 1 { "fails" } else { "fail" };
    let all = tests(results.run());
    Some(format!("; {} of {all} {verb} on the base: {}", results.failed, results.failing))
}

pub fn is_shell(contract: Option<&Contract>) -> bool {
    matches!(contract.map(|contract| &contract.check), Some(Check::Shell(_)))
}

fn headline(holding: u32, broken: usize, all: usize) -> String {
    let checks = if all == 1 { "check" } else { "checks" };
    match holding {
        0 if broken < all => {
            let unknown = all - broken;
            let hold = if all == 1 { "holds" } else { "hold" };
            format!("before the work: 0 of {all} {checks} {hold}; {unknown} could not be tried")
        }
        0 if all == 1 => "before the work: the check does not hold, as it should be".to_owned(),
        0 => format!("before the work: 0 of {all} checks hold, as it should be"),
        1 => format!("before the work: 1 of {all} {checks} holds already and proves nothing about the work"),
        n => format!("before the work: {n} of {all} {checks} hold already and prove nothing about the work"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::language::parse;
    use crate::model::verdict::Isolation;

    #[test]
    fn the_gate_says_how_many_checks_hold_already() {
        let step = |number: u32, more: &str| {
            format!(
                "### {number}. S\n**target:** t\n**task:** Do.\n**contract:**\n```shell\ntrue\n```\n{more}\n"
            )
        };
        let text = format!(
            "---\nstatus: draft\n---\n# T\n## Steps\n{}{}{}## Postconditions\n1. All\n   ```shell\n   true\n   ```\n",
            step(1, ""),
            step(2, "**guard:** yes"),
            step(3, "")
        );
        let plan = parse::plan(&text).plan;
        let seen = |outcome| Verdict::bare(Isolation::Clean, outcome);
        let look = BaseLook {
            revision: String::new(),
            steps: [
                (StepNumber(1), seen(CheckOutcome::Broke { exit_code: 1 })),
                (StepNumber(2), seen(CheckOutcome::Held)),
            ]
            .into(),
            postconditions: [(1, seen(CheckOutcome::Held))].into(),
        };
        expect_test::expect![[r#"
            before the work: 2 of 4 checks hold already and prove nothing about the work
              step 1: fails (exit 1), as it should
              step 2: holds already, as it is meant to (guard)
              step 3: not tried
              postcondition 1: holds already"#]]
        .assert_eq(&lines(&plan, &look).join("\n"));
    }

    #[test]
    fn a_check_that_could_not_be_tried_is_not_called_as_it_should_be() {
        assert_eq!(headline(0, 2, 2), "before the work: 0 of 2 checks hold, as it should be");
        assert_eq!(headline(0, 1, 2), "before the work: 0 of 2 checks hold; 1 could not be tried");
        assert_eq!(headline(0, 0, 1), "before the work: 0 of 1 check holds; 1 could not be tried");
    }
}
