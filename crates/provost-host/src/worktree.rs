//! Makes a branch and a worktree for each attempt at a plan and for each fork, beside the repository, and
//! removes them when nothing in them would be lost.
//!
//! git stores a few small files for a worktree, and this module writes them itself: git is not run in the
//! user's repository. A record in the state folder says that provost made the worktree and why. A note
//! beside git's files says that the plan file of a spawned worktree is in the main checkout; nothing is
//! removed because of it.
//!
//! **Invariant:** a spawn that fails leaves nothing behind.
//! **Invariant:** [`prune`] removes only worktrees that are merged and clean, and only those that provost
//! made.

mod note;
mod prune;
mod refs;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

pub use note::{ListedWorktree, Note, Records, list};
pub use prune::{Fate, fate, prune};

use crate::files::folder;
use crate::plans::plan_file;
use crate::tree::Trees;
use crate::{files, git, tree};

/// The file that names the ignored files to copy into a new worktree, in `.gitignore` syntax.
pub const INCLUDE: &str = ".worktreeinclude";
/// Limit on the number of worktrees for one plan.
const MOST: u32 = 1000;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{} has no repository with a commit", .0.display())]
    NoCommit(PathBuf),
    #[error("there are {MOST} worktrees of {0} already; `provost worktree prune` shows which can be removed")]
    TooMany(String),
    #[error("cannot {attempted} {}", .path.display())]
    Io { attempted: &'static str, path: PathBuf, source: io::Error },
    #[error(transparent)]
    Tree(#[from] tree::Error),
    #[error("the setup of the worktree failed, so provost undid everything: {said}")]
    Setup { said: String },
}

impl Error {
    fn io(attempted: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
        let path = path.to_owned();
        move |source| Error::Io { attempted, path, source }
    }
}

/// Description of the worktree to make.
pub struct WorktreeRequest<'a> {
    pub trees: &'a Trees,
    pub records: &'a Records,
    /// The checkout it is made from.
    pub workspace: &'a Path,
    /// The folder in which the new worktree is put; created if it does not exist.
    pub beside: &'a Path,
    /// The content of the marker.
    pub plan: &'a str,
    pub slug: &'a str,
    pub base: &'a str,
    pub now: u64,
}

/// The worktree that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewWorktree {
    pub path: PathBuf,
    /// Without `refs/heads/`.
    pub branch: String,
    pub base: String,
    pub attempt: u32,
    /// Ignored files that were copied.
    pub copied: Vec<String>,
}

/// Makes branch, worktree and marker, then calls `set_up` for the rest. If anything fails, everything is
/// removed again.
pub fn spawn(
    wanted: &WorktreeRequest<'_>,
    set_up: &mut dyn FnMut(&Path) -> Result<(), String>,
) -> Result<NewWorktree, Error> {
    let no_commit = || Error::NoCommit(wanted.workspace.to_owned());
    let repository = git::repository(wanted.workspace).ok_or_else(no_commit)?;
    let (mut making, attempt) = Making::begin(wanted, repository)?;
    making.records = Some(wanted.records.clone());
    making.note(&making.record(wanted.records, wanted.plan, wanted.now, attempt, false)?)?;
    making.link()?;
    wanted.trees.make_branch(wanted.base, &making.branch())?;
    making.has_branch = true;
    wanted.trees.write_out(wanted.base, &making.path, &making.own.join("index"))?;
    let copied = copy_listed(wanted, &making.path)?;
    making.mark(wanted.plan)?;
    set_up(&making.path).map_err(|said| Error::Setup { said })?;
    making.note(&making.record(wanted.records, wanted.plan, wanted.now, attempt, true)?)?;
    making.finish()?;
    let (path, branch) = (making.path.clone(), making.short.clone());
    Ok(NewWorktree { path, branch, base: wanted.base.to_owned(), attempt, copied })
}

/// An existing branch to check out in a worktree of its own.
pub struct BranchCheckout<'a> {
    pub trees: &'a Trees,
    pub records: &'a Records,
    /// A checkout of the same repository.
    pub workspace: &'a Path,
    /// Path of the new worktree; it must not exist.
    pub path: &'a Path,
    /// The content of the marker.
    pub plan: &'a str,
    /// Without `refs/heads/`.
    pub branch: &'a str,
    /// The commit of the branch.
    pub commit: &'a str,
    pub now: u64,
}

