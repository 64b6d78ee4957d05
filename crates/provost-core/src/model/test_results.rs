//! Results of single tests, and what a step's work changed about them.
//!
//! **Invariant:** tests are compared by name, never by number. A test that is not found again is gone, and a
//! gone test never counts as passed.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write as _};

use serde::{Deserialize, Serialize};

use crate::model::quote;

/// Most names of one kind in a verdict; the number of the others is kept.
const NAMES_MAX: usize = 100;
/// Longest name that is kept, in characters.
const NAME_MAX: usize = 300;
/// Number of names in one line for people.
const NAMES_SHOWN: usize = 5;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TestResult {
    Passed,
    Skipped,
    Failed,
}

/// The results of one run of a check, by the name of the test.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TestResults(pub BTreeMap<String, TestResult>);

impl TestResults {
    /// Collects results. Tests of the same name are numbered, the worst result first, so that one more result
    /// never hides another.
    pub fn of(all: impl IntoIterator<Item = (String, TestResult)>) -> Self {
        let mut found: Vec<(String, TestResult)> = all.into_iter().collect();
        // Sorted first: most runners report in order, so this and making the map take one pass each.
        found.sort_by(|(name, result), (other, than)| name.cmp(other).then(than.cmp(result)));
        let mut same = 0;
        let repeats: Vec<(usize, usize)> = (1..found.len())
            .filter_map(|at| {
                same = if found[at].0 == found[at - 1].0 { same + 1 } else { 0 };
                (same > 0).then_some((at, same))
            })
            .collect();
        if !repeats.is_empty() {
            for (at, same) in repeats {
                found[at].0 = format!("{} #{}", found[at].0, same + 1);
            }
            // Of two results with one name the map keeps the last, so the worst comes last.
            found.sort_by(|(name, result), (other, than)| name.cmp(other).then(result.cmp(than)));
        }
        Self(found.into_iter().collect())
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn get(&self, name: &str) -> Option<TestResult> {
        self.0.get(name).copied()
    }

    fn with(&self, result: TestResult) -> impl Iterator<Item = &str> {
        self.0.iter().filter(move |(_, own)| **own == result).map(|(name, _)| name.as_str())
    }

    /// Returns the number of tests with this result.
    pub fn count(&self, result: TestResult) -> u32 {
        u32::try_from(self.with(result).count()).unwrap_or(u32::MAX)
    }

    /// Returns the names of the tests whose results differ between two runs on the same tree.
    pub fn unsteady(&self, again: &Self) -> BTreeSet<String> {
        let differs = |(name, result): &(&String, &TestResult)| again.get(name) != Some(**result);
        let here = self.0.iter().filter(differs).map(|(name, _)| name.clone());
        let only_there = again.0.keys().filter(|name| !self.0.contains_key(*name)).cloned();
        here.chain(only_there).collect()
    }

    /// Returns the tests that a person means by a name: the whole name, its last parts, or the name of a
    /// test with parameters.
    pub fn named(&self, wanted: &str) -> Vec<&str> {
        self.0.keys().map(String::as_str).filter(|name| is_meant(name, wanted)).collect()
    }

    /// Summarises the results. `flaky` tests are listed apart and not compared.
    pub fn summary(&self, before: Option<&Self>, flaky: &BTreeSet<String>) -> TestSummary {
        TestSummary {
            passed: self.count(TestResult::Passed),
            failed: self.count(TestResult::Failed),
            skipped: self.count(TestResult::Skipped),
            failing: TestNames::of(self.with(TestResult::Failed)),
            changes: before.map(|before| Box::new(self.changes(before, flaky))),
            flaky: TestNames::of(flaky.iter().map(String::as_str)),
        }
    }

    fn changes(&self, before: &Self, flaky: &BTreeSet<String>) -> TestChanges {
        let mut changes = TestChanges::default();
        let steady = |name: &&String| !flaky.contains(name.as_str());
        for name in self.0.keys().filter(steady) {
            use TestResult::{Failed, Passed, Skipped};
            match (before.get(name), self.0[name]) {
                (Some(Passed), Passed) => changes.still_passing += 1,
                (Some(Failed), Passed) => changes.fixed.push(name),
                (Some(Failed), Failed) => changes.failed_before.push(name),
                (Some(Passed | Skipped), Failed) => changes.broken.push(name),
                (Some(Passed | Failed), Skipped) => changes.skipped_now.push(name),
                (Some(Skipped), Skipped) => {}
                (None, Failed) => changes.new_failing.push(name),
                (Some(Skipped), Passed) | (None, Passed | Skipped) => changes.new.push(name),
            }
        }
        let is_test =
            |name: &&String| !(name.ends_with(NOT_RUN) && before.get(name) == Some(TestResult::Failed));
        let gone = before.0.keys().filter(|name| !self.0.contains_key(*name)).filter(steady).filter(is_test);
        for name in gone {
            changes.gone.push(name);
            changes.gone_passing += u32::from(before.get(name) == Some(TestResult::Passed));
        }
        changes
    }
}

/// End of the name under which the reporters report a file whose tests could not be run. It is no test, and gone
/// once they can be.
const NOT_RUN: &str = "(its tests could not be run)";

/// Returns whether a person may mean this test by this name.
fn is_meant(name: &str, wanted: &str) -> bool {
    let without_number = |name: &str| {
        let (name, number) = name.rsplit_once(" #")?;
        number.bytes().all(|byte| byte.is_ascii_digit()).then(|| name.to_owned())
    };
    let without_parameters = |name: &str| {
        let ends = [name.find('['), name.find(" with data set"), bracket_at(name)];
        ends.into_iter().flatten().min().map(|at| name[..at].to_owned())
    };
    let ends = |name: &str| {
        name.strip_suffix(wanted).is_some_and(|rest| {
            rest.is_empty() || [":", "/", ".", " > ", " "].iter().any(|mark| rest.ends_with(mark))
        })
    };
    let is_own = |name: &str| ends(name) || without_parameters(name).is_some_and(|name| ends(&name));
    !wanted.is_empty() && (is_own(name) || without_number(name).is_some_and(|name| is_own(&name)))
}

/// Returns the place of the parameters of a Java method: `adds(int)[1]`, `adds{int}[1]`.
fn bracket_at(name: &str) -> Option<usize> {
    let at = name.find(['(', '{'])?;
    name[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_').then_some(at)
}

/// The first names of a list, and how many there are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TestNames {
    pub count: u32,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
}

impl TestNames {
    fn of<'n>(names: impl Iterator<Item = &'n str>) -> Self {
        let mut list = Self::default();
        names.for_each(|name| list.push(name));
        list
    }

