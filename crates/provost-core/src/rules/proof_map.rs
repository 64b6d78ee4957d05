//! Decides what the runs of a contract on changed trees say about a hunk.
//!
//! A contract that fails because the code does not build, or because a name is missing, says little about
//! the hunk: any code that uses it would fail so. Then the sabotages of the hunk decide.
//!
//! **Invariant:** only a run in which the code was built and run makes a hunk proved.

use std::sync::LazyLock;

use regex::Regex;

use crate::model::proof_map::{HunkMark, VariantResult, VariantRun};
use crate::model::quote;
use crate::model::verdict::{CheckOutcome, Verdict};
use crate::rules::recover::class::{self, FailureOutput};

/// Most failing tests that are named.
const TESTS_NAMED: usize = 3;
/// Longest explanation of one run.
const WHY_CHARS: usize = 200;

/// Failures to build or load code.
static NOT_BUILT: LazyLock<Regex> = LazyLock::new(|| {
    pattern(&[
        r"^error(?:\[E\d+\])?: (?:could not compile|aborting due to|cannot find|unresolved|mismatched)",
        r"^error\[E\d{4}\]",
        r"\[(?:build|setup) failed\]",
        r"^\S+\.go:\d+:\d+: (?:undefined|syntax error|declared and not used|missing return|cannot use)",
        r"\b(?:SyntaxError|IndentationError|TabError): ",
        r"^(?:E +)?(?:ImportError|ModuleNotFoundError): ",
        r"ImportError while (?:loading|importing)",
        r"^ImportError: Failed to import test module",
        r"^_* ?ERROR collecting ",
        r"\berrors? during collection\b",
        r"\bCannot find module '",
        r"does not provide an export named",
        r"\berror TS\d+: ",
        r"Test suite failed to run",
        r"^(?:.*: )?Transform failed with \d+ error",
    ])
});

/// Missing names, which only a run of the code shows in some languages.
static NAME_MISSING: LazyLock<Regex> = LazyLock::new(|| {
    pattern(&[
        r"\bNameError: ",
        r"\bUnboundLocalError: ",
        r"\bAttributeError: .*has no attribute ",
        r"(?:\bReferenceError: |^\s*error: ').* is not defined",
        r"(?:\bTypeError: |^\s*error: ').* is not a (?:function|constructor)",
    ])
});

/// Failed assertions: the code was run and gave another result.
static ASSERTION: LazyLock<Regex> = LazyLock::new(|| {
    pattern(&[
        r"\bAssertionError\b",
        r"\bERR_ASSERTION\b",
        r"assertion .*failed",
        r"^E +assert ",
        r"\bpanicked at ",
        r"^\s*Expected: ",
    ])
});

/// Names of failed tests in the output of test runners.
static FAILED_TEST: LazyLock<Regex> = LazyLock::new(|| {
    pattern(&[
        r"^FAILED (\S+::\S+)",
        r"^(?:FAIL|ERROR): (\w\S*) \(",
        r"^test (\S+) \.\.\. FAILED$",
        r"^---- (\S+) stdout ----$",
        r"^\s*--- FAIL: (\S+)",
        r"^\s*not ok \d+ - (.+?)$",
        r"^\s*✕ (.+?)(?: \(\d+ m?s\))?$",
        r"^\s*✖ (.+?) \([\d.]+ms\)$",
    ])
});

fn pattern(parts: &[&str]) -> Regex {
    #[expect(clippy::expect_used, reason = "the patterns are constants, and a test uses all of them")]
    Regex::new(&format!("(?m){}", parts.join("|"))).expect("constant patterns are valid")
}

/// Returns what a verdict on a changed tree shows. `control` is the verdict of the same contract on the tree
/// as it is.
pub fn read(change: String, verdict: &Verdict, control: &Verdict) -> VariantRun {
    let (result, why) = match &verdict.outcome {
        CheckOutcome::Held => (VariantResult::Green, String::new()),
        CheckOutcome::NotRun { .. } | CheckOutcome::Killed { .. } => {
            (VariantResult::NoResult, verdict.outcome.to_string())
        }
        CheckOutcome::Broke { .. } => match unbuilt(verdict, control) {
            Some(why) => (VariantResult::NotBuilt, why),
            None => (VariantResult::Red, noticed(verdict)),
        },
        _ => (VariantResult::Red, verdict.outcome.to_string()),
    };
    VariantRun { change, result, why: shortened(&why), duration_ms: verdict.duration_ms }
}

