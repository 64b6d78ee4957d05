//! Counts the tests that an output reports as run, from each runner's summary lines.
//!
//! Skipped, ignored, deselected and planned tests do not count. Several binaries, packages or calls are added
//! up. Output without a summary line gives no count, which is not the same as zero.

use super::report::RunnerReport;
use super::{Runner, dotnet, started};

/// Returns the number of tests run, if the contract starts runners that report it.
pub fn tests_run(command: &str, outputs: &[&str]) -> Option<u32> {
    tests_run_by(command, &RunnerReport::default(), outputs)
}

/// The same with the reports of the check's reporters; their counts take precedence over any output.
pub fn tests_run_by(command: &str, report: &RunnerReport, outputs: &[&str]) -> Option<u32> {
    let mut runners: Vec<Runner> = started(command).into_iter().map(|each| each.runner).collect();
    runners.extend(report.started.iter().map(|each| each.runner));
    if runners.iter().any(|runner| matches!(runner, Runner::Script | Runner::Other)) {
        runners = ALL.to_vec();
    }
    runners.sort_by_key(|runner| *runner as u8);
    runners.dedup();
    let mut total = report.tests();
    if total.is_some() {
        runners.retain(|runner| !matches!(runner, Runner::Pytest | Runner::Unittest));
    }
    // Where reporters are, they report these: code under test can print a summary too.
    if !report.is_empty() {
        runners.retain(|runner| !matches!(runner, Runner::Rspec | Runner::Phpunit | Runner::Gradle));
    }
    if let Some(tests) = report.listed(&[Runner::Phpunit, Runner::Gradle]) {
        total = Some(total.unwrap_or(0).saturating_add(tests));
    }
    for runner in runners {
        for output in outputs {
            if let Some(tests) = of(runner, output) {
                total = Some(total.unwrap_or(0) + tests);
            }
        }
    }
    total
}

const ALL: [Runner; 14] = [
    Runner::Cargo,
    Runner::Nextest,
    Runner::Pytest,
    Runner::Unittest,
    Runner::Node,
    Runner::Jest,
    Runner::Vitest,
    Runner::Go,
    Runner::Ctest,
    Runner::Maven,
    Runner::Rspec,
    Runner::Phpunit,
    Runner::Gradle,
    Runner::Dotnet,
];

fn of(runner: Runner, output: &str) -> Option<u32> {
    let plain = without_colours(output);
    let lines = || plain.lines().map(str::trim);
    match runner {
        Runner::Cargo => sum(lines().filter_map(libtest)),
        Runner::Nextest => sum(lines().filter_map(nextest)),
        Runner::Pytest => sum(lines().filter_map(pytest)),
        Runner::Unittest => unittest(lines()),
        Runner::Node => sum(lines().filter_map(node)),
        Runner::Jest => sum(lines().filter_map(jest)),
        Runner::Vitest => sum(lines().filter_map(vitest)),
        Runner::Go => go(&plain),
        Runner::Ctest => sum(lines().filter_map(ctest)),
        Runner::Maven => sum(lines().filter_map(maven)),
        Runner::Rspec => sum(lines().filter_map(rspec)),
        Runner::Phpunit => sum(lines().filter_map(phpunit)),
        Runner::Gradle => sum(lines().filter_map(gradle)),
        Runner::Dotnet => dotnet::counted(&plain),
        Runner::Mocha | Runner::NodeFile | Runner::Script | Runner::Other => None,
    }
}

fn sum(numbers: impl Iterator<Item = u32>) -> Option<u32> {
    numbers.fold(None, |total, number| Some(total.unwrap_or(0u32).saturating_add(number)))
}

/// Removes `ESC [ … letter`.
pub(super) fn without_colours(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut parts = text.split("\u{1b}[");
    plain.push_str(parts.next().unwrap_or_default());
    for part in parts {
        let end = part.find(|c: char| c.is_ascii_alphabetic());
        plain.push_str(end.and_then(|at| part.get(at + 1..)).unwrap_or_default());
    }
    plain
}

/// Adds up parts such as `3 passed` that have one of the `counted` words; `None` if a part has an unknown
/// word.
fn parts(text: &str, separator: &str, counted: &[&str], known: &[&str]) -> Option<u32> {
    let mut total = 0;
    for part in text.split(separator) {
        let (number, word) = part.trim().split_once(' ')?;
        let number: u32 = number.parse().ok()?;
        if counted.contains(&word) {
            total += number;
        } else if !known.contains(&word) {
            return None;
        }
    }
    Some(total)
}

