//! The list of a tree's content, folder by folder; each folder is sealed by a digest of its content.
//!
//! The digest of a folder covers the kind, the name and the digest of each entry in byte order, so the
//! digest of the root is the id of the whole tree, the same on every machine. Only the requested folders
//! are read from the index file. A tree that differs in one file consists of a few new folder listings.
//! They are stored in a separate file, with offsets as if they were appended to the old one.
//!
//! **Invariant:** a folder whose digest does not match its content is an error, never an answer.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;

use provost_core::model::hash::Hash;
use sha2::{Digest as _, Sha256};

mod draft;

pub(super) use draft::TreeDraft;

/// Prefix of the input of every folder digest.
const SEAL: &[u8] = b"provost tree 1\n";
/// Size of the last part of the file: offset, length and digest of the root folder.
const TRAILER: u64 = 8 + 8 + 32;
/// A longer folder listing counts as damage.
const LISTING_MAX: u64 = 1 << 30;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EntryKind {
    File,
    /// An executable file.
    Program,
    /// A file with other permissions than 0644 and 0755.
    Moded(u16),
    Link,
    Folder,
}

impl EntryKind {
    /// Returns the kind of a file. Group write permission depends on the umask and is not part of a tree.
    pub(super) fn of_file(mode: u32) -> Self {
        match mode & 0o777 {
            0o644 | 0o664 => Self::File,
            0o755 | 0o775 => Self::Program,
            // A file that its owner cannot read is useless in a tree.
            mode if mode & 0o400 == 0 => Self::of_git(mode & 0o100 != 0),
            mode => u16::try_from(mode).map_or(Self::File, Self::Moded),
        }
    }

    /// Returns the kind as far as git records it.
    pub(super) fn of_git(is_program: bool) -> Self {
        if is_program { Self::Program } else { Self::File }
    }

    /// Reduces the kind to what git can record.
    pub(super) fn as_in_git(self) -> Self {
        if self.is_file() { Self::of_git(self.is_program()) } else { self }
    }

    pub(super) fn is_file(self) -> bool {
        matches!(self, Self::File | Self::Program | Self::Moded(_))
    }

    pub(super) fn is_program(self) -> bool {
        self.is_file() && self.mode() & 0o100 != 0
    }

    pub(super) fn mode(self) -> u32 {
        match self {
            Self::Program | Self::Folder => 0o755,
            Self::File | Self::Link => 0o644,
            Self::Moded(mode) => u32::from(mode),
        }
    }

    /// Returns the encoding for listings and digests.
    pub(super) fn letters(self) -> Vec<u8> {
        match self {
            Self::File => vec![b'f'],
            Self::Program => vec![b'x'],
            Self::Moded(mode) => [&b"m"[..], &mode.to_be_bytes()].concat(),
            Self::Link => vec![b'l'],
            Self::Folder => vec![b'd'],
        }
    }

    /// Reads a kind from the front of some bytes.
    pub(super) fn read<'b>(take: &mut impl FnMut(usize) -> Option<&'b [u8]>) -> Option<Self> {
        Some(match take(1)? {
            b"f" => Self::File,
            b"x" => Self::Program,
            b"m" => Self::Moded(u16::from_be_bytes(take(2)?.try_into().ok()?)),
            b"l" => Self::Link,
            b"d" => Self::Folder,
            _ => return None,
        })
    }
}

/// One name in a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TreeEntry {
    pub name: Vec<u8>,
    pub kind: EntryKind,
    pub digest: Hash,
    /// Bytes of a file or of a link's target; for a folder, the length of its listing.
    pub size: u64,
    /// Offset of the listing of a folder.
    at: u64,
}

/// A file or a link at the end of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Leaf {
    pub kind: EntryKind,
    pub digest: Hash,
    pub size: u64,
}

/// The stored list of one tree.
#[derive(Debug)]
pub(super) struct Index {
    kept: Kept,
    root: TreeEntry,
    /// The index that this one continues, and its length.
    before: Option<(Arc<Index>, u64)>,
}

#[derive(Debug)]
enum Kept {
    File(File),
    Memory(Vec<u8>),
}

impl Kept {
    fn length(&self) -> io::Result<u64> {
        match self {
            Self::File(file) => Ok(file.metadata()?.len()),
            Self::Memory(bytes) => Ok(bytes.len() as u64),
        }
    }

