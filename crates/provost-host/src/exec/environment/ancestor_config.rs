//! Watches the folders above the tree of a check for changed configuration files.
//!
//! Tools look for configuration in these folders, and an unsandboxed agent can write there. Files from
//! before the first agent belong to the user and are allowed; files that were added or changed later are
//! not. Only names and attributes are compared: no program can set a file's ctime.

use std::collections::BTreeMap;
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use provost_core::language::test_files;
use rustix::fs::{Access, access};

/// Most entries that are compared inside a configuration folder.
const MOST: usize = 1000;

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Above(BTreeMap<PathBuf, Mark>);

/// Attributes of a file at the time of the snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mark {
    identity: (u64, u64),
    size: u64,
    changed: (i64, i64),
}

impl Above {
    /// Takes a snapshot of every folder above `tree` that this user can write.
    pub(super) fn look(tree: &Path) -> Self {
        let mut seen = BTreeMap::new();
        for folder in tree.ancestors().skip(1).filter(|folder| access(*folder, Access::WRITE_OK).is_ok()) {
            for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
                if entry.file_name().to_str().is_some_and(test_files::is_found_above) {
                    note(&entry.path(), &mut seen);
                }
            }
        }
        Self(seen)
    }

    /// Returns a path that was added, changed or removed since the snapshot.
    pub(super) fn changed(&self, tree: &Path) -> Option<PathBuf> {
        let Self(now) = Self::look(tree);
        let is_new = |path: &&PathBuf| self.0.get(*path) != now.get(*path);
        now.keys().find(is_new).or_else(|| self.0.keys().find(is_new)).cloned()
    }
}

/// Records a path; a configuration folder is recorded with its entries.
fn note(path: &Path, seen: &mut BTreeMap<PathBuf, Mark>) {
    let Ok(found) = fs::symlink_metadata(path) else { return };
    seen.insert(path.to_path_buf(), mark(&found));
    // Also follows a link to a folder.
    if path.is_dir() {
        for entry in fs::read_dir(path).into_iter().flatten().flatten().take(MOST) {
            if let Ok(found) = entry.metadata() {
                seen.insert(entry.path(), mark(&found));
            }
        }
    }
}

fn mark(found: &Metadata) -> Mark {
    // A folder's own times and size change with its entries, which are recorded by name.
    let (size, changed) = match found.is_dir() {
        true => (0, (0, 0)),
        false => (found.size(), (found.ctime(), found.ctime_nsec())),
    };
    Mark { identity: (found.dev(), found.ino()), size, changed }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_or_changes_above_the_tree_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let tree = at("state/trees/worktree");
        fs::create_dir_all(&tree).unwrap();
        fs::create_dir(at(".cargo")).unwrap();
        fs::write(at(".cargo/config.toml"), "mine").unwrap();
        let above = Above::look(&tree);
        fs::write(at("notes.md"), "").unwrap();
        fs::write(tree.join("conftest.py"), "").unwrap();
        assert_eq!(above.changed(&tree), None);
        for name in ["state/conftest.py", ".cargo/config"] {
            fs::write(at(name), "").unwrap();
            assert_eq!(above.changed(&tree), Some(at(name)));
            fs::remove_file(at(name)).unwrap();
            assert_eq!(above.changed(&tree), None);
        }
        fs::write(at(".cargo/config.toml"), "ours").unwrap();
        assert_eq!(above.changed(&tree), Some(at(".cargo/config.toml")));
    }
}
