//! Makes trees on which a check is only tried: with a patch, and without any file. Finds the commits that
//! people name.
//!
//! **Invariant:** git applies a patch to an index of the mirror and writes no file. Every path and link of
//! the patch stays inside the tree, or the patch is refused.

use std::ffi::OsString;

use super::checkout::{TreeWriter, lossy, stays_inside};
use super::commit::word;
use super::index::{EntryKind, TreeDraft};
use super::mirror::{self, Mirror};
use super::retention::Lock;
use super::{Base, Error, Laid, Layer, TREE, Trees};
use crate::git;

/// One change that a patch makes.
struct PatchedPath {
    path: Vec<u8>,
    /// The kind and the object of the new content; `None` if the patch deletes the file.
    new: Option<(EntryKind, String)>,
}

impl Trees {
    /// Finds the commit that a name means: an id, `HEAD`, a branch or a tag, also with `~2` or `^` behind it.
    /// `near` is a commit of the same repository.
    pub fn find_commit(&self, near: &str, name: &str) -> Result<String, Error> {
        let unknown = || Error::NoCommit { name: name.to_owned() };
        let (start, steps) = name.split_at(name.find(['~', '^']).unwrap_or(name.len()));
        let is_hex = (4..=64).contains(&start.len()) && start.bytes().all(|byte| byte.is_ascii_hexdigit());
        let named = match start {
            "HEAD" | "@" => git::head(&self.workspace),
            _ => ["refs/heads/", "refs/tags/", "refs/remotes/", ""]
                .iter()
                .find_map(|folder| git::find(&self.workspace, &format!("{folder}{start}"))),
        };
        let id = named.or_else(|| is_hex.then(|| start.to_owned())).ok_or_else(unknown)?;
        if !steps.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'~' | b'^')) {
            return Err(unknown());
        }
        let _lock = Lock::take(&self.folder)?;
        let mirror = Mirror::open(&self.folder, &self.workspace, near)?;
        let asked = format!("{id}{steps}^{{commit}}");
        let found = mirror.git(&["rev-parse", "--verify", "--quiet", &asked], b"", &mirror.lends()?);
        match found {
            Ok(found) => Ok(word(&found)),
            Err(Error::Git { .. }) => Err(unknown()),
            Err(error) => Err(error),
        }
    }

    /// Returns a tree with a patch: `standing` with the changes of the patch on top. `approved` is the tree
    /// of the commit.
    pub fn patched(
        &self,
        commit: &str,
        approved: &Base,
        standing: &Base,
        patch: &[u8],
    ) -> Result<Base, Error> {
        let _lock = Lock::take(&self.folder)?;
        let mirror = Mirror::open(&self.folder, &self.workspace, commit)?;
        mirror.borrow()?;
        let before = match standing.id == approved.id {
            true => word(&mirror.git(&["rev-parse", &format!("{commit}^{{tree}}")], b"", &[])?),
            false => self.written_on(&mirror, commit, approved, standing)?,
        };
        let after = self.applied(&mirror, &before, patch)?;
        let changes = patched_paths(&mirror, &before, &after)?;
        let layer = self.laid_on(&mirror, standing, changes)?;
        self.advance(standing, layer)
    }

    /// Applies a patch to a tree of the mirror, and returns the id of the new tree in git.
    fn applied(&self, mirror: &Mirror<'_>, tree: &str, patch: &[u8]) -> Result<String, Error> {
        let building = self.folder.join("building");
        let index = tempfile::tempdir_in(&building)
            .map_err(|error| Error::io("make a folder in", &building, error))?;
        let with_index = [("GIT_INDEX_FILE".into(), OsString::from(index.path().join("index")))];
        mirror.git(&["read-tree", tree], b"", &with_index)?;
        let applied = mirror.git(&["apply", "--cached", "--whitespace=nowarn", "-"], patch, &with_index);
        applied.map_err(|error| match error {
            Error::Git { said, .. } => {
                let first = said.lines().next().unwrap_or_default();
                Error::PatchRefused { why: first.trim_start_matches("error: ").to_owned() }
            }
            error => error,
        })?;
        Ok(word(&mirror.git(&["write-tree"], b"", &with_index)?))
    }

    fn laid_on(&self, mirror: &Mirror<'_>, base: &Base, changes: Vec<PatchedPath>) -> Result<Layer, Error> {
        let layers = self.folder.join("layers");
        let folder =
            tempfile::tempdir_in(&layers).map_err(|error| Error::io("make a folder in", &layers, error))?;
        let path = folder.path().join(TREE);
        let listed = |error| Error::io("list", &base.path, error);
        let mut checkout = TreeWriter::begin(path.clone(), TreeDraft::on(&base.index).map_err(listed)?)?;
        let (mut taken, mut removed) = (Vec::new(), Vec::new());
        for PatchedPath { path, new } in changes {
            let Some((kind, object)) = new else {
                checkout.draft.remove(&path).map_err(listed)?;
                removed.push(path);
                continue;
            };
            let content = mirror.git(&["cat-file", "blob", &object], b"", &[])?;
            let leaf = match kind {
                EntryKind::Link if !stays_inside(&path, &content) => {
                    let why = format!("the link {} leads out of the tree", lossy(&path));
                    return Err(Error::PatchRefused { why });
                }
                EntryKind::Link => checkout.link(&path, &content),
                _ => checkout.write(&path, kind, &content),
            };
            leaf?;
            let digest = provost_core::model::hash::Hash::of(&content);
            taken.push((path, super::index::Leaf { kind, digest, size: content.len() as u64 }));
        }
        let draft = checkout.finish()?;
        Layer::laid(base, draft, (folder, path), Laid { taken, removed, folders: Vec::new() })
    }

    /// Returns the tree without any file.
    pub fn empty(&self) -> Result<Base, Error> {
        let _lock = Lock::take(&self.folder)?;
        let room = self.room()?;
        let checkout = TreeWriter::begin(room.path().join(TREE), TreeDraft::default())?;
        let (sealed, id) = self.sealed(checkout)?;
        let id = self.settle(room, &sealed, &[], id)?;
        self.held(&id, &[], Vec::new())?.ok_or(Error::Damaged { id })
    }
}

/// Returns the paths at which two trees of the mirror differ.
fn patched_paths(mirror: &Mirror<'_>, before: &str, after: &str) -> Result<Vec<PatchedPath>, Error> {
    let args = ["diff-tree", "-r", "-z", "--raw", "--no-renames", "--full-index", before, after];
    let listed = mirror.git(&args, b"", &[])?;
    let mut parts = listed.split(|byte| *byte == 0);
    let mut changes = Vec::new();
    while let (Some(line), Some(path)) = (parts.next(), parts.next()) {
        let line = lossy(line);
        // `:100644 100755 <old> <new> M`
        let mut words = line.trim_start_matches(':').split(' ').skip(1);
        let (mode, object) = (words.next().unwrap_or_default(), words.nth(1).unwrap_or_default());
        let refused = |what: &str| Error::PatchRefused { why: format!("{} {what}", lossy(path)) };
        if !mirror::is_harmless(path) {
            return Err(refused("is not a path that a check may have"));
        }
        let kind = match mode {
            "000000" => None,
            "100644" => Some(EntryKind::File),
            "100755" => Some(EntryKind::Program),
            "120000" => Some(EntryKind::Link),
            _ => return Err(refused("is neither a file nor a link")),
        };
        changes.push(PatchedPath { path: path.to_vec(), new: kind.map(|kind| (kind, object.to_owned())) });
    }
    Ok(changes)
}
