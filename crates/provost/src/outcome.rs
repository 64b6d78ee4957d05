//! How a command ends: its exit code, and the hint after an error.

mod exit_code;
mod hint;

use std::process::ExitCode;

use crate::failure::Failure;
use crate::terminal;

pub(crate) use hint::hint;

pub(crate) const FAILED: u8 = 1;
pub(crate) const USAGE: u8 = 2;
pub(crate) const DIAGNOSTICS: u8 = 3;
pub(crate) const WAITING: u8 = 4;
pub(crate) const REFUSED: u8 = 5;
pub(crate) const BROKEN: u8 = 70;
pub(crate) const INTERRUPTED: u8 = 130;

/// How a command ended, if the command itself did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Done,
    PlanFailed,
    Diagnosed,
    /// The plan waits for a person.
    Waiting,
    Refused,
    /// An audit found that the log was changed.
    Unsound,
    Interrupted,
    /// There is no plan folder here; the command has printed a message and needs no hint.
    NoFolder,
}

/// Result of a command.
pub(crate) type Answer = Result<Outcome, Failure>;

pub(crate) fn conclude(answer: Answer) -> ExitCode {
    ExitCode::from(match answer {
        Ok(Outcome::Done) => 0,
        Ok(Outcome::PlanFailed | Outcome::NoFolder) => FAILED,
        Ok(Outcome::Diagnosed) => DIAGNOSTICS,
        Ok(Outcome::Waiting) => WAITING,
        Ok(Outcome::Refused) => REFUSED,
        Ok(Outcome::Unsound) => BROKEN,
        Ok(Outcome::Interrupted) => INTERRUPTED,
        Err(failure) => {
            terminal::complain(&failure, hint(&failure).as_deref());
            exit_code::code(&failure)
        }
    })
}