/// Returns why the code was not built, if the output says so and the output of the control does not.
fn unbuilt(verdict: &Verdict, control: &Verdict) -> Option<String> {
    let output = output(verdict);
    let usual = self::output(control);
    let line = |found: regex::Match<'_>| {
        let start = output[..found.start()].rfind('\n').map_or(0, |at| at + 1);
        let line = output[start..].lines().next().unwrap_or_default().trim();
        (!usual.contains(line)).then(|| line.to_owned())
    };
    let first = |pattern: &Regex| pattern.find_iter(&output).find_map(line);
    if let Some(line) = first(&NOT_BUILT) {
        return Some(line);
    }
    if control.tests.is_some_and(|tests| tests > 0) && verdict.tests == Some(0) {
        return Some("no test was run".to_owned());
    }
    if first(&ASSERTION).is_some() {
        return None;
    }
    if let Some(line) = first(&NAME_MISSING) {
        return Some(line);
    }
    let exit_code = match verdict.outcome {
        CheckOutcome::Broke { exit_code } => Some(exit_code),
        _ => None,
    };
    let class = class::of(FailureOutput { stdout: &output, stderr: "", exit_code });
    let is_build = matches!(class.rule.as_str(), "does-not-compile" | "does-not-parse" | "module-not-found");
    is_build.then_some(class.reason)
}

fn output(verdict: &Verdict) -> String {
    format!("{}\n{}", verdict.stdout, verdict.stderr)
}

/// Returns which tests failed, or what was not met.
fn noticed(verdict: &Verdict) -> String {
    let output = output(verdict);
    let mut tests: Vec<String> = Vec::new();
    for found in FAILED_TEST.captures_iter(&output) {
        let name = found.iter().skip(1).flatten().next().map_or("", |name| name.as_str());
        let name = quote::one_line(name).into_owned();
        if !tests.contains(&name) {
            tests.push(name);
        }
    }
    let more = tests.len().saturating_sub(TESTS_NAMED);
    tests.truncate(TESTS_NAMED);
    match (tests.is_empty(), more) {
        (false, 0) => format!("{} failed", tests.join(", ")),
        (false, more) => format!("{} and {more} more failed", tests.join(", ")),
        (true, _) if verdict.unmet.is_empty() => verdict.outcome.to_string(),
        (true, _) => format!("not met: {}", verdict.unmet.join("; ")),
    }
}

fn shortened(text: &str) -> String {
    let line = quote::one_line(text);
    match line.char_indices().nth(WHY_CHARS) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line.into_owned(),
    }
}

/// Returns whether the runs so far decide the hunk, so that no further run is needed.
pub fn is_decided(runs: &[VariantRun]) -> bool {
    runs.iter().any(|run| matches!(run.result, VariantResult::Red | VariantResult::NoResult))
}