/// Checks out a branch, binds the worktree to its plan, and calls `set_up` for the rest. If anything fails,
/// the worktree is removed again; the branch stays.
pub fn check_out<E: From<Error>>(
    wanted: &BranchCheckout<'_>,
    set_up: impl FnOnce(&Path) -> Result<(), E>,
) -> Result<PathBuf, E> {
    let no_commit = || Error::NoCommit(wanted.workspace.to_owned());
    let repository = git::repository(wanted.workspace).ok_or_else(no_commit)?;
    let mut making = Making::at(wanted.path, repository, wanted.branch, wanted.commit)?;
    making.records = Some(wanted.records.clone());
    making.record(wanted.records, wanted.plan, wanted.now, 1, false)?;
    making.link()?;
    let index = making.own.join("index");
    wanted.trees.write_out(wanted.commit, &making.path, &index).map_err(Error::from)?;
    making.mark(wanted.plan)?;
    set_up(&making.path)?;
    making.record(wanted.records, wanted.plan, wanted.now, 1, true)?;
    making.finish()?;
    Ok(making.path.clone())
}

/// A worktree that is being made; dropping it before the end removes what was made.
struct Making {
    repository: PathBuf,
    /// The worktree.
    path: PathBuf,
    /// git's folder for it.
    own: PathBuf,
    short: String,
    base: String,
    /// The branch was made for this worktree.
    has_branch: bool,
    /// The records that list it, if any.
    records: Option<Records>,
    is_done: bool,
}

impl Making {
    /// Takes the first free number: creating the folder claims it.
    fn begin(wanted: &WorktreeRequest<'_>, repository: PathBuf) -> Result<(Self, u32), Error> {
        fs::create_dir_all(wanted.beside).map_err(Error::io("make", wanted.beside))?;
        let beside = wanted.beside.canonicalize().map_err(Error::io("find", wanted.beside))?;
        let top = git::main_checkout(wanted.workspace).unwrap_or_else(|| wanted.workspace.to_owned());
        let project = top.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let owned = repository.join("worktrees");
        fs::create_dir_all(&owned).map_err(Error::io("make", &owned))?;
        for attempt in 1..=MOST {
            let id = format!("{project}-{}-{attempt}", wanted.slug);
            let (path, own) = (beside.join(&id), owned.join(&id));
            let short = format!("spawn/{}-{attempt}", wanted.slug);
            let is_taken =
                own.exists() || git::find(wanted.workspace, &format!("refs/heads/{short}")).is_some();
            if is_taken {
                continue;
            }
            match fs::create_dir(&path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                made => made.map_err(Error::io("make", &path))?,
            }
            let base = wanted.base.to_owned();
            let making =
                Self { repository, path, own, short, base, has_branch: false, records: None, is_done: false };
            // The folder claims the number; this folder could only be left from a manual clean-up.
            fs::create_dir(&making.own).map_err(Error::io("make", &making.own))?;
            return Ok((making, attempt));
        }
        Err(Error::TooMany(wanted.slug.to_owned()))
    }

    /// Makes a worktree at this path. git's folder for it has the same name, with a number if that is
    /// taken.
    fn at(path: &Path, repository: PathBuf, branch: &str, commit: &str) -> Result<Self, Error> {
        let owned = repository.join("worktrees");
        for folder in path.parent().into_iter().chain([owned.as_path()]) {
            fs::create_dir_all(folder).map_err(Error::io("make", folder))?;
        }
        fs::create_dir(path).map_err(Error::io("make", path))?;
        let path = path.canonicalize().map_err(Error::io("find", path))?;
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let own = free_folder(&owned, &name).inspect_err(|_| folder::remove(&path))?;
        let (short, base) = (branch.to_owned(), commit.to_owned());
        Ok(Self { repository, path, own, short, base, has_branch: false, records: None, is_done: false })
    }

    fn branch(&self) -> String {
        format!("refs/heads/{}", self.short)
    }

    /// Writes git's files for a worktree. The lock keeps git from removing it while it is made.
    fn link(&self) -> Result<(), Error> {
        let link = self.path.join(".git");
        self.write("locked", "provost is making it\n")?;
        self.write("HEAD", &format!("ref: {}\n", self.branch()))?;
        self.write("commondir", "../..\n")?;
        self.write("gitdir", &format!("{}\n", link.display()))?;
        fs::write(&link, format!("gitdir: {}\n", self.own.display())).map_err(Error::io("write", &link))
    }

