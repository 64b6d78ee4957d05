//! Imports from a workspace the files that a plan may change, and nothing else.
//!
//! The walk starts at the beginnings of the globs and follows the index of the base, folder by folder. So
//! its cost depends on what is inside `touches`, not on the size of the tree. Every file is opened without
//! following a link and examined through the open descriptor. A file that is as in the base is left alone;
//! a file that differs is copied, and its digest is that of the bytes written. Files keep their permissions
//! and the order in which they were last written.
//!
//! Ignored files are left out and named, unless a glob names them. Paths that cannot be imported are named
//! too, and the base's version stays: links that lead out of `touches`, pipes, sockets, devices, files that
//! are too large, a folder that was replaced by something else, repositories, caches of tools, and
//! configuration of test runners that no glob names. `.git`, the cache folders and provost's own files are
//! not examined.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::SystemTime;

use rustix::fs::FileType;
use rustix::io::Errno;

use super::checkout::{TreeWriter, lossy};
use super::digest_cache::DigestCache;
use super::found::{ImportResult, Rule};
use super::ignored::{IgnoreRules, IgnoredGlob};
use super::index::{EntryKind, Index, TreeDraft, TreeEntry, joined};
use super::line_ends::LineEnds;
use super::modes::Modes;
use super::own_files::OwnFiles;
use super::snapshot::{DEPTH, special, unreadable};
use super::tool_caches;
use super::{Base, Error, ExclusionReason, ImportLimits, Laid, Layer, TREE, Touches, Trees};
use crate::activity::Activity;
use crate::files::safe_open;

mod file;

/// Number of names that one folder may have beyond those of the base and those that could be imported.
const NAMES_MORE: usize = 1_000;

impl Trees {
    /// Imports from the agent's workspace exactly the files inside `touches` and outside `protect` that
    /// differ from the base.
    pub fn take_over(
        &self,
        base: &Base,
        touches: &Touches,
        protect: &Touches,
        limits: &ImportLimits,
    ) -> Result<Layer, Error> {
        self.take_over_from(&self.workspace, base, touches, protect, limits)
    }

    /// Does the same from another folder in which an agent worked.
    pub fn take_over_from(
        &self,
        workspace: &Path,
        base: &Base,
        touches: &Touches,
        protect: &Touches,
        limits: &ImportLimits,
    ) -> Result<Layer, Error> {
        let _activity = Activity::begin("looking for changes in the workspace");
        let layers = self.folder.join("layers");
        let folder =
            tempfile::tempdir_in(&layers).map_err(|error| Error::io("make a folder in", &layers, error))?;
        let path = folder.path().join(TREE);
        let kept = self.folder.join("digests");
        self.known.read_once(&kept, || self.has_trusted_copies());
        let index = &*base.index;
        let draft = TreeDraft::on(index).map_err(|error| Error::io("read", &base.path, error))?;
        let mut walk = Walk {
            index,
            base,
            ends: &self.line_ends,
            known: &self.known,
            modes: Modes::since(&base.ground().path),
            workspace,
            touches,
            protect,
            limits,
            ignored: self.ignored.as_ref(),
            namings: self.ignored.as_ref().map(|ignored| ignored.named_by(touches)).unwrap_or_default(),
            own_files: &self.own_files,
            caches: &base.caches,
            own: self.own_place().filter(|_| workspace == self.workspace),
            checkout: TreeWriter::begin(path.clone(), draft)?,
            found: ImportResult::default(),
            bytes: 0,
            is_over: false,
        };
        let begun = SystemTime::now();
        let top = safe_open::top(workspace).map_err(|errno| Error::io("open", workspace, errno))?;
        for start in touches.starts() {
            walk.from(&top, start)?;
        }
        walk.keep_order(begun)?;
        walk.found.refuse_the_rest();
        self.known.keep(&kept, || self.has_trusted_copies());
        let Walk { checkout, found, .. } = walk;
        let draft = checkout.finish()?;
        let laid = Laid { taken: found.taken, removed: found.removed, folders: found.folders };
        Ok(Layer {
            refused: found.refused.some,
            refused_more: found.refused.more,
            ignored: found.ignored.some,
            ignored_more: found.ignored.more,
            protected_changed: found.protected,
            outside: found.outside.some,
            ..Layer::laid(base, draft, (folder, path), laid)?
        })
    }
}

