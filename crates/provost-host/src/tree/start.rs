//! Determines the tree that an attempt begins with, and the differences between two trees.
//!
//! The workspace may differ from the base because a person or an earlier attempt worked in it. Changes made
//! by others are part of the tree the attempt begins with, so that they are not credited to the attempt.
//! Changes that an earlier attempt at the same work left are not part of it: they are judged together with
//! what this attempt adds.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use super::checkout::lossy;
use super::index::{Index, Leaf};
use super::{Base, Error, Layer, Trees, Variation};

/// The trees of an attempt at work that is not settled yet.
#[derive(Clone, Debug)]
pub struct OpenAttemptTrees {
    pub start: Base,
    pub left: Option<Base>,
}

/// The tree an attempt begins with.
#[derive(Clone, Debug)]
pub struct AttemptStart {
    pub tree: Base,
    /// Paths that others changed, as text for people.
    pub others: Vec<String>,
}

impl Trees {
    /// Returns the base with the workspace's differences (`layer`), without those that an unsettled attempt
    /// left. Files that are as in one of `own` do not count as changes by others; it is called only if there
    /// are differences, because a long plan has left many trees.
    pub fn start(
        &self,
        base: &Base,
        layer: Layer,
        before: Option<&OpenAttemptTrees>,
        own: &dyn Fn() -> Result<Vec<Base>, Error>,
    ) -> Result<AttemptStart, Error> {
        let failed = |error: io::Error| Error::io("read the list of", &base.path, error);
        let taken = layer.taken.iter().map(|(path, leaf)| (path.clone(), Some(*leaf)));
        let removed = layer.removed.iter().map(|path| (path.clone(), None));
        let mut stays = BTreeSet::new();
        let mut others = Vec::new();
        let mut own_trees: Option<Vec<Base>> = None;
        for (path, now) in taken.chain(removed) {
            let is_as_in = |tree: &Base| Ok::<_, io::Error>(leaf(&tree.index, &path)? == now);
            let was_there =
                before.map(|before| is_as_in(&before.start)).transpose().map_err(failed)?.unwrap_or(false);
            let left = before.and_then(|before| before.left.as_ref());
            if !was_there && left.map(&is_as_in).transpose().map_err(failed)?.unwrap_or(false) {
                continue;
            }
            let own_trees = match &mut own_trees {
                Some(known) => known,
                unknown => unknown.insert(own()?),
            };
            let mut is_own = false;
            for tree in own_trees.iter() {
                is_own = is_own || is_as_in(tree).map_err(failed)?;
            }
            if !is_own {
                others.push(lossy(&path));
            }
            stays.insert(PathBuf::from(OsStr::from_bytes(&path)));
        }
        others.sort();
        let all = stays.len() == layer.taken.len() + layer.removed.len();
        let tree = match all {
            true => self.advance(base, layer)?,
            false => {
                let stays = |path: &Path| stays.contains(path);
                self.advance(base, self.varied(base, &layer, &Variation::Only(&stays))?)?
            }
        };
        Ok(AttemptStart { tree, others })
    }

    /// Returns the paths at which two trees differ, as exact bytes, in order.
    pub fn differing_paths(&self, old: &Base, new: &Base) -> Result<Vec<PathBuf>, Error> {
        if old.id == new.id {
            return Ok(Vec::new());
        }
        let mut paths: Vec<PathBuf> = super::commit::changes(old, new)?
            .into_iter()
            .map(|(path, _)| PathBuf::from(OsStr::from_bytes(&path)))
            .collect();
        paths.sort();
        Ok(paths)
    }
}

fn leaf(index: &Index, path: &[u8]) -> io::Result<Option<Leaf>> {
    let entry = index.find(path)?.filter(|entry| entry.kind != super::index::EntryKind::Folder);
    Ok(entry.map(|entry| Leaf { kind: entry.kind, digest: entry.digest, size: entry.size }))
}
