//! Finds the differences between a workspace and a commit, as far as git would show them.
//!
//! git uses the workspace with the mirror's configuration, and with an index made from the commit: neither
//! the repository's own index nor its configuration takes part. Files that git ignores, by the rules of the
//! project, the repository or the user, are left out.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use provost_core::model::hash::Hash;
use rustix::fs::FileType;

use super::checkout::lossy;
use super::mirror::{self, Mirror};
use super::retention::Lock;
use super::{Error, Trees};
use crate::activity::Activity;
use crate::files::safe_open::{self, FileStamp};
use crate::git;

/// A file that differs from the commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DifferingFile {
    pub path: String,
    pub change: ChangeKind,
    pub size: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    Added,
    Modified,
    Deleted,
}

impl ChangeKind {
    pub fn word(self) -> &'static str {
        match self {
            ChangeKind::Added => "added",
            ChangeKind::Modified => "modified",
            ChangeKind::Deleted => "deleted",
        }
    }
}

/// An index and the workspace that it describes.
struct LastIndex {
    workspace: PathBuf,
    bytes: Vec<u8>,
    /// git reads files again that are as young as the index.
    modified: SystemTime,
}

/// The index of the last workspace that was compared. The next comparison of this process reads only files that
/// changed since. It is not kept in a file: an agent that can write to the file could hide its changes.
static LAST_INDEX: Mutex<Option<LastIndex>> = Mutex::new(None);

impl LastIndex {
    fn take(workspace: &Path) -> Option<Self> {
        let last = LAST_INDEX.lock().unwrap_or_else(PoisonError::into_inner).take();
        last.filter(|last| last.workspace == workspace)
    }

    fn write(&self, path: &Path) -> io::Result<()> {
        fs::File::create(path)?.write_all(&self.bytes)?;
        self.date(path)
    }

    /// Gives an index that was made from this one the same time.
    fn date(&self, path: &Path) -> io::Result<()> {
        fs::File::options().write(true).open(path)?.set_modified(self.modified)
    }

    fn keep(workspace: &Path, path: &Path) -> io::Result<()> {
        let (bytes, modified) = (fs::read(path)?, fs::metadata(path)?.modified()?);
        let last = Self { workspace: workspace.to_owned(), bytes, modified };
        *LAST_INDEX.lock().unwrap_or_else(PoisonError::into_inner) = Some(last);
        Ok(())
    }
}

/// Returns the differences between a workspace and a commit; leaves no files behind.
pub fn uncommitted(workspace: &Path, commit: &str) -> Result<Vec<DifferingFile>, Error> {
    let _activity = Activity::begin("comparing the workspace with the last commit");
    let folder = tempfile::tempdir().map_err(|error| Error::io("make a folder for", workspace, error))?;
    Trees::open(folder.path(), workspace)?.uncommitted(commit)
}

impl Trees {
    fn uncommitted(&self, commit: &str) -> Result<Vec<DifferingFile>, Error> {
        let _lock = Lock::take(&self.folder)?;
        let mirror = Mirror::open(&self.folder, &self.workspace, commit)?;
        let none =
            || Error::Git { commit: commit.to_owned(), said: "the workspace has no repository".to_owned() };
        let repository = git::repository(&self.workspace).ok_or_else(none)?;
        let objects = mirror::objects(&self.workspace).ok_or_else(none)?;
        let index = self.folder.join("uncommitted-index");
        let there = [
            ("GIT_WORK_TREE".into(), OsString::from(&self.workspace)),
            ("GIT_INDEX_FILE".into(), index.clone().into()),
            mirror::lending(&objects),
        ];
        let last = LastIndex::take(&self.workspace);
        if let Some(last) = &last {
            last.write(&index).map_err(|error| Error::io("write", &index, error))?;
        }
        // Keeps what the index knows about files that are the same in this commit. This command does not look at
        // the files, so its index is as old as the last one: git compares times in seconds, and would believe a
        // younger index about a file that was changed in the second in which it was read.
        mirror.git(&["read-tree", "-m", "-i", commit], b"", &there)?;
        if let Some(last) = &last {
            last.date(&index).map_err(|error| Error::io("write", &index, error))?;
        }
        // This command only reports that files differ; the next ones ask which.
        let _ = mirror.git(&["update-index", "-q", "--refresh", "--ignore-submodules"], b"", &there);
        LastIndex::keep(&self.workspace, &index).map_err(|error| Error::io("read", &index, error))?;
        let changed =
            mirror.git(&["diff-files", "--name-only", "--ignore-submodules=all", "-z"], b"", &there)?;
        let lists = [Some(repository.join("info/exclude")), git::excludes()];
        let lists: Vec<String> = (lists.into_iter().flatten().filter(|list| list.is_file()))
            .map(|list| format!("--exclude-from={}", list.display()))
            .collect();
        let mut words = vec!["ls-files", "--others", "--exclude-standard", "-z"];
        words.extend(lists.iter().map(String::as_str));
        let added = mirror.git(&words, b"", &there)?;
        let top =
            safe_open::top(&self.workspace).map_err(|errno| Error::io("open", &self.workspace, errno))?;
        let look = |path: &[u8], is_new: bool| {
            let stamp = stamp(&top, path);
            let change = match (is_new, &stamp) {
                (true, _) => ChangeKind::Added,
                (false, Some(_)) => ChangeKind::Modified,
                (false, None) => ChangeKind::Deleted,
            };
            DifferingFile { path: lossy(path), change, size: stamp.map_or(0, |stamp| stamp.size) }
        };
        // A nested repository is listed as a folder: it is not a file of this one.
        let added = names(&added).filter(|path| !path.ends_with(b"/")).map(|path| look(path, true));
        let mut found: Vec<DifferingFile> =
            names(&changed).map(|path| look(path, false)).chain(added).collect();
        found.sort_by(|one, other| one.path.cmp(&other.path));
        found.dedup_by(|one, other| one.path == other.path);
        Ok(found)
    }
}

