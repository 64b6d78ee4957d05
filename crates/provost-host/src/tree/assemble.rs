//! Builds a writable tree of base and layer, for machines without overlays.
//!
//! One worktree is kept and updated in place, so that a check finds unchanged files with their old times
//! and builds stay incremental. provost cannot know what a check did to it, so before each check it
//! examines the metadata of every file (not the content). A file is left alone if its device, inode, size,
//! mode, number of links, mtime and ctime are those noted when its content was known. Any other file is
//! written again, as a new file; files that do not belong are removed. No program can set the ctime, only
//! the clock moves it. If a file had changed so shortly before it was noted that a second change could have
//! the same ctime, it is read again.
//!
//! Nothing has to be restored afterwards, so a kill loses nothing. While one check uses the worktree,
//! another check gets a plain copy.
//!
//! The content is compared with its digest while it is copied: without a sandbox, an agent may have written
//! to the kept base itself.
//!
//! **Invariant:** no file of an assembled tree shares its bytes with a base or a layer.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use provost_core::model::hash::Hash;
use rustix::fs::{AtFlags, FileType, Mode};
use tempfile::TempDir;

use super::checkout::{self, TreeWriter};
use super::index::{EntryKind, Index, Leaf, TreeDraft, TreeEntry, joined};
use super::retention::{self, boot, try_lock};
use super::{Base, Error, Layer, Trees};
use crate::files::safe_open::{self, FileStamp};

/// Longer than the coarsest clock that a file system uses for its times, if it keeps parts of a second.
const YOUNG: Duration = Duration::from_millis(100);
/// The same if it keeps seconds only, or every other one.
const YOUNG_IN_SECONDS: Duration = Duration::from_secs(3);
const NOTES: &[u8] = b"provost worktree 2\n";

/// A tree for one check. Dropping it frees it for the next check.
#[derive(Debug)]
pub struct AssembledTree {
    pub path: PathBuf,
    /// Number of files that had to be written.
    pub written: usize,
    _held: Held,
}

#[derive(Debug)]
enum Held {
    Kept { _lock: retention::FileLock },
    Copy { _folder: TempDir },
}

impl Trees {
    /// Returns a writable tree of base and layer for one check: the kept worktree, or a copy while another
    /// check uses that.
    pub fn assemble(&self, base: &Base, layer: &Layer) -> Result<AssembledTree, Error> {
        let sealed = layer.sealed_on(base)?;
        let index = Index::in_memory(sealed, &base.ground().index)
            .map_err(|error| Error::io("list", &base.path, error))?;
        let taken = layer.taken.iter().map(|(path, _)| path.as_slice()).collect();
        let sources = Sources { base, layer, taken };
        let place = self.assembles_in();
        match fs::create_dir(&place) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(Error::io("make", &place, error));
            }
            _ => {}
        }
        match try_lock(&place.join("lock"))? {
            Some(lock) => {
                let written = Refresh::begin(&place)?.run(&index, &sources)?;
                Ok(AssembledTree { path: place.join("tree"), written, _held: Held::Kept { _lock: lock } })
            }
            None => self.copied(&index, &sources),
        }
    }

    fn copied(&self, index: &Index, sources: &Sources<'_>) -> Result<AssembledTree, Error> {
        let layers = self.folder.join("layers");
        let folder =
            tempfile::tempdir_in(&layers).map_err(|error| Error::io("make a folder in", &layers, error))?;
        let path = folder.path().join("tree");
        let mut checkout = TreeWriter::begin(path.clone(), TreeDraft::default())?;
        let mut written = 0;
        checkout::fill(&mut checkout, index, &|path| sources.of(path), &mut |checkout, path, kind| {
            written += 1;
            let source = sources.of(path);
            let from = File::open(&source).map_err(|error| Error::io("open", &source, error))?;
            let mut to = checkout.file(path, kind)?;
            let (digest, _) = safe_open::copy(&from, &mut to, u64::MAX)
                .map_err(|error| Error::io("write", folder.path(), error))?;
            let entry = index.find(path).map_err(|error| Error::io("list", &sources.base.path, error))?;
            match entry.is_some_and(|entry| entry.digest == digest) {
                true => Ok(()),
                false => Err(sources.altered(path)),
            }
        })?;
        checkout.finish()?;
        Ok(AssembledTree { path, written, _held: Held::Copy { _folder: folder } })
    }
}

