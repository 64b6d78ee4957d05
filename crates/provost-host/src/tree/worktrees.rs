//! Writes and examines worktrees of the user's repository, from the mirror.
//!
//! git uses the worktree with the mirror's configuration: no filter, hook or setting of the repository
//! takes part. Objects of the repository are only data, an index is copied before it is read, and
//! submodules are not entered.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::checkout::lossy;
use super::commit::move_ref;
use super::mirror::{self, Mirror};
use super::retention::Lock;
use super::{Error, Trees};
use crate::git;

/// The content of a worktree that is nowhere else, as far as git knows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnsavedWork {
    /// In the index, but not in the commit.
    pub staged: Vec<String>,
    /// In a file, but not in the index.
    pub changed: Vec<String>,
    /// Neither in the index nor ignored.
    pub untracked: Vec<String>,
    pub has_submodules: bool,
}

impl Trees {
    /// Writes the files of a commit into a folder and makes its index, as git would without any filter.
    pub fn write_out(&self, commit: &str, folder: &Path, index: &Path) -> Result<(), Error> {
        let _lock = Lock::take(&self.folder)?;
        let mirror = Mirror::open(&self.folder, &self.workspace, commit)?;
        mirror.borrow()?;
        let there = [("GIT_WORK_TREE".into(), folder.into()), ("GIT_INDEX_FILE".into(), index.into())];
        mirror.git(&["read-tree", "--reset", "-u", commit], b"", &there).map(|_| ())
    }

    /// Creates a branch that does not exist yet.
    pub fn make_branch(&self, commit: &str, name: &str) -> Result<(), Error> {
        let repository = self.repository(commit)?;
        if repository.join("reftable").exists() {
            let said = "this repository keeps its refs in a reftable, which provost cannot write".to_owned();
            return Err(Error::Git { commit: commit.to_owned(), said });
        }
        move_ref(&self.workspace, &repository, name, commit, None)
    }

    fn repository(&self, commit: &str) -> Result<PathBuf, Error> {
        git::repository(&self.workspace).ok_or_else(|| Error::Git {
            commit: commit.to_owned(),
            said: "the workspace has no repository".to_owned(),
        })
    }

    /// Returns what a worktree on `commit` has and the commit does not have. Uses the worktree's own index
    /// (`as_it_stands`) or that of the commit.
    pub fn unsaved(&self, worktree: &Path, commit: &str, as_it_stands: bool) -> Result<UnsavedWork, Error> {
        let _lock = Lock::take(&self.folder)?;
        let mirror = Mirror::open(&self.folder, &self.workspace, commit)?;
        let (_room, there) = self.lent(worktree, commit)?;
        let index = there.iter().find(|(name, _)| name == "GIT_INDEX_FILE").map(|(_, path)| path);
        let own = git::git_folder(worktree).map(|own| own.join("index"));
        match (own, index) {
            (Some(own), Some(index)) if as_it_stands => {
                fs::copy(&own, index).map_err(|error| Error::io("read", &own, error))?;
            }
            _ => mirror.git(&["read-tree", commit], b"", &there).map(|_| ())?,
        }
        let listed = mirror.git(&["ls-files", "--stage", "-z"], b"", &there)?;
        let has_submodules = listed.split(|byte| *byte == 0).any(|line| line.starts_with(b"160000 "));
        // This command only reports that files differ; the next ones ask which.
        let _ = mirror.git(&["update-index", "-q", "--refresh", "--ignore-submodules"], b"", &there);
        let names = |args: &[&str]| Ok::<_, Error>(names(&mirror.git(args, b"", &there)?));
        let excluded = format!("--exclude-from={}", self.repository(commit)?.join("info/exclude").display());
        let others = match self.repository(commit)?.join("info/exclude").is_file() {
            true => names(&["ls-files", "--others", "--exclude-standard", &excluded, "-z"])?,
            false => names(&["ls-files", "--others", "--exclude-standard", "-z"])?,
        };
        Ok(UnsavedWork {
            staged: names(&[
                "diff-index",
                "--cached",
                "--name-only",
                "--ignore-submodules=all",
                "-z",
                commit,
            ])?,
            changed: names(&["diff-files", "--name-only", "--ignore-submodules=all", "-z"])?,
            untracked: others,
            has_submodules,
        })
    }

