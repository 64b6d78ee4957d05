//! Takes over from a workspace what a plan may change, and nothing else.
//!
//! The walk begins where the globs do and goes beside the index of the base, folder by folder, so it
//! costs what lies inside `touches`, not what the tree holds. Every file is opened without following
//! a link and looked at through what was opened. A file that is as in the base is left alone, however
//! many names it has; one that differs is copied, and its digest is that of the bytes written.
//!
//! What cannot be taken over is named and the base's version stays: links, pipes, sockets, devices,
//! files with a second name, files that are too large, a folder in whose place something else is, and
//! configuration of test runners that no glob names.
//! `.git` and the cache folders are not looked at. Empty folders are not carried over.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use provost_core::chain::Hash;
use rustix::fs::FileType;
use rustix::io::Errno;

use super::assemble;
use super::beneath::{self, Stamp};
use super::checkout::{Checkout, lossy};
use super::index::{Draft, Entry, Index, Kind, Leaf, joined};
use super::snapshot::{DEPTH, special, unreadable};
use super::{Base, Error, Layer, Limits, Refused, TREE, Touches, Trees, Why};

/// For a word to the user, not for a record.
const OUTSIDE_MAX: usize = 20;
/// Names in one folder beyond those of the base and those that could be taken over.
const NAMES_MORE: usize = 1_000;
/// A list that people read; one that is longer says enough.
const REFUSED_MAX: usize = 1_000;

impl Trees {
    /// Takes over from the agent's workspace exactly the files inside `touches` and outside of
    /// `protect` that differ from the base.
    pub fn take_over(
        &self,
        base: &Base,
        touches: &Touches,
        protect: &Touches,
        limits: &Limits,
    ) -> Result<Layer, Error> {
        self.take_over_from(&self.workspace, base, touches, protect, limits)
    }

    /// The same from another folder that an agent worked in.
    pub fn take_over_from(
        &self,
        workspace: &Path,
        base: &Base,
        touches: &Touches,
        protect: &Touches,
        limits: &Limits,
    ) -> Result<Layer, Error> {
        let layers = self.folder.join("layers");
        let folder =
            tempfile::tempdir_in(&layers).map_err(|error| Error::io("make a folder in", &layers, error))?;
        let path = folder.path().join(TREE);
        let index = &*base.index;
        let draft = Draft::on(index).map_err(|error| Error::io("read", &base.path, error))?;
        let mut walk = Walk {
            index,
            known: &self.known,
            workspace,
            touches,
            protect,
            limits,
            caches: &base.caches,
            own: self.own_place().filter(|_| workspace == self.workspace),
            checkout: Checkout::begin(path.clone(), draft)?,
            found: Found::default(),
            bytes: 0,
            is_over: false,
        };
        let top = beneath::top(workspace).map_err(|errno| Error::io("open", workspace, errno))?;
        for start in touches.starts() {
            walk.from(&top, start)?;
        }
        let Walk { checkout, found, .. } = walk;
        let id = checkout.finish()?.id();
        Ok(Layer {
            refused: found.refused,
            protected_changed: found.protected,
            outside: found.outside,
            ..Layer::laid(base, id, (folder, path), found.taken, found.removed)
        })
    }
}

/// What files hold that were read and have not been touched since: not read again for each check. A file
/// that had changed so shortly before that a second change could bear the same time is not remembered;
/// nobody of the attempt is alive when it is noted, so nobody writes through an old mapping.
#[derive(Debug, Default)]
pub struct Known(Mutex<HashMap<(u64, u64), (Stamp, Hash)>>);

impl Known {
    fn digest(&self, stamp: &Stamp) -> Option<Hash> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (then, digest) = known.get(&(stamp.device, stamp.inode))?;
        (then == stamp).then_some(*digest)
    }

    fn note(&self, stamp: &Stamp, digest: Hash) {
        if !assemble::is_young(stamp) {
            let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            known.insert((stamp.device, stamp.inode), (*stamp, digest));
        }
    }
}

/// As far as can be seen without reading.
fn fits(stamp: &Stamp, base: &Entry) -> bool {
    stamp.kind() == FileType::RegularFile && base.kind == Kind::of_file(stamp.mode) && base.size == stamp.size
}

#[derive(Default)]
struct Found {
    taken: Vec<(Vec<u8>, Leaf)>,
    removed: Vec<Vec<u8>>,
    refused: Vec<Refused>,
    protected: Vec<String>,
    outside: Vec<String>,
}

struct Walk<'a> {
    index: &'a Index,
    known: &'a Known,
    workspace: &'a Path,
    touches: &'a Touches,
    protect: &'a Touches,
    limits: &'a Limits,
    caches: &'a [Vec<u8>],
    own: Option<Vec<u8>>,
    checkout: Checkout<'a>,
    found: Found,
    bytes: u64,
    /// Too many files: the rest is not looked at.
    is_over: bool,
}

