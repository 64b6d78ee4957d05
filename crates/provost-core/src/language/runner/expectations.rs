//! Decides expectations about single tests: `tests fixed`, `no new failures`, `tests passed >= N`,
//! `no test removed or skipped`.
//!
//! **Invariant:** a failed exit code is accepted only if a failed test explains it, and only of a check that
//! does nothing else than run tests.

use std::collections::BTreeSet;

use crate::language::shell::{self, Join};
use crate::model::plan::{Expectation, Shell};
use crate::model::test_results::{TestChanges, TestResult, TestResults, TestSummary, tests, tests_that};

/// Commands that may stand before the test runner: they only set it up.
const SETTING_UP: [&str; 6] = ["cd", "set", "export", "source", ".", "unset"];

/// The results that the expectations of a check are held against.
pub struct TestRun<'a> {
    pub now: &'a TestResults,
    /// Before the work; `None` if the check runs on the tree without the work.
    pub before: Option<&'a TestResults>,
    /// Tests that gave two results on the same tree.
    pub flaky: &'a BTreeSet<String>,
    /// The purpose of the step is to write tests, so tests may be removed.
    pub writes_tests: bool,
}

impl TestRun<'_> {
    pub fn summary(&self) -> TestSummary {
        self.now.summary(self.before, self.flaky)
    }

    /// Returns the expectations about tests that are not met, with the tests that show it.
    pub fn unmet(&self, shell: &Shell) -> Vec<String> {
        let changes = self.summary().changes;
        let changes = changes.as_deref();
        let mut unmet = Vec::new();
        for expectation in shell.expectations.iter().map(|each| &each.value) {
            let why = match expectation {
                Expectation::TestsFixed { names } => {
                    names.iter().filter_map(|name| self.not_fixed(name)).collect()
                }
                Expectation::NoNewFailures => changes.map(|changes| self.worse(changes)).unwrap_or_default(),
                Expectation::NoTestRemoved => changes.map(removed).unwrap_or_default(),
                Expectation::TestsPassed { at_least } => {
                    let passed = self.now.count(TestResult::Passed);
                    let why = || format!("{} passed", tests(passed));
                    (passed < *at_least).then(why).into_iter().collect()
                }
                Expectation::ExitIs(_)
                | Expectation::ExitIsNot(_)
                | Expectation::Contains { .. }
                | Expectation::Matches { .. }
                | Expectation::Empty { .. } => Vec::new(),
            };
            if !why.is_empty() {
                unmet.push(format!("{expectation} ({})", why.join("; ")));
            }
        }
        unmet
    }

    /// Returns why a test does not count as fixed.
    fn not_fixed(&self, wanted: &str) -> Option<String> {
        let found = self.now.named(wanted);
        // Another test of the same name does not stand for the one that failed.
        let earlier = self.before.map(|before| before.named(wanted)).unwrap_or_default();
        if let Some(gone) = earlier.iter().find(|name| !self.now.0.contains_key(**name)) {
            return Some(format!("{gone} is gone"));
        }
        if found.is_empty() {
            return Some(format!("no test `{wanted}` was run"));
        }
        let result = |name: &&str| self.now.0.get(*name).copied();
        if let Some(name) = found.iter().find(|name| self.flaky.contains(**name)) {
            return Some(format!("{name} gave two results on the same files"));
        }
        if let Some(name) = found.iter().find(|name| result(name) != Some(TestResult::Passed)) {
            let what = if result(name) == Some(TestResult::Failed) { "fails" } else { "is skipped" };
            return Some(format!("{name} {what}"));
        }
        let passed_before =
            |name: &&&str| self.before.and_then(|before| before.0.get(**name)) == Some(&TestResult::Passed);
        (found.iter().filter(passed_before).count() == found.len())
            .then(|| format!("{} passed before the work too", found[0]))
    }

    /// Returns what is worse than before the work.
    fn worse(&self, changes: &TestChanges) -> Vec<String> {
        let mut kinds = vec![
            (changes.broken.count, "did not fail before the work and {fail} now", &changes.broken),
            (changes.new_failing.count, "{are} new and {fail}", &changes.new_failing),
        ];
        // A deleted or skipped test cannot show that nothing broke.
        if !self.writes_tests {
            let skipped = &changes.skipped_now;
            kinds.push((changes.gone_passing, "passed before the work and {are} gone", &changes.gone));
            kinds.push((skipped.count, "ran before the work and {are} skipped now", skipped));
        }
        let kinds = kinds.into_iter().filter(|(count, _, _)| *count > 0);
        kinds.map(|(count, what, names)| tests_that(count, what, names)).collect()
    }
}

fn removed(changes: &TestChanges) -> Vec<String> {
    let kinds = [("{are} gone", &changes.gone), ("{are} skipped now", &changes.skipped_now)];
    let kinds = kinds.into_iter().filter(|(_, names)| !names.is_empty());
    kinds.map(|(word, names)| tests_that(names.count, word, names)).collect()
}