    /// Returns the files of the workspace that git ignores and that a list in `.gitignore` syntax names.
    pub fn ignored_and_listed(&self, list: &Path, commit: &str) -> Result<Vec<PathBuf>, Error> {
        let _lock = Lock::take(&self.folder)?;
        let mirror = Mirror::open(&self.folder, &self.workspace, commit)?;
        let (_room, there) = self.lent(&self.workspace, commit)?;
        mirror.git(&["read-tree", commit], b"", &there)?;
        let from = format!("--exclude-from={}", list.display());
        let listed = mirror.git(&["ls-files", "--others", "--ignored", &from, "-z"], b"", &there)?;
        if listed.is_empty() {
            return Ok(Vec::new());
        }
        let exclude = self.repository(commit)?.join("info/exclude");
        let own = format!("core.excludesFile={}", exclude.display());
        // Exit code 1 means that none is ignored; the output is empty then.
        let ignored = mirror
            .git(&["-c", &own, "check-ignore", "--no-index", "-z", "--stdin"], &listed, &there)
            .unwrap_or_default();
        Ok(names(&ignored).into_iter().map(PathBuf::from).collect())
    }

    /// Returns whether the whole history of `commit` is contained in the others.
    pub fn is_within(&self, commit: &str, others: &[String]) -> Result<bool, Error> {
        let _lock = Lock::take(&self.folder)?;
        let mirror = Mirror::open(&self.folder, &self.workspace, commit)?;
        let (_room, there) = self.lent(&self.workspace, commit)?;
        let mut words = vec!["rev-list", "--count", "--max-count=1", commit, "--not"];
        words.extend(others.iter().map(String::as_str));
        words.push("--");
        Ok(!others.is_empty() && mirror.git(&words, b"", &there)?.trim_ascii() == b"0")
    }

    /// Returns the number of lines that `commit` changes since it branched off `other`.
    pub fn lines_between(&self, other: &str, commit: &str) -> Result<u64, Error> {
        let _lock = Lock::take(&self.folder)?;
        let mirror = Mirror::open(&self.folder, &self.workspace, commit)?;
        let (_room, there) = self.lent(&self.workspace, commit)?;
        let base = lossy(mirror.git(&["merge-base", other, commit], b"", &there)?.trim_ascii());
        let counted =
            mirror.git(&["diff-tree", "-r", "--numstat", "--no-renames", &base, commit], b"", &there)?;
        Ok(lossy(&counted).lines().map(lines_of).sum())
    }

    /// Returns the environment for git: the worktree, the repository's objects, and an index in a temporary
    /// folder.
    fn lent(&self, worktree: &Path, commit: &str) -> Result<(TempDir, Vec<(OsString, OsString)>), Error> {
        let objects = mirror::objects(&self.workspace).ok_or_else(|| Error::Git {
            commit: commit.to_owned(),
            said: "the workspace has no repository".to_owned(),
        })?;
        let room = tempfile::tempdir_in(self.folder.join("building"))
            .map_err(|error| Error::io("make a folder in", &self.folder, error))?;
        let there = vec![
            ("GIT_WORK_TREE".into(), worktree.into()),
            ("GIT_INDEX_FILE".into(), room.path().join("index").into()),
            mirror::lending(&objects),
        ];
        Ok((room, there))
    }
}

fn names(list: &[u8]) -> Vec<String> {
    list.split(|byte| *byte == 0).filter(|name| !name.is_empty()).map(lossy).collect()
}

/// Parses `12\t3\tpath`; a binary file has dashes and counts as one line.
fn lines_of(line: &str) -> u64 {
    let mut words = line.split('\t');
    let (more, less) = (words.next().unwrap_or("-"), words.next().unwrap_or("-"));
    more.parse::<u64>().unwrap_or(1) + less.parse::<u64>().unwrap_or(0)
}
