//! Holds the single tests of a check against those before the work.
//!
//! The results of a check without the work are kept (`kept_results.rs`). If the contract needs them and they are
//! not known, the check runs on that tree once more.
//!
//! **Invariant:** a check whose results cannot be read or compared never holds by an expectation about tests.

use std::collections::BTreeSet;
use std::time::SystemTime;

use provost_core::language::inconclusive_failure::NOT_VERIFIABLE;
use provost_core::language::runner::expectations::TestRun;
use provost_core::language::test_files;
use provost_core::model::plan::{Expectation, Shell};
use provost_core::model::quote;
use provost_core::model::test_results::{TestResult, TestResults};
use provost_core::model::verdict::{CheckOutcome, Verdict};

use super::check_request::{CheckSpec, Comparison};
use super::{ApprovedTree, ExecEnv, told};
use crate::Interrupted;
use crate::check::judge::reporter::Control;
use crate::check::negative_control::ControlRun;
use crate::tree::{Base, Layer};

/// The results before the work.
pub(super) enum Before {
    /// The check runs on the tree without the work.
    Itself,
    Known(TestResults),
    /// The contract does not need them, and they are not known.
    NotNeeded,
    /// Why they cannot be had.
    Missing(String),
}

impl ExecEnv {
    /// Returns the results of the single tests before the work.
    pub(super) fn results_before(
        &self,
        approved: &ApprovedTree,
        case: &CheckSpec<'_>,
    ) -> Result<Before, Interrupted> {
        let Comparison::With(tree) = case.compare else { return Ok(Before::Itself) };
        if test_files::only_looks(&case.shell.command) {
            return Ok(Before::NotNeeded);
        }
        let earlier = without_work(case, tree);
        let (base, layer) = match approved.look(&earlier) {
            Ok(found) => found,
            Err(error) => return Ok(Before::Missing(told(&error))),
        };
        let expects = case.shell.expects_tests();
        if let Some(known) = self.kept_results(approved, case, &layer) {
            return Ok(Before::Known(known));
        }
        if !expects {
            return Ok(Before::NotNeeded);
        }
        let begun = SystemTime::now();
        let observed = self.on(approved, &earlier, &base, &layer, Control::AsTheyAre, &Before::Itself)?;
        self.keep_results(approved, &earlier, &layer, &observed, begun);
        Ok(match observed.report.results {
            Some(results) => Before::Known(results),
            None => {
                Before::Missing(observed.report.unread.unwrap_or_else(|| match observed.verdict.outcome {
                    CheckOutcome::NotRun { reason } => reason,
                    _ => "no test runner was seen".to_owned(),
                }))
            }
        })
    }

    /// Runs a check again whose tests fail or are gone that did not fail before; tests with two results are
    /// flaky. If tests are gone, it also runs once more without the work: names that change with each run, such
    /// as those with a time in them, say nothing.
    pub(super) fn without_flaky(
        &self,
        approved: &ApprovedTree,
        case: &CheckSpec<'_>,
        (base, layer): (&Base, &Layer),
        observed: ControlRun,
        before: &Before,
    ) -> Result<ControlRun, Interrupted> {
        let is_wanted = |each: &Expectation| *each == Expectation::NoNewFailures;
        let expects = case.shell.expectations.iter().any(|each| is_wanted(&each.value));
        let changes = observed.verdict.test_results.as_ref().and_then(|results| results.changes.as_ref());
        let has_gone = changes.is_some_and(|changes| changes.gone_passing > 0);
        let is_worse = has_gone
            || changes.is_some_and(|changes| !changes.broken.is_empty() || !changes.new_failing.is_empty());
        let Some(first) = observed.report.results.clone().filter(|_| expects && is_worse) else {
            return Ok(observed);
        };
        let again = self.on(approved, case, base, layer, Control::AsTheyAre, before)?;
        let Some(second) = &again.report.results else { return Ok(observed) };
        let mut flaky = first.unsteady(second);
        if let (true, Before::Known(known), Comparison::With(tree)) = (has_gone, before, case.compare) {
            let earlier = without_work(case, tree);
            if let Ok((base, layer)) = approved.look(&earlier) {
                let again =
                    self.on(approved, &earlier, &base, &layer, Control::AsTheyAre, &Before::Itself)?;
                flaky.extend(again.report.results.iter().flat_map(|again| known.unsteady(again)));
            }
        }
        if flaky.is_empty() {
            return Ok(observed);
        }
        // The expectations about tests are decided anew; the others stay as they were.
        let about_tests = |line: &String| {
            case.shell
                .expectations
                .iter()
                .any(|each| each.value.is_about_tests() && line.starts_with(&format!("{} (", each.value)))
        };
        let mut verdict = observed.verdict;
        verdict.unmet.retain(|line| !about_tests(line));
        if verdict.unmet.is_empty() && matches!(verdict.outcome, CheckOutcome::Broke { .. }) {
            verdict.outcome = CheckOutcome::Held;
        }
        Ok(held_against(case, before, &flaky, ControlRun { verdict, report: observed.report }))
    }
}