    fn push(&mut self, name: &str) {
        self.count = self.count.saturating_add(1);
        if self.names.len() < NAMES_MAX {
            self.names.push(name.chars().take(NAME_MAX).collect());
        }
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the first names and the number of the others, for people.
    pub fn listed(&self, shown: usize) -> String {
        let names = self.names.iter().take(shown).map(|name| quote::one_line(name)).collect::<Vec<_>>();
        match (self.count as usize).saturating_sub(names.len()) {
            0 => names.join(", "),
            more => format!("{} and {more} more", names.join(", ")),
        }
    }
}

impl fmt::Display for TestNames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.listed(NAMES_SHOWN))
    }
}

/// The results of single tests, as a verdict keeps them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TestSummary {
    pub passed: u32,
    pub failed: u32,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub skipped: u32,
    #[serde(default, skip_serializing_if = "TestNames::is_empty")]
    pub failing: TestNames,
    /// Compared with the results before the work, if those are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changes: Option<Box<TestChanges>>,
    /// Tests with different results in two runs on the same tree; they decide nothing.
    #[serde(default, skip_serializing_if = "TestNames::is_empty")]
    pub flaky: TestNames,
}

/// What became of the tests, by their results before the work and now.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TestChanges {
    pub still_passing: u32,
    /// Failed before, and pass now.
    #[serde(default, skip_serializing_if = "TestNames::is_empty")]
    pub fixed: TestNames,
    /// Did not fail before, and fail now.
    #[serde(default, skip_serializing_if = "TestNames::is_empty")]
    pub broken: TestNames,
    /// Failed before, and fail now.
    #[serde(default, skip_serializing_if = "TestNames::is_empty")]
    pub failed_before: TestNames,
    /// Did not run before, and do not fail.
    #[serde(default, skip_serializing_if = "TestNames::is_empty")]
    pub new: TestNames,
    #[serde(default, skip_serializing_if = "TestNames::is_empty")]
    pub new_failing: TestNames,
    /// Were there before, and are not there now.
    #[serde(default, skip_serializing_if = "TestNames::is_empty")]
    pub gone: TestNames,
    /// Number of gone tests that had passed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub gone_passing: u32,
    /// Ran before, and are skipped now.
    #[serde(default, skip_serializing_if = "TestNames::is_empty")]
    pub skipped_now: TestNames,
}

fn is_zero(count: &u32) -> bool {
    *count == 0
}

