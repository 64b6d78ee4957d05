//! Reads what `ctest` prints: one line per test, and a summary.

use super::Named;
use crate::model::test_results::TestResult;

pub(super) fn read(stdout: &str) -> Result<Named, String> {
    let mut found = Named::new();
    let mut failed = None;
    for line in stdout.lines().map(str::trim) {
        if let Some(count) = summary(line) {
            failed = Some(failed.unwrap_or(0) + count);
        }
        found.extend(one(line));
    }
    let failed: usize = failed.ok_or("ctest printed no summary")?;
    let listed = found.iter().filter(|(_, result)| *result == TestResult::Failed).count();
    match listed == failed {
        true => Ok(found),
        false => Err(format!("ctest says that {failed} tests failed, but {listed} are listed as failed")),
    }
}

/// `1/3 Test #1: name .........................   Passed    0.00 sec`
fn one(line: &str) -> Option<(String, TestResult)> {
    let (position, rest) = line.split_once(" Test ")?;
    let (at, of) = position.split_once('/')?;
    at.trim().parse::<u32>().ok().zip(of.trim().parse::<u32>().ok())?;
    let (_, rest) = rest.trim_start().strip_prefix('#')?.split_once(": ")?;
    let (name, rest) =
        rest.split_once(" ...").or_else(|| rest.split_once(" ..")).or_else(|| rest.split_once(" ."))?;
    let result = match rest.trim_start_matches(['.', ' ', '*']) {
        rest if rest.starts_with("Passed") => TestResult::Passed,
        rest if rest.starts_with("Skipped") || rest.starts_with("Not Run (Disabled)") => TestResult::Skipped,
        _ => TestResult::Failed,
    };
    Some((name.to_owned(), result))
}

/// `67% tests passed, 1 tests failed out of 3`
fn summary(line: &str) -> Option<usize> {
    let (_, rest) = line.split_once("% tests passed, ")?;
    rest.split_once(" tests failed out of ")?.0.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_with_a_number_is_a_test() {
        let stdout = "    Start 1: a\n1/4 Test #1: a ................................   Passed    0.00 sec\n\
                      2/4 Test #2: b ................................***Failed    0.00 sec\n\
                      3/4 Test #3: c ................................***Skipped   0.00 sec\n\
                      4/4 Test #4: d ................................***Timeout   1.00 sec\n\n\
                      33% tests passed, 2 tests failed out of 4\n";
        let found = read(stdout).expect("read");
        let told: Vec<_> = found.iter().map(|(name, result)| (name.as_str(), *result)).collect();
        use TestResult::{Failed, Passed, Skipped};
        assert_eq!(told, [("a", Passed), ("b", Failed), ("c", Skipped), ("d", Failed)]);
        assert!(read(&stdout.replace("2 tests failed", "0 tests failed")).is_err());
        assert!(read("nothing").is_err());
    }
}