/// Returns the same check on a tree without the work.
fn without_work<'a>(case: &CheckSpec<'a>, tree: Option<&'a str>) -> CheckSpec<'a> {
    let compare = Comparison::Nothing;
    CheckSpec { tree, start: None, with_work: false, apart: None, compare, shown_to: None, ..case.clone() }
}

/// Marks a check that held as uncontrolled if a test that it left out passed before the work: the work may be
/// what makes it fail at times.
pub(super) fn weakened(before: &Before, now: Option<&TestResults>, mut verdict: Verdict) -> Verdict {
    let (Before::Known(known), Some(now)) = (before, now) else { return verdict };
    let flaky = verdict.test_results.iter().flat_map(|results| &results.flaky.names);
    let passed = |name: &&String| known.0.get(*name) == Some(&TestResult::Passed);
    let mut passed = flaky.filter(|name| now.0.contains_key(*name)).filter(passed);
    if let Some(name) = passed.next().filter(|_| verdict.held() && verdict.uncontrolled.is_none()) {
        let name = quote::one_line(name);
        verdict.uncontrolled = Some(format!("{name} passed before the work and now passes and fails"));
    }
    verdict
}

/// Returns the check with its expectations about tests decided.
pub(super) fn held_against(
    case: &CheckSpec<'_>,
    before: &Before,
    flaky: &BTreeSet<String>,
    mut observed: ControlRun,
) -> ControlRun {
    let verdict = &mut observed.verdict;
    let has_run = matches!(verdict.outcome, CheckOutcome::Held | CheckOutcome::Broke { .. });
    if !has_run {
        return observed;
    }
    let expects = case.shell.expects_tests();
    let known = match before {
        Before::Known(results) => Some(results),
        Before::Itself | Before::NotNeeded => None,
        Before::Missing(why) if expects => {
            let reason = format!("{NOT_VERIFIABLE}the tests before the work cannot be compared: {why}");
            verdict.outcome = CheckOutcome::NotRun { reason };
            return observed;
        }
        Before::Missing(_) => None,
    };
    let Some(now) = &observed.report.results else {
        if expects {
            let why = observed.report.unread.as_deref().unwrap_or("no test runner was seen");
            *verdict = unreadable(verdict.clone(), why, known.is_some());
        }
        return observed;
    };
    let run = TestRun { now, before: known, flaky, writes_tests: case.doubts.writes_tests };
    verdict.test_results = Some(Box::new(run.summary()));
    let unmet = run.unmet(case.shell);
    if !unmet.is_empty() {
        verdict.unmet.extend(unmet);
        if verdict.held() {
            verdict.outcome = CheckOutcome::Broke { exit_code: 0 };
        }
    }
    observed
}

/// Returns the verdict of a check whose single tests cannot be read. If they could be read before the work,
/// the work is the cause.
fn unreadable(mut verdict: Verdict, why: &str, was_readable: bool) -> Verdict {
    let reason = format!("{NOT_VERIFIABLE}the results of its single tests cannot be read: {why}");
    if was_readable {
        if verdict.held() {
            verdict.outcome = CheckOutcome::Broke { exit_code: 0 };
        }
        verdict.unmet.push(reason);
    } else {
        verdict.outcome = CheckOutcome::NotRun { reason };
    }
    verdict
}

/// Returns why expectations about tests cannot be decided at a level without trees of provost's own.
pub(super) fn not_comparable(shell: &Shell, level: impl std::fmt::Display) -> Option<String> {
    let compares =
        |each: &Expectation| each.is_about_tests() && !matches!(each, Expectation::TestsPassed { .. });
    let first = shell.expectations.iter().find(|each| compares(&each.value))?;
    Some(format!(
        "`{}` compares with the tests before the work, and at {level} provost has no tree of its own to run \
         them on",
        first.value
    ))
}
