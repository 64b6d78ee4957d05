//! Replaces a file's text if it still is the expected text, and leaves it unchanged otherwise.
//!
//! With reading, comparing and renaming, an editor's save in between would be lost. So the new file is
//! exchanged with the old one atomically, and the old one is checked afterwards: if it is not the expected
//! text, it is put back. One case remains: an editor that opened the file before the exchange and writes
//! into it afterwards; no file system can report that.

use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use provost_core::model::hash::Hash;
use rustix::fs::{CWD, RenameFlags};
use rustix::io::Errno;
use tempfile::NamedTempFile;

use super::{Error, PlanFileStamp, read};
use crate::files::bounded_lock;

/// Most exchanges while putting a file back; only a program saves more often in a row.
const EXCHANGES: usize = 32;

/// Replaces the text at `path` by `new`, if it still has the hash `expected`. The file keeps its
/// permissions; a link stays a link.
pub fn replace(path: &Path, expected: &Hash, new: &[u8]) -> Result<PlanFileStamp, Error> {
    replace_within(bounded_lock::PATIENCE, path, expected, new)
}

fn replace_within(
    patience: Duration,
    path: &Path,
    expected: &Hash,
    new: &[u8],
) -> Result<PlanFileStamp, Error> {
    let path = &path.canonicalize().map_err(Error::io(path, "find"))?;
    let folder = path.parent().unwrap_or(Path::new("/"));
    // The lock excludes other provost processes; the exchange protects against all other programs, and
    // against a process that keeps the lock.
    let held = File::open(folder).map_err(Error::io(folder, "open"))?;
    let locked = bounded_lock::exclusive(&held, patience);

    if read(path)?.hash != *expected {
        return Err(changed(path, None));
    }
    let fresh = prepared(path, folder, new)?;
    match exchange(fresh.path(), path) {
        Ok(()) => settle(path, expected, new, fresh, &held),
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP | Errno::OPNOTSUPP) if locked => {
            rename(path, expected, fresh, &held)
        }
        Err(errno) => Err(Error::io(path, "replace")(errno.into())),
    }
}

/// Creates a file; an existing one stays unchanged and is an error.
pub fn create(path: &Path, new: &[u8]) -> Result<(), Error> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    let mut fresh = tempfile::Builder::new()
        .prefix(".provost-")
        .suffix(".tmp")
        .permissions(std::fs::Permissions::from_mode(0o644))
        .tempfile_in(folder)
        .map_err(Error::io(path, "write"))?;
    fresh.write_all(new).map_err(Error::io(path, "write"))?;
    fresh.as_file().sync_all().map_err(Error::io(path, "write"))?;
    match fresh.persist_noclobber(path) {
        Ok(_) => {}
        Err(error) if error.error.kind() == std::io::ErrorKind::AlreadyExists => {
            return Err(Error::Exists { path: path.to_owned() });
        }
        Err(error) => return Err(Error::io(path, "write")(error.error)),
    }
    // Makes the name as durable as the text.
    let _ = File::open(folder).and_then(|folder| folder.sync_all());
    Ok(())
}

/// Writes the new text to a temporary file in the same folder, with the same permissions, and syncs it. The
/// file is removed on every error.
fn prepared(path: &Path, folder: &Path, new: &[u8]) -> Result<NamedTempFile, Error> {
    let failed = |attempted| Error::io(path, attempted);
    let mut fresh = tempfile::Builder::new()
        .prefix(".provost-")
        .suffix(".tmp")
        .tempfile_in(folder)
        .map_err(failed("write beside"))?;
    fresh.write_all(new).map_err(failed("write beside"))?;
    let permissions = path.metadata().map_err(failed("look at"))?.permissions();
    fresh.as_file().set_permissions(permissions).map_err(failed("keep the permissions of"))?;
    fresh.as_file().sync_all().map_err(failed("write beside"))?;
    Ok(fresh)
}

fn exchange(one: &Path, other: &Path) -> Result<(), Errno> {
    rustix::fs::renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE)
}

/// Checks the old file after the exchange; `fresh` is its name now.
fn settle(
    path: &Path,
    expected: &Hash,
    new: &[u8],
    fresh: NamedTempFile,
    held: &File,
) -> Result<PlanFileStamp, Error> {
    let out = read(fresh.path()).map(|text| text.hash);
    if out.as_ref().is_ok_and(|out| out == expected) {
        let _ = held.sync_all();
        // The stamp of our own file: another file may have the name already.
        let metadata = fresh.as_file().metadata().map_err(Error::io(path, "look at"))?;
        return Ok(PlanFileStamp::of(&metadata));
    }
    put_back(path, Hash::of(new), out.ok(), fresh)
}

