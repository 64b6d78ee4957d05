//! Folders of the harness's that a check sees besides its tree: what was provisioned, and build caches.
//!
//! **Invariant:** a lower folder is never written: what a check does to it goes elsewhere, and whether
//! that is remembered is the caller's to decide, afterwards.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Component, Path, PathBuf};

use super::{CheckFence, Unavailable};

/// Where folders are that are not part of the tree; nothing else is there.
pub const CACHES: &str = "/var/cache/check";

#[derive(Clone, Copy, Debug)]
pub struct Kept<'a> {
    /// Relative to the tree, an absolute path in [`CACHES`], or the very path that is shown.
    pub at: &'a Path,
    pub what: What<'a>,
}

#[derive(Clone, Copy, Debug)]
pub enum What<'a> {
    ReadOnly(&'a Path),
    /// What is written stays there.
    Writable(&'a Path),
    /// These as one folder, the first on top.
    Layered {
        lowers: &'a [PathBuf],
        /// Empty, and of the caller's: it gets what holds the mount together.
        folder: &'a Path,
        writes: Writes,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writes {
    /// Into the room of the check, within its bound.
    Forgotten,
    /// Into [`UPPER`] in the folder, as an overlay keeps it. Without a bound, and not on every file system.
    Remembered,
}

/// What a check wrote, where it is remembered.
pub const UPPER: &str = "upper";

impl<'a> Kept<'a> {
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
        // An absolute path stays what it is.
        fence.at.join(self.at)
    }

    /// Something of the machine, seen where it is.
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

    /// Lays out what the script mounts, with names that are short and ours: the folder, and the names of
    /// the lowers in it, joined as the mount wants them.
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
                    Writes::Remembered => fs::create_dir(folder.join(own))?,
                    // Made by the script, in a room that is there by then.
                    Writes::Forgotten => symlink(room.join(format!("{own}{number}")), folder.join(own))?,
                }
            }
            Ok(names.join(":"))
        };
        lay().map(|names| Some((folder, names))).map_err(|source| Unavailable::scratch(folder, source))
    }
}