/// Finds the stored content of a file.
struct Sources<'a> {
    base: &'a Base,
    layer: &'a Layer,
    taken: HashSet<&'a [u8]>,
}

impl Sources<'_> {
    /// Reports that a file that only provost writes was changed. Marks the base, so that it is verified
    /// completely before it is used again.
    fn altered(&self, path: &[u8]) -> Error {
        self.base.doubt();
        Error::Altered { path: self.of(path) }
    }

    fn of(&self, path: &[u8]) -> PathBuf {
        let name = OsStr::from_bytes(path);
        match self.taken.contains(path) {
            true => self.layer.path.join(name),
            false => self.base.file(name),
        }
    }
}

/// The known state of a file in the worktree.
struct Note {
    leaf: Leaf,
    stamp: FileStamp,
    is_young: bool,
}

type Notes = HashMap<Vec<u8>, Note>;

struct Refresh {
    place: PathBuf,
    top: OwnedFd,
    known: Notes,
    now: Notes,
    written: usize,
    is_changed: bool,
}

impl Refresh {
    fn begin(place: &Path) -> Result<Self, Error> {
        let tree = place.join("tree");
        let known = fs::read(place.join("notes")).ok().and_then(|bytes| read_notes(&bytes));
        if known.is_none() && tree.symlink_metadata().is_ok() {
            make_writable(&tree);
            fs::remove_dir_all(&tree).map_err(|error| Error::io("remove", &tree, error))?;
        }
        if tree.symlink_metadata().is_err() {
            checkout::make_folder(&tree)?;
        }
        // A check may have removed the permissions of its own folder.
        let _ = fs::set_permissions(&tree, std::os::unix::fs::PermissionsExt::from_mode(0o755));
        let top = rustix::fs::open(
            &tree,
            rustix::fs::OFlags::RDONLY
                | rustix::fs::OFlags::DIRECTORY
                | rustix::fs::OFlags::NOFOLLOW
                | rustix::fs::OFlags::CLOEXEC,
            Mode::empty(),
        )
        .map_err(|errno| Error::io("open", &tree, errno))?;
        let known = known.unwrap_or_default();
        Ok(Self { place: place.to_path_buf(), top, known, now: Notes::new(), written: 0, is_changed: false })
    }

    /// Updates the worktree and returns the number of files written.
    fn run(mut self, index: &Index, sources: &Sources<'_>) -> Result<usize, Error> {
        let top = rustix::io::dup(&self.top).map_err(|errno| Error::io("open", &self.place, errno))?;
        let mut links = Vec::new();
        self.folder(&top, b"", index, index.root(), sources, &mut links)?;
        for (path, target) in links {
            let made = rustix::fs::symlinkat(OsStr::from_bytes(&target), &self.top, OsStr::from_bytes(&path));
            made.map_err(|errno| Error::io("link", &self.at(&path), errno))?;
        }
        if self.is_changed || self.now.len() != self.known.len() {
            let notes = self.place.join("notes");
            let coming = self.place.join("notes.new");
            fs::write(&coming, written_notes(&self.now))
                .map_err(|error| Error::io("write", &coming, error))?;
            fs::rename(&coming, &notes).map_err(|error| Error::io("write", &notes, error))?;
        }
        Ok(self.written)
    }

