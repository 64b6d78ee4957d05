//! Recognises the calls of Maven and Gradle that run tests.

use super::Args;

/// Phases of Maven that come after `test`, and goals that run tests.
const MAVEN: [&str; 9] = [
    "test",
    "prepare-package",
    "package",
    "pre-integration-test",
    "integration-test",
    "post-integration-test",
    "verify",
    "install",
    "deploy",
];

pub(super) fn maven(args: Args<'_>) -> bool {
    let is_skip = |arg: &str| {
        let value = arg.strip_prefix("-DskipTests").or_else(|| arg.strip_prefix("-Dmaven.test.skip"));
        value.is_some_and(|value| matches!(value, "" | "=true"))
    };
    let is_goal = |arg: &str| {
        MAVEN.contains(&arg)
            || arg.ends_with(":test") && (arg.contains("surefire") || arg.contains("failsafe"))
    };
    let words = || args.iter().flatten().map(String::as_str);
    words().any(is_goal) && !words().any(is_skip)
}

pub(super) fn gradle(args: Args<'_>) -> bool {
    let mut excluded = false;
    let mut runs = false;
    for arg in args.iter().flatten() {
        let task = arg.rsplit(':').next().unwrap_or(arg);
        let is_test =
            task == "test" || task.ends_with("Test") || task.starts_with("test") && task != "testClasses";
        let is_task = is_test || matches!(task, "check" | "build" | "allTests");
        runs |= is_task && !excluded && !arg.starts_with('-');
        // `gradle build -x test`
        if excluded && task == "test" {
            return false;
        }
        excluded = matches!(arg.as_str(), "-x" | "--exclude-task");
    }
    runs
}
