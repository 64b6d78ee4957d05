//! provost's own copies of a workspace, in which contracts are judged, where the agent cannot write.
//!
//! A *base* is the tree that a person approved, written once and kept. A *layer* holds the files inside
//! `touches` in which the agent's workspace differs. A check sees base and layer together: as an overlay if
//! the machine supports it, otherwise in a worktree that is updated in place.
//!
//! ```text
//! lock                  held while a base is built or old ones are removed
//! mirror-sha1.git       the only repository in which git is run; see `mirror`
//! requests/<digest>     which base was made for which request
//! bases/<id>/tree       the files; they are never written again. A base on top of another has only the
//!                       files that differ
//! bases/<id>/index      the list of the files; see `index`
//! bases/<id>/used       last use (its mtime) and the boot since which the files are known to be complete;
//!                       for a base on top of another, also that base's id and the paths removed from it
//! repositories/<key>    what checks see of the repository; see `repository`
//! building/, layers/    unfinished work
//! worktree/             the kept worktree; see `assemble`
//! digests               digests of workspace files; see `digest_cache`
//! ```
//!
//! **Invariant:** git is never run in a repository that an agent can write, and nothing is written there:
//! the user's repository stays as it was, byte for byte.
//! **Invariant:** a base has its final name only once it is complete: it is built elsewhere and renamed.
//! **Invariant:** from the workspace, only files, links and empty folders inside `touches` get into a tree,
//! read from descriptors that were opened without following links; a link's target is inside `touches`.
//! **Invariant:** files that git ignores and no glob names, and provost's own files, are never imported.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use provost_core::model::event::NamedFile;
use provost_core::model::hash::Hash;
use serde::{Deserialize, Serialize};
use tempfile::TempDir;

mod advance;
mod step_worktree;
mod update_checkouts;
mod assemble;
mod checkout;
mod clone;
mod commit;
mod error;
mod exclusion;
mod found;
mod git_index;
mod ignored;
mod copy_trust;
mod index;
mod layer;
mod retention;
mod digest_cache;
mod line_ends;
mod worktrees;
mod mirror;
mod modes;
mod pinned_files;
mod remote_workspace;
mod own_files;
mod remote;
mod repository;
mod snapshot;
mod start;
mod import;
mod tool_caches;
mod touches;
mod trial_trees;
mod uncommitted;
mod merge;
mod variants;
mod verification;

pub use assemble::AssembledTree;
pub use commit::{CommitText, NewCommit, With};
pub use copy_trust::CopyTrust;
pub use error::Error;
pub use exclusion::{ExcludedPath, ExclusionReason};
pub use ignored::IgnoreRules;
pub use layer::Layer;
pub use merge::{TreeDifference, Union};
pub use remote::{BadRemote, Remote, fetch_commit, forget_sent, opens_a_remote};
pub use repository::CheckRepository;
pub use retention::{RetentionLimits, expendable, sweep};
pub use start::{AttemptStart, OpenAttemptTrees};
pub use step_worktree::{Apart, clear_apart};
pub use touches::Touches;
pub use uncommitted::{ChangeKind, DifferingFile, digest_at, digests, uncommitted};
pub use variants::Variation;
pub use worktrees::UnsavedWork;

use checkout::{TreeWriter, lossy};
use digest_cache::DigestCache;
use index::{Index, TreeDraft};
use layer::Laid;
use line_ends::LineEnds;
use mirror::{Mirror, Submodule};
pub use own_files::OwnFiles;
use retention::Lock;

/// Limit on the nesting of submodules.
const SUBMODULES_DEEP: usize = 8;
/// Name of the folder of files in a base or a layer.
const TREE: &str = "tree";

