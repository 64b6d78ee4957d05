//! Reads `[worktrees]`: where `provost spawn` creates worktrees, and the commands that set them up.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Deserializer};

use super::values::{WEEK, at_home, time};

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a section")]
pub struct Worktrees {
    /// The folder for worktrees, relative to the top of the repository.
    #[serde(deserialize_with = "folder")]
    pub folder: PathBuf,
    /// Commands for bash, run in order in the new worktree.
    pub setup: Vec<String>,
    /// Timeout of each command.
    #[serde(deserialize_with = "time::<_, _, WEEK>")]
    pub setup_timeout: Duration,
}

impl Default for Worktrees {
    fn default() -> Self {
        Self { folder: PathBuf::from(".."), setup: Vec::new(), setup_timeout: Duration::from_secs(600) }
    }
}

/// Reads a folder; an empty text is the default.
fn folder<'de, D: Deserializer<'de>>(from: D) -> Result<PathBuf, D::Error> {
    let text = String::deserialize(from)?;
    Ok(if text.trim().is_empty() { Worktrees::default().folder } else { at_home(&text) })
}
