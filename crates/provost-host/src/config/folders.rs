//! Reads `read` and `write`: folders and files outside of the workspace that a role or a check may use.

use std::path::{Component, Path, PathBuf};

use provost_core::model::run_policy;
use serde::Deserializer;

use super::values::{at_home, each};

/// Folders and files outside of the workspace, by absolute paths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Folders {
    pub read: Vec<PathBuf>,
    pub write: Vec<PathBuf>,
}

impl Folders {
    /// Returns the paths as they are shown and approved.
    pub fn terms(&self) -> run_policy::OuterFolders {
        let text = |paths: &[PathBuf]| paths.iter().map(|path| path.display().to_string()).collect();
        run_policy::OuterFolders { read: text(&self.read), write: text(&self.write) }
    }

    pub fn all(&self) -> impl Iterator<Item = &Path> {
        self.read.iter().chain(&self.write).map(PathBuf::as_path)
    }
}

/// Reads a list of absolute paths.
pub(super) fn paths<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<PathBuf>, D::Error> {
    each(from, |text: String| {
        let path = at_home(&text);
        let is_plain = path.is_absolute() && !path.components().any(|part| part == Component::ParentDir);
        match is_plain && path != Path::new("/") {
            true => Ok(path.components().collect()),
            false => Err(format!("`{text}` is not an absolute path such as \"/data\" or \"~/data\"")),
        }
    })
}

/// Returns whether a path is relative and stays inside of its folder.
pub(super) fn is_inside(path: &str) -> bool {
    !path.is_empty() && Path::new(path).components().all(|part| matches!(part, Component::Normal(_)))
}
