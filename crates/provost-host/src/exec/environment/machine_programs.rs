//! Keeps the programs that a check found on the approved base before those that a lock file of an agent
//! brings.
//!
//! **Invariant:** a program of the machine or of the approved base is never replaced by one that only an
//! agent's lock file brings.

use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::ExecEnv;
use super::approved::ApprovedTree;
use super::mounts::CheckMounts;
use crate::check::judge::{self, SuppliedTools};
use crate::sandbox::{CACHES, CheckMount, What};

/// A folder with links to programs, if there are any to keep. It is first on the `PATH` of the check.
pub(super) struct KeptPrograms {
    folder: Option<TempDir>,
    /// Its path in a sandbox.
    fenced: PathBuf,
}

impl KeptPrograms {
    /// Returns the folders of programs that provost adds to a check in a sandbox.
    pub(super) fn in_fence(&self, fitted: &CheckMounts) -> Vec<SuppliedTools> {
        fitted.supplied(self.folder.as_ref().map(|folder| (self.fenced.as_path(), folder.path())))
    }

    /// Returns the same for a check in a folder.
    pub(super) fn in_folder(&self, fitted: &CheckMounts) -> Vec<SuppliedTools> {
        fitted.supplied(self.folder.as_ref().map(|folder| (folder.path(), folder.path())))
    }

    pub(super) fn mount(&self) -> Option<CheckMount<'_>> {
        let folder = self.folder.as_ref()?;
        Some(CheckMount { at: &self.fenced, what: What::ReadOnly(folder.path()) })
    }
}

impl ExecEnv {
    /// Links the programs that a lock file of the agent would replace, for a tree at `root`.
    pub(super) fn kept_programs(
        &self,
        approved: &ApprovedTree,
        fitted: &CheckMounts,
        root: &Path,
    ) -> io::Result<KeptPrograms> {
        // The same folders: where provost reads them, and where the check finds them.
        let places = self.tools.places(Some(&approved.base.path), &[]);
        let folders = self.tools.path(root, &[]);
        let mut kept = KeptPrograms { folder: None, fenced: Path::new(CACHES).join("machine") };
        for name in fitted.new_programs() {
            let mut both = places.iter().zip(&folders);
            let Some((_, own)) = both.find(|(place, _)| place.join(&name).is_file()) else { continue };
            if kept.folder.is_none() {
                let made = tempfile::Builder::new().prefix("machine-").tempdir_in(judge::private_folder()?)?;
                kept.folder = Some(made);
            }
            if let Some(folder) = &kept.folder {
                symlink(own.join(&name), folder.path().join(&name))?;
            }
        }
        Ok(kept)
    }
}
