//! Folders of the harness's own: made for nobody else, copied, and removed whole, whatever a check did to
//! them.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;
use std::sync::OnceLock;

/// Made with all that leads to it, for nobody but this user.
pub fn make_private(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// As far as it goes. Folders that were closed are opened first; no link is followed.
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

/// A copy that shares nothing with the original: links as links, files with their modes and times.
pub fn copy(from: &Path, to: &Path) -> io::Result<()> {
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

/// By name, since a file may be read-only.
fn set_time(path: &Path, found: &fs::Metadata) -> io::Result<()> {
    let time = rustix::fs::Timespec { tv_sec: found.mtime(), tv_nsec: found.mtime_nsec() as _ };
    let times = rustix::fs::Timestamps { last_access: time, last_modification: time };
    Ok(rustix::fs::utimensat(rustix::fs::CWD, path, &times, rustix::fs::AtFlags::SYMLINK_NOFOLLOW)?)
}

/// Which boot of the machine this is: what was not synced is believed for no longer.
pub fn boot() -> &'static str {
    static BOOT: OnceLock<String> = OnceLock::new();
    BOOT.get_or_init(|| {
        let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        id.trim().to_owned()
    })
}