/// `test result: ok. 1 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s`
fn libtest(line: &str) -> Option<u32> {
    let (_, rest) = line.strip_prefix("test result: ")?.split_once(". ")?;
    let rest = rest.split("; finished").next()?;
    parts(rest, ";", &["passed", "failed", "measured"], &["ignored", "filtered out"])
}

/// `Summary [   0.012s] 2 tests run: 2 passed, 1 skipped`
fn nextest(line: &str) -> Option<u32> {
    let (_, rest) = line.strip_prefix("Summary [")?.split_once("] ")?;
    let (count, _) = rest.split_once(" test")?;
    // `1/3 tests run` after an early stop.
    count.split('/').next()?.trim().parse().ok()
}

/// `1 failed, 2 passed, 1 skipped in 0.04s`, with or without a rule around it.
fn pytest(line: &str) -> Option<u32> {
    let (what, time) = line.trim_matches(['=', ' ']).rsplit_once(" in ")?;
    let seconds = time.split(' ').next()?.strip_suffix('s')?;
    seconds.parse::<f64>().ok()?;
    if what == "no tests ran" {
        return Some(0);
    }
    let other = ["skipped", "deselected", "error", "errors", "warning", "warnings", "rerun", "reruns"];
    parts(what, ",", &["passed", "failed", "xfailed", "xpassed"], &other)
}

/// Reads `Ran 4 tests in 0.001s`, and on a later line the number of skipped tests.
fn unittest<'a>(lines: impl Iterator<Item = &'a str>) -> Option<u32> {
    let mut total: Option<u32> = None;
    for line in lines {
        let ran = line.strip_prefix("Ran ").and_then(|rest| rest.split_once(" test"));
        if let Some(count) = ran.and_then(|(count, _)| count.parse::<u32>().ok()) {
            total = Some(total.unwrap_or(0) + count);
        } else if line.starts_with("OK") || line.starts_with("FAILED") {
            let skipped = line.split_once("skipped=").map_or("0", |(_, rest)| rest);
            let digits = skipped.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
            total = total.map(|total| total.saturating_sub(digits.parse().unwrap_or(0)));
        }
    }
    total
}

/// Reads `# pass 3` or `ℹ pass 3`, and the same with `fail`.
fn node(line: &str) -> Option<u32> {
    let rest = line.strip_prefix("# ").or_else(|| line.strip_prefix("ℹ "))?;
    let count = rest.strip_prefix("pass ").or_else(|| rest.strip_prefix("fail "))?;
    count.parse().ok()
}

/// `Tests:       1 failed, 1 skipped, 1 todo, 1 passed, 4 total`
fn jest(line: &str) -> Option<u32> {
    if line.starts_with("No tests found, exiting") {
        return Some(0);
    }
    let rest = line.strip_prefix("Tests:")?;
    parts(rest, ",", &["passed", "failed"], &["skipped", "todo", "total", "obsolete"])
}

/// `Tests  1 failed | 1 passed | 1 skipped (3)`
fn vitest(line: &str) -> Option<u32> {
    if line.starts_with("No test files found") {
        return Some(0);
    }
    let rest = line.strip_prefix("Tests ")?.trim();
    if rest == "no tests" {
        return Some(0);
    }
    let rest = rest.rsplit_once(" (").map_or(rest, |(rest, _)| rest);
    parts(rest, "|", &["passed", "failed"], &["skipped", "todo", "expected fail"])
}

/// Without `-v`, go reports no count, but it reports packages without tests.
fn go(text: &str) -> Option<u32> {
    let is_told = text.lines().any(|line| line.starts_with("=== RUN "));
    if is_told {
        let ended = |line: &&str| line.starts_with("--- PASS: ") || line.starts_with("--- FAIL: ");
        return Some(text.lines().filter(ended).count() as u32);
    }
    let mut packages = text
        .lines()
        .filter(|line| line.starts_with("ok  \t") || line.starts_with("?   \t") || line.starts_with("FAIL\t"))
        .peekable();
    packages.peek()?;
    let is_empty = |line: &str| line.ends_with("[no test files]") || line.ends_with("[no tests to run]");
    packages.all(is_empty).then_some(0)
}

