//! Reads the TRX logs of `dotnet test`, one for each project.
//!
//! A log is a file that code under test could write too. So each log must agree with its own counters, and all
//! logs together with the totals that `dotnet test` printed: code under test runs in another process, whose
//! output is not printed as it is.

use std::collections::HashMap;

use roxmltree::{Document, Node};

use super::Named;
use crate::language::runner::dotnet::DotnetTotals;
use crate::language::runner::report::XmlReport;
use crate::model::test_results::TestResult;

pub(super) fn read(stdout: &str, stderr: &str, files: &[&XmlReport]) -> Result<Named, String> {
    let is_aborted = |line: &str| {
        ["Test Run Aborted", "Test Run Canceled", "The active test run was aborted"]
            .iter()
            .any(|mark| line.starts_with(mark))
    };
    if stdout.lines().chain(stderr.lines()).any(is_aborted) {
        return Err("`dotnet test` aborted its run, so some tests have no result".to_owned());
    }
    let printed = DotnetTotals::read(stdout)
        .ok_or("`dotnet test` printed no totals; do not hide its lines or send them elsewhere")?;
    if files.is_empty() && printed.total > 0 {
        return Err("`dotnet test` wrote no log of its tests for provost".to_owned());
    }
    let (mut found, mut all) = (Named::new(), DotnetTotals::default());
    for file in files {
        let log = log(file)?;
        all.add(log.counters);
        found.extend(log.tests);
    }
    // Older versions also count a test with rows of data, newer ones only its rows.
    if printed != all && printed != counted(found.iter().map(|(_, result)| *result)) {
        return Err(format!(
            "`dotnet test` printed {} tests, {} of them failed, which does not agree with its logs: {} and {}",
            printed.total, printed.failed, all.total, all.failed
        ));
    }
    Ok(found)
}

fn counted(results: impl Iterator<Item = TestResult>) -> DotnetTotals {
    let mut sum = DotnetTotals::default();
    for result in results {
        sum.total += 1;
        match result {
            TestResult::Passed => sum.passed += 1,
            TestResult::Failed => sum.failed += 1,
            TestResult::Skipped => sum.skipped += 1,
        }
    }
    sum
}

struct Log {
    tests: Named,
    counters: DotnetTotals,
}

/// Reads one log, which must be whole and agree with its own counters.
fn log(file: &XmlReport) -> Result<Log, String> {
    let unread = || format!("the test log {} cannot be read", file.path);
    let document = Document::parse(&file.text).map_err(|_| unread())?;
    let elements = |name: &'static str| {
        document.descendants().filter(move |node| node.is_element() && node.tag_name().name() == name)
    };
    let mut classes = HashMap::new();
    for test in elements("UnitTest") {
        let method = test.children().find(|node| node.tag_name().name() == "TestMethod");
        let class = method.and_then(|method| method.attribute("className"));
        if let (Some(id), Some(class)) = (test.attribute("id"), class) {
            classes.entry(id).or_insert(class);
        }
    }
    let (mut tests, mut all) = (Named::new(), Vec::new());
    for node in elements("UnitTestResult") {
        let result = result(node).ok_or_else(unread)?;
        all.push(result);
        // The rows of a test with data have results of their own.
        if !node.children().any(|inner| inner.tag_name().name() == "InnerResults") {
            tests.push((named(node, &classes), result));
        }
    }
    let counters = elements("Counters").next().ok_or_else(unread)?;
    let number = |name: &str| counters.attribute(name).and_then(|text| text.parse::<u32>().ok());
    let own = counted(all.into_iter());
    let told = (number("total"), number("passed"), number("failed"));
    if !document.root_element().has_tag_name((NAMESPACE, "TestRun"))
        || told != (Some(own.total), Some(own.passed), Some(own.failed))
    {
        return Err(unread());
    }
    Ok(Log { tests, counters: own })
}

const NAMESPACE: &str = "http://microsoft.com/schemas/VisualStudio/TeamTest/2010";

/// Returns the name with the class of the test, which xUnit writes and others do not.
fn named(node: Node<'_, '_>, classes: &HashMap<&str, &str>) -> String {
    let name = node.attribute("testName").unwrap_or_default();
    let class = node.attribute("testId").and_then(|id| classes.get(id)).copied().unwrap_or_default();
    if class.is_empty() || name.starts_with(class) { name.to_owned() } else { format!("{class}.{name}") }
}

