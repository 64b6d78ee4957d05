//! Finds flaky and weak contracts in the verdicts that were recorded.

use std::collections::BTreeMap;

use provost_core::model::event::CheckSubject;
use provost_core::model::pass::Pass;
use provost_core::model::verdict::{CheckOutcome, Verdict};
use provost_engine::observe::overview::AttemptRecord;
use provost_engine::observe::view::StepView;

/// Share of the change that a contract proves, in percent, below which it is weak.
const PROVED_MIN: u32 = 50;

/// Lists what speaks against the contract of a step: it is flaky, or it proves little.
pub(super) fn doubts<'a>(step: &StepView, attempts: impl Iterator<Item = &'a AttemptRecord>) -> Vec<String> {
    let is_contract = |subject| matches!(subject, CheckSubject::Contract(_) | CheckSubject::Final(_));
    let verdicts: Vec<&Verdict> = attempts
        .flat_map(|attempt| &attempt.verdicts)
        .filter(|judged| is_contract(judged.subject))
        .map(|judged| &judged.verdict)
        .collect();
    let mut doubts = flaky(&verdicts);
    if step.pass == Some(Pass::HeldBefore) {
        doubts.push("weak: it held before the work too".to_owned());
    }
    if let Some(why) = &step.uncontrolled {
        doubts.push(format!("weak: no control showed that it can fail ({why})"));
    }
    let proved = verdicts.last().and_then(|verdict| verdict.proved.as_deref());
    if let Some(share) = proved.filter(|share| share.proved * 100 < share.hunks * PROVED_MIN) {
        doubts.push(format!("weak: it proves {} of {} changed parts", share.proved, share.hunks));
    }
    doubts
}

fn flaky(verdicts: &[&Verdict]) -> Vec<String> {
    let mut doubts = Vec::new();
    let is_flaky = |verdict: &&&Verdict| matches!(verdict.outcome, CheckOutcome::Flaky { .. });
    if let Some(CheckOutcome::Flaky { reason }) =
        verdicts.iter().rev().find(is_flaky).map(|seen| &seen.outcome)
    {
        doubts.push(format!("flaky: {reason}"));
    }
    // Whether it held on a tree, and whether it did not.
    let mut trees: BTreeMap<&str, [bool; 2]> = BTreeMap::new();
    for verdict in verdicts.iter().filter(|verdict| verdict.outcome.is_result() && !verdict.cached) {
        if let Some(tree) = verdict.tree_id() {
            trees.entry(tree).or_default()[usize::from(verdict.held())] = true;
        }
    }
    if trees.values().any(|results| results[0] && results[1]) {
        doubts.push("flaky: on the same tree it held once and did not hold once".to_owned());
    }
    let mut tests = verdicts.iter().rev().filter_map(|verdict| verdict.test_results.as_deref());
    if let Some(results) = tests.find(|results| !results.flaky.is_empty()) {
        doubts.push(format!("flaky: {}", results.flaky));
    }
    doubts
}

#[cfg(test)]
mod tests {
    use provost_core::model::verdict::{CheckOutcome, Isolation, Tree, Verdict};

    use super::flaky;

    fn verdict(outcome: CheckOutcome, tree: &str) -> Verdict {
        let tree = Tree { id: tree.to_owned(), ..Tree::default() };
        Verdict { tree: Some(Box::new(tree)), ..Verdict::bare(Isolation::Clean, outcome) }
    }

    #[test]
    fn a_contract_that_held_and_did_not_on_one_tree_is_flaky() {
        let held = |tree| verdict(CheckOutcome::Held, tree);
        let broke = |tree| verdict(CheckOutcome::Broke { exit_code: 1 }, tree);
        assert!(flaky(&[&broke("a"), &held("b"), &held("b")]).is_empty());
        assert_eq!(
            flaky(&[&broke("a"), &held("a")]),
            ["flaky: on the same tree it held once and did not hold once"]
        );
        let said = verdict(CheckOutcome::Flaky { reason: "run 2 of 3 disagreed".to_owned() }, "a");
        assert_eq!(flaky(&[&said]), ["flaky: run 2 of 3 disagreed"]);
    }
}