/// Returns the current digests of these paths of a workspace; `None` for a path that is deleted or not a
/// file.
pub fn digests(workspace: &Path, paths: &[String]) -> Vec<Option<String>> {
    let Ok(top) = safe_open::top(workspace) else { return vec![None; paths.len()] };
    paths.iter().map(|path| digest(&top, path.as_bytes())).collect()
}

/// Returns the current digest of one path.
pub fn digest_at(workspace: &Path, path: &str) -> Option<String> {
    digest(&safe_open::top(workspace).ok()?, path.as_bytes())
}

/// Returns the digest of a file; for a link, that of its target.
fn digest(top: &OwnedFd, path: &[u8]) -> Option<String> {
    let (folder, name) = parted(top, path)?;
    let stamp = safe_open::stamp_at(&folder, name).ok()?;
    match stamp.kind() {
        FileType::RegularFile if stamp.size >= LARGE => large(&folder, name, stamp),
        FileType::RegularFile => {
            Some(safe_open::digest(&safe_open::file(&folder, name).ok()?).ok()?.to_string())
        }
        FileType::Symlink => Some(Hash::of(&safe_open::target(&folder, name).ok()?).to_string()),
        _ => None,
    }
}

fn stamp(top: &OwnedFd, path: &[u8]) -> Option<FileStamp> {
    let (folder, name) = parted(top, path)?;
    safe_open::stamp_at(&folder, name).ok()
}

fn parted<'a>(top: &OwnedFd, path: &'a [u8]) -> Option<(OwnedFd, &'a [u8])> {
    match path.iter().rposition(|byte| *byte == b'/') {
        Some(slash) => Some((safe_open::folder(top, &path[..slash]).ok()?, &path[slash + 1..])),
        None => Some((rustix::io::dup(top).ok()?, path)),
    }
}

/// Files from this size on are read only once per process while their stamp stays the same. Reading one
/// takes longer than a clock tick of the file system, so a change in between is noticed.
const LARGE: u64 = 64 << 20;

fn large(folder: &OwnedFd, name: &[u8], stamp: FileStamp) -> Option<String> {
    static KNOWN: Mutex<BTreeMap<FileStamp, String>> = Mutex::new(BTreeMap::new());
    let known = || KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(digest) = known().get(&stamp) {
        return Some(digest.clone());
    }
    let digest = safe_open::digest(&safe_open::file(folder, name).ok()?).ok()?.to_string();
    if safe_open::stamp_at(folder, name).is_ok_and(|now| now == stamp) {
        known().insert(stamp, digest.clone());
    }
    Some(digest)
}

fn names(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    list.split(|byte| *byte == 0).filter(|name| !name.is_empty())
}

impl super::Base {
    /// Returns the digest of the entry at a path of the tree.
    pub fn digest(&self, path: impl AsRef<Path>) -> Option<String> {
        let found = self.index.find(path.as_ref().as_os_str().as_bytes()).ok().flatten()?;
        Some(found.digest.to_string())
    }
}

impl Trees {
    /// Returns a base that also has files of the workspace that were approved with it, exactly as their
    /// digests say. It is kept: the same request gives the same tree, whatever the workspace has become.
    pub fn with_included(
        &self,
        base: super::Base,
        included: &[provost_core::model::event::IncludedFile],
    ) -> Result<super::Base, Error> {
        if included.is_empty() {
            return Ok(base);
        }
        let mut words = vec!["provost included 1".to_owned(), base.id.clone()];
        for file in included {
            words.push(file.path.len().to_string());
            words.push(file.path.clone());
            words.push(file.sha256.clone().unwrap_or_default());
        }
        let key = Hash::of(words.join("\n").as_bytes()).to_string();
        let caches = base.caches.clone();
        if let Some(made) = self.answered(&key, &caches)? {
            return Ok(made);
        }
        let globs: Vec<String> = included.iter().map(|file| literal(&file.path)).collect();
        let none: &[&str] = &[];
        let (touches, protect) = (super::Touches::new(&globs)?, super::Touches::new(none)?);
        let layer = self.take_over(&base, &touches, &protect, &super::ImportLimits::default())?;
        // Paths that a tree cannot hold, such as a link that leads elsewhere, are named and left out.
        let refused = layer.refused.clone();
        let is_included = |path: &Path| included.iter().any(|file| Path::new(&file.path) == path);
        let layer = self.varied(&base, &layer, &super::Variation::Only(&is_included))?;
        let left_out: Vec<super::ExcludedPath> = base.left_out.iter().chain(&refused).cloned().collect();
        let mut made = self.advance(&base, layer)?;
        for file in included {
            let is_left_out = refused.iter().any(|refused| refused.path == file.path);
            if !is_left_out && made.digest(OsStr::new(&file.path)) != file.sha256 {
                return Err(Error::NotAsApproved { path: file.path.clone() });
            }
        }
        made.left_out = left_out.clone();
        self.remember(&key, &super::Answered { id: made.id.clone(), left_out })?;
        Ok(made)
    }
}

/// Returns a glob that matches only this path.
fn literal(path: &str) -> String {
    let mut glob = String::with_capacity(path.len());
    for letter in path.chars() {
        match letter {
            '*' | '?' | '[' | ']' | '{' | '}' | '\\' => {
                glob.push('[');
                glob.push(letter);
                glob.push(']');
            }
            letter => glob.push(letter),
        }
    }
    glob
}
