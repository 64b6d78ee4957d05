//! Reads the results of the single tests of a check that has ended.

use provost_core::language::runner::expectations;
use provost_core::language::runner::report::RunnerReport;
use provost_core::language::runner::results::{self, PrintedOutput, go};
use provost_core::model::plan::Shell;
use provost_core::model::test_results::{TestResult, TestResults};

use crate::process::{Output, ProcessEnd};

/// Adds the results of the single tests to the report. If `go test` printed JSON for provost, the output
/// becomes what it would have printed otherwise.
pub(super) fn read(
    shell: &Shell,
    mut ended: ProcessEnd,
    mut report: RunnerReport,
) -> (ProcessEnd, RunnerReport) {
    let is_whole = ended.stdout.is_whole() && ended.stderr.is_whole();
    let (stdout, stderr) = (super::text(&ended.stdout), super::text(&ended.stderr));
    match results::results(
        &shell.command,
        &report,
        PrintedOutput { stdout: &stdout, stderr: &stderr, is_whole },
    ) {
        Ok(results) => report.results = results,
        Err(why) => report.unread = Some(why),
    }
    if let Some(is_verbose) = report.go_prints {
        let printed = |part: &[u8]| go::plain(&String::from_utf8_lossy(part), is_verbose).into_bytes();
        let (head, tail) = match is_whole {
            true => (printed(stdout.as_bytes()), Vec::new()),
            false => (printed(&ended.stdout.head), printed(&ended.stdout.tail)),
        };
        let left_out = ended.stdout.bytes - (ended.stdout.head.len() + ended.stdout.tail.len()) as u64;
        let bytes = (head.len() + tail.len()) as u64 + left_out;
        ended.stdout = Output { head, tail, bytes };
    }
    (ended, report)
}

/// Returns whether failed tests that the contract allows explain a failed exit code.
pub(super) fn explain_exit(shell: &Shell, results: Option<&TestResults>) -> bool {
    let has_failed = results.is_some_and(|results| results.count(TestResult::Failed) > 0);
    has_failed && shell.allows_earlier_failures() && expectations::only_runs_tests(&shell.command)
}
