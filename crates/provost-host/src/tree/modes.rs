//! Decides whether a file or folder of a workspace has the permissions of its tree.
//!
//! git stores only the executable bit, so the same commit is checked out as 0644 by one user and as 0600 by
//! another. A difference that the umask explains, or that existed before the base was made, is not a
//! change.

use std::path::Path;
use std::sync::OnceLock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::index::EntryKind;
use crate::files::safe_open::FileStamp;

/// Knowledge about the permissions of unchanged files.
#[derive(Clone, Copy, Debug)]
pub(super) struct Modes {
    /// Time at which the lowest tree of the base was written.
    since: Option<Duration>,
}

impl Modes {
    /// `tree` is the folder of the base that was written completely.
    pub(super) fn since(tree: &Path) -> Self {
        let made = tree.metadata().and_then(|found| found.modified()).unwrap_or(SystemTime::UNIX_EPOCH);
        Self { since: made.duration_since(UNIX_EPOCH).ok() }
    }

    pub(super) fn are_those_of(&self, stamp: &FileStamp, base: EntryKind) -> bool {
        let now = EntryKind::of_file(stamp.mode);
        if now == base {
            return true;
        }
        if !matches!(base, EntryKind::File | EntryKind::Program) || now.as_in_git() != base {
            return false;
        }
        let by_umask = if base == EntryKind::Program { 0o777 } else { 0o666 } & !umask();
        self.is_older(stamp) || stamp.mode & 0o777 == by_umask
    }

    /// Returns whether the permissions of a folder are the usual ones, or older than the attempt. In trees,
    /// every folder has 0755.
    pub(super) fn are_usual_for_folder(&self, stamp: &FileStamp) -> bool {
        let mode = stamp.mode & 0o777;
        mode == 0o755 || mode == 0o777 & !umask() || self.is_older(stamp)
    }

    fn is_older(&self, stamp: &FileStamp) -> bool {
        let seconds = u64::try_from(stamp.changed.0).unwrap_or(0);
        let changed = Duration::new(seconds, u32::try_from(stamp.changed.1).unwrap_or(0));
        self.since.is_some_and(|since| changed < since)
    }
}

/// Returns the umask of this process, which is that of the person who started it.
fn umask() -> u32 {
    static UMASK: OnceLock<u32> = OnceLock::new();
    *UMASK.get_or_init(|| {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("Umask:"));
        line.and_then(|word| u32::from_str_radix(word.trim(), 8).ok()).unwrap_or(0o022)
    })
}
