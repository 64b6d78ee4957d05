//! Runs a contract and says what was seen. Nothing else makes a verdict.
//!
//! The level here is `in-place`: a process of its own in the agent's workspace, with an environment the
//! agent had no hand in. What decides is the exit status the harness waited for and the bytes it read
//! itself, after every process of the check is dead.
//!
//! **Invariant:** a check that left something running, or ran behind a weaker fence than was demanded,
//! never holds.

use std::ffi::OsString;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use provost_core::plan::{Expectation, Shell, Stream};
use provost_core::verdict::{Isolation, Outcome, Verdict};
use regex::bytes::{Regex, RegexBuilder};

use crate::Interrupted;
use crate::process::{self, Ended, How, Keep, NotStarted, Output, Spawn};

mod rooms;
mod surroundings;

pub use rooms::leave;
use surroundings::Surroundings;

/// What expectations are looked for in; a text in the middle of more than this is not seen.
const KEEP: Keep = Keep { head: 1024 * 1024, tail: 1024 * 1024 };
/// Checks are ours to end: they get a moment, not a say.
const GRACE: Duration = Duration::from_millis(500);
const EXCERPT_OF_FAILURE: usize = 8 * 1024;
const EXCERPT_OF_SUCCESS: usize = 1024;

/// Where and how a contract is judged.
pub struct Court<'a> {
    pub workspace: &'a Path,
    pub timeout: Duration,
    pub tag: &'a str,
    pub stop: Option<&'a AtomicBool>,
    /// The fence that is demanded. Less is refused.
    pub isolation: Isolation,
}

/// Runs the contract once.
pub fn contract(shell: &Shell, court: &Court<'_>) -> Result<Verdict, Interrupted> {
    if !matches!(court.isolation, Isolation::InPlace | Isolation::None) {
        let reason = format!("isolation level {} is not available here", court.isolation);
        return Ok(not_run(court, reason));
    }
    let expected =
        match shell.expectations.iter().map(|e| Expected::read(&e.value)).collect::<Result<Vec<_>, _>>() {
            Ok(expected) => expected,
            Err(error) => return Ok(not_run(court, format!("an expectation cannot be read: {error}"))),
        };
    let surroundings = match Surroundings::make(court.workspace) {
        Ok(surroundings) => surroundings,
        Err(error) => return Ok(not_run(court, format!("no temporary folder could be made: {error}"))),
    };
    match run(shell, court, &surroundings) {
        Ok(Ended { how: How::Stopped, .. }) => Err(Interrupted),
        Ok(ended) => Ok(judged(court, &expected, &ended)),
        Err(error) => Ok(not_run(court, told(&error))),
    }
}

fn run(shell: &Shell, court: &Court<'_>, surroundings: &Surroundings) -> Result<Ended, NotStarted> {
    let args = ["--noprofile", "--norc", "-c", &shell.command].map(OsString::from);
    process::run(Spawn {
        program: surroundings::bash(),
        args: &args,
        cwd: court.workspace,
        env: surroundings.environment(),
        stdin: b"",
        deadline: court.timeout,
        grace: GRACE,
        keep: KEEP,
        tag: court.tag,
        stop: court.stop,
        tee: None,
    })
}

fn judged(court: &Court<'_>, expected: &[Expected<'_>], ended: &Ended) -> Verdict {
    let mut unmet = Vec::new();
    let outcome = match ended.how {
        How::TimedOut | How::Stopped => Outcome::TimedOut { after_ms: milliseconds(court.timeout) },
        How::Signalled(signal) => Outcome::Killed { signal },
        How::Exited(exit_code) => {
            unmet.extend(unmet_by(expected, exit_code, ended));
            let left = ended.survivors.iter();
            unmet.extend(left.map(|survivor| format!("nothing outlives the check: {survivor} still runs")));
            if unmet.is_empty() { Outcome::Held } else { Outcome::Broke { exit_code } }
        }
    };
    let limit = if outcome == Outcome::Held { EXCERPT_OF_SUCCESS } else { EXCERPT_OF_FAILURE };
    Verdict {
        outcome,
        isolation: court.isolation,
        duration_ms: milliseconds(ended.duration),
        unmet,
        stdout: ended.stdout.excerpt(limit),
        stderr: ended.stderr.excerpt(limit),
        tree: None,
    }
}

fn unmet_by(expected: &[Expected<'_>], exit_code: i32, ended: &Ended) -> Vec<String> {
    let of_exit = |expected: &Expected<'_>| {
        matches!(expected.written, Expectation::ExitIs(_) | Expectation::ExitIsNot(_))
    };
    // Nothing said about the exit code means 0: an output alone must not pass a command that failed.
    let implied =
        (exit_code != 0 && !expected.iter().any(of_exit)).then(|| Expectation::ExitIs(0).to_string());
    let written = expected
        .iter()
        .filter(|expected| !expected.is_met(exit_code, ended))
        .map(|expected| expected.written.to_string());
    implied.into_iter().chain(written).collect()
}

/// An expectation, ready to be looked for.
struct Expected<'a> {
    written: &'a Expectation,
    pattern: Option<Regex>,
}

impl<'a> Expected<'a> {
    fn read(written: &'a Expectation) -> Result<Self, regex::Error> {
        let pattern = match written {
            Expectation::Contains { text, .. } => Some(Regex::new(&regex::escape(text))?),
            // `^` and `$` mean lines, as in grep: every output ends with a newline.
            Expectation::Matches { pattern, .. } => {
                Some(RegexBuilder::new(pattern).multi_line(true).build()?)
            }
            Expectation::ExitIs(_) | Expectation::ExitIsNot(_) | Expectation::Empty { .. } => None,
        };
        Ok(Self { written, pattern })
    }

    fn is_met(&self, exit_code: i32, ended: &Ended) -> bool {
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

fn not_run(court: &Court<'_>, reason: String) -> Verdict {
    Verdict::not_run(court.isolation, reason)
}

/// An error and what caused it, in one line.
fn told(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
