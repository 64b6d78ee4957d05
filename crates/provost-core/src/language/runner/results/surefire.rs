//! Reads the results of maven's surefire and failsafe: their reports in JUnit's format, and the lines per class
//! that maven prints.
//!
//! The reports are files that code under test could write too. So each class of a report must have its lines in
//! what maven printed, with the same numbers, and the lines per class must agree with the totals.

use std::collections::BTreeMap;

use roxmltree::{Document, Node};

use super::Named;
use crate::language::runner::count::{SurefireCounts as Counts, surefire_line, surefire_totals};
use crate::language::runner::report::XmlReport;
use crate::model::test_results::TestResult;

pub(super) fn read(stdout: &str, files: &[&XmlReport]) -> Result<Named, String> {
    let (mut printed, mut sum, mut told) = (BTreeMap::<String, Counts>::new(), (0, 0, 0), (0, 0, 0));
    for line in stdout.lines() {
        if let Some((class, counts)) = of_class(line) {
            let known = printed.entry(class.to_owned()).or_default();
            *known = added(*known, counts);
            sum = added(sum, counts);
        } else if let Some(counts) = surefire_totals(line) {
            told = added(told, counts);
        } else if is_skipped_module(line) {
            return Err("maven skipped a module after a failure, so some tests did not run".to_owned());
        }
    }
    if told == (0, 0, 0) {
        return Err("maven printed no results; do not hide its lines (`-q`)".to_owned());
    }
    if sum != told {
        return Err(format!("maven says that {} tests ran, but its classes have {}", told.0, sum.0));
    }
    let mut found = Named::new();
    let mut written = BTreeMap::<String, Counts>::new();
    for file in files {
        let suite = suite(file)?;
        let known = written.entry(suite.name).or_default();
        *known = added(*known, counted(&suite.tests));
        found.extend(suite.tests);
    }
    if let Some(name) =
        printed.keys().chain(written.keys()).find(|name| printed.get(*name) != written.get(*name))
    {
        return Err(format!("what maven printed of {name} does not agree with its report in a file"));
    }
    Ok(found)
}

fn added(one: Counts, other: Counts) -> Counts {
    (one.0.saturating_add(other.0), one.1.saturating_add(other.1), one.2.saturating_add(other.2))
}

fn counted(tests: &Named) -> Counts {
    let count = |wanted| tests.iter().filter(|(_, result)| *result == wanted).count() as u32;
    (tests.len() as u32, count(TestResult::Failed), count(TestResult::Skipped))
}

/// `[ERROR] Tests run: 2, Failures: 1, Errors: 0, Skipped: 0, Time elapsed: 0.05 s <<< FAILURE! - in CalcTest`
fn of_class(line: &str) -> Option<(&str, Counts)> {
    let (counts, rest) = surefire_line(line)?;
    let (_, class) = rest.strip_prefix(", Time elapsed: ")?.rsplit_once("- in ")?;
    Some((class.trim(), counts))
}

/// `[INFO] web ............... SKIPPED`
fn is_skipped_module(line: &str) -> bool {
    let name = line.strip_prefix("[INFO] ").and_then(|line| line.strip_suffix(" SKIPPED"));
    name.is_some_and(|name| name.ends_with(".."))
}

struct Suite {
    name: String,
    tests: Named,
}

/// Reads one report, which must be whole and agree with its own numbers.
fn suite(file: &XmlReport) -> Result<Suite, String> {
    let unread = || format!("the test report {} cannot be read", file.path);
    let document = Document::parse(&file.text).map_err(|_| unread())?;
    let top = document.root_element();
    let number = |name: &str| top.attribute(name).and_then(|text| text.parse::<u32>().ok()).unwrap_or(0);
    let folder = file.path.rsplit_once("target/").map_or("", |(folder, _)| folder.trim_end_matches('/'));
    let named = |case: Node<'_, '_>| {
        let class = case.attribute("classname").unwrap_or_default();
        let name = match case.attribute("name").unwrap_or_default() {
            "" => class.to_owned(),
            name => format!("{class}.{name}"),
        };
        if folder.is_empty() { name } else { format!("{folder}: {name}") }
    };
    let cases = top.children().filter(|node| node.has_tag_name("testcase"));
    let tests: Named = cases.map(|case| (named(case), result(case))).collect();
    let told = (number("tests"), number("failures").saturating_add(number("errors")), number("skipped"));
    if !top.has_tag_name("testsuite") || counted(&tests) != told {
        return Err(unread());
    }
    Ok(Suite { name: top.attribute("name").unwrap_or_default().to_owned(), tests })
}

