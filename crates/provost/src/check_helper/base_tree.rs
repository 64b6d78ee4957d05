//! The files of the last approved commit, which the repository of a check has as `HEAD`.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::command::git;
use super::ending::Ending;

/// A copy of the base in a temporary folder.
pub(super) struct BaseTree {
    _folder: TempDir,
    /// The folder that corresponds to the working folder.
    pub(super) here: PathBuf,
}

impl BaseTree {
    /// Writes all files of the base.
    pub(super) fn check_out() -> Result<Self, Ending> {
        let folder = tempfile::tempdir().map_err(|error| Ending::not_run("make a folder", error))?;
        let prefix = git(&["rev-parse", "--show-prefix"], &[])?;
        let prefix = String::from_utf8_lossy(&prefix).trim().to_owned();
        let top = git(&["rev-parse", "--show-toplevel"], &[])?;
        let top = String::from_utf8_lossy(&top).trim().to_owned();
        let index = folder.path().join("index");
        let tree = folder.path().join("tree");
        let written = format!("--prefix={}/", tree.display());
        git(&["-C", &top, "read-tree", "HEAD"], &[("GIT_INDEX_FILE", &index)])?;
        git(&["-C", &top, "checkout-index", "--all", &written], &[("GIT_INDEX_FILE", &index)])?;
        let here = tree.join(prefix);
        std::fs::create_dir_all(&here).map_err(|error| Ending::not_run("make a folder", error))?;
        Ok(Self { _folder: folder, here })
    }
}

/// Returns the content of a file in the base.
pub(super) fn file(path: &Path) -> Result<Vec<u8>, Ending> {
    let place = if path.is_absolute() { path.display().to_string() } else { format!("./{}", path.display()) };
    git(&["show", &format!("HEAD:{place}")], &[])
}
