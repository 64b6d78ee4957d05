//! Reads what `cargo test` prints: one line per test, and a summary per test binary.

use super::{Named, compared};
use crate::model::test_results::TestResult;

/// The tests of one test binary.
#[derive(Default)]
struct Binary {
    tests: Named,
    is_finished: bool,
}

/// Cargo names the test binaries on stderr, in the order in which they print to stdout.
pub(super) fn read(stdout: &str, stderr: &str) -> Result<Named, String> {
    let mut binaries: Vec<Binary> = Vec::new();
    for line in stdout.lines() {
        if is_start(line) {
            binaries.push(Binary::default());
            continue;
        }
        let Some(binary) = binaries.last_mut().filter(|binary| !binary.is_finished) else { continue };
        if let Some(counts) = line.strip_prefix("test result: ") {
            let (passed, failed) = summary(counts).ok_or("a summary of cargo test cannot be read")?;
            compared("cargo test", &binary.tests, passed, failed)?;
            binary.is_finished = true;
        } else if let Some(test) = line.strip_prefix("test ").and_then(one) {
            binary.tests.push(test);
        }
    }
    if binaries.iter().any(|binary| !binary.is_finished) {
        return Err("a test binary of cargo started and printed no summary".to_owned());
    }
    let names = names(stderr);
    let is_named = names.len() == binaries.len();
    let mut found = Named::new();
    for (index, binary) in binaries.into_iter().enumerate() {
        let name = match names.get(index).filter(|_| is_named) {
            Some(name) => name.clone(),
            None => format!("binary {}", index + 1),
        };
        found.extend(binary.tests.into_iter().map(|(test, result)| (format!("{name}::{test}"), result)));
    }
    Ok(found)
}

/// `running 3 tests`
fn is_start(line: &str) -> bool {
    let count = line.strip_prefix("running ").and_then(|rest| rest.split_once(" test"));
    count.is_some_and(|(count, rest)| count.parse::<u32>().is_ok() && matches!(rest, "" | "s"))
}

/// `tests::a - should panic ... ok`
fn one(line: &str) -> Option<(String, TestResult)> {
    let (name, result) = line.rsplit_once(" ... ")?;
    let word = result.split([',', ' ', ':']).next().unwrap_or_default();
    let result = match word {
        "ok" | "bench" => TestResult::Passed,
        "FAILED" => TestResult::Failed,
        "ignored" => TestResult::Skipped,
        _ => return None,
    };
    let name = name.strip_suffix(" - should panic").unwrap_or(name);
    Some((without_line(name), result))
}

/// Removes the line number of a documentation test, which changes with the file.
fn without_line(name: &str) -> String {
    let Some((before, rest)) = name.split_once(" (line ") else { return name.to_owned() };
    let after = rest.split_once(')').map_or("", |(_, after)| after);
    format!("{before}{after}")
}

/// `ok. 1 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s`
fn summary(counts: &str) -> Option<(u32, u32)> {
    let (_, counts) = counts.split_once(". ")?;
    let count = |word: &str| {
        let part = counts.split("; ").find_map(|part| part.strip_suffix(word))?;
        part.trim().parse::<u32>().ok()
    };
    Some((count("passed")? + count("measured").unwrap_or(0), count("failed")?))
}

/// Returns the names of the test binaries; a name that occurs again gets a number.
fn names(stderr: &str) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for line in stderr.lines().map(str::trim) {
        let name = if let Some(of_crate) = line.strip_prefix("Doc-tests ") {
            format!("doc {of_crate}")
        } else if let Some(rest) = line.strip_prefix("Running ") {
            let Some(path) = rest.strip_suffix(')').and_then(|rest| rest.rsplit_once('(')) else { continue };
            let file = path.1.rsplit('/').next().unwrap_or(path.1);
            file.rsplit_once('-').map_or(file, |(name, _)| name).to_owned()
        } else {
            continue;
        };
        let again = names.iter().filter(|known| known.split(" (").next() == Some(&name)).count();
        names.push(if again == 0 { name } else { format!("{name} ({})", again + 1) });
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    const STDERR: &str = "   Compiling r v0.1.0\n     Running unittests src/lib.rs (target/debug/deps/r-2eeb798e)\n\
                          error: test failed, to rerun pass `--lib`\n     \
                          Running tests/one.rs (target/debug/deps/one-9cb3d40a)\n   Doc-tests r\n";
    const STDOUT: &str = "\nrunning 4 tests\ntest tests::a ... ok\ntest tests::c ... ignored, slow\n\
                          test tests::d - should panic ... ok\ntest tests::b ... FAILED\n\nfailures:\n\n\
                          ---- tests::b stdout ----\nx\n\ntest result: FAILED. 2 passed; 1 failed; 1 ignored; 0 measured; \
                          0 filtered out; finished in 0.20s\n\n\nrunning 1 test\ntest a ... ok\n\n\
                          test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n\n\n\
                          running 1 test\ntest src/lib.rs - f (line 1) ... ok\n\n\
                          test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n";

    #[test]
    fn tests_are_named_by_their_binary() {
        let found = read(STDOUT, STDERR).expect("read");
        let told: Vec<String> = found.iter().map(|(name, result)| format!("{name} {result:?}")).collect();
        assert_eq!(
            told,
            [
                "r::tests::a Passed",
                "r::tests::c Skipped",
                "r::tests::d Passed",
                "r::tests::b Failed",
                "one::a Passed",
                "doc r::src/lib.rs - f Passed",
            ]
        );
    }

    #[test]
    fn lines_that_do_not_agree_with_the_summary_are_not_believed() {
        let printed =
            STDOUT.replacen("test tests::b ... FAILED", "test tests::b ... ok\ntest tests::b ... FAILED", 1);
        assert!(read(&printed, STDERR).expect_err("forged").contains("cargo test says that 2 tests passed"));
        let quiet = "\nrunning 2 tests\n..\ntest result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out\n";
        assert!(read(quiet, "").is_err());
        let ended = "\nrunning 2 tests\ntest a ... ok\n";
        assert!(read(ended, "").expect_err("cut").contains("printed no summary"));
    }

    #[test]
    fn binaries_of_the_same_name_are_told_apart() {
        let stderr =
            "Running tests/it.rs (target/debug/deps/it-1)\nRunning tests/it.rs (target/debug/deps/it-2)\n";
        assert_eq!(names(stderr), ["it", "it (2)"]);
    }
}