fn result(case: Node<'_, '_>) -> TestResult {
    let has = |name: &str| case.children().any(|node| node.has_tag_name(name));
    match () {
        () if has("failure") || has("error") => TestResult::Failed,
        () if has("skipped") => TestResult::Skipped,
        () => TestResult::Passed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRINTED: &str = "[INFO] Running a.CalcTest\n\
        [ERROR] Tests run: 3, Failures: 1, Errors: 0, Skipped: 1, Time elapsed: 0.05 s <<< FAILURE! - in a.CalcTest\n\
        [ERROR] add(a.CalcTest)  Time elapsed: 0.01 s  <<< FAILURE!\n\
        [INFO] Tests run: 1, Failures: 0, Errors: 0, Skipped: 0, Time elapsed: 0.05 s -- in a.OtherTest\n\
        [INFO] Results:\n[ERROR] Tests run: 4, Failures: 1, Errors: 0, Skipped: 1\n";
    const CALC: &str = "<?xml version=\"1.0\"?>\n<testsuite name=\"a.CalcTest\" tests=\"3\" errors=\"0\" skipped=\"1\" \
        failures=\"1\"><properties/>\n<testcase name=\"add{int}[1]\" classname=\"a.CalcTest\"><failure message=\"x\"/>\
        <system-out><![CDATA[<testcase name=\"fake\"/>]]></system-out></testcase>\n<testcase name=\"sub\" \
        classname=\"a.CalcTest\"/>\n<testcase name=\"later\" classname=\"a.CalcTest\"><skipped/></testcase></testsuite>";
    const OTHER: &str = "<testsuite name=\"a.OtherTest\" tests=\"1\" errors=\"0\" skipped=\"0\" failures=\"0\">\
        <testcase name=\"x\" classname=\"a.OtherTest\"/></testsuite>";

    fn file(name: &str, text: &str) -> XmlReport {
        let path = format!("web/target/surefire-reports/TEST-{name}.xml");
        let record = |line: &str| format!("xml\x1fmvn\x1f1\x1f/w/{path}\x1f{line}");
        let records: Vec<String> = text.lines().map(record).collect();
        let report = crate::language::runner::report::RunnerReport::read(&records.join("\n"), "/w");
        report.files.into_iter().next().expect("a file")
    }

    #[test]
    fn reports_that_agree_with_the_lines_are_read() {
        let found = read(PRINTED, &[&file("a", CALC), &file("b", OTHER)]).expect("read");
        let told: Vec<String> = found.iter().map(|(name, result)| format!("{name} {result:?}")).collect();
        assert_eq!(
            told,
            [
                "web: a.CalcTest.add{int}[1] Failed",
                "web: a.CalcTest.sub Passed",
                "web: a.CalcTest.later Skipped",
                "web: a.OtherTest.x Passed",
            ]
        );
        assert_eq!(
            surefire_totals("[WARNING] Tests run: 4, Failures: 1, Errors: 1, Skipped: 1, Flakes: 2"),
            Some((4, 2, 1))
        );
    }

    #[test]
    fn reports_that_do_not_agree_are_not_believed() {
        let forged = OTHER.replace("a.OtherTest", "a.Forged");
        let passed = CALC.replace("<failure message=\"x\"/>", "");
        let line =
            "[INFO] Tests run: 1, Failures: 0, Errors: 0, Skipped: 0, Time elapsed: 0.05 s - in a.CalcTest\n";
        let skipped = "[INFO] web .................... SKIPPED\n";
        for (printed, files) in [
            (PRINTED.to_owned(), vec![file("a", CALC)]),
            (PRINTED.to_owned(), vec![file("a", CALC), file("b", OTHER), file("c", &forged)]),
            (PRINTED.to_owned(), vec![file("a", &passed), file("b", OTHER)]),
            (
                PRINTED.to_owned(),
                vec![file("a", &passed.replace("failures=\"1\"", "failures=\"0\"")), file("b", OTHER)],
            ),
            (PRINTED.to_owned(), vec![file("a", &CALC[..CALC.len() - 12]), file("b", OTHER)]),
            (format!("{line}{PRINTED}"), vec![file("a", CALC), file("b", OTHER)]),
            (format!("{PRINTED}{skipped}"), vec![file("a", CALC), file("b", OTHER)]),
            (PRINTED.replace("[INFO]", "").replace("[ERROR]", ""), vec![file("a", CALC), file("b", OTHER)]),
        ] {
            assert!(read(&printed, &files.iter().collect::<Vec<_>>()).is_err(), "{printed} {files:?}");
        }
    }
}
