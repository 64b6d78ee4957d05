//! Compares the end of a check with its expectations about exit code and output.

use provost_core::model::plan::{Expectation, Stream};
use regex::bytes::{Regex, RegexBuilder};
use rustix::process::Signal;

use crate::process::{Output, ProcessEnd};
use crate::sandbox;

/// Returns the name of a signal that a program causes itself, or that the kernel sends if it uses too much.
/// Other signals come from other processes.
pub(super) fn crash_signal(signal: i32) -> Option<&'static str> {
    let names = [
        (Signal::ILL, "SIGILL"),
        (Signal::TRAP, "SIGTRAP"),
        (Signal::ABORT, "SIGABRT"),
        (Signal::BUS, "SIGBUS"),
        (Signal::FPE, "SIGFPE"),
        (Signal::SEGV, "SIGSEGV"),
        (Signal::PIPE, "SIGPIPE"),
        (Signal::XCPU, "SIGXCPU"),
        (Signal::XFSZ, "SIGXFSZ"),
        (Signal::SYS, "SIGSYS"),
    ];
    names.into_iter().find(|(known, _)| known.as_raw() == signal).map(|(_, name)| name)
}

/// Describes a crash. Shells and the sandbox report a program that died of signal n as exit code 128 + n.
fn crash_behind(exit_code: i32) -> Option<String> {
    let signal = sandbox::signal_behind(exit_code)?;
    let name = match crash_signal(signal) {
        Some(name) => name,
        None if signal == Signal::KILL.as_raw() => "SIGKILL, often because memory ran out",
        None if signal == Signal::TERM.as_raw() => "SIGTERM",
        None => return None,
    };
    Some(format!("no program of the check may crash: exit code {exit_code} is signal {signal} ({name})"))
}

/// All expectations of a contract.
pub(super) struct Expectations<'a> {
    pub(super) all: Vec<Expected<'a>>,
    /// A failed exit code is explained by tests that the contract allows to fail.
    pub(super) may_fail: bool,
}

pub(super) fn unmet_by(expectations: &Expectations<'_>, exit_code: i32, ended: &ProcessEnd) -> Vec<String> {
    let Expectations { all: expected, may_fail } = expectations;
    let of_exit = |expected: &Expected<'_>| {
        matches!(expected.written, Expectation::ExitIs(_) | Expectation::ExitIsNot(_))
    };
    // Without an expectation about the exit code, it must be 0: an output alone must not pass a command
    // that failed.
    let implied = (exit_code != 0 && !may_fail && !expected.iter().any(of_exit))
        .then(|| Expectation::ExitIs(0).to_string());
    let written = expected
        .iter()
        .filter(|expected| !expected.is_met(exit_code, ended))
        .map(|expected| expected.written.to_string());
    // A crash does not meet `exit_code != 0`; a contract that expects a crash names its exact code.
    let wanted = expected.iter().any(|expected| *expected.written == Expectation::ExitIs(exit_code));
    let crashed = crash_behind(exit_code).filter(|_| !wanted);
    implied.into_iter().chain(written).chain(crashed).collect()
}

/// An expectation with its compiled pattern.
pub(super) struct Expected<'a> {
    written: &'a Expectation,
    pattern: Option<Regex>,
}

impl<'a> Expected<'a> {
    pub(super) fn read(written: &'a Expectation) -> Result<Self, regex::Error> {
        let pattern = match written {
            Expectation::Contains { text, .. } => Some(Regex::new(&regex::escape(text))?),
            // `^` and `$` match at lines, as in grep, because every output ends with a newline.
            Expectation::Matches { pattern, .. } => {
                Some(RegexBuilder::new(pattern).multi_line(true).build()?)
            }
            _ => None,
        };
        Ok(Self { written, pattern })
    }

    fn is_met(&self, exit_code: i32, ended: &ProcessEnd) -> bool {
        let output = |stream| match stream {
            Stream::Stdout => &ended.stdout,
            Stream::Stderr => &ended.stderr,
        };
        match *self.written {
            Expectation::ExitIs(code) => exit_code == code,
            Expectation::ExitIsNot(code) => exit_code != code,
            Expectation::Empty { stream } => output(stream).bytes == 0,
            Expectation::Contains { stream, .. } | Expectation::Matches { stream, .. } => {
                self.pattern.as_ref().is_some_and(|pattern| is_found(pattern, output(stream)))
            }
            // Decided where the results before the work are known.
            Expectation::TestsFixed { .. }
            | Expectation::NoNewFailures
            | Expectation::TestsPassed { .. }
            | Expectation::NoTestRemoved => true,
        }
    }
}

fn is_found(pattern: &Regex, output: &Output) -> bool {
    if output.tail.is_empty() {
        return pattern.is_match(&output.head);
    }
    if output.is_whole() {
        return pattern.is_match(&[output.head.as_slice(), &output.tail].concat());
    }
    pattern.is_match(&output.head) || pattern.is_match(&output.tail)
}
