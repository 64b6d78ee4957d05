//! Writes a tree, file by file, into an empty place.
//!
//! Files are written first and links last, so that nothing is ever written through a link, whatever a tree
//! contains. Modes are those of the tree (by default 0644, and 0755 for programs and folders), whatever the
//! umask is: a check sees the same on every machine.
//!
//! **Invariant:** a link is made only if it stays inside the tree: it is relative, and all its `..` come
//! first and do not go further up than the link is deep. Links that all follow this rule cannot lead out in
//! combination either.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::Duration;

use provost_core::model::hash::Hash;
use rustix::fs::{AtFlags, Mode, Timestamps};
use rustix::io::Errno;

use super::Error;
use super::index::{EntryKind, Index, Leaf, TreeDraft};
use crate::files::safe_open;

/// Files that wait for a writer. None is larger than a mebibyte.
const WAITING_FILES: usize = 16;

/// A tree that is being written.
pub(super) struct TreeWriter<'a> {
    pub path: PathBuf,
    top: OwnedFd,
    folders: BTreeSet<Vec<u8>>,
    links: BTreeMap<Vec<u8>, Vec<u8>>,
    pub draft: TreeDraft<'a>,
}

impl<'a> TreeWriter<'a> {
    /// Begins in a new, empty folder. `draft` collects the list of its content.
    pub(super) fn begin(path: PathBuf, draft: TreeDraft<'a>) -> Result<Self, Error> {
        make_folder(&path)?;
        let top = safe_open::top(&path).map_err(|errno| Error::io("open", &path, errno))?;
        Ok(Self { path, top, folders: BTreeSet::new(), links: BTreeMap::new(), draft })
    }