/// What the globs say of a path and all that is in it.
#[derive(Clone, Copy, Default)]
struct Rule {
    is_touched: bool,
    is_protected: bool,
}

/// A name in the workspace, opened folder and all.
struct Place<'p> {
    folder: &'p OwnedFd,
    path: &'p [u8],
    name: &'p [u8],
    depth: usize,
}

impl Walk<'_> {
    /// Goes down to where a glob begins, and looks from there.
    fn from(&mut self, top: &OwnedFd, start: &[u8]) -> Result<(), Error> {
        let root = self.index.root().clone();
        if start.is_empty() {
            return self.folder(top, b"", Some(&root), Rule::default(), 0);
        }
        let mut here = rustix::io::dup(top).map_err(|errno| Error::io("open", self.workspace, errno))?;
        let mut base = Some(root);
        let mut path = Vec::new();
        let parts: Vec<&[u8]> = start.split(|byte| *byte == b'/').collect();
        for (depth, name) in parts.iter().enumerate() {
            path = joined(&path, name);
            base = self.child(base.as_ref(), name)?;
            let kind = beneath::stamp_at(&here, name).map(|stamp| stamp.kind());
            let is_folder = matches!(kind, Ok(FileType::Directory))
                && base.as_ref().is_none_or(|base| base.kind == Kind::Folder);
            if depth + 1 == parts.len() || !is_folder || self.is_left_alone(&path, name) {
                let place = Place { folder: &here, path: &path, name, depth };
                return match kind {
                    Ok(kind) => self.visit(&place, kind, base.as_ref(), Rule::default()),
                    Err(Errno::NOENT) => self.gone(&path, base.as_ref(), Rule::default()),
                    Err(errno) => self.refuse(&path, unreadable(errno)),
                };
            }
            match beneath::folder(&here, name) {
                Ok(inner) => here = inner,
                Err(errno) => return self.refuse(&path, unreadable(errno)),
            }
        }
        Ok(())
    }

    fn folder(
        &mut self,
        folder: &OwnedFd,
        path: &[u8],
        base: Option<&Entry>,
        rule: Rule,
        depth: usize,
    ) -> Result<(), Error> {
        let entries = match base {
            Some(base) => self.index.listing(base).map_err(|error| self.unlisted(error))?,
            None => Vec::new(),
        };
        let names = match beneath::names(folder, entries.len() + self.limits.files + NAMES_MORE) {
            Ok(names) => names,
            Err(Errno::OVERFLOW) => return self.give_up(path),
            Err(errno) => return self.refuse(path, unreadable(errno)),
        };
        let mut entries = entries.into_iter().peekable();
        for (name, kind) in &names {
            while let Some(entry) = entries.next_if(|entry| entry.name < *name) {
                self.gone(&joined(path, &entry.name), Some(&entry), rule)?;
            }
            let entry = entries.next_if(|entry| entry.name == *name);
            let path = joined(path, name);
            self.visit(&Place { folder, path: &path, name, depth }, *kind, entry.as_ref(), rule)?;
        }
        for entry in entries {
            self.gone(&joined(path, &entry.name), Some(&entry), rule)?;
        }
        Ok(())
    }

    fn visit(
        &mut self,
        place: &Place<'_>,
        kind: FileType,
        base: Option<&Entry>,
        rule: Rule,
    ) -> Result<(), Error> {
        if self.is_over || self.is_left_alone(place.path, place.name) {
            return Ok(());
        }
        let rule = self.rule(place.path, rule);
        let base_is_folder = base.is_some_and(|base| base.kind == Kind::Folder);
        if !rule.is_touched && !self.touches.reaches_into(place.path) {
            self.seen_outside(place, kind, base);
            return Ok(());
        }
        match kind {
            FileType::Directory => self.enter(place, base, rule),
            FileType::Symlink if self.is_same_link(place, base) => Ok(()),
            FileType::RegularFile if rule.is_touched => self.file(place, base, rule),
            // Files of the base that the plan may change were beneath it.
            FileType::RegularFile if base_is_folder => self.refuse(place.path, Why::NotAFolder),
            FileType::RegularFile => {
                self.seen_outside(place, kind, base);
                Ok(())
            }
            _ if rule.is_protected => self.protected(place.path),
            _ if rule.is_touched || base_is_folder => self.refuse(place.path, special(kind)),
            _ => Ok(()),
        }
    }

    fn enter(&mut self, place: &Place<'_>, base: Option<&Entry>, rule: Rule) -> Result<(), Error> {
        let base = match base {
            Some(base) if base.kind != Kind::Folder => {
                if !rule.is_touched {
                    return self.refuse(place.path, Why::InTheWay);
                }
                if rule.is_protected {
                    return self.protected(place.path);
                }
                self.gone(place.path, Some(base), rule)?;
                None
            }
            base => base,
        };
        if place.depth >= DEPTH {
            return self.refuse(place.path, Why::TooDeep);
        }
        match beneath::folder(place.folder, place.name) {
            Ok(inner) => self.folder(&inner, place.path, base, rule, place.depth + 1),
            Err(errno) => self.refuse(place.path, unreadable(errno)),
        }
    }

    /// The base has it and the workspace does not.
    fn gone(&mut self, path: &[u8], base: Option<&Entry>, rule: Rule) -> Result<(), Error> {
        let Some(base) = base else { return Ok(()) };
        if self.is_over || self.is_left_alone(path, &base.name) {
            return Ok(());
        }
        let rule = self.rule(path, rule);
        if !rule.is_touched && !self.touches.reaches_into(path) {
            self.outside(path);
            return Ok(());
        }
        match base.kind {
            Kind::Folder => {
                for entry in self.index.listing(base).map_err(|error| self.unlisted(error))? {
                    self.gone(&joined(path, &entry.name), Some(&entry), rule)?;
                }
                Ok(())
            }
            _ if rule.is_protected => self.protected(path),
            _ if !rule.is_touched => {
                self.outside(path);
                Ok(())
            }
            _ if self.touches.lets_in_unseen(path) => self.refuse(path, Why::RunnerFile),
            _ => {
                self.checkout.draft.remove(path).map_err(|error| self.unlisted(error))?;
                self.found.removed.push(path.to_vec());
                Ok(())
            }
        }
    }

    /// A regular file inside `touches`.
    fn file(&mut self, place: &Place<'_>, base: Option<&Entry>, rule: Rule) -> Result<(), Error> {
        if let (Some(base), Ok(stamp)) = (base, beneath::stamp_at(place.folder, place.name))
            && fits(&stamp, base)
            && self.known.digest(&stamp) == Some(base.digest)
        {
            return Ok(());
        }
        let file = match beneath::file(place.folder, place.name) {
            Ok(file) => file,
            Err(errno) => return self.refuse(place.path, unreadable(errno)),
        };
        for _ in 0..2 {
            let stamp = match beneath::stamp(&file) {
                Ok(stamp) if stamp.kind() == FileType::RegularFile => stamp,
                Ok(stamp) => return self.refuse(place.path, special(stamp.kind())),
                Err(errno) => return self.refuse(place.path, unreadable(errno)),
            };
            match self.is_as_in_base(&file, &stamp, base) {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                Err(error) => {
                    return self.refuse(place.path, Why::Unreadable { reason: error.kind().to_string() });
                }
            }
            if rule.is_protected {
                return self.protected(place.path);
            }
            if self.touches.lets_in_unseen(place.path) {
                return self.refuse(place.path, Why::RunnerFile);
            }
            if let Some(why) = self.too_much(&stamp) {
                self.is_over = why == Why::TooMany;
                return self.refuse(place.path, why);
            }
            if base.is_some_and(|base| base.kind == Kind::Folder) && !self.clears(place.path, base, rule)? {
                return self.refuse(place.path, Why::InTheWay);
            }
            if self.is_copied(&file, &stamp, place.path)? {
                return Ok(());
            }
        }
        self.refuse(place.path, Why::Changing)
    }

    fn is_as_in_base(&self, file: &File, stamp: &Stamp, base: Option<&Entry>) -> io::Result<bool> {
        let Some(base) = base.filter(|base| fits(stamp, base)) else { return Ok(false) };
        let digest = beneath::digest(file)?;
        if beneath::stamp(file).is_ok_and(|after| after == *stamp) {
            self.known.note(stamp, digest);
        }
        Ok(digest == base.digest)
    }

    fn too_much(&self, stamp: &Stamp) -> Option<Why> {
        if stamp.links > 1 {
            Some(Why::HardLink)
        } else if stamp.size > self.limits.file_bytes {
            Some(Why::TooLarge { bytes: stamp.size })
        } else if self.found.taken.len() >= self.limits.files {
            Some(Why::TooMany)
        } else if self.bytes.saturating_add(stamp.size) > self.limits.total_bytes {
            Some(Why::OverTotal)
        } else {
            None
        }
    }

    /// Takes away what the base has beneath a path that is a file now. False if some of it has to
    /// stay, and then all of it stays.
    fn clears(&mut self, path: &[u8], base: Option<&Entry>, rule: Rule) -> Result<bool, Error> {
        let removed = self.found.removed.len();
        let stays = |found: &Found| found.protected.len() + found.refused.len();
        let before = stays(&self.found);
        self.gone(path, base, rule)?;
        if stays(&self.found) == before {
            return Ok(true);
        }
        for path in self.found.removed.split_off(removed) {
            let entry = self.index.find(&path).map_err(|error| self.unlisted(error))?;
            if let Some(Entry { kind, digest, size, .. }) = entry {
                self.checkout.holds(&path, Leaf { kind, digest, size })?;
            }
        }
        Ok(false)
    }

    /// False if it changed meanwhile.
    fn is_copied(&mut self, file: &File, before: &Stamp, path: &[u8]) -> Result<bool, Error> {
        let kind = Kind::of_file(before.mode);
        let mut to = self.checkout.file(path, kind)?;
        let most = self.limits.file_bytes.min(self.limits.total_bytes - self.bytes);
        let copied = match beneath::copy(file, &mut to, most) {
            Ok(copied) => Some(copied),
            Err(error) if error.kind() == io::ErrorKind::FileTooLarge => None,
            Err(error) => return Err(Error::io("take over", &self.at(path), error)),
        };
        let is_same = beneath::stamp(file).is_ok_and(|after| after == *before);
        match copied.filter(|_| is_same) {
            Some((digest, size)) => {
                self.bytes += size;
                let leaf = Leaf { kind, digest, size };
                self.checkout.holds(path, leaf)?;
                self.found.taken.push((path.to_vec(), leaf));
                Ok(true)
            }
            None => {
                let at = self.checkout.path.join(OsStr::from_bytes(path));
                fs::remove_file(&at).map_err(|error| Error::io("remove", &at, error))?;
                Ok(false)
            }
        }
    }

    fn is_same_link(&self, place: &Place<'_>, base: Option<&Entry>) -> bool {
        base.is_some_and(|base| {
            base.kind == Kind::Link
                && beneath::target(place.folder, place.name)
                    .is_ok_and(|target| provost_core::chain::Hash::of(&target) == base.digest)
        })
    }

    /// Repositories are nobody's to hand in, and caches come from before the agent.
    fn is_left_alone(&self, path: &[u8], name: &[u8]) -> bool {
        name.eq_ignore_ascii_case(b".git")
            || self.caches.iter().any(|cache| cache == path)
            || self.own.as_deref() == Some(path)
    }

    fn rule(&self, path: &[u8], above: Rule) -> Rule {
        Rule {
            is_touched: above.is_touched || self.touches.matches(path),
            is_protected: above.is_protected || self.protect.covers(path),
        }
    }

    fn child(&self, folder: Option<&Entry>, name: &[u8]) -> Result<Option<Entry>, Error> {
        let Some(folder) = folder.filter(|folder| folder.kind == Kind::Folder) else { return Ok(None) };
        let entries = self.index.listing(folder).map_err(|error| self.unlisted(error))?;
        Ok(entries.into_iter().find(|entry| entry.name == name))
    }

    fn refuse(&mut self, path: &[u8], why: Why) -> Result<(), Error> {
        if self.found.refused.len() < REFUSED_MAX {
            self.found.refused.push(Refused { path: lossy(path), why });
        }
        Ok(())
    }

    fn give_up(&mut self, path: &[u8]) -> Result<(), Error> {
        self.is_over = true;
        self.refuse(path, Why::TooMany)
    }

    fn protected(&mut self, path: &[u8]) -> Result<(), Error> {
        self.found.protected.push(lossy(path));
        Ok(())
    }

    /// Only what shows without opening it.
    fn seen_outside(&mut self, place: &Place<'_>, kind: FileType, base: Option<&Entry>) {
        if self.found.outside.len() >= OUTSIDE_MAX {
            return;
        }
        let Some(base) = base else { return };
        let is_same = match (kind, base.kind) {
            (FileType::Directory, Kind::Folder) => true,
            (FileType::Symlink, Kind::Link) => self.is_same_link(place, Some(base)),
            (FileType::RegularFile, kind) if kind.is_file() => beneath::stamp_at(place.folder, place.name)
                .is_ok_and(|stamp| stamp.size == base.size && Kind::of_file(stamp.mode) == kind),
            _ => false,
        };
        if !is_same {
            self.outside(place.path);
        }
    }

    fn outside(&mut self, path: &[u8]) {
        if self.found.outside.len() < OUTSIDE_MAX {
            self.found.outside.push(lossy(path));
        }
    }

    fn at(&self, path: &[u8]) -> std::path::PathBuf {
        self.workspace.join(OsStr::from_bytes(path))
    }

    fn unlisted(&self, error: io::Error) -> Error {
        Error::io("read the index of", &self.checkout.path, error)
    }
}