/// Returns the mark of a hunk and the reason, for people.
pub fn mark(runs: &[VariantRun]) -> (HunkMark, String) {
    let first = |result: VariantResult| runs.iter().find(|run| run.result == result);
    if let Some(red) = first(VariantResult::Red) {
        return (HunkMark::Proved, format!("{}: {}", red.change, red.why));
    }
    if let Some(none) = first(VariantResult::NoResult) {
        return (HunkMark::NotTried, format!("{}: {}", none.change, none.why));
    }
    let green: Vec<&str> =
        runs.iter().filter(|run| run.result == VariantResult::Green).map(|run| run.change.as_str()).collect();
    if !green.is_empty() {
        return (HunkMark::Unproved, format!("the contract holds all the same: {}", green.join("; ")));
    }
    match first(VariantResult::NotBuilt) {
        Some(unbuilt) => (HunkMark::NotBuildable, format!("{}: {}", unbuilt.change, unbuilt.why)),
        None => (HunkMark::NotTried, "nothing to try".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;
    use crate::model::verdict::{Excerpt, Isolation};

    fn broke(stdout: &str) -> Verdict {
        let unmet = vec!["exit_code == 0".to_owned()];
        let bare = Verdict::bare(Isolation::Clean, CheckOutcome::Broke { exit_code: 1 });
        Verdict { stdout: Excerpt::whole(stdout), unmet, ..bare }
    }

    fn control(stdout: &str) -> Verdict {
        let bare = Verdict::bare(Isolation::Clean, CheckOutcome::Held);
        Verdict { stdout: Excerpt::whole(stdout), tests: Some(3), ..bare }
    }

    #[track_caller]
    fn check(outputs: &[&str], expected: Expect) {
        let shown: String = outputs
            .iter()
            .map(|output| {
                let run = read("taken out".to_owned(), &broke(output), &control("3 passed\n"));
                format!("{:?}: {}\n", run.result, run.why)
            })
            .collect();
        expected.assert_eq(&shown);
    }

    #[test]
    fn a_failed_test_is_noticed_and_named() {
        check(
            &[
                "FAILED test_a.py::test_b - assert 1 == 2\n1 failed\n",
                "FAIL: test_b (t.T.test_b)\nAssertionError: 1 != 2\nNameError: name 'x' is not defined\n",
                "test a::b ... FAILED\ntest a::c ... FAILED\ntest a::d ... FAILED\ntest a::e ... FAILED\n",
                "---- adds stdout ----\nthread 'adds' panicked at tests/t.rs:2:13\n",
                "--- FAIL: TestAdd (0.00s)\n    a_test.go:3: 1\nFAIL\n",
                "not ok 1 - adds\n",
                "",
            ],
            expect![[r#"
                Red: test_a.py::test_b failed
                Red: test_b failed
                Red: a::b, a::c, a::d and 1 more failed
                Red: adds failed
                Red: TestAdd failed
                Red: adds failed
                Red: not met: exit_code == 0
            "#]],
        );
    }

    #[test]
    fn code_that_does_not_build_or_lacks_a_name_says_little() {
        check(
            &[
                "error[E0425]: cannot find function `add` in this scope\nerror: could not compile `a`\n",
                "# a\n./a.go:3:2: undefined: add\nFAIL\ta [build failed]\n",
                "E   ImportError: cannot import name 'add' from 'calc'\n1 error in 0.1s\n",
                "  File \"a.py\", line 3\nSyntaxError: invalid syntax\n",
                "AttributeError: module 'calc' has no attribute 'add'\n",
                "SyntaxError: The requested module './a.js' does not provide an export named 'add'\n",
                "TypeError: add is not a function\nnot ok 1 - adds\n",
                "not ok 1 - adds\n  error: 's.push is not a function'\n  name: 'TypeError'\n",
                "src/a.ts(1,2): error TS2304: Cannot find name 'add'.\n",
            ],
            expect![[r#"
                NotBuilt: error[E0425]: cannot find function `add` in this scope
                NotBuilt: ./a.go:3:2: undefined: add
                NotBuilt: E   ImportError: cannot import name 'add' from 'calc'
                NotBuilt: SyntaxError: invalid syntax
                NotBuilt: AttributeError: module 'calc' has no attribute 'add'
                NotBuilt: SyntaxError: The requested module './a.js' does not provide an export named 'add'
                NotBuilt: TypeError: add is not a function
                NotBuilt: error: 's.push is not a function'
                NotBuilt: src/a.ts(1,2): error TS2304: Cannot find name 'add'.
            "#]],
        );
    }

    #[test]
    fn a_message_that_the_control_has_too_is_no_failure_to_build() {
        let usual = "SyntaxError: as expected\n";
        let run = read("x".to_owned(), &broke("SyntaxError: as expected\nE   assert 1\n"), &control(usual));
        assert_eq!(run.result, VariantResult::Red);
        let no_tests = Verdict { tests: Some(0), ..broke("") };
        assert_eq!(read("x".to_owned(), &no_tests, &control("")).result, VariantResult::NotBuilt);
    }

    #[test]
    fn the_first_failure_of_code_that_was_run_decides() {
        use VariantResult::{Green, NoResult, NotBuilt, Red};
        let marks = |results: &[VariantResult]| {
            let run = |result: &VariantResult| VariantRun {
                change: "c".to_owned(),
                result: *result,
                why: "w".to_owned(),
                duration_ms: 1,
            };
            mark(&results.iter().map(run).collect::<Vec<_>>()).0
        };
        assert_eq!(marks(&[Red]), HunkMark::Proved);
        assert_eq!(marks(&[Green, NotBuilt, Red]), HunkMark::Proved);
        assert_eq!(marks(&[NotBuilt, Green]), HunkMark::Unproved);
        assert_eq!(marks(&[Green]), HunkMark::Unproved);
        assert_eq!(marks(&[NotBuilt, NotBuilt]), HunkMark::NotBuildable);
        assert_eq!(marks(&[Green, NoResult]), HunkMark::NotTried);
        assert_eq!(marks(&[]), HunkMark::NotTried);
    }
}
