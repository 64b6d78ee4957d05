//! What a workspace holds otherwise than a commit, as far as git would show it.
//!
//! Git is told to take the workspace for its own and runs with the mirror's configuration, on an index made of
//! the commit: neither the repository's own index nor anything in its configuration takes part. Files that git
//! ignores, by the project's rules, the repository's or the person's own, are left out.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use provost_core::chain::Hash;
use rustix::fs::FileType;

use super::checkout::lossy;
use super::keep::Lock;
use super::mirror::{self, Mirror};
use super::{Error, Trees, beneath};
use crate::git;

/// A file that differs from the commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Uncommitted {
    pub path: String,
    pub change: Change,
    /// The digest of its content; nothing, where it is deleted or no file.
    pub sha256: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    Added,
    Modified,
    Deleted,
}

impl Change {
    pub fn word(self) -> &'static str {
        match self {
            Change::Added => "added",
            Change::Modified => "modified",
            Change::Deleted => "deleted",
        }
    }
}

/// What a workspace holds otherwise than a commit; nothing is left behind by looking.
pub fn uncommitted(workspace: &Path, commit: &str) -> Result<Vec<Uncommitted>, Error> {
    let folder = tempfile::tempdir().map_err(|error| Error::io("make a folder for", workspace, error))?;
    Trees::open(folder.path(), workspace)?.uncommitted(commit)
}

impl Trees {
    fn uncommitted(&self, commit: &str) -> Result<Vec<Uncommitted>, Error> {
        let _lock = Lock::take(&self.folder)?;
        let mirror = Mirror::open(&self.folder, &self.workspace, commit)?;
        let none =
            || Error::Git { commit: commit.to_owned(), said: "the workspace has no repository".to_owned() };
        let repository = git::repository(&self.workspace).ok_or_else(none)?;
        let objects = mirror::objects(&self.workspace).ok_or_else(none)?;
        let there = [
            ("GIT_WORK_TREE".into(), OsString::from(&self.workspace)),
            ("GIT_INDEX_FILE".into(), self.folder.join("uncommitted-index").into()),
            mirror::lending(&objects),
        ];
        mirror.git(&["read-tree", commit], b"", &there)?;
        // It says of itself that something differs; what, is asked next.
        let _ = mirror.git(&["update-index", "-q", "--refresh", "--ignore-submodules"], b"", &there);
        let changed =
            mirror.git(&["diff-files", "--name-only", "--ignore-submodules=all", "-z"], b"", &there)?;
        let lists = [Some(repository.join("info/exclude")), git::excludes()];
        let lists: Vec<String> = (lists.into_iter().flatten().filter(|list| list.is_file()))
            .map(|list| format!("--exclude-from={}", list.display()))
            .collect();
        let mut words = vec!["ls-files", "--others", "--exclude-standard", "-z"];
        words.extend(lists.iter().map(String::as_str));
        let added = mirror.git(&words, b"", &there)?;
        let top = beneath::top(&self.workspace).map_err(|errno| Error::io("open", &self.workspace, errno))?;
        let look = |path: &[u8], is_new: bool| {
            let (is_there, sha256) = digest(&top, path);
            let change = match (is_new, is_there) {
                (true, _) => Change::Added,
                (false, true) => Change::Modified,
                (false, false) => Change::Deleted,
            };
            Uncommitted { path: lossy(path), change, sha256 }
        };
        // A nested repository is listed as a folder: it is no file of this one.
        let added = names(&added).filter(|path| !path.ends_with(b"/")).map(|path| look(path, true));
        let mut found: Vec<Uncommitted> =
            names(&changed).map(|path| look(path, false)).chain(added).collect();
        found.sort_by(|one, other| one.path.cmp(&other.path));
        found.dedup_by(|one, other| one.path == other.path);
        Ok(found)
    }
}

/// The digests of these paths of a workspace, as they are now.
pub fn digests(workspace: &Path, paths: &[String]) -> Vec<Option<String>> {
    let Ok(top) = beneath::top(workspace) else { return vec![None; paths.len()] };
    paths.iter().map(|path| digest(&top, path.as_bytes()).1).collect()
}

/// Whether something is there, and its digest: that of a link is that of its target.
fn digest(top: &std::os::fd::OwnedFd, path: &[u8]) -> (bool, Option<String>) {
    let (folder, name) = match path.iter().rposition(|byte| *byte == b'/') {
        Some(slash) => (beneath::folder(top, &path[..slash]), &path[slash + 1..]),
        None => (rustix::io::dup(top), path),
    };
    let Ok(folder) = folder else { return (false, None) };
    match beneath::stamp_at(&folder, name).map(|stamp| stamp.kind()) {
        Ok(FileType::RegularFile) => {
            let digest = beneath::file(&folder, name).ok().and_then(|file| beneath::digest(&file).ok());
            (true, digest.map(|digest| digest.to_string()))
        }
        Ok(FileType::Symlink) => {
            (true, beneath::target(&folder, name).ok().map(|target| Hash::of(&target).to_string()))
        }
        Ok(_) => (true, None),
        Err(_) => (false, None),
    }
}

fn names(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    list.split(|byte| *byte == 0).filter(|name| !name.is_empty())
}

impl super::Base {
    /// The digest of what is at a path of the tree.
    pub fn digest(&self, path: impl AsRef<Path>) -> Option<String> {
        let found = self.index.find(path.as_ref().as_os_str().as_bytes()).ok().flatten()?;
        Some(found.digest.to_string())
    }
}

impl Trees {
    /// A base with files of the workspace in it that were approved with it, exactly as their digests say. It is
    /// kept: asking again gives the same tree, whatever the workspace has become.
    pub fn with_included(
        &self,
        base: super::Base,
        included: &[provost_core::event::IncludedFile],
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
        let layer = self.take_over(&base, &touches, &protect, &super::Limits::default())?;
        let is_included = |path: &Path| included.iter().any(|file| Path::new(&file.path) == path);
        let layer = self.varied(&base, &layer, &super::Variation::Only(&is_included))?;
        let left_out = base.left_out.clone();
        let made = self.advance(&base, layer)?;
        for file in included {
            if made.digest(OsStr::new(&file.path)) != file.sha256 {
                return Err(Error::NotAsApproved { path: file.path.clone() });
            }
        }
        self.remember(&key, &super::Answered { id: made.id.clone(), left_out })?;
        Ok(made)
    }
}

/// A glob that matches this path alone.
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
