//! Which libraries the programs of a check can use, by the times of the folders that hold them.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use provost_core::model::hash::Hash;

/// How exact the time of a change of a folder is, on any file system.
const TIME_OF_A_CHANGE: Duration = Duration::from_secs(2);

/// The libraries that programs can use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Libraries {
    /// Changes when a library is installed, upgraded or removed, but not when a file of one is edited in place.
    pub(crate) digest: Hash,
    /// When one was last installed, upgraded or removed.
    newest: SystemTime,
}

impl Libraries {
    /// Finds the libraries of programs by the prefixes where they are installed, and by the folders of version
    /// managers.
    pub(super) fn find(prefixes: &[PathBuf], managers: &[PathBuf]) -> Self {
        let mut newest = SystemTime::UNIX_EPOCH;
        let mut times = |top: &Path, depth| folder_times(top, depth, &mut newest);
        let mut parts: Vec<_> = prefixes.iter().map(|prefix| times(&prefix.join("lib"), 4)).collect();
        // A version manager has folders of versions above them.
        parts.extend(managers.iter().map(|folder| times(folder, 5)));
        Self { digest: Hash::of(&joined(&unique(parts))), newest }
    }

    /// Returns whether they may have been others at this time.
    pub(crate) fn may_have_changed_since(&self, time: SystemTime) -> bool {
        self.newest + TIME_OF_A_CHANGE >= time
    }
}

/// Returns the paths of the folders below `top`, each with the time when an entry was last added or removed.
/// `newest` becomes the latest of these times.
fn folder_times(top: &Path, depth: usize, newest: &mut SystemTime) -> Vec<u8> {
    let folders = ignore::WalkBuilder::new(top)
        .standard_filters(false)
        .max_depth(Some(depth))
        .filter_entry(|entry| entry.file_type().is_some_and(|kind| kind.is_dir()))
        .sort_by_file_name(Ord::cmp)
        .build();
    let mut times = Vec::new();
    for folder in folders.flatten() {
        let Ok(found) = folder.metadata() else { continue };
        times.extend_from_slice(folder.path().as_os_str().as_encoded_bytes());
        times.extend_from_slice(&found.mtime().to_le_bytes());
        times.extend_from_slice(&found.mtime_nsec().to_le_bytes());
        *newest = found.modified().map_or(*newest, |time| time.max(*newest));
    }
    times
}

/// Keeps the first of equal entries.
pub(super) fn unique<T: PartialEq>(entries: Vec<T>) -> Vec<T> {
    entries.into_iter().fold(Vec::new(), |mut unique, entry| {
        if !unique.contains(&entry) {
            unique.push(entry);
        }
        unique
    })
}

/// Joins the parts, each with its length before it, so that different lists give different bytes.
pub(super) fn joined(parts: &[Vec<u8>]) -> Vec<u8> {
    let mut all = Vec::with_capacity(parts.iter().map(|part| part.len() + 8).sum());
    for part in parts {
        all.extend_from_slice(&(part.len() as u64).to_le_bytes());
        all.extend_from_slice(part);
    }
    all
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};

    use super::*;

    fn set_time(folder: &Path, time: SystemTime) {
        File::open(folder).unwrap().set_modified(time).unwrap();
    }

    #[test]
    fn a_check_that_began_before_a_library_was_installed_may_have_seen_others() {
        let prefix = tempfile::tempdir().unwrap();
        let packages = prefix.path().join("lib/python3/site-packages");
        fs::create_dir_all(&packages).unwrap();
        let installed = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
        for folder in packages.ancestors().take(3) {
            set_time(folder, installed);
        }
        let find = || Libraries::find(&[prefix.path().to_path_buf()], &[]);
        let before = find();
        assert!(!before.may_have_changed_since(installed + Duration::from_secs(60)));
        assert!(before.may_have_changed_since(installed + Duration::from_secs(1)));
        assert_eq!(before.digest, find().digest);

        let upgraded = installed + Duration::from_secs(600);
        set_time(&packages, upgraded);
        let after = find();
        assert_ne!(before.digest, after.digest);
        assert!(after.may_have_changed_since(installed + Duration::from_secs(60)));
        assert!(!after.may_have_changed_since(upgraded + Duration::from_secs(60)));
    }
}
