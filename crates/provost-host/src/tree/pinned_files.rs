//! Puts the files that contracts name into a tree, as they were when a person approved them.

use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use provost_core::model::event::NamedFile;
use provost_core::model::hash::Hash;

use super::checkout::TreeWriter;
use super::index::{EntryKind, Leaf};
use super::{Error, inside};
use crate::files::safe_open;

/// Named files are read completely at approval; see `files`.
const SIZE_MAX: u64 = 64 << 20;
/// Limit on the length of a chain of links.
const HOPS: usize = 8;

/// Makes sure that the tree has each named file with the approved content: from the tree itself, or from
/// the workspace. Otherwise returns an error. Returns whether it copied a file from the workspace.
pub(super) fn put(
    workspace: &Path,
    files: &[NamedFile],
    checkout: &mut TreeWriter<'_>,
) -> Result<bool, Error> {
    let mut has_copied = false;
    for file in files {
        let path = resolved(checkout, inside(&file.path)?)?;
        let there = checkout.draft.get(&path).map_err(|error| Error::io("look for", workspace, error))?;
        if there.is_some_and(|leaf| leaf.digest.to_string() == file.sha256) {
            continue;
        }
        let refused = || Error::NotAsApproved { path: file.path.clone() };
        let top = safe_open::top(workspace).map_err(|errno| Error::io("open", workspace, errno))?;
        // Links inside the workspace may have led to it when it was approved.
        let from = open_following(&top, &file.path).ok_or_else(refused)?;
        let stamp = safe_open::stamp(&from).map_err(|errno| Error::io("look at", workspace, errno))?;
        let mut bytes = Vec::new();
        let read = safe_open::copy(&from, &mut bytes, SIZE_MAX);
        let (digest, size) = read.map_err(|error| Error::io("read", Path::new(&file.path), error))?;
        if digest.to_string() != file.sha256 {
            return Err(refused());
        }
        has_copied = true;
        let kind = EntryKind::of_file(stamp.mode);
        match there {
            Some(_) => checkout.replace(&path, Leaf { kind, digest, size }, &bytes)?,
            None => checkout.write(&path, kind, &bytes)?,
        }
    }
    Ok(has_copied)
}

/// Resolves a path in the tree. The tree's links stay inside it and have all `..` first, so names can be
/// joined as text.
fn resolved(checkout: &mut TreeWriter<'_>, path: Vec<u8>) -> Result<Vec<u8>, Error> {
    let mut path = path;
    'again: for _ in 0..HOPS {
        let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
        for end in ends.chain([path.len()]).collect::<Vec<_>>() {
            if let Some(target) = checkout.target(&path[..end]) {
                let folder = path[..end].iter().rposition(|byte| *byte == b'/').unwrap_or(0);
                let whole = [&path[..folder], b"/", target, &path[end..]].concat();
                path = collapsed(&whole);
                continue 'again;
            }
        }
        break;
    }
    Ok(path)
}

fn collapsed(path: &[u8]) -> Vec<u8> {
    let mut parts: Vec<&[u8]> = Vec::new();
    for part in path.split(|byte| *byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." => {
                parts.pop();
            }
            name => parts.push(name),
        }
    }
    parts.join(&b'/')
}

fn open_following(top: &std::os::fd::OwnedFd, path: &str) -> Option<File> {
    use rustix::fs::{Mode, OFlags};
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    #[cfg(target_os = "linux")]
    let opened = {
        use rustix::fs::ResolveFlags;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        rustix::fs::openat2(top, path, flags, Mode::empty(), resolve).map(File::from).ok()
    };
    #[cfg(not(target_os = "linux"))]
    let opened = safe_open::file(top, path.as_bytes()).ok();
    let _ = (flags, Mode::empty());
    opened.filter(|file| file.metadata().is_ok_and(|metadata| metadata.is_file()))
}

impl TreeWriter<'_> {
    /// Replaces the content of a file that was just written.
    fn replace(&mut self, path: &[u8], leaf: Leaf, bytes: &[u8]) -> Result<(), Error> {
        let at = self.path.join(OsStr::from_bytes(path));
        std::fs::remove_file(&at).map_err(|error| Error::io("replace", &at, error))?;
        debug_assert_eq!(leaf.digest, Hash::of(bytes));
        self.write(path, leaf.kind, bytes)
    }
}
