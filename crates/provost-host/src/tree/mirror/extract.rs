//! Writes the tree of a commit into a folder, as git prints its objects.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use provost_core::model::hash::Hash;
use provost_core::model::plan::Stream;

use super::{COMPLAINT_MAX, Limit, Mirror, USUAL};
use crate::activity::Activity;
use crate::process::HeadAndTail;
use crate::tree::checkout::{FileWriters, TreeWriter, lossy, stays_inside};
use crate::tree::index::{EntryKind, Leaf, joined};
use crate::tree::line_ends::{self, FILE_BYTES, LineEndRules, LineEnds};
use crate::tree::touches::is_at_or_beneath;
use crate::tree::{Error, ExcludedPath, ExclusionReason};

const TARGET_MAX: usize = 4096;
/// Larger files are written as they arrive.
const AT_ONCE: u64 = 1 << 20;

/// A commit of another repository that belongs at a path.
pub(crate) struct Submodule {
    pub path: Vec<u8>,
    pub commit: String,
}

impl Mirror<'_> {
    /// Returns every file of the commit's tree, as git lists it.
    pub(crate) fn listing(&self) -> Result<Vec<u8>, Error> {
        self.git(&["ls-tree", "-r", "-z", "--full-tree", self.commit], b"", &[])
    }

    /// Reads the line-end rules from the attributes files in a listing.
    pub(crate) fn line_ends(&self, listing: &[u8]) -> Result<LineEnds, Error> {
        let mut wanted = Vec::new();
        for line in listing.split(|byte| *byte == 0).filter(|line| line.ends_with(line_ends::NAME)) {
            let Listed { kind, id, path } = self.entry(line)?;
            let name = path.rsplit(|byte| *byte == b'/').next();
            if kind.is_some_and(EntryKind::is_file) && name == Some(line_ends::NAME) {
                wanted.push((path.to_vec(), lossy(id)));
            }
        }
        let mut texts = Vec::new();
        for (path, id) in wanted {
            texts.push((path, self.git(&["cat-file", "blob", &id], b"", &[])?));
        }
        Ok(LineEnds::of_texts(texts.into_iter()))
    }

    /// Writes the tree of the commit into the folder `into`. No filter is run; line ends follow `ends`, or
    /// else the attributes of the commit. Paths in `without` are left for the caller to write. Returns the
    /// submodules.
    pub(crate) fn extract(
        &self,
        checkout: &mut TreeWriter<'_>,
        (into, ends): (&[u8], Option<&LineEnds>),
        without: &[Vec<u8>],
        left_out: &mut Vec<ExcludedPath>,
    ) -> Result<Vec<Submodule>, Error> {
        let list = self.listing()?;
        let own = if ends.is_none() { self.line_ends(&list)? } else { LineEnds::default() };
        let mut wanted = Vec::new();
        let mut submodules = Vec::new();
        let mut ids = Vec::new();
        for line in list.split(|byte| *byte == 0).filter(|line| !line.is_empty()) {
            let Listed { kind, id, path } = self.entry(line)?;
            if !is_harmless(path) {
                left_out.push(ExcludedPath { path: lossy(path), why: ExclusionReason::Name });
                continue;
            }
            if without.iter().any(|folder| is_at_or_beneath(path, folder)) {
                continue;
            }
            let Some(kind) = kind else {
                submodules.push(Submodule { path: joined(into, path), commit: lossy(id) });
                continue;
            };
            ids.extend_from_slice(id);
            ids.push(b'\n');
            let ends = ends.unwrap_or(&own).of(path);
            wanted.push((joined(into, path), kind, ends));
        }
        thread::scope(|scope| {
            let writers = checkout.writers(scope)?;
            let written = self.write_objects(&ids, wanted, (checkout, &writers), left_out);
            let ended = writers.end(checkout);
            written.and(ended)
        })?;
        // Everything that the tree needs came from the mirror alone.
        let marked = fs::write(self.marker(), b"");
        marked.map(|()| submodules).map_err(|error| Error::io("write", &self.marker(), error))
    }

    /// Lets git print the objects, and has them written.
    fn write_objects(
        &self,
        ids: &[u8],
        wanted: Vec<WantedFile>,
        (checkout, writers): (&mut TreeWriter<'_>, &FileWriters<'_>),
        left_out: &mut Vec<ExcludedPath>,
    ) -> Result<(), Error> {
        let total = wanted.len();
        let activity = Activity::counting("copying the files of the commit", total);
        let wanted = wanted.into_iter();
        let mut writing = Writing { wanted, checkout, writers, left_out, now: None, line: Vec::new() };
        let stop = AtomicBool::new(false);
        let mut failed = None;
        let mut take = |stream: Stream, bytes: &[u8]| {
            if stream == Stream::Stdout
                && failed.is_none()
                && let Err(error) = writing.take(bytes)
            {
                failed = Some(error);
                stop.store(true, Ordering::Relaxed);
            }
            activity.has_done(total - writing.wanted.len());
        };
        let args = ["cat-file", "--batch", "--buffer"].map(OsString::from);
        let keep = HeadAndTail { head: 0, tail: COMPLAINT_MAX };
        let limit = Limit { stop: Some(&stop), ..USUAL };
        let ended = self.run(&args, ids, &[], keep, limit, Some(&mut take));
        if let Some(error) = failed {
            return Err(error);
        }
        self.succeeded(&ended?)?;
        match writing.now.is_none() && writing.line.is_empty() && writing.wanted.next().is_none() {
            true => Ok(()),
            false => Err(self.said("git stopped before the last object")),
        }
    }

    /// Parses `100644 blob <id>\t<path>`.
    fn entry<'l>(&self, line: &'l [u8]) -> Result<Listed<'l>, Error> {
        let odd = || self.said("git listed a tree in an unknown way");
        let tab = line.iter().position(|byte| *byte == b'\t').ok_or_else(odd)?;
        let mut words = line[..tab].split(|byte| *byte == b' ');
        let (mode, _, id) = (words.next(), words.next(), words.next());
        let kind = match mode {
            Some(b"120000") => Some(EntryKind::Link),
            Some(b"160000") => None,
            Some(b"100755") => Some(EntryKind::Program),
            Some(mode) if mode.starts_with(b"100") => Some(EntryKind::File),
            _ => return Err(odd()),
        };
        Ok(Listed { kind, id: id.ok_or_else(odd)?, path: &line[tab + 1..] })
    }
}

