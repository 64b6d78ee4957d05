//! Starts attempts from trees that other machines sent, and collects what an attempt left, to send it on.
//!
//! No attempt changes the workspace of such a plan. The tree that the last attempt left takes its place:
//! the next attempt begins with it, and checks import from it. An attempt beside others begins with what has
//! passed, and with what the last attempt at its own step left.

use std::path::Path;

use super::{ApprovedTree, ExecEnv, step_worktree};
use crate::tree;
use crate::tree::{Apart, Base, ExcludedPath, ExclusionReason, ImportLimits, Remote, Touches};

/// What an attempt left, and how it is taken over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftWork {
    pub tree: String,
    /// The tree that the attempt began with, if others may have passed since; the inner `None` is the approved
    /// one. Without it, the work is taken over as it is.
    pub began: Option<Option<String>>,
    /// The tree that the changes of the attempt are applied to; `None` for the one that has passed.
    pub onto: Option<String>,
    /// It is the work of the step that is checked: changes that meet those of other steps are a conflict.
    pub is_own: bool,
}

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

    /// Creates a tree for one attempt: from what an attempt left, else from what has passed, else from the
    /// approved base.
    pub fn set_out(
        &self,
        plan: &str,
        step: &str,
        passed: Option<&str>,
        work: Option<&LeftWork>,
    ) -> Result<Apart, tree::Error> {
        let approved = self.carrying()?;
        let base = approved.passed(passed)?;
        let from = match work {
            Some(work) => self.brought_up(approved, plan, &base, work)?,
            None => base.clone(),
        };
        let apart = approved.trees.set_apart(&from, &base.id, &self.place_apart(plan, step))?;
        self.make_repository(approved, &apart.folder)?;
        Ok(apart)
    }

    /// Returns the files that an attempt left, for a check to import from, with the tree that its changes are
    /// compared with.
    pub fn laid_out(
        &self,
        plan: &str,
        passed: Option<&str>,
        work: Option<&LeftWork>,
    ) -> Result<Apart, tree::Error> {
        let approved = self.carrying()?;
        let base = approved.passed(passed)?;
        match work {
            None => self.as_folder(approved, plan, &base, &base),
            Some(LeftWork { tree, began: Some(began), is_own: true, .. }) => {
                self.as_folder(approved, plan, &approved.kept(tree)?, &approved.passed(began.as_deref())?)
            }
            Some(work) => {
                self.as_folder(approved, plan, &self.brought_up(approved, plan, &base, work)?, &base)
            }
        }
    }

    /// Returns the work with what has passed since it began; what has passed alone, if both changed the same
    /// files.
    fn brought_up(
        &self,
        approved: &ApprovedTree,
        plan: &str,
        base: &Base,
        work: &LeftWork,
    ) -> Result<Base, tree::Error> {
        let left = approved.kept(&work.tree)?;
        let Some(began) = &work.began else { return Ok(left) };
        let from = approved.passed(began.as_deref())?;
        let onto = work.onto.as_deref().map_or_else(|| Ok(base.clone()), |onto| approved.kept(onto))?;
        if from.id == onto.id {
            return Ok(left);
        }
        let folder = self.as_folder(approved, plan, &left, &from)?.folder;
        Ok(approved.brought_up(&folder, &from, &onto).unwrap_or(onto))
    }

    /// Returns a folder with all files of a tree.
    fn as_folder(
        &self,
        approved: &ApprovedTree,
        plan: &str,
        tree: &Base,
        base: &Base,
    ) -> Result<Apart, tree::Error> {
        let place = || step_worktree::room(&self.state, plan).join("left");
        match tree.over {
            None => Ok(Apart { folder: tree.path.clone(), base: base.id.clone() }),
            Some(_) => approved.trees.set_apart(tree, &base.id, &place()),
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
    /// Returns a tree that has passed, or the approved one.
    fn passed(&self, id: Option<&str>) -> Result<Base, tree::Error> {
        id.map_or_else(|| Ok(self.base.clone()), |id| self.kept(id))
    }

    /// Applies the changes in a folder since `from` to another tree.
    fn brought_up(&self, folder: &Path, from: &Base, onto: &Base) -> Result<Base, tree::Error> {
        let nothing: &[&str] = &[];
        let none = Touches::new(nothing)?;
        let limits = ImportLimits { as_git: true, ..self.limits };
        let layer = self.trees.take_over_from(folder, from, &self.touches, &none, &limits)?;
        self.trees.advance(onto, self.trees.carried(layer, from, onto)?)
    }
}