    /// Records who made it and why.
    fn record(
        &self,
        records: &Records,
        plan: &str,
        now: u64,
        attempt: u32,
        finished: bool,
    ) -> Result<Note, Error> {
        let note = Note {
            plan: plan.to_owned(),
            attempt,
            branch: self.short.clone(),
            base: self.base.clone(),
            at: now,
            pid: std::process::id(),
            finished,
        };
        let failed = Error::io("record", &self.path);
        records.write(&self.path, &self.own, &note).map_err(failed)?;
        Ok(note)
    }

    /// Writes the note beside git's files, which says that the plan file is in the main checkout.
    fn note(&self, note: &Note) -> Result<(), Error> {
        self.write(git::SPAWN_NOTE, &note.text())
    }

    fn write(&self, name: &str, text: &str) -> Result<(), Error> {
        let path = self.own.join(name);
        fs::write(&path, text).map_err(Error::io("write", &path))
    }

    /// Binds the worktree to its plan, and excludes the marker from accidental commits.
    fn mark(&self, plan: &str) -> Result<(), Error> {
        let marker = plan_file::marker(&self.path);
        let folder = marker.parent().unwrap_or(&self.path).to_owned();
        // The tree of the commit may have a link there.
        if folder.symlink_metadata().is_ok_and(|found| !found.is_dir()) {
            let source = io::Error::new(io::ErrorKind::NotADirectory, "it is not a folder");
            return Err(Error::Io { attempted: "put the marker into", path: folder, source });
        }
        fs::create_dir_all(&folder).map_err(Error::io("make", &folder))?;
        files::write_whole(&marker, format!("{plan}\n").as_bytes()).map_err(Error::io("write", &marker))?;
        exclude(&self.repository, "/.harness/active-plan");
        Ok(())
    }

    fn finish(&mut self) -> Result<(), Error> {
        let lock = self.own.join("locked");
        fs::remove_file(&lock).map_err(Error::io("remove", &lock))?;
        self.is_done = true;
        Ok(())
    }
}

impl Drop for Making {
    fn drop(&mut self) {
        if self.is_done {
            return;
        }
        folder::remove(&self.path);
        folder::remove(&self.own);
        if let Some(records) = &self.records {
            records.remove(&self.path);
        }
        if self.has_branch {
            let _ = refs::delete(&self.repository, &self.branch(), &self.base);
        }
    }
}

fn free_folder(within: &Path, name: &str) -> Result<PathBuf, Error> {
    for number in 0..MOST {
        let folder = within.join(if number == 0 { name.to_owned() } else { format!("{name}{number}") });
        match fs::create_dir(&folder) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => return made.map(|()| folder.clone()).map_err(Error::io("make", &folder)),
        }
    }
    Err(Error::TooMany(name.to_owned()))
}

/// Adds a line to `info/exclude`, which git also uses and which is not part of the tree.
fn exclude(repository: &Path, line: &str) {
    let path = repository.join("info/exclude");
    let text = fs::read_to_string(&path).unwrap_or_default();
    if text.lines().any(|each| each.trim() == line) || fs::create_dir_all(repository.join("info")).is_err() {
        return;
    }
    let gap = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    let _ = files::write_whole(&path, format!("{text}{gap}{line}\n").as_bytes());
}

/// Copies files that `.worktreeinclude` names and git ignores; only regular files, and without overwriting.
fn copy_listed(wanted: &WorktreeRequest<'_>, to: &Path) -> Result<Vec<String>, Error> {
    let list = wanted.workspace.join(INCLUDE);
    if !list.symlink_metadata().is_ok_and(|found| found.is_file()) {
        return Ok(Vec::new());
    }
    let mut copied = Vec::new();
    for path in wanted.trees.ignored_and_listed(&list, wanted.base)? {
        let (from, place) = (wanted.workspace.join(&path), to.join(&path));
        let is_plain = path.components().all(|part| matches!(part, std::path::Component::Normal(_)));
        let is_file = from.symlink_metadata().is_ok_and(|found| found.is_file());
        if !is_plain || !is_file || place.symlink_metadata().is_ok() {
            continue;
        }
        let parent = place.parent().unwrap_or(to);
        fs::create_dir_all(parent).map_err(Error::io("make", parent))?;
        // A link in the tree must not lead the copy out of the worktree.
        if !parent.canonicalize().is_ok_and(|real| real.starts_with(to)) {
            continue;
        }
        fs::copy(&from, &place).map_err(Error::io("copy", &from))?;
        copied.push(path.display().to_string());
    }
    Ok(copied)
}
