//! Reads `read` and `write`: folders and files outside of the workspace that a role or a check may use.

use std::path::{Component, Path, PathBuf};

use provost_core::model::run_policy;

use super::at_home;
use super::reading::{Section, Wrong};

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

pub(super) fn read(section: &Section<'_, '_>) -> Result<Folders, Wrong> {
    Ok(Folders { read: paths(section, "read")?, write: paths(section, "write")? })
}

fn paths(section: &Section<'_, '_>, key: &str) -> Result<Vec<PathBuf>, Wrong> {
    let texts = section.strings(key)?.unwrap_or_default();
    let mut paths = Vec::new();
    for text in texts {
        let path = at_home(&text);
        let is_plain = path.is_absolute() && !path.components().any(|part| part == Component::ParentDir);
        if !is_plain || path == Path::new("/") {
            let message = format!("`{text}` is not an absolute path such as \"/data\" or \"~/data\"");
            return Err(section.wrong(key, message));
        }
        paths.push(path.components().collect());
    }
    Ok(paths)
}
