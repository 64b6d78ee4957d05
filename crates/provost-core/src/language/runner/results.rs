//! Reads the results of single tests that a check ran.
//!
//! pytest, unittest, mocha, jest, vitest and `node --test` report each test to provost's reporters. `go test`
//! prints JSON for provost. cargo, nextest and ctest print one line per test, and a summary that must agree
//! with these lines. rspec, phpunit and gradle report each test too. maven and dotnet write reports that
//! must agree with what they print.
//!
//! **Invariant:** results that are not complete are not used at all.

use super::report::{RunnerReport, TestList, XmlReport};
use super::{Runner, started};
use crate::model::test_results::{TestResult, TestResults};

mod ctest;
pub mod go;
mod libtest;
mod nextest;
mod surefire;
mod trx;

/// What a check printed.
#[derive(Clone, Copy)]
pub struct PrintedOutput<'a> {
    pub stdout: &'a str,
    pub stderr: &'a str,
    /// Nothing was left out of either.
    pub is_whole: bool,
}

type Named = Vec<(String, TestResult)>;

/// Returns the results of all tests of a check; `None` if it started no test runner. An error says why they
/// cannot be read.
pub fn results(
    command: &str,
    report: &RunnerReport,
    printed: PrintedOutput<'_>,
) -> Result<Option<TestResults>, String> {
    if report.is_cut {
        return Err("its test runners reported more than provost keeps".to_owned());
    }
    if report.strays > 0 {
        return Err("a test result was reported that belongs to no test run".to_owned());
    }
    if let Some(session) = report.unfinished() {
        return Err(format!("{} started and did not end its tests", session.runner.word()));
    }
    let mut found = Named::new();
    for list in &report.lists {
        found.extend(of_list(list)?);
    }
    let is_listed = |runner: Runner| report.lists.iter().any(|list| list.runner == runner);
    let mut runners: Vec<Runner> = report.started.iter().map(|started| started.runner).collect();
    if report.is_empty() {
        runners = started(command).iter().map(|started| started.runner).collect();
        runners.retain(|runner| !matches!(runner, Runner::Script | Runner::Other));
    }
    runners.sort_by_key(|runner| *runner as u8);
    runners.dedup();
    if runners.is_empty() && report.lists.is_empty() {
        return match report.others.first() {
            Some(name) => Err(unread(name)),
            None => Ok(None),
        };
    }
    for runner in runners.into_iter().filter(|runner| !is_listed(*runner)) {
        found.extend(printed_by(runner, report, printed)?);
    }
    if found.is_empty() {
        return Err("its test runner reported no test".to_owned());
    }
    Ok(Some(TestResults::of(found)))
}

fn unread(name: &str) -> String {
    format!("provost cannot read the single results of {name}")
}

/// Returns the tests of one list, which must be complete.
fn of_list(list: &TestList) -> Result<Named, String> {
    let word = list.runner.word();
    let counted = u32::try_from(list.tests.len()).unwrap_or(u32::MAX);
    match list.total {
        Some(total) if total == counted => {}
        Some(total) => return Err(format!("{word} reported {counted} of {total} test results")),
        None => return Err(format!("{word} did not say that its list of test results is complete")),
    }
    let placed = |name: &String| match list.folder.as_str() {
        "" => name.clone(),
        folder => format!("{folder}: {name}"),
    };
    Ok(list.tests.iter().map(|(name, result)| (placed(name), *result)).collect())
}

fn printed_by(runner: Runner, report: &RunnerReport, printed: PrintedOutput<'_>) -> Result<Named, String> {
    if !printed.is_whole {
        return Err(format!("the output of {} is too long to read its test results", runner.word()));
    }
    let plain = |text: &str| super::count::without_colours(text);
    match runner {
        Runner::Cargo => libtest::read(&plain(printed.stdout), &plain(printed.stderr)),
        Runner::Nextest => nextest::read(&plain(printed.stderr), &plain(printed.stdout)),
        Runner::Ctest => ctest::read(&plain(printed.stdout)),
        Runner::Go if report.go_prints.is_some() => go::read(printed.stdout),
        Runner::Go => {
            Err("`go test` did not print its results for provost: its output goes elsewhere".to_owned())
        }
        Runner::Maven => surefire::read(&plain(printed.stdout), &files_of(report, runner)),
        Runner::Dotnet => {
            trx::read(&plain(printed.stdout), &plain(printed.stderr), &files_of(report, runner))
        }
        Runner::Rspec | Runner::Phpunit | Runner::Gradle => {
            Err(format!("{} did not report its tests to provost", runner.word()))
        }
        _ => Err(unread(runner.word())),
    }
}

fn files_of(report: &RunnerReport, runner: Runner) -> Vec<&XmlReport> {
    report.files.iter().filter(|file| file.runner == runner).collect()
}

/// Returns an error if the lines of single tests do not agree with the summary.
fn compared(word: &str, found: &[(String, TestResult)], passed: u32, failed: u32) -> Result<(), String> {
    let count = |wanted: TestResult| found.iter().filter(|(_, result)| *result == wanted).count();
    let counted = (count(TestResult::Passed), count(TestResult::Failed));
    if counted == (passed as usize, failed as usize) {
        return Ok(());
    }
    Err(format!(
        "{word} says that {passed} tests passed and {failed} failed, but {} and {} are listed; do not hide its \
         lines or mix them with other output",
        counted.0, counted.1
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(records: &str, stdout: &str) -> Result<Option<TestResults>, String> {
        let report = RunnerReport::read(&records.replace('|', "\x1f"), "/w");
        results("make test", &report, PrintedOutput { stdout, stderr: "", is_whole: true })
    }

    #[test]
    fn a_list_of_tests_counts_only_if_it_is_complete() {
        let whole = "start|pytest|n|/w/api|-q\ntest|pytest|n|passed|t.py::a\ntest|pytest|n|failed|t.py::b\n\
                     list|pytest|n|2\nend|pytest|n|1|1|0";
        let found = read(whole, "").expect("read").expect("results");
        assert_eq!(found.0.keys().collect::<Vec<_>>(), ["api: t.py::a", "api: t.py::b"]);
        for broken in [
            whole.replace("list|pytest|n|2\n", ""),
            whole.replace("list|pytest|n|2", "list|pytest|n|3"),
            whole.replace("test|pytest|n|failed|t.py::b\n", ""),
            whole.replace("end|pytest|n|1|1|0", ""),
            format!("{whole}\ntest|pytest|other|passed|t.py::c"),
            format!("{whole}\ntest|pytest|n|passed|t.py::b"),
            format!("{whole}\ntest|pytest|n|passed|t.py::c\nlist|pytest|n|3"),
            whole.replacen("test|", "test|pytest|n|passed|t.py::c\nlist|pytest|n|1\ntest|", 1),
        ] {
            assert!(read(&broken, "").is_err(), "{broken}");
        }
    }

    #[test]
    fn a_check_without_tests_has_no_results() {
        assert_eq!(read("", ""), Ok(None));
        assert!(read("start|ava|1|/w", "").is_err());
    }

    #[test]
    fn an_output_that_was_cut_is_not_read() {
        let report = RunnerReport::read("start\x1fcargo\x1f1\x1f/w\x1ftest", "/w");
        let printed = PrintedOutput { stdout: "", stderr: "", is_whole: false };
        assert!(results("cargo test", &report, printed).is_err());
    }
}
