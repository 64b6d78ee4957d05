//! Gives agents that work in parallel separate trees, and combines their results.
//!
//! Each agent has its own copy of the tree it began with. provost imports its changes from there as from a
//! workspace; if other steps have passed meanwhile, the changes are applied to the result of those steps.
//! The user's workspace gets only what has passed.
//!
//! ```text
//! <place>/base   the id of the tree it began with
//! <place>/tree   the agent's own copy
//! ```
//!
//! **Invariant:** a file that two steps changed is never merged: it is reported as a conflict by name.
//! **Invariant:** a file in the user's workspace is overwritten only if its content is what provost
//! expects.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode};
use rustix::io::Errno;

use super::checkout::{self, TreeWriter, keep_time, lossy};
use super::index::{EntryKind, Index, TreeDraft, TreeEntry, joined};
use super::{Base, Error, Layer, Trees};
use crate::files::safe_open;

/// Limit on the file names in a conflict.
const NAMES: usize = 20;

/// The separate tree of one agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Apart {
    /// The folder in which the agent works.
    pub folder: PathBuf,
    /// The id of the tree it began with.
    pub base: String,
}

impl Apart {
    /// Returns the tree that was made in this place, if there is one.
    pub fn at(place: &Path) -> Option<Self> {
        let base = fs::read_to_string(place.join("base")).ok()?;
        Some(Self { folder: place.join("tree"), base: base.trim().to_owned() })
    }
}

impl Trees {
    /// Makes a copy of a tree for an agent and replaces what was in `place`. `base` is the tree the agent
    /// began with; `tree` may contain more by now.
    pub fn set_apart(&self, tree: &Base, base: &str, place: &Path) -> Result<Apart, Error> {
        let parent = place.parent().unwrap_or(place);
        fs::create_dir_all(parent).map_err(|error| Error::io("make", parent, error))?;
        let room = tempfile::Builder::new().prefix("new-").tempdir_in(parent);
        let room = room.map_err(|error| Error::io("make a folder in", parent, error))?;
        let mut checkout = TreeWriter::begin(room.path().join("tree"), TreeDraft::default())?;
        let place_of = |path: &[u8]| tree.file(OsStr::from_bytes(path));
        checkout::fill(&mut checkout, &tree.index, &place_of, &mut |checkout, path, kind| {
            let source = tree.file(OsStr::from_bytes(path));
            let file = checkout.copy(path, &source, kind)?;
            let stamp = File::open(&source).and_then(|source| Ok(safe_open::stamp(&source)?));
            let stamp = stamp.map_err(|error| Error::io("read", &source, error))?;
            keep_time(&file, stamp.modified).map_err(|errno| Error::io("write", &source, errno))
        })?;
        checkout.finish()?;
        let note = room.path().join("base");
        fs::write(&note, base).map_err(|error| Error::io("write", &note, error))?;
        clear_apart(place)?;
        fs::rename(room.path(), place).map_err(|error| Error::io("rename to", place, error))?;
        drop(room.keep());
        Ok(Apart { folder: place.join("tree"), base: base.to_owned() })
    }

    /// Applies the changes to another tree, if no other step has changed the same files.
    pub fn carried(&self, layer: Layer, from: &Base, onto: &Base) -> Result<Layer, Error> {
        layer.must_fit(from)?;
        if from.id == onto.id {
            return Ok(layer);
        }
        let listed = |error| Error::io("list", &onto.path, error);
        let mut meeting = Meeting { from: &from.index, onto: &onto.index, layer: &layer, met: Vec::new() };
        let mut removed = Vec::new();
        for path in &layer.removed {
            if meeting.takes_away(path).map_err(listed)? {
                removed.push(path.clone());
            }
        }
        for (path, _) in &layer.taken {
            meeting.puts(path).map_err(listed)?;
        }
        let met = meeting.met;
        if !met.is_empty() {
            return Err(Error::Conflict { files: met.iter().take(NAMES).map(|path| lossy(path)).collect() });
        }
        let mut draft = TreeDraft::on(&onto.index).map_err(listed)?;
        removed.iter().try_for_each(|path| draft.remove(path)).map_err(listed)?;
        layer.taken.iter().try_for_each(|(path, leaf)| draft.set(path, *leaf)).map_err(listed)?;
        layer.folders.iter().try_for_each(|path| draft.folder(path)).map_err(listed)?;
        let (id, vanished) = (draft.id(), draft.vanished(&removed).map_err(listed)?);
        Ok(Layer {
            deleted: removed.iter().map(|path| lossy(path)).collect(),
            removed,
            vanished,
            id,
            base: onto.id.clone(),
            ..layer
        })
    }