    fn read(&self, bytes: &mut [u8], at: u64) -> io::Result<()> {
        match self {
            Self::File(file) => file.read_exact_at(bytes, at),
            Self::Memory(whole) => {
                let begin = usize::try_from(at).map_err(|_| damaged())?;
                let end = begin.checked_add(bytes.len()).ok_or_else(damaged)?;
                bytes.copy_from_slice(whole.get(begin..end).ok_or_else(damaged)?);
                Ok(())
            }
        }
    }
}

impl Index {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        Self::new(Kept::File(File::open(path)?), None)
    }

    /// Opens an index that continues another.
    pub(super) fn open_behind(path: &Path, before: &Arc<Index>) -> io::Result<Self> {
        Self::new(Kept::File(File::open(path)?), Some(before))
    }

    /// Makes an index that continues another and is not stored yet.
    pub(super) fn in_memory(bytes: Vec<u8>, before: &Arc<Index>) -> io::Result<Self> {
        Self::new(Kept::Memory(bytes), Some(before))
    }

    fn new(kept: Kept, before: Option<&Arc<Index>>) -> io::Result<Self> {
        let mut trailer = [0; TRAILER as usize];
        kept.read(&mut trailer, kept.length()?.checked_sub(TRAILER).ok_or_else(damaged)?)?;
        let mut bytes = Bytes(&trailer);
        let (at, size) = (bytes.number()?, bytes.number()?);
        let root = TreeEntry { name: Vec::new(), kind: EntryKind::Folder, digest: bytes.digest()?, size, at };
        let before = before.map(|before| Ok::<_, io::Error>((before.clone(), before.kept.length()?)));
        Ok(Self { kept, root, before: before.transpose()? })
    }

    fn read(&self, bytes: &mut [u8], at: u64) -> io::Result<()> {
        match &self.before {
            Some((before, length)) if at < *length => before.kept.read(bytes, at),
            Some((_, length)) => self.kept.read(bytes, at - length),
            None => self.kept.read(bytes, at),
        }
    }

    pub(super) fn root(&self) -> &TreeEntry {
        &self.root
    }

    pub(super) fn id(&self) -> String {
        self.root.digest.to_string()
    }

    /// Returns the content of a folder, by name.
    pub(super) fn listing(&self, folder: &TreeEntry) -> io::Result<Vec<TreeEntry>> {
        if folder.kind != EntryKind::Folder || folder.size > LISTING_MAX {
            return Err(damaged());
        }
        let mut bytes = vec![0; folder.size as usize];
        self.read(&mut bytes, folder.at)?;
        let mut bytes = Bytes(&bytes);
        let mut entries = Vec::new();
        while !bytes.0.is_empty() {
            entries.push(bytes.entry()?);
        }
        if seal(&entries) == folder.digest { Ok(entries) } else { Err(damaged()) }
    }

    /// Returns the entry at a path, or `None`.
    pub(super) fn find(&self, path: &[u8]) -> io::Result<Option<TreeEntry>> {
        let mut here = self.root.clone();
        for part in path.split(|byte| *byte == b'/').filter(|part| !part.is_empty()) {
            if here.kind != EntryKind::Folder {
                return Ok(None);
            }
            let mut entries = self.listing(&here)?;
            match entries.binary_search_by(|entry| entry.name.as_slice().cmp(part)) {
                Ok(place) => here = entries.swap_remove(place),
                Err(_) => return Ok(None),
            }
        }
        Ok(Some(here))
    }

    /// Calls `each` for every entry below a folder with its path; folders come before their content.
    pub(super) fn walk(
        &self,
        path: &[u8],
        folder: &TreeEntry,
        each: &mut dyn FnMut(&[u8], &TreeEntry) -> io::Result<()>,
    ) -> io::Result<()> {
        for entry in self.listing(folder)? {
            let path = joined(path, &entry.name);
            each(&path, &entry)?;
            if entry.kind == EntryKind::Folder {
                self.walk(&path, &entry, each)?;
            }
        }
        Ok(())
    }

    /// Returns the bytes that already follow the first index, to be extended, and the length of that first
    /// index.
    fn behind(&self) -> io::Result<(Vec<u8>, u64)> {
        match &self.before {
            None => Ok((Vec::new(), self.kept.length()?)),
            Some((_, length)) => {
                let mut bytes = vec![0; self.kept.length()? as usize];
                self.kept.read(&mut bytes, 0)?;
                Ok((bytes, *length))
            }
        }
    }
}

