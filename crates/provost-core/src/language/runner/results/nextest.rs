//! Reads what `cargo nextest run` prints: one line per test, and a summary.

use super::{Named, compared};
use crate::model::test_results::TestResult;

pub(super) fn read(stderr: &str, stdout: &str) -> Result<Named, String> {
    // It prints to stderr; some contracts send that to stdout.
    let all = if stderr.contains("Summary [") { stderr } else { stdout };
    let mut found = Named::new();
    for line in all.lines().map(str::trim_start) {
        if let Some(rest) = line.strip_prefix("Summary [") {
            let (passed, failed) = summary(rest).ok_or("the summary of cargo nextest cannot be read")?;
            compared("cargo nextest", &found, passed, failed)?;
            return Ok(found);
        }
        found.extend(one(line));
    }
    Err("cargo nextest printed no summary".to_owned())
}

/// `PASS [   0.004s] (1/3) crate::binary module::test`
fn one(line: &str) -> Option<(String, TestResult)> {
    let (status, rest) = line.split_once('[')?;
    let result = match status.trim_end() {
        "PASS" | "LEAK" => TestResult::Passed,
        "FAIL" | "TIMEOUT" | "ABORT" | "FAIL + LEAK" => TestResult::Failed,
        status if status.starts_with("SIG") => TestResult::Failed,
        status if status.starts_with("FLAKY") => TestResult::Passed,
        "SKIP" => TestResult::Skipped,
        _ => return None,
    };
    let (_, mut name) = rest.split_once("] ")?;
    name = name.trim();
    if let Some((_, after)) = name.strip_prefix('(').and_then(|rest| rest.split_once(") ")) {
        name = after.trim();
    }
    let (binary, test) = name.split_once(' ')?;
    Some((format!("{binary}::{}", test.trim()), result))
}

/// `   0.010s] 3 tests run: 2 passed (1 leaky), 1 failed, 0 skipped`
fn summary(rest: &str) -> Option<(u32, u32)> {
    let (_, counts) = rest.split_once(" run: ")?;
    let count = |wanted: &[&str]| {
        let parts = counts.split(", ").filter_map(|part| {
            let mut words = part.split_whitespace();
            let number = words.next()?.parse::<u32>().ok()?;
            let word = words.collect::<Vec<_>>().join(" ");
            wanted.iter().any(|wanted| word.starts_with(wanted)).then_some(number)
        });
        parts.sum()
    };
    Some((count(&["passed"]), count(&["failed", "timed out"])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_before_the_summary_is_a_test() {
        let stderr = "    Starting 3 tests across 2 binaries\n        PASS [   0.004s] (1/3) r tests::a\n        \
                      FAIL [   0.005s] (2/3) r::one b\n  stdout ───\n    x\n        PASS [   0.004s] (3/3) r c\n\
                      ────────────\n     Summary [   0.010s] 3 tests run: 2 passed, 1 failed, 0 skipped\n        \
                      FAIL [   0.005s] (2/3) r::one b\nerror: test run failed\n";
        let found = read(stderr, "").expect("read");
        let names: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["r::tests::a", "r::one::b", "r::c"]);
        assert_eq!(found[1].1, TestResult::Failed);
        assert!(read(&stderr.replace("PASS", "done"), "").is_err());
        assert!(read("", "").is_err());
    }
}
