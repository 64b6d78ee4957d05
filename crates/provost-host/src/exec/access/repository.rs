//! Prepares what an agent sees of the repository.
//!
//! A repository contains programs that git runs later for others: hooks, and programs in its configuration.
//! So even if the agent has the repository itself, it cannot write these.
//!
//! **Invariant:** this module runs no git, and after an attempt only the agent has changed the repository.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use tempfile::TempPath;

use super::Error;
use crate::git;

/// Files and folders from which git runs programs, or which redirect git.
const GUARDED: [&str; 5] = ["config", "config.worktree", "hooks", "info", "modules"];
/// The same in the folder of a linked worktree.
const GUARDED_LINKS: [&str; 3] = ["commondir", "gitdir", "config.worktree"];
/// Most linked worktrees that are protected one by one; with more, their whole folder is read-only.
const WORKTREES: usize = 64;
/// Path of the repository inside the sandbox, if `.git` in the workspace is a file.
const ELSEWHERE: &str = "/run/provost-git";

/// The paths of a workspace's repository, as they were before any agent ran.
#[derive(Debug, Default)]
pub struct WorkspaceRepository {
    /// `.git` of the checkout: a folder, or a file that names one.
    link: Option<PathBuf>,
    /// The folder of this worktree, and the one that it shares with others; the same for a plain checkout.
    own: Option<PathBuf>,
    shared: Option<PathBuf>,
    /// Files that provost created so that they can be protected; removed on drop.
    made: Mutex<Vec<PathBuf>>,
}

/// The repository's mounts in the sandbox.
#[derive(Debug, Default)]
pub struct RepositoryMounts {
    pub writable: Vec<PathBuf>,
    pub read_only: Vec<PathBuf>,
    pub hidden: Vec<PathBuf>,
    pub instead: Vec<(PathBuf, PathBuf)>,
    /// Did not exist before, and must not exist afterwards.
    absent: Vec<PathBuf>,
    // Removed with the attempt.
    _file: Option<TempPath>,
}

impl WorkspaceRepository {
    pub fn of(workspace: &Path) -> Self {
        let real = |path: PathBuf| path.canonicalize().ok().filter(|path| path.is_dir());
        let Some(top) = git::top(workspace) else { return Self::default() };
        let link = top.join(".git");
        if link.is_symlink() {
            return Self { link: Some(link), own: None, shared: None, made: Mutex::default() };
        }
        let own = git::git_folder(&top).and_then(real);
        // A file in the workspace may name any repository. It is accepted only if that repository names the
        // file too.
        let own = own.filter(|own| link.is_dir() || is_linked_back(own, &link));
        let shared = own.as_deref().map(git::shared_folder).and_then(real);
        Self { link: Some(link), own, shared, made: Mutex::default() }
    }

    /// Returns mounts for the repository itself, with read-only protection for what git runs from it.
    pub fn shared(&self) -> Result<RepositoryMounts, Error> {
        let mut sight = RepositoryMounts::default();
        let (Some(link), Some(own), Some(shared)) = (&self.link, &self.own, &self.shared) else {
            sight.read_only.extend(self.link.iter().filter(|link| link.is_file()).cloned());
            return Ok(sight);
        };
        if link.is_file() {
            sight.read_only.push(link.clone());
        }
        for folder in [shared, own] {
            if !sight.writable.contains(folder) {
                sight.writable.push(folder.clone());
            }
        }
        self.make_missing(shared).map_err(|source| Error::Guard { path: shared.clone(), source })?;
        sight.guard(shared);
        Ok(sight)
    }