    /// Updates the workspace from one tree to another, file by file. Returns the paths it did not touch
    /// because they had been changed otherwise.
    pub fn bring_home(&self, before: &Base, after: &Base) -> Result<Vec<String>, Error> {
        let listed = |error| Error::io("list", &after.path, error);
        let mut changes = Vec::new();
        let roots = (Some(before.index.root()), Some(after.index.root()));
        differing(&before.index, &after.index, b"", roots, &mut changes).map_err(listed)?;
        // Removals first: another file may come at the same place.
        changes.sort_by_key(|change| change.after.is_some());
        let top =
            safe_open::top(&self.workspace).map_err(|errno| Error::io("open", &self.workspace, errno))?;
        let mut left = Vec::new();
        for change in &changes {
            let place = Place { top: &top, path: &change.path };
            if place.is(change.after.as_ref()) {
                continue;
            }
            let done = match place.is(change.before.as_ref()) {
                true => place.become_it(change.after.as_ref(), after),
                false => Err(Errno::EXIST.into()),
            };
            if done.is_err() {
                left.push(lossy(&change.path));
            }
        }
        Ok(left)
    }
}

/// Removes an agent's separate tree, including folders without permissions.
pub fn clear_apart(place: &Path) -> Result<(), Error> {
    let removed = fs::remove_dir_all(place).or_else(|_| {
        open_up(place);
        fs::remove_dir_all(place)
    });
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::io("remove", place, error)),
        _ => Ok(()),
    }
}

/// Restores the permissions of folders that an agent removed from its own user.
fn open_up(folder: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    let _ = fs::set_permissions(folder, fs::Permissions::from_mode(0o700));
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            open_up(&entry.path());
        }
    }
}

/// A layer, and a tree that has changed meanwhile.
struct Meeting<'a> {
    from: &'a Index,
    onto: &'a Index,
    layer: &'a Layer,
    met: Vec<Vec<u8>>,
}