impl TestChanges {
    /// Returns each kind of change that has names, with its words.
    pub fn kinds(&self) -> Vec<(&'static str, &TestNames)> {
        let all = [
            ("fixed", &self.fixed),
            ("broken", &self.broken),
            ("new and failing", &self.new_failing),
            ("gone", &self.gone),
            ("skipped now", &self.skipped_now),
            ("failing before too", &self.failed_before),
            ("new", &self.new),
        ];
        all.into_iter().filter(|(_, names)| !names.is_empty()).collect()
    }
}

impl TestSummary {
    /// Returns the number of tests that ran.
    pub fn run(&self) -> u32 {
        self.passed.saturating_add(self.failed)
    }

    /// Returns each kind of test that a report names, with its words: changes, failures and flaky tests.
    pub fn kinds(&self) -> Vec<(&'static str, &TestNames)> {
        let mut kinds = match &self.changes {
            Some(changes) => changes.kinds(),
            None => vec![("failing", &self.failing)],
        };
        kinds.push(("flaky", &self.flaky));
        kinds.retain(|(_, names)| !names.is_empty());
        kinds
    }

    /// Returns whether the work changed the result of a test, or a test was flaky.
    pub fn has_changes(&self) -> bool {
        self.changes.as_ref().is_some_and(|changes| !changes.kinds().is_empty()) || !self.flaky.is_empty()
    }

    /// Returns one line with the number of tests of each kind, for people.
    pub fn counts(&self) -> String {
        let Some(changes) = &self.changes else {
            let mut line = format!("{} passed, {} failed", self.passed, self.failed);
            if self.skipped > 0 {
                let _ = write!(line, ", {} skipped", self.skipped);
            }
            return line;
        };
        let mut parts: Vec<String> =
            changes.kinds().iter().map(|(word, names)| format!("{} {word}", names.count)).collect();
        parts.push(format!("{} still passing", changes.still_passing));
        if !self.flaky.is_empty() {
            parts.push(format!("{} flaky", self.flaky.count));
        }
        parts.join(", ")
    }

    /// Returns what a person should know about a pass in which tests failed or were left out.
    pub fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        if let Some(changes) = &self.changes {
            let told = [
                ("failed before the work and {fail} now", &changes.failed_before),
                ("ran before the work and {are} gone", &changes.gone),
                ("ran before the work and {are} skipped now", &changes.skipped_now),
            ];
            let told = told.into_iter().filter(|(_, names)| !names.is_empty());
            remarks.extend(told.map(|(what, names)| tests_that(names.count, what, names)));
        }
        if !self.flaky.is_empty() {
            let count = tests(self.flaky.count);
            remarks.push(format!(
                "{count} gave two results on the same files and decided nothing: {}",
                self.flaky
            ));
        }
        remarks
    }
}

/// Returns, for example, `1 test fails now: a`; `{fail}` and `{are}` follow the number.
pub fn tests_that(count: u32, what: &str, names: &TestNames) -> String {
    let (fail, are) = if count == 1 { ("fails", "is") } else { ("fail", "are") };
    format!("{} {}: {names}", tests(count), what.replace("{fail}", fail).replace("{are}", are))
}

