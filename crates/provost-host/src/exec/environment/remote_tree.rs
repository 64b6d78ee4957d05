//! Starts attempts from trees that other machines sent, and collects what an attempt left, to send it on.
//!
//! No attempt changes the workspace of such a plan. The tree that the last attempt left takes its place:
//! the next attempt begins with it, and checks import from it.

use super::{ApprovedTree, ExecEnv, step_worktree};
use crate::tree;
use crate::tree::{Apart, Base, ExcludedPath, ExclusionReason, ImportLimits, Remote, Touches};

/// The files that an agent left inside the plan's `touches`.
pub struct AgentFiles {
    pub tree: Base,
    /// Files that could not be imported.
    pub refused: Vec<ExcludedPath>,
}

impl ExecEnv {
    fn carrying(&self) -> Result<&ApprovedTree, tree::Error> {
        let none =
            || tree::Error::NotInside { path: "the tree that this isolation level does not have".to_owned() };
        self.trees.as_ref().ok_or_else(none)
    }

    /// Creates a tree for one attempt: from what the last attempt left, else from what has passed, else
    /// from the approved base.
    pub fn set_out(
        &self,
        plan: &str,
        step: &str,
        passed: Option<&str>,
        work: Option<&str>,
    ) -> Result<Apart, tree::Error> {
        let approved = self.carrying()?;
        let (base, from) = approved.beginning(passed, work)?;
        let apart = approved.trees.set_apart(&from, &base.id, &self.place_apart(plan, step))?;
        self.make_repository(approved, &apart.folder)?;
        Ok(apart)
    }

    /// Returns the files that an attempt left, for a check to import from.
    pub fn laid_out(
        &self,
        plan: &str,
        passed: Option<&str>,
        work: Option<&str>,
    ) -> Result<Apart, tree::Error> {
        let approved = self.carrying()?;
        let (base, from) = approved.beginning(passed, work)?;
        match from.over {
            None => Ok(Apart { folder: from.path.clone(), base: base.id }),
            Some(_) => approved.trees.set_apart(
                &from,
                &base.id,
                &step_worktree::room(&self.state, plan).join("left"),
            ),
        }
    }

    /// Imports what the agent left, as a tree. The judge checks for protected files, not this function.
    pub fn gather(&self, apart: &Apart) -> Result<AgentFiles, tree::Error> {
        let approved = self.carrying()?;
        let nothing: &[&str] = &[];
        let (base, none) = (approved.kept(&apart.base)?, Touches::new(nothing)?);
        let limits = ImportLimits { as_git: true, ..approved.limits };
        let mut layer =
            approved.trees.take_over_from(&apart.folder, &base, &approved.touches, &none, &limits)?;
        let refused = std::mem::take(&mut layer.refused);
        if let Some(cut) = refused
            .iter()
            .find(|refused| matches!(refused.why, ExclusionReason::TooMany | ExclusionReason::OverTotal))
        {
            return Err(tree::Error::TooMuch { path: cut.path.clone() });
        }
        Ok(AgentFiles { tree: approved.trees.advance(&base, layer)?, refused })
    }

    /// Sends a kept tree to the remote.
    pub fn send(&self, remote: &Remote, tree: &str, name: &str) -> Result<(), tree::Error> {
        let approved = self.carrying()?;
        let none = || tree::Error::NotInside { path: "the tree of a plan without a commit".to_owned() };
        let commit = approved.commit.as_deref().ok_or_else(none)?;
        approved.trees.send(remote, commit, &approved.kept(tree)?, name)
    }
}

impl ApprovedTree {
    /// Returns the tree that has passed, and the tree that takes the place of the workspace.
    fn beginning(&self, passed: Option<&str>, work: Option<&str>) -> Result<(Base, Base), tree::Error> {
        let base = match passed {
            Some(id) => self.kept(id)?,
            None => self.base.clone(),
        };
        let from = match work {
            Some(id) => self.kept(id)?,
            None => base.clone(),
        };
        Ok((base, from))
    }
}
