//! Reads the JSON that `go test -json` prints, and makes of it what `go test` would have printed.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::Named;
use crate::model::test_results::TestResult;

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Event {
    action: String,
    #[serde(default)]
    package: String,
    #[serde(default)]
    test: String,
    #[serde(default)]
    output: String,
}

fn event(line: &str) -> Option<Event> {
    if !line.starts_with("{\"") {
        return None;
    }
    serde_json::from_str(line).ok()
}

/// Returns the results of the tests. A package that failed without a failed test counts as a failed test.
pub(super) fn read(stdout: &str) -> Result<Named, String> {
    let mut found = Named::new();
    let mut failed: BTreeMap<String, bool> = BTreeMap::new();
    for event in stdout.lines().filter_map(event) {
        let result = match event.action.as_str() {
            "pass" => TestResult::Passed,
            "fail" => TestResult::Failed,
            "skip" => TestResult::Skipped,
            _ => continue,
        };
        let has_failed = failed.entry(event.package.clone()).or_default();
        if !event.test.is_empty() {
            *has_failed |= result == TestResult::Failed;
            found.push((format!("{}: {}", event.package, event.test), result));
        } else if result == TestResult::Failed && !*has_failed {
            found.push((format!("{}: the package", event.package), result));
        }
    }
    match found.is_empty() {
        true => Err("`go test` reported no test".to_owned()),
        false => Ok(found),
    }
}

/// Returns the output as `go test` prints it without `-json`. Of a test that passed, only `-v` shows the
/// output.
pub fn plain(stdout: &str, is_verbose: bool) -> String {
    let mut plain = String::new();
    let mut of_tests: BTreeMap<(String, String), String> = BTreeMap::new();
    for line in stdout.split_inclusive('\n') {
        let Some(event) = event(line) else {
            plain.push_str(line);
            continue;
        };
        if is_verbose {
            plain.push_str(&event.output);
            continue;
        }
        let is_of_test = !event.test.is_empty();
        match event.action.as_str() {
            "output" if is_progress(&event.output) => {}
            "output" if is_of_test => {
                of_tests.entry((event.package, event.test)).or_default().push_str(&event.output);
            }
            "output" if event.output == "PASS\n" => {}
            "output" | "build-output" => plain.push_str(&event.output),
            "fail" if is_of_test => {
                plain.push_str(&of_tests.remove(&(event.package, event.test)).unwrap_or_default());
            }
            "pass" | "skip" if is_of_test => drop(of_tests.remove(&(event.package, event.test))),
            _ => {}
        }
    }
    // A test that did not end, because the process did.
    of_tests.values().for_each(|rest| plain.push_str(rest));
    plain
}

fn is_progress(output: &str) -> bool {
    let words = ["=== RUN ", "=== PAUSE ", "=== CONT ", "=== NAME "];
    words.iter().any(|word| output.starts_with(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    const JSON: &str = concat!(
        "# build note\n",
        "{\"ImportPath\":\"m/c\",\"Action\":\"build-output\",\"Output\":\"./c.go:3: undefined: x\\n\"}\n",
        "{\"Action\":\"run\",\"Package\":\"m/a\",\"Test\":\"TestOk\"}\n",
        "{\"Action\":\"output\",\"Package\":\"m/a\",\"Test\":\"TestOk\",\"Output\":\"=== RUN   TestOk\\n\"}\n",
        "{\"Action\":\"output\",\"Package\":\"m/a\",\"Test\":\"TestOk\",\"Output\":\"{\\\"Action\\\":\\\"fail\\\"}\\n\"}\n",
        "{\"Action\":\"pass\",\"Package\":\"m/a\",\"Test\":\"TestOk\"}\n",
        "{\"Action\":\"output\",\"Package\":\"m/a\",\"Test\":\"TestX\",\"Output\":\"--- FAIL: TestX\\n\"}\n",
        "{\"Action\":\"fail\",\"Package\":\"m/a\",\"Test\":\"TestX\"}\n",
        "{\"Action\":\"output\",\"Package\":\"m/a\",\"Output\":\"FAIL\\tm/a\\n\"}\n",
        "{\"Action\":\"fail\",\"Package\":\"m/a\"}\n",
        "{\"Action\":\"output\",\"Package\":\"m/b\",\"Output\":\"exit status 3\\n\"}\n",
        "{\"Action\":\"fail\",\"Package\":\"m/b\"}\n",
    );

    #[test]
    fn what_a_test_prints_is_no_result() {
        let found = read(JSON).expect("read");
        let told: Vec<_> = found.iter().map(|(name, result)| (name.as_str(), *result)).collect();
        use TestResult::{Failed, Passed};
        assert_eq!(told, [("m/a: TestOk", Passed), ("m/a: TestX", Failed), ("m/b: the package", Failed)]);
        assert!(read("ok  \tm\t0.1s\n").is_err());
    }

    #[test]
    fn the_output_is_what_go_prints() {
        assert_eq!(
            plain(JSON, false),
            "# build note\n./c.go:3: undefined: x\n--- FAIL: TestX\nFAIL\tm/a\nexit status 3\n"
        );
        assert!(plain(JSON, true).contains("=== RUN   TestOk\n"));
    }
}
