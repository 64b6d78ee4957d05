//! Reads `[worktrees]`: where `provost spawn` creates worktrees, and the commands that set them up.

use std::path::PathBuf;
use std::time::Duration;

use super::WEEK;
use super::reading::{Section, Wrong};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Worktrees {
    /// The folder for worktrees, relative to the top of the repository.
    pub folder: PathBuf,
    /// Commands for bash, run in order in the new worktree.
    pub setup: Vec<String>,
    /// Timeout of each command.
    pub setup_timeout: Duration,
}

impl Default for Worktrees {
    fn default() -> Self {
        Self { folder: PathBuf::from(".."), setup: Vec::new(), setup_timeout: Duration::from_secs(600) }
    }
}

pub(super) fn read(top: &Section<'_, '_>) -> Result<Worktrees, Wrong> {
    let default = Worktrees::default();
    let Some(section) = top.section("worktrees", &["folder", "setup", "setup_timeout"])? else {
        return Ok(default);
    };
    let folder = section.string("folder")?.filter(|folder| !folder.trim().is_empty());
    Ok(Worktrees {
        folder: folder.map_or(default.folder, |folder| super::at_home(&folder)),
        setup: section.strings("setup")?.unwrap_or_default(),
        setup_timeout: section.duration("setup_timeout", WEEK)?.unwrap_or(default.setup_timeout),
    })
}