    fn folder(
        &mut self,
        folder: &OwnedFd,
        path: &[u8],
        index: &Index,
        base: &TreeEntry,
        sources: &Sources<'_>,
        links: &mut Vec<(Vec<u8>, Vec<u8>)>,
    ) -> Result<(), Error> {
        let wanted = index.listing(base).map_err(|error| Error::io("list", &self.place, error))?;
        let names = safe_open::names(folder, usize::MAX);
        let names = names.map_err(|errno| Error::io("read", &self.at(path), errno))?;
        let mut there: HashMap<Vec<u8>, FileType> = names.into_iter().collect();
        // First remove everything that does not belong, so that nothing is ever written through a link.
        there.retain(|name, kind| {
            let entry = wanted.binary_search_by(|entry| entry.name.cmp(name)).ok().map(|at| &wanted[at]);
            match (entry.map(|entry| entry.kind), &*kind) {
                (Some(EntryKind::Folder), FileType::Directory) => true,
                (Some(kind), FileType::RegularFile) if kind.is_file() => true,
                (Some(EntryKind::Link), FileType::Symlink) => true,
                _ => self.remove(folder, path, name, *kind).is_err(),
            }
        });
        for entry in &wanted {
            let path = joined(path, &entry.name);
            let is_there = there.contains_key(&entry.name);
            match entry.kind {
                EntryKind::Folder => {
                    let inner = self.opened(folder, &path, &entry.name, is_there)?;
                    self.folder(&inner, &path, index, entry, sources, links)?;
                }
                EntryKind::Link => {
                    let source = sources.of(&path);
                    let target = fs::read_link(&source).map_err(|error| Error::io("read", &source, error))?;
                    let target = target.as_os_str().as_bytes().to_vec();
                    if Hash::of(&target) != entry.digest {
                        return Err(sources.altered(&path));
                    }
                    if is_there && safe_open::target(folder, &entry.name).is_ok_and(|now| now == target) {
                        continue;
                    }
                    if is_there {
                        self.unlink(folder, &path, &entry.name)?;
                    }
                    links.push((path, target));
                }
                EntryKind::File | EntryKind::Program | EntryKind::Moded(_) => {
                    self.file(folder, path, entry, sources, is_there)?;
                }
            }
        }
        Ok(())
    }

    fn opened(&self, folder: &OwnedFd, path: &[u8], name: &[u8], is_there: bool) -> Result<OwnedFd, Error> {
        let failed = |errno| Error::io("open", &self.at(path), errno);
        let (own, mode) = (OsStr::from_bytes(name), Mode::from_raw_mode(0o755));
        if !is_there {
            rustix::fs::mkdirat(folder, own, mode).map_err(failed)?;
        }
        if safe_open::stamp_at(folder, name).map_err(failed)?.mode & 0o7777 != 0o755 {
            rustix::fs::chmodat(folder, own, mode, AtFlags::empty()).map_err(failed)?;
        }
        safe_open::folder(folder, name).map_err(failed)
    }

    fn file(
        &mut self,
        folder: &OwnedFd,
        path: Vec<u8>,
        entry: &TreeEntry,
        sources: &Sources<'_>,
        is_there: bool,
    ) -> Result<(), Error> {
        let leaf = Leaf { kind: entry.kind, digest: entry.digest, size: entry.size };
        if is_there {
            if let Some(note) = self.still_known(folder, &path, entry) {
                self.now.insert(path, note);
                return Ok(());
            }
            self.unlink(folder, &path, &entry.name)?;
        }
        let failed = |error: io::Error| Error::io("write", &self.at(&path), error);
        let source = sources.of(&path);
        let from = File::open(&source).map_err(|error| Error::io("open", &source, error))?;
        let mut to = safe_open::new_file(folder, &entry.name, leaf.kind.mode())
            .map_err(|errno| failed(errno.into()))?;
        let (digest, _) = safe_open::copy(&from, &mut to, u64::MAX).map_err(failed)?;
        if digest != entry.digest {
            return Err(sources.altered(&path));
        }
        let stamp = safe_open::stamp(&to).map_err(|errno| failed(errno.into()))?;
        self.written += 1;
        self.is_changed = true;
        self.now.insert(path, Note { leaf, stamp, is_young: true });
        Ok(())
    }

    /// Returns the note of a file if the file is unchanged since and has the wanted content.
    fn still_known(&mut self, folder: &OwnedFd, path: &[u8], entry: &TreeEntry) -> Option<Note> {
        let note = self.known.get(path)?;
        let stamp = safe_open::stamp_at(folder, &entry.name).ok()?;
        if note.stamp != stamp || note.leaf.kind != entry.kind || note.leaf.digest != entry.digest {
            return None;
        }
        let leaf = note.leaf;
        if note.is_young {
            let file = safe_open::file(folder, &entry.name).ok()?;
            if safe_open::digest(&file).ok()? != entry.digest || safe_open::stamp(&file).ok()? != stamp {
                return None;
            }
            self.is_changed = true;
        }
        Some(Note { leaf, stamp, is_young: note.is_young && is_young(&stamp) })
    }