    /// Creates missing files that need protection: an agent that creates one would make git run its
    /// content.
    fn make_missing(&self, shared: &Path) -> io::Result<()> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        for name in ["hooks", "info", "config.worktree"] {
            let path = shared.join(name);
            let outcome = match name {
                _ if path.exists() => continue,
                // Git reads it only if the configuration says so.
                "config.worktree" if has_worktree_settings(shared) => fs::File::create_new(&path).map(|_| ()),
                "config.worktree" => continue,
                _ => fs::create_dir(&path),
            };
            match outcome {
                Ok(()) => made.push(path),
                // If provost may not write there, the agent may not either.
                Err(error) if is_closed(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    pub fn hidden(&self) -> RepositoryMounts {
        let all = [&self.link, &self.own, &self.shared].into_iter().flatten();
        let mut hidden: Vec<PathBuf> = all.filter(|path| path.exists()).cloned().collect();
        hidden.dedup();
        RepositoryMounts { hidden, ..RepositoryMounts::default() }
    }

    /// Returns mounts with another repository in its place.
    pub fn instead(&self, clone: &Path, scratch: &Path) -> Result<RepositoryMounts, Error> {
        let Some(link) = &self.link else { return Ok(RepositoryMounts::default()) };
        if link.is_dir() && !link.is_symlink() {
            return Ok(RepositoryMounts {
                instead: vec![(link.clone(), clone.to_owned())],
                ..RepositoryMounts::default()
            });
        }
        // A folder cannot be mounted over a file, but the file can name another folder.
        let failed = |source| Error::Guard { path: link.clone(), source };
        let file = tempfile::Builder::new().prefix("gitdir-").tempfile_in(scratch).map_err(failed)?;
        fs::write(file.path(), format!("gitdir: {ELSEWHERE}\n")).map_err(failed)?;
        let file = file.into_temp_path();
        let mut sight = self.hidden();
        sight.hidden.retain(|path| path != link);
        sight.instead.push((link.clone(), file.to_path_buf()));
        sight.instead.push((ELSEWHERE.into(), clone.to_owned()));
        sight._file = Some(file);
        Ok(sight)
    }
}

/// Returns whether `gitdir` in the folder of a linked worktree names the worktree's `.git` file.
fn is_linked_back(own: &Path, link: &Path) -> bool {
    let named = fs::read_to_string(own.join("gitdir")).unwrap_or_default();
    let real = |path: &Path| path.canonicalize().ok();
    let named = own.join(named.trim());
    real(&named).is_some_and(|named| Some(named) == real(link))
}

fn is_closed(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem)
}

impl Drop for WorkspaceRepository {
    fn drop(&mut self) {
        for path in self.made.get_mut().unwrap_or_else(PoisonError::into_inner) {
            // Only if it is still empty: a person may have written to it meanwhile.
            let _ = match path.is_dir() {
                true => fs::remove_dir(path),
                false if fs::metadata(&path).is_ok_and(|found| found.len() == 0) => fs::remove_file(path),
                false => Ok(()),
            };
        }
    }
}

impl RepositoryMounts {
    fn guard(&mut self, shared: &Path) {
        self.read_only.extend(GUARDED.map(|name| shared.join(name)).into_iter().filter(|path| path.exists()));
        // The file would lead git to another configuration, and an empty one would break the repository.
        let elsewhere = shared.join("commondir");
        match elsewhere.exists() {
            true => self.read_only.push(elsewhere),
            false => self.absent.push(elsewhere),
        }
        let worktrees = shared.join("worktrees");
        let entries = fs::read_dir(&worktrees).into_iter().flatten().flatten();
        let folders: Vec<PathBuf> = entries.map(|entry| entry.path()).take(WORKTREES + 1).collect();
        if folders.len() > WORKTREES {
            self.read_only.push(worktrees);
            return;
        }
        let links = folders.iter().flat_map(|folder| GUARDED_LINKS.map(|name| folder.join(name)));
        self.read_only.extend(links.filter(|path| path.exists()));
    }

    /// Removes files that the sandbox could not prevent. Returns notes for people.
    pub fn restore(self) -> Vec<String> {
        let appeared = self.absent.iter().filter(|path| fs::symlink_metadata(path).is_ok());
        appeared
            .map(|path| match fs::symlink_metadata(path).is_ok_and(|found| found.is_dir()) {
                true => format!("the agent made {}, which git cannot use", path.display()),
                false => match fs::remove_file(path) {
                    Ok(()) => format!("provost removed {}, which would have redirected git", path.display()),
                    Err(error) => format!("{} redirects git: {error}", path.display()),
                },
            })
            .collect()
    }
}

/// Returns whether git reads `config.worktree`, which `config` has to enable.
fn has_worktree_settings(shared: &Path) -> bool {
    let config = fs::read(shared.join("config")).unwrap_or_default();
    String::from_utf8_lossy(&config).to_ascii_lowercase().contains("worktreeconfig")
}
