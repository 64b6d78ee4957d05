//! JUnit XML: one test case per step and postcondition, with the names of single tests that changed.

use std::fmt::Write as _;

use provost_core::model::pass::Pass;
use provost_core::model::test_results::TestSummary;

use super::{Check, Control, End, Report};

pub(crate) fn text(report: &Report) -> String {
    let count = |is: fn(&End) -> bool| report.checks.iter().filter(|check| is(&check.end)).count();
    let unfinished = report.unfinished();
    let failures =
        count(|end| matches!(end, End::Failed(_) | End::Waiting(_))) + usize::from(unfinished.is_some());
    let skipped = count(|end| matches!(end, End::Waived(_) | End::Open));
    let total = report.checks.len() + usize::from(unfinished.is_some());
    let seconds = report.checks.iter().map(|check| check.duration_ms).sum::<u64>() as f64 / 1000.0;
    let counts = format!("tests=\"{total}\" failures=\"{failures}\" errors=\"0\" skipped=\"{skipped}\"");
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let name = escaped(&report.title);
    let _ = writeln!(out, "<testsuites name=\"provost\" {counts} time=\"{seconds:.3}\">");
    let _ = writeln!(out, "  <testsuite name=\"{name}\" {counts} time=\"{seconds:.3}\">");
    for check in &report.checks {
        case(&mut out, report, check);
    }
    if let Some(why) = unfinished {
        let (plan, why) = (escaped(&report.plan), escaped(why));
        let _ = writeln!(
            out,
            "    <testcase classname=\"{plan}\" name=\"the plan is done\" time=\"0.000\">\n      <failure message=\"{why}\"/>\n    </testcase>"
        );
    }
    out.push_str("  </testsuite>\n</testsuites>\n");
    out
}

fn case(out: &mut String, report: &Report, check: &Check) {
    let (plan, name) = (escaped(&report.plan), escaped(&check.name));
    let seconds = check.duration_ms as f64 / 1000.0;
    let _ = write!(out, "    <testcase classname=\"{plan}\" name=\"{name}\" time=\"{seconds:.3}\"");
    let words = escaped(&check.end.words());
    let mut said = Vec::new();
    let mut inner = check.tests.as_deref().map(properties).unwrap_or_default();
    match &check.end {
        End::Passed(Pass::Verified, Control::Shown) => {}
        // Passed, with a text that says how strong the pass is.
        End::Passed(_, _) => said.push(words),
        End::Failed(_) | End::Waiting(_) => {
            let output = escaped(&check.output);
            let _ = writeln!(inner, "      <failure message=\"{words}\">{output}</failure>");
        }
        End::Waived(_) | End::Open => {
            let _ = writeln!(inner, "      <skipped message=\"{words}\"/>");
        }
    }
    said.extend(check.tests.iter().flat_map(|tests| lines(tests)));
    if !said.is_empty() {
        let _ = writeln!(inner, "      <system-out>{}</system-out>", said.join("\n"));
    }
    let _ = match inner.as_str() {
        "" => writeln!(out, "/>"),
        inner => writeln!(out, ">\n{inner}    </testcase>"),
    };
}

/// The names of single tests, for programs. Most views of a report show only the text.
fn properties(tests: &TestSummary) -> String {
    let mut out = String::new();
    for (word, names) in tests.kinds() {
        let names = escaped(&names.listed(usize::MAX));
        let _ = writeln!(out, "        <property name=\"{word}\" value=\"{names}\"/>");
    }
    if out.is_empty() { out } else { format!("      <properties>\n{out}      </properties>\n") }
}

/// The same for people.
fn lines(tests: &TestSummary) -> Vec<String> {
    let mut lines = vec![escaped(&format!("tests: {}", tests.counts()))];
    let kinds = tests.kinds();
    lines.extend(kinds.iter().map(|(word, names)| escaped(&format!("{word}: {}", names.listed(usize::MAX)))));
    lines
}

