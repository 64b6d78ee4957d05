//! Makes a variant of a layer: with one more file, without a file, or with only some of its files.
//!
//! The original layer stays as it is; the variant shares its files, which are never written.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use provost_core::model::hash::Hash;

use super::checkout::TreeWriter;
use super::index::{EntryKind, Leaf, TreeDraft};
use super::{Base, Error, Laid, Layer, TREE, Trees};

/// The difference of a variant from its layer.
pub enum Variation<'a> {
    /// With this file, replacing what was there.
    Also { path: &'a Path, content: &'a [u8] },
    /// Without this file.
    Without(&'a Path),
    /// Only with the wanted paths, deletions included.
    Only(&'a dyn Fn(&Path) -> bool),
}

impl Trees {
    /// Makes a variant of a layer for the same base. Its lists of refused and protected paths are empty:
    /// those describe the workspace, and this variant was never there.
    pub fn varied(&self, base: &Base, layer: &Layer, how: &Variation<'_>) -> Result<Layer, Error> {
        layer.must_fit(base)?;
        let layers = self.folder.join("layers");
        let folder =
            tempfile::tempdir_in(&layers).map_err(|error| Error::io("make a folder in", &layers, error))?;
        let path = folder.path().join(TREE);
        let listed = |error| Error::io("read", &base.path, error);
        let mut checkout = TreeWriter::begin(path.clone(), TreeDraft::on(&base.index).map_err(listed)?)?;
        let is_kept = |path: &[u8]| {
            let path = Path::new(OsStr::from_bytes(path));
            match how {
                Variation::Also { path: own, .. } | Variation::Without(own) => path != *own,
                Variation::Only(is_wanted) => is_wanted(path),
            }
        };
        let mut removed: Vec<Vec<u8>> = layer.removed.iter().filter(|path| is_kept(path)).cloned().collect();
        if let Variation::Without(path) = how
            && base.has(path)
        {
            removed.push(path.as_os_str().as_bytes().to_vec());
        }
        for path in &removed {
            checkout.draft.remove(path).map_err(listed)?;
        }
        let mut taken: Vec<(Vec<u8>, Leaf)> =
            layer.taken.iter().filter(|(path, _)| is_kept(path)).cloned().collect();
        for (path, leaf) in &taken {
            let source = layer.path.join(OsStr::from_bytes(path));
            checkout.share(path, &source, leaf.kind)?;
            checkout.holds(path, *leaf)?;
        }
        if let Variation::Also { path, content } = how {
            let path = path.as_os_str().as_bytes();
            let before = layer.taken.iter().find(|(own, _)| own == path).map(|(_, leaf)| leaf.kind);
            let in_base = || base.index.find(path).ok().flatten().map(|entry| entry.kind);
            let kind = before.or_else(in_base).filter(|kind| kind.is_file()).unwrap_or(EntryKind::File);
            checkout.write(path, kind, content)?;
            taken.push((path.to_vec(), Leaf { kind, digest: Hash::of(content), size: content.len() as u64 }));
        }
        let folders: Vec<Vec<u8>> = layer.folders.iter().filter(|path| is_kept(path)).cloned().collect();
        folders.iter().try_for_each(|folder| checkout.folder(folder))?;
        let draft = checkout.finish()?;
        let is_control = !matches!(how, Variation::Only(_));
        let layer = Layer::laid(base, draft, (folder, path), Laid { taken, removed, folders })?;
        Ok(Layer { is_control, ..layer })
    }
}