    /// Continues in a tree that has these files and folders, without a list of content.
    pub(super) fn go_on<'p>(
        path: PathBuf,
        files: impl Iterator<Item = &'p Path>,
        folders: impl Iterator<Item = &'p Path>,
    ) -> Result<Self, Error> {
        let top = safe_open::top(&path).map_err(|errno| Error::io("open", &path, errno))?;
        let above = files.flat_map(|file| file.ancestors().skip(1));
        let folders = above.chain(folders.flat_map(Path::ancestors));
        let folders = folders.map(|folder| folder.as_os_str().as_bytes().to_vec()).collect();
        Ok(Self { path, top, folders, links: BTreeMap::new(), draft: TreeDraft::default() })
    }

    /// Creates a file. The caller writes it and afterwards records its content with `holds`.
    pub(super) fn file(&mut self, path: &[u8], kind: EntryKind) -> Result<File, Error> {
        self.make_parents(path)?;
        safe_open::new_file(&self.top, path, kind.mode()).map_err(|errno| self.refused(path, errno))
    }

    pub(super) fn write(&mut self, path: &[u8], kind: EntryKind, bytes: &[u8]) -> Result<(), Error> {
        self.make_parents(path)?;
        let leaf = write_new(&self.top, &self.path, path, kind, bytes)?;
        self.holds(path, leaf)
    }

    /// Writes files in several threads of `scope`, until [`FileWriters::end`].
    pub(super) fn writers<'s>(&self, scope: &'s Scope<'s, '_>) -> Result<FileWriters<'s>, Error> {
        let (send, receive) = mpsc::sync_channel(WAITING_FILES);
        let receive = Arc::new(Mutex::new(receive));
        let one = |_| {
            let top = rustix::io::dup(&self.top).map_err(|errno| Error::io("open", &self.path, errno))?;
            let (tree, receive) = (self.path.clone(), receive.clone());
            Ok(scope.spawn(move || write_all_new(&top, &tree, &receive)))
        };
        let threads = (0..parallelism()).map(one).collect::<Result<_, Error>>()?;
        Ok(FileWriters { send, threads })
    }

    /// Lets one of the writers write this file. Its content is recorded when they end.
    pub(super) fn write_later(
        &mut self,
        writers: &FileWriters<'_>,
        path: Vec<u8>,
        kind: EntryKind,
        bytes: Vec<u8>,
    ) -> Result<(), Error> {
        self.make_parents(&path)?;
        // It fails if all writers have failed; they say so when they end.
        let _ = writers.send.send(NewFile { path, kind, bytes });
        Ok(())
    }

    pub(super) fn holds(&mut self, path: &[u8], leaf: Leaf) -> Result<(), Error> {
        self.draft.set(path, leaf).map_err(|error| Error::io("note", &self.at(path), error))
    }

    /// Records a link, which is created after all files.
    pub(super) fn link(&mut self, path: &[u8], target: &[u8]) -> Result<(), Error> {
        self.links.insert(path.to_vec(), target.to_vec());
        self.holds(path, Leaf { kind: EntryKind::Link, digest: Hash::of(target), size: target.len() as u64 })
    }

    /// Returns the target of a link that will be created.
    pub(super) fn target(&self, path: &[u8]) -> Option<&[u8]> {
        self.links.get(path).map(Vec::as_slice)
    }

    pub(super) fn folder(&mut self, path: &[u8]) -> Result<(), Error> {
        self.make_folder(path)?;
        self.draft.folder(path).map_err(|error| Error::io("note", &self.at(path), error))
    }

    /// Adds the same file or link as in another tree of provost, which is never written.
    pub(super) fn share(&mut self, path: &[u8], source: &Path, kind: EntryKind) -> Result<(), Error> {
        if kind == EntryKind::Link {
            let target = std::fs::read_link(source).map_err(|error| Error::io("read", source, error))?;
            self.links.insert(path.to_vec(), target.into_os_string().into_vec());
            return Ok(());
        }
        self.make_parents(path)?;
        let name = OsStr::from_bytes(path);
        match rustix::fs::linkat(rustix::fs::CWD, source, &self.top, name, AtFlags::empty()) {
            Ok(()) => Ok(()),
            Err(Errno::EXIST) => Err(self.refused(path, Errno::EXIST)),
            // Too many links to one file, or a file system without hard links.
            Err(_) => self.copy(path, source, kind).map(|_| ()),
        }
    }

    /// Adds a copy of the content as a separate file.
    pub(super) fn copy(&mut self, path: &[u8], source: &Path, kind: EntryKind) -> Result<File, Error> {
        let mut from = File::open(source).map_err(|error| Error::io("open", source, error))?;
        let mut to = self.file(path, kind)?;
        io::copy(&mut from, &mut to).map_err(|error| Error::io("write", &self.at(path), error))?;
        Ok(to)
    }

    /// Creates the links. The tree is complete then.
    pub(super) fn finish(mut self) -> Result<TreeDraft<'a>, Error> {
        for (path, target) in std::mem::take(&mut self.links) {
            self.make_parents(&path)?;
            rustix::fs::symlinkat(OsStr::from_bytes(&target), &self.top, OsStr::from_bytes(&path))
                .map_err(|errno| self.refused(&path, errno))?;
        }
        Ok(self.draft)
    }

    /// Sets the mtime of a written file.
    pub(super) fn set_time(&self, path: &[u8], modified: Duration) -> Result<(), Error> {
        let time = rustix::fs::Timespec {
            tv_sec: modified.as_secs().try_into().unwrap_or_default(),
            tv_nsec: modified.subsec_nanos().into(),
        };
        let times = Timestamps { last_access: time, last_modification: time };
        let (name, flags) = (OsStr::from_bytes(path), AtFlags::SYMLINK_NOFOLLOW);
        rustix::fs::utimensat(&self.top, name, &times, flags).map_err(|errno| self.refused(path, errno))
    }

    fn make_parents(&mut self, path: &[u8]) -> Result<(), Error> {
        match path.iter().rposition(|byte| *byte == b'/') {
            Some(slash) => self.make_folder(&path[..slash]),
            None => Ok(()),
        }
    }

    fn make_folder(&mut self, path: &[u8]) -> Result<(), Error> {
        if self.folders.contains(path) {
            return Ok(());
        }
        self.make_parents(path)?;
        let (name, mode) = (OsStr::from_bytes(path), Mode::from_raw_mode(0o755));
        rustix::fs::mkdirat(&self.top, name, mode).map_err(|errno| self.refused(path, errno))?;
        // The umask may have changed the mode.
        rustix::fs::chmodat(&self.top, name, mode, AtFlags::empty())
            .map_err(|errno| self.refused(path, errno))?;
        self.folders.insert(path.to_vec());
        Ok(())
    }

    fn at(&self, path: &[u8]) -> PathBuf {
        self.path.join(OsStr::from_bytes(path))
    }

    fn refused(&self, path: &[u8], errno: Errno) -> Error {
        refused(&self.path, path, errno)
    }
}

/// A file that one of the writers is to write.
struct NewFile {
    path: Vec<u8>,
    kind: EntryKind,
    bytes: Vec<u8>,
}

type Written = Result<Vec<(Vec<u8>, Leaf)>, Error>;

/// Threads that write files into a tree.
pub(super) struct FileWriters<'s> {
    send: SyncSender<NewFile>,
    threads: Vec<ScopedJoinHandle<'s, Written>>,
}

impl FileWriters<'_> {
    /// Waits until all files are written, and records their content.
    pub(super) fn end(self, checkout: &mut TreeWriter<'_>) -> Result<(), Error> {
        drop(self.send);
        let ended: Vec<_> = self.threads.into_iter().map(|thread| thread.join()).collect();
        for written in ended {
            let lost = |_| Err(Error::io("write", &checkout.path, io::Error::other("a thread ended")));
            for (path, leaf) in written.unwrap_or_else(lost)? {
                checkout.holds(&path, leaf)?;
            }
        }
        Ok(())
    }
}

