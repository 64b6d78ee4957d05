//! A branch that is checked out has moved: its files and its index follow, where nobody changed them.
//!
//! Git is not run in the checkout. Files are written beside their places and renamed into them; the index
//! is a copy that git in the mirror has brought up to date, put in place under git's own lock.
//!
//! **Invariant:** a file that is neither as the branch had it nor as it has it now is not touched.

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
use super::mirror::Mirror;
use super::union::Differing;
use super::{Error, Trees};
use crate::git;
use crate::safe_open;

/// Where a file of a checkout stands between two commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stands {
    /// With the older one alone.
    Old,
    New,
    /// Somebody changed it.
    Neither,
}

impl Trees {
    /// Files of the checkout that differ between two commits of the mirror and were changed by somebody, in
    /// the folder or in the index.
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

    /// Brings files and index from one commit to the other. `false`, where the index could not follow.
    pub fn arrive(&self, checkout: &Path, old: &str, new: &str) -> Result<bool, Error> {
        let standing = self.standing(checkout, old, new)?;
        let top = safe_open::top(checkout).map_err(|errno| Error::io("open", checkout, errno))?;
        let ids = standing.iter().filter_map(|(change, _)| Some(change.new.as_ref()?.1.as_str()));
        let blobs = self.blobs(ids.collect())?;
        // What is gone goes first: something else may stand in its place.
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
        let changes: Vec<Differing> = standing.into_iter().map(|(change, _)| change).collect();
        let all_files = changes.iter().all(Differing::is_of_files);
        Ok(all_files && self.follow(checkout, old, &changes).is_ok())
    }

    fn standing(&self, checkout: &Path, old: &str, new: &str) -> Result<Vec<(Differing, Stands)>, Error> {
        let differing = self.differing(old, new)?;
        let files = differing.iter().filter(|change| change.is_of_files());
        let ids = files.flat_map(|change| change.old.iter().chain(&change.new)).map(|(_, id)| id.as_str());
        let blobs = self.blobs(ids.collect())?;
        let top = safe_open::top(checkout).map_err(|errno| Error::io("open", checkout, errno))?;
        let stands = |change: &Differing| {
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
        let each = |change: Differing| {
            // What is no file here or there is left for its owner to bring up to date.
            let stands = if change.is_of_files() { stands(&change) } else { Ok(Stands::Old) };
            let failed = |error: io::Error| Error::io("read", &checkout.join(change.as_path()), error);
            stands.map_err(failed).map(|stands| (change.clone(), stands))
        };
        differing.into_iter().map(each).collect()
    }

    /// The entries of the checkout's index: path, mode and object.
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

    /// The index of the checkout says what the files are now.
    fn follow(&self, checkout: &Path, commit: &str, changes: &[Differing]) -> Result<(), Error> {
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
        // By its time git knows which files may have changed in the moment after they were looked at.
        let _ = fs::File::open(&lock).and_then(|locked| locked.set_modified(modified));
        // Whoever wrote it meanwhile has the word.
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

/// What is at a path: nothing, or a file of this content. Whatever else is there has no digest of a file.
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

/// The folder, made where it is not there; no link leads to it.
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

/// With the folders that are empty then, as git does it.
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
