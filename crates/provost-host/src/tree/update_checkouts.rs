//! Updates checkouts of a branch that has moved: their files and their index follow, if the user did not
//! change them.
//!
//! git is not run in the checkout. Files are written under a temporary name and renamed; the index is a
//! copy that git updates in the mirror, and that replaces the original under git's own lock.
//!
//! **Invariant:** a file that matches neither the old nor the new commit is not touched.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use provost_core::model::hash::Hash;
use rustix::fs::{AtFlags, FileType, Mode};
use rustix::io::Errno;

use super::commit::lock_with;
use super::merge::TreeDifference;
use super::mirror::Mirror;
use super::{Error, Trees};
use crate::files::safe_open;
use crate::git;

/// The state of a checkout's file relative to two commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stands {
    /// It matches only the older one.
    Old,
    New,
    /// It was changed.
    Neither,
}

impl Trees {
    /// Returns the files of the checkout that differ between two commits of the mirror and that were
    /// changed, in the folder or in the index.
    pub fn in_the_way(&self, checkout: &Path, old: &str, new: &str) -> Result<Vec<String>, Error> {
        let mut found = Vec::new();
        let staged = self.staged(checkout, old).unwrap_or_default();
        for (change, stands) in self.standing(checkout, old, new)? {
            let entry = staged.iter().find(|(path, _)| *path == change.path).map(|(_, entry)| entry);
            let of = |side: &Option<(String, String)>| side.as_ref() == entry;
            let is_staged = !staged.is_empty() && !of(&change.old) && !of(&change.new);
            if stands == Stands::Neither || is_staged {
                found.push(change.shown());
            }
        }
        Ok(found)
    }

    /// Updates files and index from one commit to the other. Returns `false` if the index could not be
    /// updated.
    pub fn arrive(&self, checkout: &Path, old: &str, new: &str) -> Result<bool, Error> {
        let standing = self.standing(checkout, old, new)?;
        let top = safe_open::top(checkout).map_err(|errno| Error::io("open", checkout, errno))?;
        let ids = standing.iter().filter_map(|(change, _)| Some(change.new.as_ref()?.1.as_str()));
        let blobs = self.blobs(ids.collect())?;
        // Removals first: another file may come at the same place.
        let (gone, come): (Vec<_>, Vec<_>) = standing.iter().partition(|(change, _)| change.new.is_none());
        for (change, stands) in gone.iter().chain(&come) {
            if *stands != Stands::Old || !change.is_of_files() {
                continue;
            }
            let written = match &change.new {
                None => remove(&top, &change.path),
                Some((mode, id)) => {
                    let mode = if mode == "100755" { 0o755 } else { 0o644 };
                    put(&top, &change.path, mode, blobs.get(id).map(Vec::as_slice).unwrap_or_default())
                }
            };
            written.map_err(|error| Error::io("write", &checkout.join(change.as_path()), error))?;
        }
        let changes: Vec<TreeDifference> = standing.into_iter().map(|(change, _)| change).collect();
        let all_files = changes.iter().all(TreeDifference::is_of_files);
        Ok(all_files && self.follow(checkout, old, &changes).is_ok())
    }

    fn standing(
        &self,
        checkout: &Path,
        old: &str,
        new: &str,
    ) -> Result<Vec<(TreeDifference, Stands)>, Error> {
        let differing = self.differing(old, new)?;
        let files = differing.iter().filter(|change| change.is_of_files());
        let ids = files.flat_map(|change| change.old.iter().chain(&change.new)).map(|(_, id)| id.as_str());
        let blobs = self.blobs(ids.collect())?;
        let top = safe_open::top(checkout).map_err(|errno| Error::io("open", checkout, errno))?;
        let stands = |change: &TreeDifference| {
            let there = digest(&top, &change.path)?;
            let of = |side: &Option<(String, String)>| {
                let digest = |(_, id): &(String, String)| blobs.get(id).map(|bytes| Hash::of(bytes));
                side.as_ref().and_then(digest) == there
            };
            Ok(if of(&change.new) {
                Stands::New
            } else if of(&change.old) {
                Stands::Old
            } else {
                Stands::Neither
            })
        };
        let each = |change: TreeDifference| {
            // Entries that are not files in either commit are left for their owner to update.
            let stands = if change.is_of_files() { stands(&change) } else { Ok(Stands::Old) };
            let failed = |error: io::Error| Error::io("read", &checkout.join(change.as_path()), error);
            stands.map_err(failed).map(|stands| (change.clone(), stands))
        };
        differing.into_iter().map(each).collect()
    }

    /// Returns the entries of the checkout's index: path, mode and object.
    fn staged(&self, checkout: &Path, commit: &str) -> Result<Vec<Staged>, Error> {
        let (_room, copy) = self.index_copy(checkout)?;
        let mirror = Mirror::open(&self.folder, &self.workspace, commit)?;
        let with = [("GIT_INDEX_FILE".into(), copy.into_os_string())];
        let listed = mirror.git(&["ls-files", "--stage", "-z"], b"", &with)?;
        let entries = listed.split(|byte| *byte == 0).filter_map(|line| {
            let tab = line.iter().position(|byte| *byte == b'\t')?;
            let head = String::from_utf8_lossy(&line[..tab]);
            let mut words = head.split(' ');
            let entry = (words.next()?.to_owned(), words.next()?.to_owned());
            Some((line[tab + 1..].to_vec(), entry))
        });
        Ok(entries.collect())
    }