/// `50% tests passed, 1 tests failed out of 2`
fn ctest(line: &str) -> Option<u32> {
    if line == "No tests were found!!!" {
        return Some(0);
    }
    let (before, count) = line.split_once(" failed out of ")?;
    before.contains("% tests passed").then(|| count.trim().parse().ok())?
}

fn maven(line: &str) -> Option<u32> {
    let (run, _, skipped) = surefire_totals(line)?;
    Some(run.saturating_sub(skipped))
}

/// `7 examples, 2 failures, 3 pending`
fn rspec(line: &str) -> Option<u32> {
    let (examples, rest) = line.split_once(" example")?;
    let mut parts = rest.trim_start_matches('s').split(", ").skip(1);
    parts.next()?.split_once(" failure")?;
    let pending = parts.find_map(|part| part.strip_suffix(" pending")?.parse::<u32>().ok());
    Some(examples.parse::<u32>().ok()?.saturating_sub(pending.unwrap_or(0)))
}

/// `OK (3 tests, 3 assertions)`, or `Tests: 6, Assertions: 3, Failures: 2, Skipped: 1, Incomplete: 1, Risky: 1.`
fn phpunit(line: &str) -> Option<u32> {
    if let Some(rest) = line.strip_prefix("OK (") {
        let (tests, rest) = rest.split_once(" test")?;
        return tests.parse().ok().filter(|_| rest.contains(" assertion"));
    }
    let (tests, rest) = line.strip_prefix("Tests: ")?.split_once(", Assertions: ")?;
    let aside = rest.trim_end_matches('.').split(", ").filter_map(|part| {
        let (word, count) = part.split_once(": ")?;
        matches!(word, "Skipped" | "Incomplete" | "Risky").then(|| count.parse::<u32>().ok())?
    });
    Some(tests.parse::<u32>().ok()?.saturating_sub(aside.sum()))
}

/// `5 tests completed, 1 failed, 1 skipped`, which gradle prints only if a test failed.
fn gradle(line: &str) -> Option<u32> {
    let (tests, rest) =
        line.split_once(" tests completed, ").or_else(|| line.split_once(" test completed, "))?;
    let skipped = rest.split(", ").find_map(|part| part.strip_suffix(" skipped")?.parse::<u32>().ok());
    Some(tests.parse::<u32>().ok()?.saturating_sub(skipped.unwrap_or(0)))
}

/// Number of tests, of failed and of skipped ones.
pub(super) type SurefireCounts = (u32, u32, u32);

/// `[ERROR] Tests run: 4, Failures: 1, Errors: 0, Skipped: 1`, the last line of the results.
pub(super) fn surefire_totals(line: &str) -> Option<SurefireCounts> {
    let (counts, rest) = surefire_line(line)?;
    (rest.is_empty() || rest.starts_with(", Flakes: ")).then_some(counts)
}

/// Returns the numbers after maven's mark, and the rest of the line.
pub(super) fn surefire_line(line: &str) -> Option<(SurefireCounts, &str)> {
    let rest = ["[INFO] ", "[ERROR] ", "[WARNING] "].iter().find_map(|mark| line.strip_prefix(mark))?;
    let mut rest = rest.trim_start();
    let mut next = |word: &str| {
        let after = rest.strip_prefix(word)?;
        let end = after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len());
        rest = &after[end..];
        after[..end].parse::<u32>().ok()
    };
    let run = next("Tests run: ")?;
    let failed = next(", Failures: ")?.saturating_add(next(", Errors: ")?);
    let skipped = next(", Skipped: ")?;
    Some(((run, failed, skipped), rest))
}

/// Explains why a contract that held with this number of tests does not hold. A count that existed before the
/// work and is missing now counts as zero.
pub fn too_few(before: Option<u32>, now: Option<u32>) -> Option<String> {
    match (before, now) {
        (Some(before), None | Some(0)) if before > 0 => {
            Some(format!("{} before, none now", were_run(before)))
        }
        (_, Some(0)) => Some("no test was run".to_owned()),
        (Some(before), Some(now)) if now < before => Some(format!("{} before, {now} now", were_run(before))),
        _ => None,
    }
}

fn were_run(count: u32) -> String {
    if count == 1 { "1 test was run".to_owned() } else { format!("{count} tests were run") }
}