fn write_all_new(top: &OwnedFd, tree: &Path, files: &Mutex<Receiver<NewFile>>) -> Written {
    let mut written = Vec::new();
    loop {
        let next = files.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(NewFile { path, kind, bytes }) = next else { return Ok(written) };
        let leaf = write_new(top, tree, &path, kind, &bytes)?;
        written.push((path, leaf));
    }
}

fn write_new(top: &OwnedFd, tree: &Path, path: &[u8], kind: EntryKind, bytes: &[u8]) -> Result<Leaf, Error> {
    let mut file = safe_open::new_file(top, path, kind.mode()).map_err(|errno| refused(tree, path, errno))?;
    let at = || tree.join(OsStr::from_bytes(path));
    file.write_all(bytes).map_err(|error| Error::io("write", &at(), error))?;
    Ok(Leaf { kind, digest: Hash::of(bytes), size: bytes.len() as u64 })
}

fn refused(tree: &Path, path: &[u8], errno: Errno) -> Error {
    match errno {
        // A new tree is empty, so two of its names are the same on this file system.
        Errno::EXIST | Errno::NOTDIR => Error::Clash { path: lossy(path) },
        _ => Error::io("write", &tree.join(OsStr::from_bytes(path)), errno),
    }
}

/// Returns how many threads or processes make a tree together.
pub(super) fn parallelism() -> usize {
    thread::available_parallelism().map_or(1, |cores| cores.get().min(4))
}

type WriteFile<'a> = dyn FnMut(&mut TreeWriter<'_>, &[u8], EntryKind) -> Result<(), Error> + 'a;

/// Writes everything that an index lists: files by `file`, folders and links as they are at `place_of` the
/// path.
pub(super) fn fill(
    checkout: &mut TreeWriter<'_>,
    index: &Index,
    place_of: &dyn Fn(&[u8]) -> PathBuf,
    file: &mut WriteFile<'_>,
) -> Result<(), Error> {
    let mut failed = None;
    let walked = index.walk(b"", index.root(), &mut |path, entry| {
        let done = match entry.kind {
            kind @ (EntryKind::File | EntryKind::Program | EntryKind::Moded(_)) => file(checkout, path, kind),
            EntryKind::Folder => checkout.make_folder(path),
            EntryKind::Link => {
                let target = std::fs::read_link(place_of(path))?;
                checkout.links.insert(path.to_vec(), target.into_os_string().into_vec());
                Ok(())
            }
        };
        done.map_err(|error| {
            failed = Some(error);
            io::Error::from(io::ErrorKind::Interrupted)
        })
    });
    match (failed, walked) {
        (Some(error), _) => Err(error),
        (None, Err(error)) => Err(Error::io("read", &place_of(b""), error)),
        (None, Ok(())) => Ok(()),
    }
}

/// Creates a folder with the mode that all folders of trees have.
pub(super) fn make_folder(path: &Path) -> Result<(), Error> {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::create_dir(path).map_err(|error| Error::io("make", path, error))?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755))
        .map_err(|error| Error::io("make", path, error))
}

/// Returns whether a link at `path` with this `target` stays inside the tree.
pub(super) fn stays_inside(path: &[u8], target: &[u8]) -> bool {
    let mut depth = path.iter().filter(|byte| **byte == b'/').count();
    let mut is_leading = true;
    if target.is_empty() || target.starts_with(b"/") {
        return false;
    }
    for part in target.split(|byte| *byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." if is_leading && depth > 0 => depth -= 1,
            // After a name, `..` is the parent of the place to which that name leads.
            b".." => return false,
            _ => is_leading = false,
        }
    }
    true
}

/// Gives a copy the mtime of its original, which build tools compare.
pub(super) fn keep_time(file: &File, modified: (i64, i64)) -> Result<(), Errno> {
    let time = rustix::fs::Timespec { tv_sec: modified.0, tv_nsec: modified.1 as _ };
    rustix::fs::futimens(file, &Timestamps { last_access: time, last_modification: time })
}

pub(super) fn lossy(path: &[u8]) -> String {
    String::from_utf8_lossy(path).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_may_lead_up_only_as_far_as_it_lies_deep() {
        for (path, target, stays) in [
            ("a", "b", true),
            ("a", "b/c", true),
            ("a", "../b", false),
            ("d/a", "../b", true),
            ("d/a", "../../b", false),
            ("d/e/a", "./.././../b", true),
            ("a", "/etc/passwd", false),
            ("a", "", false),
            ("a", "x/y/loop/../z", false),
            ("x/y/loop", "../..", true),
        ] {
            assert_eq!(stays_inside(path.as_bytes(), target.as_bytes()), stays, "{path} -> {target}");
        }
    }
}
