//! What a check must show to hold.

use std::fmt;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expectation {
    ExitIs(i32),
    ExitIsNot(i32),
    Contains {
        stream: Stream,
        text: String,
    },
    /// A regular expression that the parser compiled once to prove it valid.
    Matches {
        stream: Stream,
        pattern: String,
    },
    Empty {
        stream: Stream,
    },
    /// These tests pass, and failed or did not exist before the work.
    TestsFixed {
        names: Vec<String>,
    },
    /// No test fails, is gone or is skipped that did not fail before the work.
    NoNewFailures,
    TestsPassed {
        at_least: u32,
    },
    /// Every test that ran before the work still runs.
    NoTestRemoved,
}

impl Expectation {
    /// Returns whether it is about the exit code.
    pub fn is_about_exit(&self) -> bool {
        matches!(self, Expectation::ExitIs(_) | Expectation::ExitIsNot(_))
    }

    /// Returns whether it is about single tests.
    pub fn is_about_tests(&self) -> bool {
        match self {
            Expectation::TestsFixed { .. }
            | Expectation::NoNewFailures
            | Expectation::TestsPassed { .. }
            | Expectation::NoTestRemoved => true,
            Expectation::ExitIs(_)
            | Expectation::ExitIsNot(_)
            | Expectation::Contains { .. }
            | Expectation::Matches { .. }
            | Expectation::Empty { .. } => false,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    Stdout,
    Stderr,
}

impl fmt::Display for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Stream::Stdout => "stdout",
            Stream::Stderr => "stderr",
        })
    }
}

/// Writes the expectation as it is written in the plan.
impl fmt::Display for Expectation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Expectation::ExitIs(code) => write!(f, "exit_code == {code}"),
            Expectation::ExitIsNot(code) => write!(f, "exit_code != {code}"),
            Expectation::Contains { stream, text } => write!(f, "{stream} contains \"{text}\""),
            Expectation::Matches { stream, pattern } => write!(f, "{stream} matches /{pattern}/"),
            Expectation::Empty { stream } => write!(f, "{stream} is empty"),
            Expectation::TestsFixed { names } => write!(f, "tests fixed: {}", names.join(", ")),
            Expectation::NoNewFailures => write!(f, "no new failures"),
            Expectation::TestsPassed { at_least } => write!(f, "tests passed >= {at_least}"),
            Expectation::NoTestRemoved => write!(f, "no test removed or skipped"),
        }
    }
}