/// Returns `1 test` or `3 tests`.
pub fn tests(count: u32) -> String {
    if count == 1 { "1 test".to_owned() } else { format!("{count} tests") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results(all: &[(&str, TestResult)]) -> TestResults {
        TestResults(all.iter().map(|(name, result)| ((*name).to_owned(), *result)).collect())
    }

    #[test]
    fn tests_are_compared_by_name() {
        use TestResult::{Failed, Passed, Skipped};
        let before = results(&[
            ("a", Passed),
            ("b", Failed),
            ("c", Passed),
            ("d", Passed),
            ("e", Failed),
            ("f", Passed),
            ("g", Failed),
        ]);
        let after = results(&[
            ("a", Passed),
            ("b", Passed),
            ("c", Failed),
            ("d", Skipped),
            ("e", Failed),
            ("h", Passed),
            ("i", Failed),
        ]);
        let summary = after.summary(Some(&before), &BTreeSet::new());
        let changes = summary.changes.as_deref().expect("compared");
        let told: Vec<(&str, &[String])> =
            changes.kinds().into_iter().map(|(word, names)| (word, names.names.as_slice())).collect();
        let expected: Vec<(&str, Vec<String>)> = [
            ("fixed", vec!["b"]),
            ("broken", vec!["c"]),
            ("new and failing", vec!["i"]),
            ("gone", vec!["f", "g"]),
            ("skipped now", vec!["d"]),
            ("failing before too", vec!["e"]),
            ("new", vec!["h"]),
        ]
        .into_iter()
        .map(|(word, names)| (word, names.into_iter().map(str::to_owned).collect()))
        .collect();
        let expected: Vec<(&str, &[String])> =
            expected.iter().map(|(word, names)| (*word, names.as_slice())).collect();
        assert_eq!(told, expected);
        assert_eq!((changes.still_passing, changes.gone_passing), (1, 1));
        assert_eq!((summary.passed, summary.failed, summary.skipped), (3, 3, 1));
        assert_eq!(summary.kinds().len(), 7);
        let alone = after.summary(None, &BTreeSet::new());
        assert_eq!(alone.kinds(), [("failing", &alone.failing)]);
    }

    #[test]
    fn a_file_whose_tests_can_be_run_now_is_no_gone_test() {
        let before = results(&[("test_new (its tests could not be run)", TestResult::Failed)]);
        let after = results(&[("test_new.test_a", TestResult::Passed)]);
        let changes = after.summary(Some(&before), &BTreeSet::new()).changes.expect("compared");
        assert_eq!((changes.gone.count, changes.new.count), (0, 1));
    }

    #[test]
    fn a_flaky_test_is_named_and_decides_nothing() {
        let before = results(&[("a", TestResult::Passed), ("b", TestResult::Passed)]);
        let first = results(&[("a", TestResult::Failed), ("b", TestResult::Passed)]);
        let flaky = first.unsteady(&results(&[("a", TestResult::Passed), ("b", TestResult::Passed)]));
        assert_eq!(flaky.iter().collect::<Vec<_>>(), ["a"]);
        let summary = first.summary(Some(&before), &flaky);
        assert!(summary.changes.as_deref().expect("compared").broken.is_empty());
        assert_eq!(summary.flaky.names, ["a"]);
        assert_eq!(summary.counts(), "1 still passing, 1 flaky");
        assert!(summary.remarks()[0].contains("two results on the same files"), "{:?}", summary.remarks());
    }

    #[test]
    fn a_name_means_a_test_by_its_last_parts() {
        let all = results(&[
            ("tests/test_a.py::TestX::test_one", TestResult::Passed),
            ("tests/test_a.py::test_two[1-a]", TestResult::Passed),
            ("tests/test_a.py::test_two[2-b]", TestResult::Failed),
            ("src/sum.test.js > adds > two numbers", TestResult::Passed),
            ("m/a: TestSub/x", TestResult::Passed),
            ("web: a.CalcTest.adds(int)[1]", TestResult::Passed),
            ("CalcTest::testAdd with data set #0", TestResult::Passed),
            ("spec/a_spec.rb > calc > works (slow)", TestResult::Passed),
        ]);
        let named = |wanted: &str| all.named(wanted).len();
        assert_eq!(named("test_one"), 1);
        assert_eq!(named("TestX::test_one"), 1);
        assert_eq!(named("one"), 0);
        assert_eq!(named("test_two"), 2);
        assert_eq!(named("test_two[1-a]"), 1);
        assert_eq!(named("two numbers"), 1);
        assert_eq!(named("TestSub/x"), 1);
        assert_eq!((named("CalcTest.adds"), named("testAdd"), named("works")), (1, 1, 0));
        assert_eq!((named("testAdd with data set #0"), named("testAdd with data set #1")), (1, 0));
        assert_eq!((named(""), named("missing")), (0, 0));
    }

    #[test]
    fn one_more_result_of_a_test_hides_no_failure() {
        let twice = TestResults::of([
            ("x".to_owned(), TestResult::Passed),
            ("x".to_owned(), TestResult::Failed),
            ("y".to_owned(), TestResult::Passed),
        ]);
        assert_eq!(twice.0["x"], TestResult::Failed);
        assert_eq!(twice.0["x #2"], TestResult::Passed);
        assert_eq!(twice.named("x"), ["x", "x #2"]);
    }

    #[test]
    fn long_lists_keep_their_number() {
        let many = TestResults((0..250).map(|n| (format!("t{n:03}"), TestResult::Failed)).collect());
        let summary = many.summary(None, &BTreeSet::new());
        assert_eq!((summary.failing.count, summary.failing.names.len()), (250, NAMES_MAX));
        assert_eq!(summary.failing.to_string(), "t000, t001, t002, t003, t004 and 245 more");
        let text = serde_json::to_string(&summary).expect("text");
        assert_eq!(serde_json::from_str::<TestSummary>(&text).expect("read"), summary);
    }
}