impl Meeting<'_> {
    /// Checks a removal. Returns whether the path still exists.
    fn takes_away(&mut self, path: &[u8]) -> io::Result<bool> {
        let (then, now) = (self.from.find(path)?, self.onto.find(path)?);
        if now.is_some() && !is_same(then.as_ref(), now.as_ref()) {
            self.met.push(path.to_vec());
        }
        Ok(now.is_some())
    }

    fn puts(&mut self, path: &[u8]) -> io::Result<()> {
        let (then, now) = (self.from.find(path)?, self.onto.find(path)?);
        let own = self.layer.taken.iter().find(|(own, _)| own == path).map(|(_, leaf)| leaf);
        let is_ours =
            |now: &TreeEntry| own.is_some_and(|own| (own.kind, own.digest) == (now.kind, now.digest));
        let is_met = !is_same(then.as_ref(), now.as_ref()) && !now.as_ref().is_some_and(is_ours);
        if is_met || self.is_in_the_way(path)? {
            self.met.push(path.to_vec());
        }
        Ok(())
    }

    /// Returns whether a file is now where this path needs a folder.
    fn is_in_the_way(&self, path: &[u8]) -> io::Result<bool> {
        for (at, _) in path.iter().enumerate().filter(|(_, byte)| **byte == b'/') {
            let folder = &path[..at];
            let is_gone = self.layer.removed.iter().any(|removed| removed == folder);
            let stands = self.onto.find(folder)?.is_some_and(|entry| entry.kind != EntryKind::Folder);
            if stands && !is_gone {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

fn is_same(one: Option<&TreeEntry>, other: Option<&TreeEntry>) -> bool {
    let told = |entry: &TreeEntry| (entry.kind, entry.digest);
    one.map(told) == other.map(told)
}

/// A file or a link that differs between two trees.
struct Change {
    path: Vec<u8>,
    before: Option<TreeEntry>,
    after: Option<TreeEntry>,
}

fn differing(
    before: &Index,
    after: &Index,
    path: &[u8],
    (old, new): (Option<&TreeEntry>, Option<&TreeEntry>),
    changes: &mut Vec<Change>,
) -> io::Result<()> {
    if is_same(old, new) {
        return Ok(());
    }
    let is_leaf = |entry: &&TreeEntry| entry.kind != EntryKind::Folder;
    let (leaf, now) = (old.filter(is_leaf), new.filter(is_leaf));
    if leaf.is_some() || now.is_some() {
        changes.push(Change { path: path.to_vec(), before: leaf.cloned(), after: now.cloned() });
    }
    let list = |index: &Index, entry: Option<&TreeEntry>| match entry.filter(|entry| !is_leaf(entry)) {
        Some(folder) => index.listing(folder),
        None => Ok(Vec::new()),
    };
    let (olds, news) = (list(before, old)?, list(after, new)?);
    let mut names: Vec<&Vec<u8>> = olds.iter().chain(&news).map(|entry| &entry.name).collect();
    names.sort();
    names.dedup();
    for name in names {
        let find = |entries: &'_ [TreeEntry]| entries.iter().position(|entry| entry.name == *name);
        let pair = (find(&olds).map(|at| &olds[at]), find(&news).map(|at| &news[at]));
        differing(before, after, &joined(path, name), pair, changes)?;
    }
    Ok(())
}

/// A path in the workspace, accessed without following links.
struct Place<'a> {
    top: &'a OwnedFd,
    path: &'a [u8],
}

impl Place<'_> {
    /// Returns whether the workspace has exactly this entry at the path (`None`: no file).
    fn is(&self, entry: Option<&TreeEntry>) -> bool {
        let (folder, name) = self.split();
        let folder = match folder.is_empty() {
            true => rustix::io::dup(self.top),
            false => safe_open::folder(self.top, folder),
        };
        let found = folder.and_then(|folder| Ok((safe_open::stamp_at(&folder, name.as_bytes())?, folder)));
        let (stamp, folder) = match (found, entry) {
            (Err(Errno::NOENT | Errno::NOTDIR), None) => return true,
            (Ok((stamp, _)), None) => return stamp.kind() == FileType::Directory,
            (Err(_), _) => return false,
            (Ok(found), Some(_)) => found,
        };
        let Some(entry) = entry else { return false };
        match entry.kind {
            EntryKind::Folder => false,
            EntryKind::Link => safe_open::target(&folder, name.as_bytes())
                .is_ok_and(|target| provost_core::model::hash::Hash::of(&target) == entry.digest),
            EntryKind::File | EntryKind::Program | EntryKind::Moded(_) => {
                // Differences that only come from the umask do not matter.
                let alike = |kind: EntryKind| kind == entry.kind || kind.as_in_git() == entry.kind;
                stamp.kind() == FileType::RegularFile
                    && alike(EntryKind::of_file(stamp.mode))
                    && stamp.size == entry.size
                    && safe_open::file(&folder, name.as_bytes())
                        .is_ok_and(|file| safe_open::digest(&file).is_ok_and(|digest| digest == entry.digest))
            }
        }
    }

    fn become_it(&self, entry: Option<&TreeEntry>, tree: &Base) -> io::Result<()> {
        let (folder, name) = self.split();
        let Some(entry) = entry else {
            let inside = match folder.is_empty() {
                true => rustix::io::dup(self.top)?,
                false => safe_open::folder(self.top, folder)?,
            };
            rustix::fs::unlinkat(&inside, name, AtFlags::empty())?;
            self.prune(folder);
            return Ok(());
        };
        let inside = self.made(folder)?;
        let new = format!(".provost-{}-{}", std::process::id(), &entry.digest.to_string()[..12]);
        let _ = rustix::fs::unlinkat(&inside, new.as_str(), AtFlags::empty());
        let source = tree.file(OsStr::from_bytes(self.path));
        let written = match entry.kind {
            EntryKind::Folder => Err(Errno::OPNOTSUPP.into()),
            EntryKind::Link => fs::read_link(&source)
                .and_then(|target| Ok(rustix::fs::symlinkat(target, &inside, new.as_str())?)),
            kind => safe_open::new_file(&inside, new.as_bytes(), kind.mode())
                .map_err(io::Error::from)
                .and_then(|mut to| io::copy(&mut File::open(&source)?, &mut to).map(|_| ())),
        };
        let copied = written.and_then(|()| Ok(rustix::fs::renameat(&inside, new.as_str(), &inside, name)?));
        if copied.is_err() {
            let _ = rustix::fs::unlinkat(&inside, new.as_str(), AtFlags::empty());
        }
        copied
    }

    /// Opens the folder that contains it; creates it if necessary.
    fn made(&self, folder: &[u8]) -> io::Result<OwnedFd> {
        let mut here = rustix::io::dup(self.top)?;
        for name in folder.split(|byte| *byte == b'/').filter(|name| !name.is_empty()) {
            match rustix::fs::mkdirat(&here, OsStr::from_bytes(name), Mode::from_raw_mode(0o777)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(errno) => return Err(errno.into()),
            }
            here = safe_open::folder(&here, name)?;
        }
        Ok(here)
    }

    /// Removes folders that are empty after a removal.
    fn prune(&self, folder: &[u8]) {
        let mut folder = folder;
        while !folder.is_empty() {
            let (parent, name) = Place { top: self.top, path: folder }.split();
            let inside = match parent.is_empty() {
                true => rustix::io::dup(self.top),
                false => safe_open::folder(self.top, parent),
            };
            let removed = inside.and_then(|inside| rustix::fs::unlinkat(&inside, name, AtFlags::REMOVEDIR));
            if removed.is_err() {
                return;
            }
            folder = &folder[..parent.len()];
        }
    }
}

impl<'a> Place<'a> {
    fn split(&self) -> (&'a [u8], &'a OsStr) {
        match self.path.iter().rposition(|byte| *byte == b'/') {
            Some(slash) => (&self.path[..slash], OsStr::from_bytes(&self.path[slash + 1..])),
            None => (b"", OsStr::from_bytes(self.path)),
        }
    }
}