/// Returns whether a check does nothing else than run tests, so that a failed test explains its exit code.
pub fn only_runs_tests(command: &str) -> bool {
    let script = shell::read(command);
    let top: Vec<_> = script.top().collect();
    let is_set_up = |each: &shell::ShellCommand| {
        let mut words = script.words_of(each).iter().map(|word| word.raw(command));
        words.find(|word| !shell::is_assignment(word)).is_none_or(|word| SETTING_UP.contains(&word))
    };
    let others: Vec<_> = top.iter().copied().filter(|each| !is_set_up(each)).collect();
    let is_plain = |each: &shell::ShellCommand| {
        !each.negated && !each.compound && matches!(each.then, Join::End | Join::Next)
    };
    let is_last = |each: &shell::ShellCommand| top.last().is_some_and(|last| last.start == each.start);
    others.len() == 1 && others.iter().all(|each| is_plain(each)) && is_last(others[0])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::language::parse;

    fn results(all: &[(&str, TestResult)]) -> TestResults {
        TestResults::of(all.iter().map(|(name, result)| ((*name).to_owned(), *result)))
    }

    fn shell(lines: &str) -> Shell {
        let text = format!("### 1. A\n\n**contract:**\n```shell\npytest\n```\n{lines}\n");
        let text = format!("---\ntype: plan\n---\n\n# T\n\n## Steps\n\n{text}");
        let plan = parse::plan(&text).plan;
        match &plan.steps[0].contract.as_ref().expect("contract").check {
            crate::model::plan::Check::Shell(shell) => shell.clone(),
            other => panic!("{other:?}"),
        }
    }

    fn unmet(lines: &str, before: Option<&TestResults>, now: &TestResults) -> Vec<String> {
        let none = BTreeSet::new();
        TestRun { now, before, flaky: &none, writes_tests: false }.unmet(&shell(lines))
    }

    #[test]
    fn earlier_failures_are_no_new_failures() {
        use TestResult::{Failed, Passed, Skipped};
        let before = results(&[("a", Passed), ("b", Failed), ("c", Passed)]);
        let check = |now: &TestResults| unmet("no new failures", Some(&before), now);
        assert_eq!(check(&before), [] as [&str; 0]);
        assert_eq!(check(&results(&[("a", Passed), ("b", Passed), ("c", Passed)])), [] as [&str; 0]);
        let swapped = check(&results(&[("a", Failed), ("b", Passed), ("c", Passed)]));
        assert_eq!(swapped.len(), 1, "{swapped:?}");
        assert!(swapped[0].starts_with("no new failures (1 test did not fail"), "{swapped:?}");
        for now in [
            results(&[("a", Passed), ("b", Failed)]),
            results(&[("a", Passed), ("b", Failed), ("c", Skipped)]),
            results(&[("a", Passed), ("b", Failed), ("c", Passed), ("d", Failed)]),
        ] {
            assert_eq!(check(&now).len(), 1, "{now:?}");
        }
        assert_eq!(unmet("no new failures", None, &before), [] as [&str; 0]);
    }

    #[test]
    fn a_fixed_test_failed_before_and_passes() {
        use TestResult::{Failed, Passed};
        let before = results(&[("t::a", Failed), ("t::b", Passed)]);
        let fixed = results(&[("t::a", Passed), ("t::b", Passed), ("t::new", Passed)]);
        assert_eq!(unmet("tests fixed: a, t::new", Some(&before), &fixed), [] as [&str; 0]);
        assert!(unmet("tests fixed: b", Some(&before), &fixed)[0].contains("passed before the work too"));
        assert!(unmet("tests fixed: c", Some(&before), &fixed)[0].contains("no test `c` was run"));
        assert!(unmet("tests fixed: a", Some(&before), &before)[0].contains("t::a fails"));
        assert!(!unmet("tests fixed: a", None, &before).is_empty());
        let replaced = results(&[("other::a", Passed), ("t::b", Passed)]);
        assert!(unmet("tests fixed: a", Some(&before), &replaced)[0].contains("t::a is gone"));
    }

    #[test]
    fn numbers_and_removed_tests() {
        use TestResult::{Failed, Passed};
        let before = results(&[("a", Passed), ("b", Failed)]);
        let now = results(&[("a", Passed)]);
        assert_eq!(unmet("tests passed >= 1", Some(&before), &now), [] as [&str; 0]);
        assert_eq!(unmet("tests passed >= 2", Some(&before), &now), ["tests passed >= 2 (1 test passed)"]);
        assert_eq!(
            unmet("no test removed or skipped", Some(&before), &now),
            ["no test removed or skipped (1 test is gone: b)"]
        );
        assert_eq!(unmet("no test removed or skipped", Some(&before), &before), [] as [&str; 0]);
    }

    #[test]
    fn only_a_check_that_runs_nothing_else_may_fail_by_its_tests() {
        for alone in
            ["pytest -q", "cd api && pytest", "set -e\ncd api\nCI=1 npm test", "export A=1; go test ./..."]
        {
            assert!(only_runs_tests(alone), "{alone}");
        }
        for other in [
            "pytest; ruff check .",
            "pytest && ruff check",
            "pytest | tail -5",
            "! pytest",
            "pytest || true",
            "for x in a b; do pytest; done",
        ] {
            assert!(!only_runs_tests(other), "{other}");
        }
    }
}