    fn remove(&self, folder: &OwnedFd, path: &[u8], name: &[u8], kind: FileType) -> Result<(), Error> {
        let path = joined(path, name);
        if kind != FileType::Directory {
            return self.unlink(folder, &path, name);
        }
        let at = self.at(&path);
        make_writable(&at);
        fs::remove_dir_all(&at).map_err(|error| Error::io("remove", &at, error))
    }

    fn unlink(&self, folder: &OwnedFd, path: &[u8], name: &[u8]) -> Result<(), Error> {
        rustix::fs::unlinkat(folder, OsStr::from_bytes(name), AtFlags::empty())
            .map_err(|errno| Error::io("remove", &self.at(path), errno))
    }

    fn at(&self, path: &[u8]) -> PathBuf {
        self.place.join("tree").join(OsStr::from_bytes(path))
    }
}

/// Returns whether another change could still give the file the same ctime.
pub(super) fn is_young(stamp: &FileStamp) -> bool {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let (seconds, nanos) = stamp.changed;
    let changed = Duration::new(u64::try_from(seconds).unwrap_or(0), u32::try_from(nanos).unwrap_or(0));
    let young = if nanos == 0 { YOUNG_IN_SECONDS } else { YOUNG };
    changed + young >= now
}

/// Restores permissions of folders that a check changed, so that they can be removed.
fn make_writable(folder: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    let Ok(metadata) = fs::symlink_metadata(folder) else { return };
    if !metadata.is_dir() {
        return;
    }
    if metadata.permissions().mode() & 0o700 != 0o700 {
        let _ = fs::set_permissions(folder, fs::Permissions::from_mode(0o755));
    }
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            make_writable(&entry.path());
        }
    }
}

fn written_notes(notes: &Notes) -> Vec<u8> {
    let mut bytes = [NOTES, boot().as_bytes(), b"\n"].concat();
    for (path, Note { leaf, stamp, .. }) in notes {
        // Notes outlive the moment they are written in: whether a file is young is decided by the current
        // time.
        bytes.push(u8::from(is_young(stamp)));
        bytes.extend(leaf.kind.letters());
        bytes.extend(leaf.digest.0);
        bytes.extend(leaf.size.to_be_bytes());
        let times = [stamp.modified.0, stamp.modified.1, stamp.changed.0, stamp.changed.1];
        let numbers = [stamp.device, stamp.inode, stamp.size, u64::from(stamp.mode), stamp.links];
        numbers.iter().for_each(|number| bytes.extend(number.to_be_bytes()));
        times.iter().for_each(|number| bytes.extend(number.to_be_bytes()));
        bytes.extend((path.len() as u64).to_be_bytes());
        bytes.extend(path);
    }
    bytes
}

/// Parses the notes. `None` for notes of another version or boot, or incomplete ones: then nothing is
/// known.
fn read_notes(bytes: &[u8]) -> Option<Notes> {
    let mut rest = bytes.strip_prefix(NOTES)?.strip_prefix(boot().as_bytes())?.strip_prefix(b"\n")?;
    let mut take = |count: usize| -> Option<&[u8]> {
        let (taken, left) = rest.split_at_checked(count)?;
        rest = left;
        Some(taken)
    };
    let mut notes = Notes::new();
    while let Some(first) = take(1) {
        let is_young = first[0] != 0;
        let kind = EntryKind::read(&mut take)?;
        let digest = Hash(take(32)?.try_into().ok()?);
        let mut number = || Some(u64::from_be_bytes(take(8)?.try_into().ok()?));
        let size = number()?;
        let (device, inode, bytes, mode, links) = (number()?, number()?, number()?, number()?, number()?);
        let modified = (number()?.cast_signed(), number()?.cast_signed());
        let changed = (number()?.cast_signed(), number()?.cast_signed());
        let length = usize::try_from(number()?).ok()?;
        let path = take(length)?.to_vec();
        let mode = u32::try_from(mode).ok()?;
        let stamp = FileStamp { device, inode, size: bytes, mode, links, modified, changed };
        notes.insert(path, Note { leaf: Leaf { kind, digest, size }, stamp, is_young });
    }
    Some(notes)
}