/// One path of a commit's tree.
struct Listed<'l> {
    /// `None` for a commit of another repository.
    kind: Option<EntryKind>,
    id: &'l [u8],
    path: &'l [u8],
}

/// A file or a link of the tree, in the order of the objects.
type WantedFile = (Vec<u8>, EntryKind, LineEndRules);

/// Has objects written to files as git prints them.
struct Writing<'w, 'c> {
    wanted: std::vec::IntoIter<WantedFile>,
    checkout: &'w mut TreeWriter<'c>,
    writers: &'w FileWriters<'w>,
    left_out: &'w mut Vec<ExcludedPath>,
    now: Option<Object>,
    /// The header line of an object, as far as it has arrived.
    line: Vec<u8>,
}

struct Object {
    path: Vec<u8>,
    kind: EntryKind,
    ends: LineEndRules,
    /// Number of bytes still to come, including the newline after the object.
    left: u64,
    to: To,
}

enum To {
    /// Small enough to be written at once, or the target of a link.
    Memory(Vec<u8>),
    File(fs::File, sha2::Sha256, u64),
}

impl Writing<'_, '_> {
    fn take(&mut self, mut bytes: &[u8]) -> Result<(), Error> {
        while !bytes.is_empty() {
            match &mut self.now {
                None => {
                    let end = bytes.iter().position(|byte| *byte == b'\n');
                    let (line, rest) = bytes.split_at(end.map_or(bytes.len(), |end| end + 1));
                    self.line.extend_from_slice(line);
                    bytes = rest;
                    if end.is_some() {
                        let line = std::mem::take(&mut self.line);
                        self.now = Some(self.begin(&line)?);
                    }
                }
                Some(object) => {
                    let (now, rest) = bytes.split_at(bytes.len().min(object.left as usize));
                    object.take(now)?;
                    bytes = rest;
                }
            }
            if self.now.as_ref().is_some_and(|object| object.left == 0)
                && let Some(object) = self.now.take()
            {
                self.end(object)?;
            }
        }
        Ok(())
    }