/// Escapes XML; most control characters are not allowed in XML in any form.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\n' | '\t' => out.push(letter),
            '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            letter if letter.is_control() => out.push('\u{fffd}'),
            letter => out.push(letter),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use expect_test::expect;
    use provost_core::model::test_results::{TestResult, TestResults, TestSummary};

    use crate::report::{Control, End};

    /// Results with one test of each kind.
    fn tests() -> TestSummary {
        use TestResult::{Failed, Passed, Skipped};
        let results = |all: &[(&str, TestResult)]| {
            TestResults::of(all.iter().map(|(name, result)| ((*name).to_owned(), *result)))
        };
        let before =
            [("a", Failed), ("b", Passed), ("c", Failed), ("d", Passed), ("e", Passed), ("g", Passed)];
        let now =
            [("a", Passed), ("b", Failed), ("c", Failed), ("e", Skipped), ("f[<1>]", Passed), ("g", Passed)];
        results(&now).summary(Some(&results(&before)), &BTreeSet::from(["h".to_owned()]))
    }

    #[test]
    fn single_tests_are_named() {
        let mut report = crate::report::tests::example();
        report.checks.truncate(3);
        report.checks[0].end = End::Passed(super::Pass::Verified, Control::Uncontrolled);
        for check in &mut report.checks[..2] {
            check.tests = Some(Box::new(tests()));
        }
        report.checks[1].tests = Some(Box::new(TestSummary { passed: 2, ..TestSummary::default() }));
        expect![[r#"
            <?xml version="1.0" encoding="UTF-8"?>
            <testsuites name="provost" tests="3" failures="1" errors="0" skipped="1" time="3.702">
              <testsuite name="Fix &lt;login&gt; &amp; &quot;more&quot;" tests="3" failures="1" errors="0" skipped="1" time="3.702">
                <testcase classname="plan-1a2b3c4d" name="1. Analyse" time="1.234">
                  <properties>
                    <property name="fixed" value="a"/>
                    <property name="broken" value="b"/>
                    <property name="gone" value="d"/>
                    <property name="skipped now" value="e"/>
                    <property name="failing before too" value="c"/>
                    <property name="new" value="f[&lt;1&gt;]"/>
                    <property name="flaky" value="h"/>
                  </properties>
                  <system-out>verified, uncontrolled
            tests: 1 fixed, 1 broken, 1 gone, 1 skipped now, 1 failing before too, 1 new, 1 still passing, 1 flaky
            fixed: a
            broken: b
            gone: d
            skipped now: e
            failing before too: c
            new: f[&lt;1&gt;]
            flaky: h</system-out>
                </testcase>
                <testcase classname="plan-1a2b3c4d" name="2. Mend | it" time="1.234">
                  <failure message="waits for a person: broke: exit code 1">a &lt; b�[31m &amp;&amp; ```c
            ]]&gt;</failure>
                  <system-out>tests: 2 passed, 0 failed</system-out>
                </testcase>
                <testcase classname="plan-1a2b3c4d" name="3. Later" time="1.234">
                  <skipped message="waived by ada"/>
                </testcase>
              </testsuite>
            </testsuites>
        "#]].assert_eq(&super::text(&report));
    }

    #[test]
    fn every_end_has_its_form() {
        expect![[r#"
            <?xml version="1.0" encoding="UTF-8"?>
            <testsuites name="provost" tests="5" failures="2" errors="0" skipped="2" time="6.170">
              <testsuite name="Fix &lt;login&gt; &amp; &quot;more&quot;" tests="5" failures="2" errors="0" skipped="2" time="6.170">
                <testcase classname="plan-1a2b3c4d" name="1. Analyse" time="1.234"/>
                <testcase classname="plan-1a2b3c4d" name="2. Mend | it" time="1.234">
                  <failure message="waits for a person: broke: exit code 1">a &lt; b�[31m &amp;&amp; ```c
            ]]&gt;</failure>
                </testcase>
                <testcase classname="plan-1a2b3c4d" name="3. Later" time="1.234">
                  <skipped message="waived by ada"/>
                </testcase>
                <testcase classname="plan-1a2b3c4d" name="postcondition 1: it works" time="1.234">
                  <failure message="failed: timed out"></failure>
                </testcase>
                <testcase classname="plan-1a2b3c4d" name="4. Last" time="1.234">
                  <skipped message="open"/>
                </testcase>
              </testsuite>
            </testsuites>
        "#]].assert_eq(&super::text(&crate::report::tests::example()));
    }
}
