//! Creates, copies and removes provost's own folders: readable by this user only, and removed completely
//! even if a check changed their permissions.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;
use std::sync::OnceLock;

/// Creates the folder and its parents with mode 0700.
pub fn make_private(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Removes a folder as far as possible. Makes unreadable folders readable first; follows no symbolic link.
pub fn remove(path: &Path) {
    if fs::remove_dir_all(path).is_err() {
        open_up(path);
        let _ = fs::remove_dir_all(path);
    }
}

fn open_up(folder: &Path) {
    let Ok(found) = fs::symlink_metadata(folder) else { return };
    if !found.is_dir() {
        return;
    }
    if found.permissions().mode() & 0o700 != 0o700 {
        let _ = fs::set_permissions(folder, Permissions::from_mode(0o700));
    }
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            open_up(&entry.path());
        }
    }
}

/// Copies a folder so that nothing is shared with the original: links as links, files with modes and times.
pub(crate) fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (found, place) = (entry.metadata()?, to.join(entry.file_name()));
        if found.is_dir() {
            copy(&entry.path(), &place)?;
        } else if found.is_symlink() {
            symlink(fs::read_link(entry.path())?, &place)?;
        } else if found.is_file() {
            fs::copy(entry.path(), &place)?;
            set_time(&place, &found)?;
        }
    }
    Ok(())
}

/// Sets the time by path, because a read-only file cannot be opened for writing.
fn set_time(path: &Path, found: &fs::Metadata) -> io::Result<()> {
    let time = rustix::fs::Timespec { tv_sec: found.mtime(), tv_nsec: found.mtime_nsec() as _ };
    let times = rustix::fs::Timestamps { last_access: time, last_modification: time };
    Ok(rustix::fs::utimensat(rustix::fs::CWD, path, &times, rustix::fs::AtFlags::SYMLINK_NOFOLLOW)?)
}

/// Returns the boot id of the machine. Data that was not synced is trusted only within the same boot.
pub(crate) fn boot() -> &'static str {
    static BOOT: OnceLock<String> = OnceLock::new();
    BOOT.get_or_init(|| {
        let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        id.trim().to_owned()
    })
}