/// provost's own copies of one workspace, in the state folder.
#[derive(Debug)]
pub struct Trees {
    folder: PathBuf,
    workspace: PathBuf,
    /// Digests of the workspace's files, valid while the files are unchanged.
    known: DigestCache,
    /// Rules for what git ignores, as of the approval.
    ignored: Option<IgnoreRules>,
    own_files: OwnFiles,
    /// Rules for line ends, by the attributes of the approved tree.
    line_ends: LineEnds,
    /// Trees include the files of submodules.
    with_submodules: bool,
    /// Whether no agent can have changed what is kept here.
    copies: CopyTrust,
}

/// A tree that a person approved, or that a passed step left. It is kept on disk while this value exists.
#[derive(Clone, Debug)]
pub struct Base {
    /// The digest of the tree: paths, modes and content. The same on every machine.
    pub id: String,
    /// Its files, except those that `over` and `gone` replace. Writing here would falsify every later
    /// verdict.
    pub path: PathBuf,
    /// Files that passed steps changed since.
    pub over: Option<PathBuf>,
    /// Paths that passed steps removed from `path`: files, links, whole folders.
    pub gone: Vec<PathBuf>,
    /// Paths that the approved tree has and this one does not, with the reason.
    pub left_out: Vec<ExcludedPath>,
    caches: Vec<Vec<u8>>,
    index: Arc<Index>,
    // Held for its locks: a base in use is not removed, nor is the base below it.
    _hold: Arc<retention::FileLock>,
    under: Option<Box<Base>>,
}

impl Base {
    /// Returns the path at which the content of one of its files is stored.
    pub fn file(&self, path: impl AsRef<Path>) -> PathBuf {
        let over = self.over.as_ref().map(|over| over.join(path.as_ref()));
        match over.filter(|over| over.symlink_metadata().is_ok_and(|found| !found.is_dir())) {
            Some(over) => over,
            None => self.path.join(path.as_ref()),
        }
    }

    /// Returns whether the tree has a file, link or folder at a path.
    pub fn has(&self, path: impl AsRef<Path>) -> bool {
        let found = self.index.find(path.as_ref().as_os_str().as_bytes());
        found.is_ok_and(|entry| entry.is_some())
    }

    /// Returns every file and link, relative to the tree.
    pub fn files(&self) -> Result<Vec<PathBuf>, Error> {
        let mut files = Vec::new();
        let walked = self.index.walk(b"", self.index.root(), &mut |path, entry| {
            if entry.kind != index::EntryKind::Folder {
                files.push(PathBuf::from(OsStr::from_bytes(path)));
            }
            Ok(())
        });
        walked.map(|()| files).map_err(|error| Error::io("list", &self.path, error))
    }

    /// Marks the base as unverified: the next caller that opens it reads all of it first.
    fn doubt(&self) {
        for base in [self, self.ground()] {
            base._hold.forget();
        }
    }

    /// Returns the base that was written completely and that this one builds on.
    fn ground(&self) -> &Base {
        self.under.as_deref().unwrap_or(self)
    }
}

/// Limits on what is imported from a workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImportLimits {
    pub file_bytes: u64,
    pub total_bytes: u64,
    pub files: usize,
    /// Import only what a commit can hold: no permissions except the executable bit, no empty folders.
    pub as_git: bool,
}

impl ImportLimits {
    /// Returns limits for files of this size, with room for a few such files.
    pub fn of_file(bytes: u64) -> Self {
        let total_bytes = bytes.saturating_mul(4).max(8 << 30);
        Self { file_bytes: bytes, total_bytes, ..Self::default() }
    }
}

impl Default for ImportLimits {
    fn default() -> Self {
        Self { file_bytes: 1 << 30, total_bytes: 8 << 30, files: 100_000, as_git: false }
    }
}

/// The stored answer to a request.
#[derive(Serialize, Deserialize)]
struct Answered {
    id: String,
    left_out: Vec<ExcludedPath>,
}