/// Exchanges until our own text comes out: then the newest edit is in place again.
fn put_back(
    path: &Path,
    ours: Hash,
    out: Option<Hash>,
    fresh: NamedTempFile,
) -> Result<PlanFileStamp, Error> {
    let mut placed = Some(ours);
    let mut out = out;
    for _ in 0..EXCHANGES {
        exchange(fresh.path(), path).map_err(|errno| Error::io(path, "put back")(errno.into()))?;
        let back = read(fresh.path()).ok().map(|text| text.hash);
        if back == placed {
            break;
        }
        (placed, out) = (out, back);
    }
    let left = read(fresh.path()).ok().map(|text| text.hash);
    if left == Some(ours) {
        return Err(changed(path, None));
    }
    // Two others wrote while the first edit was put back: the later edit is in place, the earlier one is
    // saved.
    Err(changed(path, keep(path, left, fresh)))
}

fn keep(path: &Path, left: Option<Hash>, fresh: NamedTempFile) -> Option<PathBuf> {
    let name = path.file_name()?.to_string_lossy();
    let digest = left.map_or_else(|| "unread".to_owned(), |hash| hash.to_string()[..8].to_owned());
    let copy = path.with_file_name(format!("{name}.conflict-{digest}"));
    fresh.persist(&copy).ok().map(|_| copy)
}

/// Fallback for file systems without exchange: compares again under the lock and renames.
fn rename(path: &Path, expected: &Hash, fresh: NamedTempFile, held: &File) -> Result<PlanFileStamp, Error> {
    if read(path)?.hash != *expected {
        return Err(changed(path, None));
    }
    let file = fresh.persist(path).map_err(|error| Error::io(path, "replace")(error.error))?;
    let _ = held.sync_all();
    let metadata = file.metadata().map_err(Error::io(path, "look at"))?;
    Ok(PlanFileStamp::of(&metadata))
}

fn changed(path: &Path, kept: Option<PathBuf>) -> Error {
    Error::Changed { path: path.to_owned(), kept }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Like `replace` on a file system without exchange.
    fn replace_by_rename(path: &Path, expected: &Hash, new: &[u8]) -> Result<PlanFileStamp, Error> {
        let folder = path.parent().expect("a folder");
        let held = File::open(folder).expect("the folder");
        held.lock().expect("a lock");
        rename(path, expected, prepared(path, folder, new)?, &held)
    }

    #[test]
    fn without_exchange_a_changed_file_is_left_alone_too() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("PLAN.md");
        std::fs::write(&path, "one").expect("written");
        let stamp = replace_by_rename(&path, &Hash::of(b"one"), b"two").expect("replaced");
        assert_eq!(stamp, super::super::stamp(&path).expect("a stamp"));
        assert!(matches!(replace_by_rename(&path, &Hash::of(b"one"), b"three"), Err(Error::Changed { .. })));
        assert_eq!(std::fs::read(&path).expect("read"), b"two");
        assert_eq!(folder.path().read_dir().expect("entries").count(), 1);
    }

    #[test]
    fn a_process_that_keeps_the_lock_of_the_folder_holds_no_one_up() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("PLAN.md");
        std::fs::write(&path, "one").expect("written");
        let keeper = File::open(folder.path()).expect("the folder");
        keeper.lock().expect("a lock");
        replace_within(Duration::ZERO, &path, &Hash::of(b"one"), b"two").expect("replaced");
        assert_eq!(std::fs::read(&path).expect("read"), b"two");
    }

    #[test]
    fn a_new_plan_takes_no_place_that_is_taken() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("PLAN-a.md");
        create(&path, b"one").expect("created");
        assert!(matches!(create(&path, b"two"), Err(Error::Exists { .. })));
        assert_eq!(std::fs::read(&path).expect("read"), b"one");
        assert_eq!(folder.path().read_dir().expect("entries").count(), 1);
    }

    #[test]
    fn an_edit_that_slipped_in_before_the_exchange_comes_back() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("PLAN.md");
        std::fs::write(&path, "an edit").expect("written");
        let fresh = prepared(&path, folder.path(), b"ours").expect("prepared");
        exchange(fresh.path(), &path).expect("exchanged");
        let held = File::open(folder.path()).expect("the folder");
        let answer = settle(&path, &Hash::of(b"what we read"), b"ours", fresh, &held);
        assert!(matches!(answer, Err(Error::Changed { kept: None, .. })));
        assert_eq!(std::fs::read(&path).expect("read"), b"an edit");
        assert_eq!(folder.path().read_dir().expect("entries").count(), 1);
    }

    #[test]
    fn of_two_edits_that_slipped_in_the_later_stands_and_the_earlier_is_kept() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("PLAN.md");
        std::fs::write(&path, "first edit").expect("written");
        let fresh = prepared(&path, folder.path(), b"ours").expect("prepared");
        exchange(fresh.path(), &path).expect("exchanged");
        std::fs::write(&path, "second edit").expect("written");
        let out = Some(Hash::of(b"first edit"));
        let answer = put_back(&path, Hash::of(b"ours"), out, fresh);
        let Err(Error::Changed { kept: Some(kept), .. }) = answer else { panic!("{answer:?}") };
        assert_eq!(std::fs::read(&path).expect("read"), b"second edit");
        assert_eq!(std::fs::read(&kept).expect("read"), b"first edit");
    }
}
