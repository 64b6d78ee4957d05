//! Keeps the machine's programs before those that a lock file of an agent brings.
//!
//! **Invariant:** a program that the machine has is never replaced by one that an agent's lock file brings.

use std::io;
use std::os::unix::fs::symlink;

use tempfile::TempDir;

use super::ExecEnv;
use super::approved::ApprovedTree;
use super::mounts::CheckMounts;
use crate::check::judge;

impl ExecEnv {
    /// Returns a folder with links to the machine's programs that a lock file of the agent would replace.
    pub(super) fn machine_programs(
        &self,
        approved: &ApprovedTree,
        fitted: &CheckMounts,
    ) -> io::Result<Option<TempDir>> {
        let places = self.tools.places(Some(&approved.base.path), &[]);
        let mut folder = None;
        for name in fitted.new_programs() {
            let Some(own) = places.iter().map(|place| place.join(&name)).find(|path| path.is_file()) else {
                continue;
            };
            if folder.is_none() {
                let made = tempfile::Builder::new().prefix("machine-").tempdir_in(judge::private_folder()?)?;
                folder = Some(made);
            }
            if let Some(folder) = &folder {
                symlink(own, folder.path().join(&name))?;
            }
        }
        Ok(folder)
    }
}
