//! Markdown summary: the state of the plan, what did not hold, and the proof.

use std::fmt::Write as _;

use super::{End, Report};

/// Maximum size of the output of one check.
const OUTPUT_MAX: usize = 4000;

pub(crate) fn text(report: &Report) -> String {
    let mut out = format!("## {}\n\n", line(&report.title));
    let passed = report.checks.iter().filter(|check| matches!(check.end, End::Passed(_, _))).count();
    let _ = writeln!(
        out,
        "**{}** · {passed} of {} checks passed · {}\n",
        report.stage,
        report.checks.len(),
        line(&report.end)
    );
    out.push_str("| | check | end | attempts |\n| --- | --- | --- | ---: |\n");
    for check in &report.checks {
        let attempts = if check.attempts == 0 { String::new() } else { check.attempts.to_string() };
        let (name, end) = (line(&check.name), line(&check.end.words()));
        let _ = writeln!(out, "| {} | {name} | {end} | {attempts} |", check.end.symbol());
    }
    for check in report.checks.iter().filter(|check| !check.output.is_empty()) {
        let fence = "`".repeat(longest_run(&check.output).max(2) + 1);
        let shown = beginning(&check.output);
        let _ = write!(
            out,
            "\n<details><summary>{}</summary>\n\n{fence}text\n{shown}\n{fence}\n\n</details>\n",
            line(&check.name)
        );
    }
    let _ = write!(out, "\nplan `{}` · revision `{}`", report.plan, report.revision);
    if let Some(by) = &report.approved_by {
        let _ = write!(out, " · approved by {}", line(by));
    }
    if let Some(level) = &report.isolation {
        let _ = write!(out, " · isolation {level}");
    }
    let _ = writeln!(out, "\n\nlog head `{}`", report.head);
    if let Some((file, key)) = &report.proof {
        let _ = writeln!(out, "proof `{file}`, signed with key `{key}`: check it with `provost audit`");
    }
    out
}

/// Returns one line without Markdown or table syntax.
fn line(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '\\' | '|' | '`' | '*' | '_' | '[' | ']' | '#' => out.extend(['\\', letter]),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            letter if letter.is_control() => out.push(' '),
            letter => out.push(letter),
        }
    }
    out
}

fn longest_run(text: &str) -> usize {
    text.split(|letter| letter != '`').map(str::len).max().unwrap_or(0)
}

fn beginning(text: &str) -> String {
    let printable = |letter: char| if letter.is_control() && letter != '\n' { '\u{fffd}' } else { letter };
    let mut shown: String = text.chars().take(OUTPUT_MAX).map(printable).collect();
    if shown.len() < text.len() {
        shown.push_str("\n…");
    }
    shown
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    #[test]
    fn what_a_person_reads() {
        expect![[r###"
            ## Fix &lt;login&gt; &amp; "more"

            **in-progress** · 1 of 5 checks passed · waiting for a person

            | | check | end | attempts |
            | --- | --- | --- | ---: |
            | ✅ | 1. Analyse | verified | 2 |
            | ⛔ | 2. Mend \| it | waits for a person: broke: exit code 1 | 2 |
            | ⏭ | 3. Later | waived by ada | 2 |
            | ❌ | postcondition 1: it works | failed: timed out | 2 |
            | · | 4. Last | open | 2 |

            <details><summary>2. Mend \| it</summary>

            ````text
            a < b�[31m && ```c
            ]]>
            ````

            </details>

            plan `plan-1a2b3c4d` · revision `2f73508e8706` · approved by ada · isolation clean

            log head `36 abcdef`
            proof `proofs/plan.jsonl`, signed with key `c545eb`: check it with `provost audit`
        "###]]
        .assert_eq(&super::text(&crate::report::tests::example()));
    }
}
