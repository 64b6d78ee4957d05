//! The limits that end a run before the model has finished.

use std::fmt;

/// A limit that ended a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bound {
    Turns(u32),
    Refusals(u32),
    /// Answers that were cut off, in a row.
    CutAnswers(u32),
    /// The budget is used up, in words.
    Budget(String),
}

impl fmt::Display for Bound {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Bound::Turns(turns) => write!(out, "{turns} turns were not enough"),
            Bound::Budget(words) => out.write_str(words),
            Bound::Refusals(times) => write!(out, "it claimed to be done {times} times in a row and was not"),
            Bound::CutAnswers(times) => {
                write!(out, "its answer was too long and was cut off {times} times in a row")
            }
        }
    }
}
