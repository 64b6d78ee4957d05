//! A tree that is being put together; it reads only the stored folders that change.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use super::{EntryKind, Index, Leaf, TreeEntry, damaged, seal};

/// A tree that is being put together, from nothing or from a stored one.
#[derive(Default)]
pub(crate) struct TreeDraft<'a> {
    kept: Option<&'a Index>,
    root: Names,
}

type Names = BTreeMap<Vec<u8>, Node>;

enum Node {
    Leaf(Leaf),
    /// A folder of the stored index that has not been read.
    Kept(TreeEntry),
    Folder(Names),
}

impl<'a> TreeDraft<'a> {
    pub(crate) fn on(index: &'a Index) -> io::Result<Self> {
        Ok(Self { kept: Some(index), root: names(index, index.root())? })
    }

    /// Puts a file or a link at a path, replacing what was there.
    pub(crate) fn set(&mut self, path: &[u8], leaf: Leaf) -> io::Result<()> {
        let (folder, name) = parted(path);
        self.open(folder)?.insert(name.to_vec(), Node::Leaf(leaf));
        Ok(())
    }

    /// Adds a folder, even if it stays empty.
    pub(crate) fn folder(&mut self, path: &[u8]) -> io::Result<()> {
        self.open(path).map(|_| ())
    }

    pub(crate) fn get(&mut self, path: &[u8]) -> io::Result<Option<Leaf>> {
        let kept = self.kept;
        let mut here = &mut self.root;
        let (folder, name) = parted(path);
        for part in parts(folder) {
            match here.get_mut(part) {
                Some(node) => match look_into(node, kept)? {
                    Some(names) => here = names,
                    None => return Ok(None),
                },
                None => return Ok(None),
            }
        }
        Ok(match here.get(name) {
            Some(Node::Leaf(leaf)) => Some(*leaf),
            _ => None,
        })
    }

    /// Returns whether there is an entry at a path.
    pub(crate) fn has(&mut self, path: &[u8]) -> io::Result<bool> {
        let kept = self.kept;
        let mut here = &mut self.root;
        let mut parts = parts(path).peekable();
        while let Some(part) = parts.next() {
            let Some(node) = here.get_mut(part) else { return Ok(false) };
            if parts.peek().is_none() {
                return Ok(true);
            }
            match look_into(node, kept)? {
                Some(names) => here = names,
                None => return Ok(false),
            }
        }
        Ok(true)
    }

    /// Returns the removed paths; for a folder that is completely gone, the uppermost such folder instead
    /// of its files.
    pub(crate) fn vanished(&mut self, removed: &[Vec<u8>]) -> io::Result<Vec<Vec<u8>>> {
        let mut tops = BTreeSet::new();
        for path in removed {
            // Another entry is there, or above it, and covers it.
            if self.has(path)? || self.is_beneath_a_leaf(path)? {
                continue;
            }
            let mut top = path.as_slice();
            while let (folder @ [_, ..], _) = parted(top)
                && !self.has(folder)?
            {
                top = folder;
            }
            tops.insert(top.to_vec());
        }
        Ok(tops.into_iter().collect())
    }

    fn is_beneath_a_leaf(&mut self, path: &[u8]) -> io::Result<bool> {
        let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
        for end in ends {
            if self.get(&path[..end])?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Removes a file or a link, and the folders that become empty.
    pub(crate) fn remove(&mut self, path: &[u8]) -> io::Result<()> {
        let kept = self.kept;
        let parts: Vec<&[u8]> = parts(path).collect();
        removed(&mut self.root, &parts, kept).map(|_| ())
    }

    /// Returns the id of this tree.
    pub(crate) fn id(&self) -> String {
        written(&self.root, &mut Vec::new(), 0).digest.to_string()
    }

    /// Returns the bytes of its index: to follow the first index, if it was made from a stored one.
    pub(crate) fn sealed(&self) -> io::Result<Vec<u8>> {
        let (mut bytes, length) = self.kept.map_or(Ok((Vec::new(), 0)), Index::behind)?;
        let root = written(&self.root, &mut bytes, length);
        bytes.extend(root.at.to_be_bytes());
        bytes.extend(root.size.to_be_bytes());
        bytes.extend(root.digest.0);
        Ok(bytes)
    }

    fn open(&mut self, path: &[u8]) -> io::Result<&mut Names> {
        let kept = self.kept;
        let mut here = &mut self.root;
        for part in parts(path) {
            let node = here.entry(part.to_vec()).or_insert_with(|| Node::Folder(Names::new()));
            if matches!(node, Node::Leaf(_)) {
                *node = Node::Folder(Names::new());
            }
            here = look_into(node, kept)?.ok_or_else(damaged)?;
        }
        Ok(here)
    }
}

fn names(index: &Index, folder: &TreeEntry) -> io::Result<Names> {
    let node = |entry: TreeEntry| match entry.kind {
        EntryKind::Folder => Node::Kept(entry),
        kind => Node::Leaf(Leaf { kind, digest: entry.digest, size: entry.size }),
    };
    let entries = index.listing(folder)?;
    Ok(entries.into_iter().map(|entry| (entry.name.clone(), node(entry))).collect())
}

/// Returns the names in a folder and reads them on first use. `None` if it is not a folder.
fn look_into<'n>(node: &'n mut Node, kept: Option<&Index>) -> io::Result<Option<&'n mut Names>> {
    if let (Node::Kept(entry), Some(index)) = (&*node, kept) {
        *node = Node::Folder(names(index, entry)?);
    }
    Ok(match node {
        Node::Folder(names) => Some(names),
        Node::Leaf(_) | Node::Kept(_) => None,
    })
}

/// Removes a path. Returns true if the folder is empty now.
fn removed(here: &mut Names, path: &[&[u8]], kept: Option<&Index>) -> io::Result<bool> {
    match path {
        [] => {}
        [name] => {
            here.remove(*name);
        }
        [name, rest @ ..] => {
            if let Some(node) = here.get_mut(*name)
                && let Some(names) = look_into(node, kept)?
                && removed(names, rest, kept)?
            {
                here.remove(*name);
            }
        }
    }
    Ok(here.is_empty())
}

/// Appends the listings of this folder and of new folders below it to `bytes`, which themselves follow an
/// index of this `length`.
fn written(names: &Names, bytes: &mut Vec<u8>, length: u64) -> TreeEntry {
    let entries: Vec<TreeEntry> = names
        .iter()
        .map(|(name, node)| match node {
            Node::Leaf(Leaf { kind, digest, size }) => {
                TreeEntry { name: name.clone(), kind: *kind, digest: *digest, size: *size, at: 0 }
            }
            Node::Kept(entry) => entry.clone(),
            Node::Folder(names) => TreeEntry { name: name.clone(), ..written(names, bytes, length) },
        })
        .collect();
    let begin = bytes.len() as u64;
    for entry in &entries {
        bytes.extend(entry.kind.letters());
        bytes.extend((entry.name.len() as u64).to_be_bytes());
        bytes.extend(&entry.name);
        bytes.extend(entry.digest.0);
        bytes.extend(entry.size.to_be_bytes());
        bytes.extend(entry.at.to_be_bytes());
    }
    let size = bytes.len() as u64 - begin;
    TreeEntry { name: Vec::new(), kind: EntryKind::Folder, digest: seal(&entries), size, at: length + begin }
}

fn parts(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.split(|byte| *byte == b'/').filter(|part| !part.is_empty())
}

/// Splits a path into its folder and its last name.
fn parted(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|byte| *byte == b'/') {
        Some(slash) => (&path[..slash], &path[slash + 1..]),
        None => (b"", path),
    }
}
