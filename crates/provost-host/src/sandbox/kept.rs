//! Folders of provost that a check sees in addition to its tree: provisioned dependencies, and build
//! caches.
//!
//! **Invariant:** a lower folder is never written: a check's writes go elsewhere, and the caller decides
//! afterwards whether to keep them.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Component, Path, PathBuf};

use super::{CheckFence, Unavailable};

/// Folder inside for those that are not part of the tree; nothing else is there.
pub const CACHES: &str = "/var/cache/check";

#[derive(Clone, Copy, Debug)]
pub struct CheckMount<'a> {
    /// Relative to the tree, an absolute path in [`CACHES`], or the same path as the source.
    pub at: &'a Path,
    pub what: What<'a>,
}

#[derive(Clone, Copy, Debug)]
pub enum What<'a> {
    ReadOnly(&'a Path),
    /// Writes are kept in this folder.
    Writable(&'a Path),
    /// These folders merged into one, the first on top.
    Layered {
        lowers: &'a [PathBuf],
        /// An empty folder of the caller, for the files that the mount needs.
        folder: &'a Path,
        writes: MountWrites,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MountWrites {
    /// Into the tmpfs of the check, within its size limit.
    Forgotten,
    /// Into [`UPPER`] in the folder, in overlay format. Without a limit, and not on every file system.
    Remembered,
}

/// Name of the folder with a check's writes, if they are kept.
pub const UPPER: &str = "upper";

impl<'a> CheckMount<'a> {
    pub(super) fn folders(&self) -> Vec<&'a Path> {
        match self.what {
            What::ReadOnly(folder) | What::Writable(folder) => vec![folder],
            What::Layered { lowers, folder, .. } => {
                lowers.iter().map(PathBuf::as_path).chain([folder]).collect()
            }
        }
    }

    pub(super) fn is_in_the_tree(&self) -> bool {
        self.at.is_relative()
    }

    pub(super) fn inside(&self, fence: &CheckFence<'_>) -> PathBuf {
        // An absolute path stays as it is.
        fence.at.join(self.at)
    }

    /// Returns whether it is a path of the machine, shown at the same place.
    pub(super) fn is_itself(&self) -> bool {
        match self.what {
            What::ReadOnly(place) | What::Writable(place) => place == self.at && place.is_absolute(),
            What::Layered { .. } => false,
        }
    }

    pub(super) fn is_placed_well(&self) -> bool {
        if self.is_itself() {
            return self
                .at
                .components()
                .all(|part| matches!(part, Component::RootDir | Component::Normal(_)))
                && self.at != Path::new("/");
        }
        let within = match self.at.strip_prefix(CACHES) {
            Ok(within) => within,
            Err(_) => self.at,
        };
        let is_plain = within.components().all(|part| matches!(part, Component::Normal(_)));
        !within.as_os_str().is_empty() && is_plain
    }

    /// Prepares the folder for the script's mount, with short names chosen by provost. Returns the folder
    /// and the names of the lowers in it, joined as the mount needs them.
    pub(super) fn laid_out(
        &self,
        room: &Path,
        number: usize,
    ) -> Result<Option<(&'a Path, String)>, Unavailable> {
        let What::Layered { lowers, folder, writes } = self.what else { return Ok(None) };
        let lay = || -> io::Result<String> {
            let mut names = Vec::new();
            for (number, lower) in lowers.iter().enumerate() {
                symlink(lower, folder.join(number.to_string()))?;
                names.push(number.to_string());
            }
            if names.is_empty() {
                fs::create_dir(folder.join("nothing"))?;
                names.push("nothing".to_owned());
            }
            for own in [UPPER, "work"] {
                match writes {
                    MountWrites::Remembered => fs::create_dir(folder.join(own))?,
                    // The script creates them in the tmpfs, which exists by then.
                    MountWrites::Forgotten => symlink(room.join(format!("{own}{number}")), folder.join(own))?,
                }
            }
            Ok(names.join(":"))
        };
        lay().map(|names| Some((folder, names))).map_err(|source| Unavailable::scratch(folder, source))
    }
}
