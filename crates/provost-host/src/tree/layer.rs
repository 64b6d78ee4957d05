//! The differences between a workspace and its base.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::checkout::lossy;
use super::index::{Leaf, TreeDraft};
use super::{Base, Error, ExcludedPath};

/// The differences between a workspace and the base, inside `touches`. Dropping it removes its folder.
#[derive(Debug)]
pub struct Layer {
    /// Contains only the changed files and their folders.
    pub path: PathBuf,
    /// New or changed files, as text for people; see [`Layer::changed_paths`].
    pub changed: Vec<String>,
    pub deleted: Vec<String>,
    /// Inside `touches`, different from the base, and not imported. The base's version stays.
    pub refused: Vec<ExcludedPath>,
    /// Number of refused paths that the list leaves out.
    pub refused_more: usize,
    /// Inside `touches`, ignored by git and named by no glob. A folder ends with a slash.
    pub ignored: Vec<String>,
    pub ignored_more: usize,
    /// Inside `touches` and `protect`, and different from the base. The base's version stays.
    pub protected_changed: Vec<String>,
    /// Outside `touches` and different from the base, as far as the walk passed there and metadata shows
    /// it; a short, incomplete list.
    pub outside: Vec<String>,
    /// The id of base and layer together.
    pub id: String,
    /// It is for a control run or a question to a tool, so nothing of the run is kept.
    pub is_control: bool,
    pub(super) taken: Vec<(Vec<u8>, Leaf)>,
    pub(super) removed: Vec<Vec<u8>>,
    /// Empty folders that the base does not have.
    pub(super) folders: Vec<Vec<u8>>,
    /// Paths of the base that a check must not see: removed files, or whole folders in which nothing is
    /// left.
    pub(super) vanished: Vec<Vec<u8>>,
    pub(super) base: String,
    pub(super) folder: TempDir,
}

/// The parts of a layer.
pub(super) struct Laid {
    pub(super) taken: Vec<(Vec<u8>, Leaf)>,
    pub(super) removed: Vec<Vec<u8>>,
    pub(super) folders: Vec<Vec<u8>>,
}

impl Layer {
    /// Makes a layer of what was written into `folder` over the base; nothing was refused or ignored.
    pub(super) fn laid(
        base: &Base,
        mut draft: TreeDraft<'_>,
        (folder, path): (TempDir, PathBuf),
        Laid { taken, removed, folders }: Laid,
    ) -> Result<Self, Error> {
        let vanished = draft.vanished(&removed).map_err(|error| Error::io("list", &base.path, error))?;
        Ok(Self {
            changed: taken.iter().map(|(path, _)| lossy(path)).collect(),
            deleted: removed.iter().map(|path| lossy(path)).collect(),
            refused: Vec::new(),
            refused_more: 0,
            ignored: Vec::new(),
            ignored_more: 0,
            protected_changed: Vec::new(),
            outside: Vec::new(),
            base: base.id.clone(),
            id: draft.id(),
            is_control: false,
            path,
            taken,
            removed,
            folders,
            vanished,
            folder,
        })
    }

    /// Returns the paths of the base that a check must not see.
    pub fn vanished_paths(&self) -> impl Iterator<Item = &Path> {
        self.vanished.iter().map(|path| Path::new(OsStr::from_bytes(path)))
    }

    /// Returns the files of the layer, relative to its folder, as exact bytes.
    pub fn changed_paths(&self) -> impl Iterator<Item = &Path> {
        self.taken.iter().map(|(path, _)| Path::new(OsStr::from_bytes(path)))
    }

    /// Returns the paths that the base has and the layer removes: files and links, never folders.
    pub fn deleted_paths(&self) -> impl Iterator<Item = &Path> {
        self.removed.iter().map(|path| Path::new(OsStr::from_bytes(path)))
    }

    pub fn is_empty(&self) -> bool {
        self.taken.is_empty() && self.removed.is_empty() && self.folders.is_empty()
    }

    pub(super) fn must_fit(&self, base: &Base) -> Result<(), Error> {
        if self.base == base.id { Ok(()) } else { Err(Error::OtherBase { id: base.id.clone() }) }
    }

    /// Returns the index of base and layer together.
    pub(super) fn sealed_on(&self, base: &Base) -> Result<Vec<u8>, Error> {
        self.must_fit(base)?;
        let sealed = || {
            let mut draft = TreeDraft::on(&base.index)?;
            // Remove first: another file may be at the place of a removed one.
            self.removed.iter().try_for_each(|path| draft.remove(path))?;
            self.taken.iter().try_for_each(|(path, leaf)| draft.set(path, *leaf))?;
            self.folders.iter().try_for_each(|path| draft.folder(path))?;
            draft.sealed()
        };
        sealed().map_err(|error| Error::io("list", &base.path, error))
    }
}