impl Trees {
    /// Opens the trees in `folder`; creates the folder for this user only if it does not exist.
    pub fn open(folder: &Path, workspace: &Path) -> Result<Self, Error> {
        let whole = |path: &Path| std::path::absolute(path).map_err(|error| Error::io("find", path, error));
        let trees = Self {
            folder: whole(folder)?,
            workspace: whole(workspace)?,
            known: DigestCache::default(),
            ignored: None,
            own_files: OwnFiles::default(),
            line_ends: LineEnds::default(),
            with_submodules: true,
            copies: CopyTrust::none(),
        };
        for name in ["", "requests", "bases", "building", "layers"] {
            let path = trees.folder.join(name);
            match fs::DirBuilder::new().mode(0o700).recursive(name.is_empty()).create(&path) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(Error::io("make", &path, error));
                }
                _ => {}
            }
        }
        Ok(trees)
    }

    /// Sets what is neither imported nor committed from now on: what git ignores by the rules of this
    /// approval, and provost's own files.
    pub fn leave_out(&mut self, request: &str, approved: &Base, own: &[PathBuf]) -> Result<(), Error> {
        self.ignored = IgnoreRules::of_approval(&self.folder, &self.workspace, request, approved)?;
        self.own_files = OwnFiles::of(&self.workspace, own);
        self.line_ends = LineEnds::of_tree(approved);
        Ok(())
    }

    /// Leaves the files of submodules out of trees: other machines could not make the same trees.
    pub fn leave_out_submodules(&mut self) {
        self.with_submodules = false;
    }

    /// Returns the folder in which an assembled tree is put.
    pub fn assembles_in(&self) -> PathBuf {
        self.folder.join("worktree")
    }

    /// Returns the tree that a person approved: the files of the commit (without one: of the workspace as
    /// it is), the named files exactly as their digests say, and the cache folders as they are now. It must
    /// be called before any agent has run.
    ///
    /// The tree is kept. `request` says for which approval it was made: the same request gives the same tree
    /// again, whatever the workspace has become. A repeated request costs a few system calls, however large
    /// the tree is. Another request gets the same tree if it depends on the commit and the named files only,
    /// and copies are trusted.
    pub fn base(
        &self,
        request: &str,
        commit: Option<&str>,
        files: &[NamedFile],
        caches: &[String],
    ) -> Result<Base, Error> {
        let caches = cache_paths(caches)?;
        let key = self.key(request, commit, files, &caches);
        if let Some(base) = self.answered(&key, &caches)? {
            return Ok(base);
        }
        let _lock = Lock::take(&self.folder)?;
        // Another process may have made it in the meantime.
        if let Some(base) = self.answered(&key, &caches)? {
            return Ok(base);
        }
        let is_shared = commit.is_some() && !self.has_any(&caches) && self.has_trusted_copies();
        let shared = is_shared.then(|| self.key("", commit, files, &caches));
        if let Some(shared) = &shared
            && let Some(base) = self.answered(shared, &caches)?
        {
            self.remember(&key, &Answered { id: base.id.clone(), left_out: base.left_out.clone() })?;
            return Ok(base);
        }
        let room = self.room()?;
        let mirrors = self.mirrors()?;
        let mut left_out = Vec::new();
        let mut checkout = TreeWriter::begin(room.path().join(TREE), TreeDraft::default())?;
        match commit {
            Some(commit) => {
                let mirror = Mirror::open(mirrors.path(), &self.workspace, commit)?;
                mirror.borrow()?;
                let submodules = mirror.extract(&mut checkout, (b"", None), &caches, &mut left_out)?;
                self.add_submodules(mirrors.path(), submodules, &mut checkout, &mut left_out, 0)?;
                snapshot::caches(&self.workspace, &caches, &mut checkout, &mut left_out)?;
            }
            None => {
                let own = self.own_place();
                snapshot::workspace(&self.workspace, &caches, own.as_deref(), &mut checkout, &mut left_out)?;
            }
        }
        let has_copied = pinned_files::put(&self.workspace, files, &mut checkout)?;
        let (sealed, id) = self.sealed(checkout)?;
        let id = self.settle(room, &sealed, &[], id)?;
        let answer = Answered { id: id.clone(), left_out };
        self.remember(&key, &answer)?;
        // The repository of a submodule may be there the next time.
        let lacks_files = answer.left_out.iter().any(|path| path.why == ExclusionReason::Submodule);
        if let Some(shared) = shared.filter(|_| !has_copied && !lacks_files) {
            self.remember(&shared, &answer)?;
        }
        self.held(&id, &caches, answer.left_out)?.ok_or(Error::Damaged { id })
    }

    /// Returns whether the workspace has one of these folders, or anything else at their paths.
    fn has_any(&self, caches: &[Vec<u8>]) -> bool {
        caches.iter().any(|cache| {
            let found = self.workspace.join(OsStr::from_bytes(cache)).symlink_metadata();
            !found.is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
        })
    }

    /// Writes the files of submodules whose repositories are present. The approved commit determines their
    /// content, so an agent cannot substitute other files.
    fn add_submodules(
        &self,
        mirrors: &Path,
        submodules: Vec<Submodule>,
        checkout: &mut TreeWriter<'_>,
        left_out: &mut Vec<ExcludedPath>,
        depth: usize,
    ) -> Result<(), Error> {
        for Submodule { path, commit } in submodules {
            let place = self.workspace.join(OsStr::from_bytes(&path));
            let objects = mirror::objects(&place).filter(|_| self.with_submodules && depth < SUBMODULES_DEEP);
            let mirror = Mirror::open(mirrors, &self.workspace, &commit)?;
            let brought = objects.is_some_and(|objects| mirror.take_in(&objects).is_ok());
            let inner = match brought {
                true => Some(mirror.extract(checkout, (&path, None), &[], left_out)?),
                false => None,
            };
            match inner {
                Some(inner) => self.add_submodules(mirrors, inner, checkout, left_out, depth + 1)?,
                None => left_out.push(ExcludedPath { path: lossy(&path), why: ExclusionReason::Submodule }),
            }
        }
        Ok(())
    }

    /// Returns a base that was made before, by its id; `None` if it no longer exists.
    pub fn kept(&self, id: &str, caches: &[String]) -> Result<Option<Base>, Error> {
        if id.len() != 64 || !id.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Ok(None);
        }
        self.held(id, &cache_paths(caches)?, Vec::new())
    }

    /// Makes a base on top of another: the result of a passed step becomes part of the next step's base.
    /// The layer's own folder becomes the base, so little is written, independent of the size of the tree.
    pub fn advance(&self, base: &Base, layer: Layer) -> Result<Base, Error> {
        layer.must_fit(base)?;
        if layer.is_empty() {
            return Ok(base.clone());
        }
        if self.has_trusted_copies()
            && let Some(next) = self.held(&layer.id, &base.caches, base.left_out.clone())?
        {
            return Ok(next);
        }
        // The step took back what earlier ones had done.
        if base.ground().id == layer.id {
            return Ok(Base { left_out: base.left_out.clone(), ..base.ground().clone() });
        }
        let sealed = layer.sealed_on(base)?;
        let ground = &base.ground().index;
        let list =
            Index::in_memory(sealed.clone(), ground).map_err(|error| Error::io("list", &base.path, error))?;
        advance::complete(&list, base, &layer)?;
        let ground = advance::ground(&list, base, &layer)?;
        let id = self.settle(layer.folder, &sealed, &ground, list.id())?;
        self.held(&id, &base.caches, base.left_out.clone())?.ok_or(Error::Damaged { id })
    }

    fn sealed(&self, checkout: TreeWriter<'_>) -> Result<(Vec<u8>, String), Error> {
        let path = checkout.path.clone();
        let draft = checkout.finish()?;
        let sealed = draft.sealed().map_err(|error| Error::io("list", &path, error))?;
        Ok((sealed, draft.id()))
    }

    /// Creates a folder to build in. Older ones are left over from a dead process, because the caller has
    /// the lock.
    fn room(&self) -> Result<TempDir, Error> {
        let building = self.folder.join("building");
        for entry in fs::read_dir(&building).map_err(|error| Error::io("read", &building, error))?.flatten() {
            let _ = fs::remove_dir_all(entry.path());
        }
        tempfile::tempdir_in(&building).map_err(|error| Error::io("make a folder in", &building, error))
    }

    fn answered(&self, key: &str, caches: &[Vec<u8>]) -> Result<Option<Base>, Error> {
        let path = self.folder.join("requests").join(key);
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Error::io("read", &path, error)),
        };
        match serde_json::from_slice::<Answered>(&text) {
            Ok(answer) => self.held(&answer.id, caches, answer.left_out),
            // Cut off by a full disk or a power failure: treat it as a new request.
            Err(_) => Ok(None),
        }
    }

    fn remember(&self, key: &str, answer: &Answered) -> Result<(), Error> {
        let path = self.folder.join("requests").join(key);
        let building = self.folder.join("building");
        let failed = |error: io::Error| Error::io("write", &path, error);
        let mut file = tempfile::NamedTempFile::new_in(&building).map_err(failed)?;
        serde_json::to_writer(&mut file, answer).map_err(|error| failed(error.into()))?;
        file.persist(&path).map_err(|error| failed(error.error))?;
        Ok(())
    }

    /// Returns the path of these trees inside the workspace, if they are there (for example if a person
    /// works in the home folder): a copy of the workspace must not contain itself.
    fn own_place(&self) -> Option<Vec<u8>> {
        let (folder, workspace) = (self.folder.canonicalize().ok()?, self.workspace.canonicalize().ok()?);
        Some(folder.strip_prefix(&workspace).ok()?.as_os_str().as_bytes().to_vec())
    }

    /// Returns the key of a request. Without `request` it is the key of the tree that all requests share.
    fn key(&self, request: &str, commit: Option<&str>, files: &[NamedFile], caches: &[Vec<u8>]) -> String {
        let version: &[u8] = if self.with_submodules { b"provost base 3" } else { b"provost base 3, alone" };
        let mut parts: Vec<&[u8]> = vec![version, request.as_bytes()];
        parts.push(self.workspace.as_os_str().as_bytes());
        parts.push(commit.unwrap_or_default().as_bytes());
        parts.extend(files.iter().flat_map(|file| [file.path.as_bytes(), file.sha256.as_bytes()]));
        parts.push(b"");
        parts.extend(caches.iter().map(Vec::as_slice));
        let mut text = Vec::new();
        for part in parts {
            text.extend((part.len() as u64).to_be_bytes());
            text.extend(part);
        }
        Hash::of(&text).to_string()
    }
}

/// Returns the cache folders as paths of the tree.
fn cache_paths(caches: &[String]) -> Result<Vec<Vec<u8>>, Error> {
    let mut paths: Vec<Vec<u8>> = caches.iter().map(|cache| inside(cache)).collect::<Result<_, _>>()?;
    paths.sort();
    paths.dedup();
    Ok(paths)
}

/// Normalises a written path to a path of the tree: no `.`, no `..`, not empty, not the whole tree.
fn inside(path: &str) -> Result<Vec<u8>, Error> {
    let refused = || Error::NotInside { path: path.to_owned() };
    let mut parts: Vec<&[u8]> = Vec::new();
    for part in Path::new(path).components() {
        match part {
            Component::CurDir => {}
            Component::Normal(name) if name != ".git" => parts.push(name.as_bytes()),
            Component::Normal(_) | Component::ParentDir | Component::RootDir | Component::Prefix(_) => {
                return Err(refused());
            }
        }
    }
    if parts.is_empty() { Err(refused()) } else { Ok(parts.join(&b'/')) }
}