struct Walk<'a> {
    index: &'a Index,
    base: &'a Base,
    ends: &'a LineEnds,
    known: &'a DigestCache,
    modes: Modes,
    workspace: &'a Path,
    touches: &'a Touches,
    protect: &'a Touches,
    limits: &'a ImportLimits,
    ignored: Option<&'a IgnoreRules>,
    /// Globs that name something git ignores.
    namings: Vec<IgnoredGlob>,
    own_files: &'a OwnFiles,
    caches: &'a [Vec<u8>],
    own: Option<Vec<u8>>,
    checkout: TreeWriter<'a>,
    found: ImportResult,
    bytes: u64,
    /// Too many files: the rest is not examined.
    is_over: bool,
}

/// A name in the workspace, with its open folder.
struct Place<'p> {
    folder: &'p OwnedFd,
    path: &'p [u8],
    name: &'p [u8],
    depth: usize,
}

impl Walk<'_> {
    /// Goes down to the place where a glob begins, and walks from there.
    fn from(&mut self, top: &OwnedFd, start: &[u8]) -> Result<(), Error> {
        let root = self.index.root().clone();
        if start.is_empty() {
            return self.folder(top, b"", Some(&root), Rule::default(), 0);
        }
        let mut here = rustix::io::dup(top).map_err(|errno| Error::io("open", self.workspace, errno))?;
        let mut base = Some(root);
        let mut path = Vec::new();
        let mut rule = Rule::default();
        let parts: Vec<&[u8]> = start.split(|byte| *byte == b'/').collect();
        for (depth, name) in parts.iter().enumerate() {
            path = joined(&path, name);
            base = self.child(base.as_ref(), name)?;
            let kind = safe_open::stamp_at(&here, name).map(|stamp| stamp.kind());
            let is_folder = matches!(kind, Ok(FileType::Directory))
                && base.as_ref().is_none_or(|base| base.kind == EntryKind::Folder);
            if depth + 1 == parts.len()
                || !is_folder
                || self.is_left_alone(&path)
                || self.is_tool_cache(&path)
            {
                let place = Place { folder: &here, path: &path, name, depth };
                return match kind {
                    Ok(kind) => self.visit(&place, kind, base.as_ref(), rule),
                    Err(Errno::NOENT) => self.gone(&path, base.as_ref(), rule),
                    Err(errno) => self.refuse(&path, unreadable(errno)),
                };
            }
            rule.ignored = self.ignoring(&path, true, rule);
            match safe_open::folder(&here, name) {
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
        base: Option<&TreeEntry>,
        rule: Rule,
        depth: usize,
    ) -> Result<(), Error> {
        let entries = match base {
            Some(base) => self.index.listing(base).map_err(|error| self.unlisted(error))?,
            None => Vec::new(),
        };
        let names = match safe_open::names(folder, entries.len() + self.limits.files + NAMES_MORE) {
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
        if names.is_empty() && rule.is_touched && !rule.is_protected && !self.limits.as_git {
            self.empty_folder(path)?;
        }
        Ok(())
    }

    /// Records an empty folder: git would not store it, but the agent made it or left it so.
    fn empty_folder(&mut self, path: &[u8]) -> Result<(), Error> {
        let was_there = self.index.find(path).map_err(|error| self.unlisted(error))?;
        let is_there = self.checkout.draft.has(path).map_err(|error| self.unlisted(error))?;
        if is_there && was_there.is_some_and(|entry| entry.kind == EntryKind::Folder) || path.is_empty() {
            return Ok(());
        }
        if self.found.taken.len() + self.found.folders.len() >= self.limits.files {
            return self.give_up(path);
        }
        self.checkout.folder(path)?;
        self.found.folders.push(path.to_vec());
        Ok(())
    }

    fn visit(
        &mut self,
        place: &Place<'_>,
        kind: FileType,
        base: Option<&TreeEntry>,
        rule: Rule,
    ) -> Result<(), Error> {
        if self.is_over || self.is_left_alone(place.path) {
            return Ok(());
        }
        let is_folder = kind == FileType::Directory;
        let mut rule = self.rule(place.path, rule);
        if base.is_none() || is_folder {
            rule.ignored = self.ignoring(place.path, is_folder, rule);
        }
        let base_is_folder = base.is_some_and(|base| base.kind == EntryKind::Folder);
        if !rule.is_touched && !self.touches.reaches_into(place.path) {
            self.seen_outside(place, kind, base);
            return Ok(());
        }
        if base.is_none() && rule.ignored.is_some() && !self.is_named(place.path, is_folder, rule) {
            if rule.is_touched {
                self.found.ignore(place.path, is_folder);
            }
            return Ok(());
        }
        if self.is_tool_cache(place.path) {
            if rule.is_touched && base.is_none() {
                self.found.tool_caches.push(place.path.to_vec());
            }
            return Ok(());
        }
        if place.name.eq_ignore_ascii_case(b".git") && !self.is_let_in(place.path) {
            // A `.git` file belongs to a submodule or a worktree and leads elsewhere.
            let is_named = is_folder && rule.is_touched;
            return if is_named { self.refuse(place.path, ExclusionReason::Repository) } else { Ok(()) };
        }
        match kind {
            FileType::Directory => self.enter(place, base, rule),
            FileType::Symlink if self.is_same_link(place, base) => Ok(()),
            FileType::Symlink if rule.is_touched => self.link(place, base, rule),
            FileType::RegularFile if rule.is_touched => self.file(place, base, rule),
            // The base has files below it that the plan may change.
            FileType::RegularFile if base_is_folder => self.refuse(place.path, ExclusionReason::NotAFolder),
            FileType::RegularFile => {
                self.seen_outside(place, kind, base);
                Ok(())
            }
            _ if rule.is_protected => self.protected(place.path),
            _ if rule.is_touched || base_is_folder => self.refuse(place.path, special(kind)),
            _ => Ok(()),
        }
    }

    fn enter(&mut self, place: &Place<'_>, base: Option<&TreeEntry>, rule: Rule) -> Result<(), Error> {
        let base = match base {
            Some(base) if base.kind != EntryKind::Folder => {
                if !rule.is_touched {
                    return self.refuse(place.path, ExclusionReason::InTheWay);
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
            return self.refuse(place.path, ExclusionReason::TooDeep);
        }
        let stamp = safe_open::stamp_at(place.folder, place.name);
        if let Some(stamp) = stamp.ok().filter(|_| rule.is_touched && !rule.is_protected)
            && !self.modes.are_usual_for_folder(&stamp)
        {
            self.found.folder_modes.push((place.path.to_vec(), stamp.mode & 0o777));
        }
        match safe_open::folder(place.folder, place.name) {
            Ok(inner) => self.folder(&inner, place.path, base, rule, place.depth + 1),
            Err(errno) => self.refuse(place.path, unreadable(errno)),
        }
    }

    /// Handles a path that the base has and the workspace does not.
    fn gone(&mut self, path: &[u8], base: Option<&TreeEntry>, rule: Rule) -> Result<(), Error> {
        let Some(base) = base else { return Ok(()) };
        if self.is_over || self.is_left_alone(path) {
            return Ok(());
        }
        let rule = self.rule(path, rule);
        if !rule.is_touched && !self.touches.reaches_into(path) {
            self.outside(path);
            return Ok(());
        }
        match base.kind {
            EntryKind::Folder => {
                let entries = self.index.listing(base).map_err(|error| self.unlisted(error))?;
                if entries.is_empty() && rule.is_touched && !rule.is_protected && !self.limits.as_git {
                    self.remove(path)?;
                }
                for entry in entries {
                    self.gone(&joined(path, &entry.name), Some(&entry), rule)?;
                }
                Ok(())
            }
            _ if rule.is_protected => self.protected(path),
            _ if !rule.is_touched => {
                self.outside(path);
                Ok(())
            }
            _ if self.touches.lets_in_unseen(path) => self.refuse(path, ExclusionReason::RunnerFile),
            _ => self.remove(path),
        }
    }

    fn remove(&mut self, path: &[u8]) -> Result<(), Error> {
        self.checkout.draft.remove(path).map_err(|error| self.unlisted(error))?;
        self.found.removed.push(path.to_vec());
        Ok(())
    }

    /// Returns whether the path is skipped: the repository itself is never imported, caches come from
    /// before the agent ran, and provost's own files come from the base.
    fn is_left_alone(&self, path: &[u8]) -> bool {
        path.eq_ignore_ascii_case(b".git")
            || self.caches.iter().any(|cache| cache == path)
            || self.own.as_deref() == Some(path)
            || self.own_files.leaves_out(path, self.touches)
    }

    /// Returns whether the path is the cache of a tool, and no glob is exactly its path.
    fn is_tool_cache(&self, path: &[u8]) -> bool {
        tool_caches::is_one(path) && !self.touches.spells_out(path)
    }

    /// Returns whether a glob names this `.git` of a nested repository, and the layer need not fit into a
    /// commit.
    fn is_let_in(&self, path: &[u8]) -> bool {
        self.touches.names_repository(path) && !self.limits.as_git
    }

    fn rule(&self, path: &[u8], above: Rule) -> Rule {
        Rule {
            is_touched: above.is_touched || self.touches.matches(path),
            is_protected: above.is_protected || self.protect.covers(path),
            ..above
        }
    }

    /// Returns the length of the ignored prefix: this path, one above it, or `None`.
    fn ignoring(&self, path: &[u8], is_folder: bool, above: Rule) -> Option<usize> {
        let begins = |ignored: &IgnoreRules| ignored.matches(path, is_folder).then_some(path.len());
        above.ignored.or_else(|| self.ignored.and_then(begins))
    }

    /// Returns whether a glob names this path, or may name something in this folder.
    fn is_named(&self, path: &[u8], is_folder: bool, rule: Rule) -> bool {
        let top = &path[..rule.ignored.unwrap_or_default().min(path.len())];
        let naming = self.namings.iter().filter(|naming| naming.names(top)).map(|naming| naming.glob);
        let globs: Vec<usize> = naming.collect();
        !globs.is_empty() && (is_folder || self.touches.covers_by(&globs, path))
    }

    fn child(&self, folder: Option<&TreeEntry>, name: &[u8]) -> Result<Option<TreeEntry>, Error> {
        let Some(folder) = folder.filter(|folder| folder.kind == EntryKind::Folder) else { return Ok(None) };
        let entries = self.index.listing(folder).map_err(|error| self.unlisted(error))?;
        Ok(entries.into_iter().find(|entry| entry.name == name))
    }

    fn refuse(&mut self, path: &[u8], why: ExclusionReason) -> Result<(), Error> {
        self.found.refuse(path, why);
        Ok(())
    }

    fn give_up(&mut self, path: &[u8]) -> Result<(), Error> {
        self.is_over = true;
        self.refuse(path, ExclusionReason::TooMany)
    }

    fn protected(&mut self, path: &[u8]) -> Result<(), Error> {
        self.found.protected.push(lossy(path));
        Ok(())
    }

    /// Records a difference outside `touches`, as far as it shows without opening the file.
    fn seen_outside(&mut self, place: &Place<'_>, kind: FileType, base: Option<&TreeEntry>) {
        let Some(base) = base else { return };
        let is_same = match (kind, base.kind) {
            (FileType::Directory, EntryKind::Folder) => true,
            (FileType::Symlink, EntryKind::Link) => self.is_same_link(place, Some(base)),
            (FileType::RegularFile, kind) if kind.is_file() => safe_open::stamp_at(place.folder, place.name)
                .is_ok_and(|stamp| stamp.size == base.size && self.has_mode_of(&stamp, kind)),
            _ => false,
        };
        if !is_same {
            self.outside(place.path);
        }
    }

    fn outside(&mut self, path: &[u8]) {
        self.found.see_outside(path);
    }

    fn unlisted(&self, error: io::Error) -> Error {
        Error::io("read the index of", &self.checkout.path, error)
    }
}
