//! Step worktrees: gives each of several parallel agents its own tree, and updates the workspace to what
//! has passed.
//!
//! ```text
//! <state>/apart/<plan>/<step>/   an agent's own tree, named by its step's text; see `tree::Apart`
//! <state>/apart/<plan>/home      id of the tree that the workspace was last updated to
//! ```

use std::fs;
use std::path::{Path, PathBuf};

use provost_core::model::hash::Hash;
use provost_core::model::verdict::Isolation;

use super::{ApprovedTree, ExecEnv};
use crate::tree;
use crate::tree::{Apart, Base, Touches, clear_apart};

/// The start of an attempt in a step worktree.
#[derive(Clone, Copy, Debug)]
pub struct StepWorktreeStart<'a> {
    pub plan: &'a str,
    /// Name of the tree. A step with a changed text counts as another step.
    pub step: &'a str,
    /// The tree that the steps before left; `None` means the workspace as it is.
    pub tree: Option<&'a str>,
    pub touches: &'a [String],
}

/// Removes all step worktrees of a plan.
pub fn forget(state: &Path, plan: &str) {
    let _ = clear_apart(&room(state, plan));
}

pub(super) fn room(state: &Path, plan: &str) -> PathBuf {
    state.join("apart").join(&Hash::of(plan.as_bytes()).to_string()[..16])
}

impl ExecEnv {
    pub(super) fn place_apart(&self, plan: &str, step: &str) -> PathBuf {
        room(&self.state, plan).join(step)
    }

    /// Returns the step's worktree, if it has one.
    pub fn apart(&self, plan: &str, step: &str) -> Option<Apart> {
        self.trees.as_ref()?;
        Apart::at(&self.place_apart(plan, step))
    }

    pub fn forget_apart(&self, plan: &str, step: &str) {
        let _ = clear_apart(&self.place_apart(plan, step));
    }

    /// Creates a step worktree for one attempt, from the tree that the steps before left. It keeps the work
    /// of an earlier attempt at the step, unless others have changed the same files since.
    pub fn set_apart(&self, beginning: &StepWorktreeStart<'_>) -> Result<Apart, tree::Error> {
        let Some(approved) = &self.trees else {
            return Err(tree::Error::NotInside {
                path: "the tree that this isolation level does not have".to_owned(),
            });
        };
        let base = match beginning.tree {
            Some(id) => approved.kept(id)?,
            None => approved.as_it_is()?,
        };
        let place = self.place_apart(beginning.plan, beginning.step);
        let before = Apart::at(&place).filter(|before| before.folder.is_dir());
        if let Some(before) = before.as_ref().filter(|before| before.base == base.id) {
            return Ok(before.clone());
        }
        let tree = before.and_then(|before| approved.with_work(&before, &base, beginning.touches).ok());
        let apart = approved.trees.set_apart(tree.as_ref().unwrap_or(&base), &base.id, &place)?;
        self.make_repository(approved, &apart.folder)?;
        Ok(apart)
    }

    /// Creates the `.git` of a step worktree. In bubblewrap it is a mount point for what the policy allows;
    /// elsewhere it is a clone.
    pub(super) fn make_repository(&self, approved: &ApprovedTree, folder: &Path) -> Result<(), tree::Error> {
        let (there, here) = (self.workspace.join(".git"), folder.join(".git"));
        let failed = |source| tree::Error::Io { attempt: "make", path: here.clone(), source };
        match (&approved.commit, self.level) {
            _ if here.exists() => Ok(()),
            (_, Isolation::Clean) if there.is_dir() => fs::create_dir(&here).map_err(failed),
            (_, Isolation::Clean) if there.is_file() => fs::write(&here, "").map_err(failed),
            (Some(commit), level) if level != Isolation::Clean && there.exists() => {
                fs::create_dir(&here).map_err(failed)?;
                approved.trees.clone_of(commit, &here)
            }
            _ => Ok(()),
        }
    }

    /// Returns whether a file of the workspace exists where the agent works.
    pub(super) fn shows(&self, apart: Option<&Apart>, path: &Path) -> bool {
        let Some(apart) = apart else { return true };
        path.strip_prefix(&self.workspace).is_ok_and(|within| apart.folder.join(within).exists())
    }

    /// Returns the path of a file's content in a kept tree; `None` if the tree does not have the file.
    pub fn file_in(&self, tree: &str, path: &str) -> Option<PathBuf> {
        let tree = self.trees.as_ref()?.kept(tree).ok()?;
        tree.has(path).then(|| tree.file(path))
    }

    /// Updates the workspace to a tree that has passed. Returns the files that were skipped because someone
    /// else had changed them. A second call changes nothing.
    pub fn bring_home(&self, plan: &str, tree: &str) -> Result<Vec<String>, tree::Error> {
        let Some(approved) = &self.trees else { return Ok(Vec::new()) };
        let note = room(&self.state, plan).join("home");
        let known = fs::read_to_string(&note).unwrap_or_default();
        if known == tree {
            return Ok(Vec::new());
        }
        let before = approved.trees.kept(&known, &approved.caches)?.unwrap_or_else(|| approved.base.clone());
        let left = approved.trees.bring_home(&before, &approved.kept(tree)?)?;
        let written = fs::create_dir_all(room(&self.state, plan)).and_then(|()| fs::write(&note, tree));
        written.map_err(|source| tree::Error::Io { attempt: "write", path: note, source })?;
        Ok(left)
    }
}

impl ApprovedTree {
    /// Returns the approved tree with the workspace's files inside `touches`.
    fn as_it_is(&self) -> Result<Base, tree::Error> {
        let nothing: &[&str] = &[];
        let none = Touches::new(nothing)?;
        let layer = self.trees.take_over(&self.base, &self.touches, &none, &self.limits)?;
        self.trees.advance(&self.base, layer)
    }

    /// Returns a tree with the work that an attempt left in its step worktree.
    fn with_work(&self, before: &Apart, base: &Base, touches: &[String]) -> Result<Base, tree::Error> {
        let nothing: &[&str] = &[];
        let from = self.kept(&before.base)?;
        let (touches, none) = (Touches::new(touches)?, Touches::new(nothing)?);
        let layer = self.trees.take_over_from(&before.folder, &from, &touches, &none, &self.limits)?;
        self.trees.advance(base, self.trees.carried(layer, &from, base)?)
    }
}
