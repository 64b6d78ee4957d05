//! Gives every check the program `provost-check`: provost's own file under another name.
//!
//! In the sandbox of `clean` the file is mounted read-only; at other levels a link leads to it. It is first
//! on the `PATH` of the check, so no program of the work takes its place. A link and its folder serve one check
//! at a time, and the next one only if they are still as they were made.
//!
//! **Invariant:** if the program is not there, checks run without it.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, DirEntry, File};
use std::io::{self, Read as _};
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use provost_core::language::recipes;
use provost_core::model::hash::Hash;
use provost_core::model::verdict::ToolVersion;
use rustix::process::geteuid;
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;

use super::ExecEnv;
use crate::check::judge::{self, SuppliedTools};
use crate::sandbox::{CACHES, CheckMount, What};

/// Length, inode and time of a file.
type Stamp = (u64, u64, i64, i64);

/// provost's own program, for checks.
pub(super) struct CheckHelper {
    program: PathBuf,
    /// Folders that no check uses now.
    free: Mutex<Vec<TempDir>>,
}

/// A folder with a link to the program. It is free again when this is dropped.
pub(super) struct HelperFolder<'h> {
    helper: &'h CheckHelper,
    folder: Option<TempDir>,
}

impl HelperFolder<'_> {
    pub(super) fn path(&self) -> Option<&Path> {
        self.folder.as_ref().map(TempDir::path)
    }
}

impl Drop for HelperFolder<'_> {
    fn drop(&mut self) {
        self.helper.free().extend(self.folder.take());
    }
}

impl CheckHelper {
    /// Returns the program that also starts agents and sandboxes, if its path is known.
    pub(super) fn of(launcher: &[OsString]) -> Option<Self> {
        let program = PathBuf::from(launcher.first()?);
        program.is_absolute().then(|| Self { program, free: Mutex::default() })
    }

    pub(super) fn program(&self) -> &Path {
        &self.program
    }

    pub(super) fn is_there(&self) -> bool {
        self.program.is_file()
    }

    /// Returns its path in the sandbox of a check.
    pub(super) fn fenced() -> PathBuf {
        Path::new(CACHES).join("helper").join(recipes::PROGRAM)
    }

    pub(super) fn mount<'a>(&'a self, at: &'a Path) -> CheckMount<'a> {
        CheckMount { at, what: What::ReadOnly(&self.program) }
    }

    /// Returns a folder with a link to the program, for one check without such a sandbox.
    pub(super) fn in_folder(&self) -> HelperFolder<'_> {
        let make = || -> io::Result<TempDir> {
            let folder = tempfile::Builder::new().prefix("helper-").tempdir_in(judge::private_folder()?)?;
            symlink(&self.program, folder.path().join(recipes::PROGRAM))?;
            Ok(folder)
        };
        let free = || self.free().pop().filter(|folder| self.is_as_made(folder.path()));
        let folder = self.is_there().then(|| free().or_else(|| make().ok())).flatten();
        HelperFolder { helper: self, folder }
    }

    /// Returns whether a folder has the link and nothing else. A check can have written there.
    fn is_as_made(&self, folder: &Path) -> bool {
        let is_link = |entry: io::Result<DirEntry>| {
            let found = entry.and_then(|entry| fs::read_link(entry.path()).map(|to| (entry.file_name(), to)));
            found.is_ok_and(|(name, to)| name == recipes::PROGRAM && to == self.program)
        };
        let is_folder = fs::symlink_metadata(folder)
            .is_ok_and(|found| found.is_dir() && found.uid() == geteuid().as_raw());
        is_folder
            && folder.read_dir().is_ok_and(|entries| {
                let links: Vec<bool> = entries.take(2).map(is_link).collect();
                links == [true]
            })
    }

    fn free(&self) -> MutexGuard<'_, Vec<TempDir>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns its path, version and digest, for a verdict.
    pub(super) fn version(&self) -> Option<ToolVersion> {
        let digest = digest(&self.program).ok()?;
        let version = format!("{} {} sha256:{digest}", recipes::PROGRAM, env!("CARGO_PKG_VERSION"));
        Some(ToolVersion { path: self.program.display().to_string(), version })
    }
}

impl ExecEnv {
    /// Returns the environment with this folder first on `PATH`, for a tree at this path.
    pub(super) fn with_helper(
        &self,
        env: &[(OsString, OsString)],
        folder: Option<&Path>,
        (root, supplied): (&Path, &[SuppliedTools]),
    ) -> Vec<(OsString, OsString)> {
        let mut env = env.to_vec();
        let Some(folder) = folder else { return env };
        let given = self.tools.variables(root, supplied);
        let is_path = |(name, _): &&(OsString, OsString)| name == "PATH";
        let path = env.iter().rev().find(is_path).or_else(|| given.iter().rev().find(is_path));
        let mut whole = folder.as_os_str().to_owned();
        if let Some((_, path)) = path {
            whole.push(OsStr::new(":"));
            whole.push(path);
        }
        env.push(("PATH".into(), whole));
        env
    }
}

/// Returns the SHA-256 of a file. A file is read again only if it was replaced or written.
fn digest(path: &Path) -> io::Result<String> {
    static KNOWN: Mutex<BTreeMap<Stamp, String>> = Mutex::new(BTreeMap::new());
    let found = fs::metadata(path)?;
    let stamp = (found.len(), found.ino(), found.mtime(), found.mtime_nsec());
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(digest) = known.get(&stamp) {
        return Ok(digest.clone());
    }
    let (mut file, mut hasher) = (File::open(path)?, Sha256::new());
    let mut buffer = vec![0; 64 << 10];
    loop {
        match file.read(&mut buffer)? {
            0 => break,
            read => hasher.update(&buffer[..read]),
        }
    }
    let digest = Hash(hasher.finalize().into()).to_string();
    known.insert(stamp, digest.clone());
    Ok(digest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_serves_one_check_at_a_time_and_is_used_again_only_if_nothing_changed() {
        let helper = CheckHelper::of(&[std::env::current_exe().unwrap().into()]).unwrap();
        let taken = || helper.in_folder();
        let at = |folder: &HelperFolder<'_>| folder.path().unwrap().to_owned();
        let first = taken();
        let (one, other) = (at(&first), at(&taken()));
        assert_ne!(one, other);
        let changes: [fn(&Path); 4] = [
            |folder| fs::write(folder.join("git"), "a program of the work").unwrap(),
            |folder| fs::remove_file(folder.join(recipes::PROGRAM)).unwrap(),
            |folder| {
                fs::remove_file(folder.join(recipes::PROGRAM)).unwrap();
                symlink("/bin/true", folder.join(recipes::PROGRAM)).unwrap();
            },
            |folder| {
                fs::remove_file(folder.join(recipes::PROGRAM)).unwrap();
                fs::copy("/bin/true", folder.join(recipes::PROGRAM)).unwrap();
            },
        ];
        for change in changes {
            let before = at(&taken());
            assert_eq!(at(&taken()), before);
            let held = taken();
            change(&before);
            drop(held);
            assert_ne!(at(&taken()), before);
            assert!(!before.exists());
        }
        drop(first);
        assert_eq!(at(&taken()), one);
    }
}