fn result(node: Node<'_, '_>) -> Option<TestResult> {
    match node.attribute("outcome")? {
        "Passed" => Some(TestResult::Passed),
        "Failed" => Some(TestResult::Failed),
        "NotExecuted" => Some(TestResult::Skipped),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::language::runner::report::RunnerReport;

    const LOG: &str = "\u{feff}<?xml version=\"1.0\" encoding=\"utf-8\"?>\n\
        <TestRun id=\"1\" xmlns=\"http://microsoft.com/schemas/VisualStudio/TeamTest/2010\">\n<Results>\n\
        <UnitTestResult testId=\"a\" testName=\"Adds\" outcome=\"Failed\" resultType=\"DataDrivenTest\"><InnerResults>\n\
        <UnitTestResult testId=\"a\" testName=\"Adds (1)\" outcome=\"Failed\"><Output><StdOut>&lt;UnitTestResult testName=\"x\"/&gt;</StdOut></Output></UnitTestResult>\n\
        <UnitTestResult testId=\"a\" testName=\"Adds (2)\" outcome=\"Passed\" />\n</InnerResults></UnitTestResult>\n\
        <UnitTestResult testId=\"b\" testName=\"Calc.Tests.CalcTests.Later\" outcome=\"NotExecuted\" />\n</Results>\n<TestDefinitions>\n\
        <UnitTest name=\"Adds\" id=\"a\"><TestMethod className=\"Calc.Tests.CalcTests\" name=\"Adds\" /></UnitTest>\n\
        <UnitTest name=\"Later\" id=\"b\"><TestMethod className=\"Calc.Tests.CalcTests\" name=\"Later\" /></UnitTest>\n</TestDefinitions>\n\
        <ResultSummary outcome=\"Failed\"><Counters total=\"4\" executed=\"3\" passed=\"1\" failed=\"2\" notExecuted=\"0\" /></ResultSummary>\n</TestRun>\n";
    const OLD: &str = "Total tests: 4\n     Passed: 1\n     Failed: 2\n    Skipped: 1\n";
    const NEW: &str = "Failed!  - Failed:     1, Passed:     1, Skipped:     1, Total:     3, Duration: 1 s - Calc.Tests.dll (net8.0)\n";

    fn report(logs: &[&str]) -> RunnerReport {
        let of_log = |(at, log): (usize, &&str)| {
            log.lines().map(|line| format!("xml\x1fdotnet\x1f1\x1f{at}.trx\x1f{line}\n")).collect::<String>()
        };
        RunnerReport::read(&logs.iter().enumerate().map(of_log).collect::<String>(), "/w")
    }

    fn read_all(stdout: &str, stderr: &str, logs: &[&str]) -> Result<Named, String> {
        read(stdout, stderr, &report(logs).files.iter().collect::<Vec<_>>())
    }

    #[test]
    fn logs_that_agree_with_the_totals_are_read() {
        for printed in [OLD, NEW] {
            let found = read_all(printed, "", &[LOG]).expect("read");
            let told: Vec<String> = found.iter().map(|(name, result)| format!("{name} {result:?}")).collect();
            assert_eq!(
                told,
                [
                    "Calc.Tests.CalcTests.Adds (1) Failed",
                    "Calc.Tests.CalcTests.Adds (2) Passed",
                    "Calc.Tests.CalcTests.Later Skipped"
                ]
            );
        }
        assert_eq!(read_all(&format!("{NEW}{NEW}"), "", &[LOG, LOG]).map(|found| found.len()), Ok(6));
    }

    #[test]
    fn logs_that_do_not_agree_are_not_believed() {
        let passed = LOG.replace("Failed\"><Output>", "Passed\"><Output>");
        let counted = passed.replace("passed=\"1\" failed=\"2\"", "passed=\"2\" failed=\"1\"");
        let odd = LOG.replace("NotExecuted", "Perhaps");
        let (cut, other) = (&LOG[..LOG.len() - 12], LOG.replace("TestRun", "Testrun"));
        for (printed, logs) in [
            (OLD, vec![passed.as_str()]),
            (OLD, vec![&counted]),
            (OLD, vec![&odd]),
            (OLD, vec![cut]),
            (OLD, vec![&other]),
            (OLD, vec![LOG, LOG]),
            (OLD, vec![]),
            ("", vec![LOG]),
            ("Total tests: Unknown\n", vec![LOG]),
        ] {
            assert!(read_all(printed, "", &logs).is_err(), "{printed} {logs:?}");
        }
        assert!(read_all(OLD, "The active test run was aborted. Reason: it crashed\n", &[LOG]).is_err());
    }
}
