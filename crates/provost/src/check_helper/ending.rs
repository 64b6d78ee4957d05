//! How a recipe ends if it does not hold.

use std::fmt::Display;
use std::path::Path;

/// The reason why a recipe does not hold.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// The work does not do what was asked.
    Unmet(String),
    /// Something outside of the work is missing, so nothing is known.
    NotRun(String),
    Usage(String),
}

impl Ending {
    /// The objections, one on each line.
    pub(super) fn unmet_all(objections: &[String]) -> Self {
        match objections {
            [one] => Self::Unmet(one.clone()),
            all => {
                let lines: Vec<String> = all.iter().map(|each| format!("\n- {each}")).collect();
                Self::Unmet(format!("{} objections{}", all.len(), lines.concat()))
            }
        }
    }

    /// The same, with one more line about what was seen.
    pub(super) fn noted(self, note: &str) -> Self {
        match self {
            Self::Unmet(text) => Self::Unmet(format!("{text}\n{note}")),
            other => other,
        }
    }

    pub(super) fn not_run(what: &str, error: impl Display) -> Self {
        Self::NotRun(format!("{what}: {error}"))
    }
}

/// Reads a text file of the work.
pub(super) fn read(path: &Path) -> Result<String, Ending> {
    match std::fs::read(path) {
        Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
        Err(error) => Err(Ending::Unmet(format!("{} cannot be read: {error}", path.display()))),
    }
}