    /// Parses `<id> blob <size>` or `<id> missing`.
    fn begin(&mut self, line: &[u8]) -> Result<Object, Error> {
        let (path, kind, ends) =
            self.wanted.next().unwrap_or((Vec::new(), EntryKind::File, LineEndRules::default()));
        let text = lossy(line);
        let words: Vec<&str> = text.split_whitespace().collect();
        let size = match words[..] {
            [_, "blob", size] if !path.is_empty() => size.parse::<u64>().ok(),
            _ => None,
        };
        let size = size.ok_or_else(|| Error::Object { path: lossy(&path), said: text.trim().to_owned() })?;
        let to = match kind {
            EntryKind::Link if size > TARGET_MAX as u64 => {
                return Err(Error::Object { path: lossy(&path), said: "a link this long".into() });
            }
            kind if kind.is_file() && size > AT_ONCE && !(ends.are_changed() && size <= FILE_BYTES) => {
                To::File(self.checkout.file(&path, kind)?, sha2::Digest::new(), 0)
            }
            _ => To::Memory(Vec::with_capacity(size as usize + 1)),
        };
        Ok(Object { path, kind, ends, left: size + 1, to })
    }

    fn end(&mut self, object: Object) -> Result<(), Error> {
        let Object { path, kind, ends, to, .. } = object;
        match to {
            To::Memory(bytes) if kind == EntryKind::Link => match stays_inside(&path, &bytes) {
                true => self.checkout.link(&path, &bytes),
                false => {
                    self.left_out.push(ExcludedPath { path: lossy(&path), why: ExclusionReason::LeadsOut });
                    Ok(())
                }
            },
            To::Memory(bytes) => {
                let bytes = ends.checked_out(&bytes).unwrap_or(bytes);
                match bytes.len() as u64 > AT_ONCE {
                    true => self.checkout.write(&path, kind, &bytes),
                    false => self.checkout.write_later(self.writers, path, kind, bytes),
                }
            }
            To::File(_, hasher, size) => {
                let digest = Hash(sha2::Digest::finalize(hasher).into());
                self.checkout.holds(&path, Leaf { kind, digest, size })
            }
        }
    }
}

impl Object {
    fn take(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.left -= bytes.len() as u64;
        // The last byte is the newline after the object.
        let bytes = if self.left == 0 { &bytes[..bytes.len() - 1] } else { bytes };
        match &mut self.to {
            To::Memory(memory) => memory.extend_from_slice(bytes),
            To::File(file, hasher, size) => {
                std::io::Write::write_all(file, bytes)
                    .map_err(|error| Error::io("write", Path::new(&lossy(&self.path)), error))?;
                sha2::Digest::update(hasher, bytes);
                *size += bytes.len() as u64;
            }
        }
        Ok(())
    }
}

/// Returns false for names that git itself would not check out, but that a hand-made tree can contain.
pub(crate) fn is_harmless(path: &[u8]) -> bool {
    !path.is_empty()
        && path
            .split(|byte| *byte == b'/')
            .all(|part| !matches!(part, b"" | b"." | b"..") && !part.eq_ignore_ascii_case(b".git"))
}
