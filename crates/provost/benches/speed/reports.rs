//! Measures what the results of single tests cost: a check with 10,000 tests of unittest, with provost's
//! reporters and reading what they report, against the same command without them.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use provost_core::language::runner::results::{PrintedOutput, results};
use provost_host::check::judge::reporter::{Control, Reporter};

use crate::Asked;
use crate::measure::{folder, interleaved, time};
use crate::table::{Kind, Row, Table};

const TESTS: usize = 10_000;
const ROUNDS: usize = 25;
const GOAL: f64 = 1.05;

pub(crate) fn measure(_: &Asked, table: &mut Table) {
    let place = folder("reports");
    let tests: String = (0..TESTS)
        .map(|n| format!("    def test_{n}(self):\n        self.assertEqual({n} + 1, {n} + 1)\n\n"))
        .collect();
    let text = format!("import unittest\n\n\nclass Many(unittest.TestCase):\n{tests}");
    std::fs::write(place.join("test_many.py"), text).expect("the tests");
    let Some(python) = python() else {
        return table.note("reports", "python3 is missing");
    };
    let command = || {
        let mut command = Command::new(&python);
        command.args(["-m", "unittest", "-q"]).current_dir(&place).stdin(Stdio::null());
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command
    };
    let path: Vec<PathBuf> = std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()).collect();
    let given: Vec<(OsString, OsString)> = std::env::vars_os().collect();
    let mut bare = || assert!(command().status().is_ok_and(|status| status.success()));
    let mut bare_again = || assert!(command().status().is_ok_and(|status| status.success()));
    let mut reported = || {
        let reporter = Reporter::start(&path, Control::AsTheyAre, true).expect("the reporters");
        let environment = reporter.environment(&reporter.places(), &given);
        assert!(command().envs(environment).status().is_ok_and(|status| status.success()));
        let report = reporter.finish(&place);
        let printed = PrintedOutput { stdout: "", stderr: "", is_whole: true };
        let found = results("python3 -m unittest -q", &report, printed).expect("readable").expect("results");
        assert_eq!(found.0.len(), TESTS);
    };
    let [reported, bare, again] = interleaved(ROUNDS, [&mut reported, &mut bare, &mut bare_again]);
    // The CPU time of the same Python process varies by half, so a goal of 5 % needs the least of many rounds:
    // other load only adds to it.
    table.guard("10,000 tests against themselves", again.cpu_least() / bare.cpu_least());
    table.row(Row {
        what: "checks: results of 10,000 single tests, against the bare command",
        subject: time(reported.cpu_least()),
        floor: time(bare.cpu_least()),
        figure: reported.cpu_least() / bare.cpu_least(),
        unit: "×",
        goal: GOAL,
        kind: Kind::Cpu,
    });
}

/// Returns the interpreter itself: a `python3` that is a script of a version manager takes as long as the tests.
fn python() -> Option<PathBuf> {
    let asked = Command::new("python3").args(["-c", "import sys; print(sys.executable)"]).output().ok()?;
    let printed = String::from_utf8(asked.stdout).ok()?;
    (asked.status.success() && !printed.trim().is_empty()).then(|| PathBuf::from(printed.trim()))
}
