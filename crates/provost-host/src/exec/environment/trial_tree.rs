//! Makes the tree of a trial: another commit, the base with a patch, or no file at all.

use super::ExecEnv;
use crate::tree::{self, Base};

/// The tree that a check is tried on, instead of the workspace.
#[derive(Clone, Copy, Debug)]
pub enum TrialTree<'a> {
    /// A commit, as a person names it.
    Commit(&'a str),
    /// A patch on the tree that the steps before left.
    Patch(&'a [u8]),
    /// No file at all.
    Empty,
}

impl ExecEnv {
    /// Makes the tree and keeps it; `None` if the level has no trees of its own. `standing` is the tree that
    /// the steps before left; without it, the approved base.
    pub fn trial_tree(
        &self,
        wanted: TrialTree<'_>,
        standing: Option<&str>,
    ) -> Result<Option<Base>, tree::Error> {
        let Some(approved) = &self.trees else { return Ok(None) };
        let commit = approved.commit.as_deref();
        let no_commit = || tree::Error::NoCommit { name: "HEAD".to_owned() };
        let made = match wanted {
            TrialTree::Empty => approved.trees.empty()?,
            TrialTree::Commit(name) => {
                let id = approved.trees.find_commit(commit.ok_or_else(no_commit)?, name)?;
                approved.trees.base("", Some(&id), &[], &[])?
            }
            TrialTree::Patch(patch) => {
                let commit = commit.ok_or_else(no_commit)?;
                let standing = standing.map_or_else(|| Ok(approved.base.clone()), |id| approved.kept(id))?;
                approved.trees.patched(commit, &approved.base, &standing, patch)?
            }
        };
        Ok(Some(made))
    }

    /// Returns the id of the approved base; `None` if the level has no trees of its own.
    pub fn base_id(&self) -> Option<&str> {
        self.trees.as_ref().map(|approved| approved.base.id.as_str())
    }

    /// Opens a kept tree; `None` if the level has no trees of its own.
    pub fn kept_tree(&self, id: &str) -> Result<Option<Base>, tree::Error> {
        self.trees.as_ref().map(|approved| approved.kept(id)).transpose()
    }
}
