//! JUnit XML: one test case per step and postcondition.

use std::fmt::Write as _;

use provost_core::model::pass::Pass;

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
    let _ = match &check.end {
        End::Passed(Pass::Verified, Control::Shown) => writeln!(out, "/>"),
        // Passed, with a text that says how strong the pass is.
        End::Passed(_, _) => {
            writeln!(out, ">\n      <system-out>{words}</system-out>\n    </testcase>")
        }
        End::Failed(_) | End::Waiting(_) => {
            let output = escaped(&check.output);
            writeln!(out, ">\n      <failure message=\"{words}\">{output}</failure>\n    </testcase>")
        }
        End::Waived(_) | End::Open => {
            writeln!(out, ">\n      <skipped message=\"{words}\"/>\n    </testcase>")
        }
    };
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
    use expect_test::expect;

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