    fn index_copy(&self, checkout: &Path) -> Result<(tempfile::TempDir, std::path::PathBuf), Error> {
        let building = self.folder.join("layers");
        let room = tempfile::tempdir_in(&building)
            .map_err(|error| Error::io("make a folder in", &building, error))?;
        let index = git::git_folder(checkout).unwrap_or_default().join("index");
        let copy = room.path().join("index");
        fs::copy(&index, &copy).map_err(|error| Error::io("read", &index, error))?;
        Ok((room, copy))
    }

    /// Updates the index of the checkout to the new state of the files.
    fn follow(&self, checkout: &Path, commit: &str, changes: &[TreeDifference]) -> Result<(), Error> {
        let folder = git::git_folder(checkout).unwrap_or_default();
        let (index, lock) = (folder.join("index"), folder.join("index.lock"));
        let (_room, copy) = self.index_copy(checkout)?;
        let read = |path: &Path| fs::read(path).map_err(|error| Error::io("read", path, error));
        let before = read(&copy)?;
        let mirror = Mirror::open(&self.folder, &self.workspace, commit)?;
        let with = [("GIT_INDEX_FILE".into(), copy.clone().into_os_string())];
        let mut listed = Vec::new();
        for change in changes {
            let (mode, id) = match &change.new {
                Some((mode, id)) => (mode.clone(), id.clone()),
                None => ("0".to_owned(), "0".repeat(mirror.id_length())),
            };
            listed.extend_from_slice(format!("{mode} {id}\t").as_bytes());
            listed.extend_from_slice(&change.path);
            listed.push(0);
        }
        mirror.git(&["update-index", "-z", "--index-info"], &listed, &with)?;
        let failed = |error: io::Error| Error::io("lock", &lock, error);
        let modified = fs::metadata(&index).and_then(|found| found.modified()).map_err(failed)?;
        lock_with(&folder, &lock, &read(&copy)?).map_err(failed)?;
        // git uses this time to decide which files may have changed just after they were examined.
        let _ = fs::File::open(&lock).and_then(|locked| locked.set_modified(modified));
        // If another program has changed the index meanwhile, its version wins.
        let written = match read(&index)? == before {
            true => fs::rename(&lock, &index).map_err(failed),
            false => Err(failed(io::ErrorKind::WouldBlock.into())),
        };
        if written.is_err() {
            let _ = fs::remove_file(&lock);
        }
        written
    }
}

type Staged = (Vec<u8>, (String, String));

/// Returns the digest of the file at a path, or `None` if there is nothing. For anything else:
/// [`Hash::NONE`].
fn digest(top: &OwnedFd, path: &[u8]) -> io::Result<Option<Hash>> {
    match safe_open::file(top, path) {
        Ok(file) if safe_open::stamp(&file)?.kind() == FileType::RegularFile => {
            safe_open::digest(&file).map(Some)
        }
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
        Ok(_) | Err(_) => Ok(Some(Hash::NONE)),
    }
}

fn parted(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|byte| *byte == b'/') {
        Some(slash) => (&path[..slash], &path[slash + 1..]),
        None => (b".", path),
    }
}

fn put(top: &OwnedFd, path: &[u8], mode: u32, bytes: &[u8]) -> io::Result<()> {
    let (folder, name) = parted(path);
    let folder = made(top, folder)?;
    let coming = [b".provost-", name].concat();
    let _ = rustix::fs::unlinkat(&folder, OsStr::from_bytes(&coming), AtFlags::empty());
    let mut file = safe_open::new_file(&folder, &coming, mode)?;
    file.write_all(bytes)?;
    rustix::fs::renameat(&folder, OsStr::from_bytes(&coming), &folder, OsStr::from_bytes(name))?;
    Ok(())
}

/// Opens the folder without following links; creates it if it does not exist.
fn made(top: &OwnedFd, path: &[u8]) -> io::Result<OwnedFd> {
    let mut here = safe_open::folder(top, b".").or_else(|_| rustix::io::dup(top))?;
    for name in path.split(|byte| *byte == b'/').filter(|name| !matches!(*name, b"" | b".")) {
        match rustix::fs::mkdirat(&here, OsStr::from_bytes(name), Mode::from_raw_mode(0o755)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno.into()),
        }
        here = safe_open::folder(&here, name)?;
    }
    Ok(here)
}

/// Removes a file and the folders that become empty, as git does.
fn remove(top: &OwnedFd, path: &[u8]) -> io::Result<()> {
    let mut path = path;
    let mut how = AtFlags::empty();
    loop {
        let (folder, name) = parted(path);
        let inside = made(top, folder)?;
        match rustix::fs::unlinkat(&inside, OsStr::from_bytes(name), how) {
            Err(errno) if how.is_empty() => return Err(errno.into()),
            Err(_) => return Ok(()),
            Ok(()) if folder == b"." => return Ok(()),
            Ok(()) => (path, how) = (folder, AtFlags::REMOVEDIR),
        }
    }
}