fn seal(entries: &[TreeEntry]) -> Hash {
    let mut hasher = Sha256::new();
    hasher.update(SEAL);
    for entry in entries {
        hasher.update(entry.kind.letters());
        hasher.update(&entry.name);
        // No name contains a zero byte.
        hasher.update([0]);
        hasher.update(entry.digest.0);
    }
    Hash(hasher.finalize().into())
}

pub(super) fn joined(folder: &[u8], name: &[u8]) -> Vec<u8> {
    if folder.is_empty() { name.to_vec() } else { [folder, b"/", name].concat() }
}

fn damaged() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the index is damaged")
}

/// Bytes that are read from the front.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, count: usize) -> io::Result<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or_else(damaged)?;
        self.0 = rest;
        Ok(taken)
    }

    fn number(&mut self) -> io::Result<u64> {
        let bytes = self.take(8)?;
        Ok(bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    fn digest(&mut self) -> io::Result<Hash> {
        let mut digest = [0; 32];
        digest.copy_from_slice(self.take(32)?);
        Ok(Hash(digest))
    }

    fn entry(&mut self) -> io::Result<TreeEntry> {
        let kind = EntryKind::read(&mut |count| self.take(count).ok()).ok_or_else(damaged)?;
        let length = usize::try_from(self.number()?).map_err(|_| damaged())?;
        let name = self.take(length)?.to_vec();
        Ok(TreeEntry { name, kind, digest: self.digest()?, size: self.number()?, at: self.number()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leaf(text: &str) -> Leaf {
        Leaf { kind: EntryKind::File, digest: Hash::of(text.as_bytes()), size: text.len() as u64 }
    }

    fn kept(draft: &TreeDraft<'_>, folder: &Path) -> Index {
        let path = folder.join("index");
        std::fs::write(&path, draft.sealed().unwrap()).unwrap();
        Index::open(&path).unwrap()
    }

    #[test]
    fn the_same_tree_has_the_same_id_however_it_came_about() {
        let folder = tempfile::tempdir().unwrap();
        let mut first = TreeDraft::default();
        for path in ["a/b/c", "a/b2", "z"] {
            first.set(path.as_bytes(), leaf(path)).unwrap();
        }
        let index = kept(&first, folder.path());
        assert_eq!(index.id(), first.id());
        assert_eq!(index.id(), "3788107a08f765a1d2f408ca6081b48891fa35d68b433baa1e9c70b27830e802");

        let mut second = TreeDraft::on(&index).unwrap();
        second.set(b"a/b/d/e", leaf("new")).unwrap();
        second.remove(b"z").unwrap();
        assert_ne!(second.id(), first.id());
        let second_id = second.id();
        // Follows the first one, and is no longer than what is new.
        let first_index = Arc::new(index);
        let second = {
            let mut again = TreeDraft::on(&first_index).unwrap();
            again.set(b"a/b/d/e", leaf("new")).unwrap();
            again.remove(b"z").unwrap();
            assert_eq!(again.id(), second_id);
            again
        };
        let index = Index::in_memory(second.sealed().unwrap(), &first_index).unwrap();
        assert_eq!(index.id(), second.id());
        let mut third = TreeDraft::on(&index).unwrap();
        third.set(b"z", leaf("z")).unwrap();
        third.remove(b"a/b/d/e").unwrap();
        assert_eq!(third.id(), first.id(), "an emptied folder is gone");
        let mut paths = Vec::new();
        let mut each = |path: &[u8], _: &TreeEntry| {
            paths.push(String::from_utf8_lossy(path).into_owned());
            Ok(())
        };
        index.walk(b"", index.root(), &mut each).unwrap();
        assert_eq!(paths, ["a", "a/b", "a/b/c", "a/b/d", "a/b/d/e", "a/b2"]);
    }

    #[test]
    fn a_damaged_listing_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let mut draft = TreeDraft::default();
        draft.set(b"a/b", leaf("b")).unwrap();
        let bytes = draft.sealed().unwrap();
        let path = folder.path().join("index");
        for place in 0..bytes.len() {
            let mut spoilt = bytes.clone();
            spoilt[place] ^= 1;
            std::fs::write(&path, &spoilt).unwrap();
            let answer = Index::open(&path).and_then(|index| index.find(b"a/b"));
            // Sizes and offsets are not part of an id; a wrong offset shows in what is read there.
            let same = matches!(&answer, Ok(Some(entry)) if entry.digest == Hash::of(b"b"));
            assert!(answer.is_err() || same, "byte {place}: {answer:?}");
        }
        std::fs::write(&path, b"").unwrap();
        assert!(Index::open(&path).is_err());
    }
}
