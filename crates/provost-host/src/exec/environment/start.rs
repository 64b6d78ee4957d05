//! Determines the tree that an attempt begins with in the workspace, and keeps the one that it leaves.

use super::{ApprovedTree, ExecEnv};
use crate::tree;
use crate::tree::{AttemptStart, OpenAttemptTrees, Touches};

/// State of the plan when an attempt begins.
#[derive(Clone, Copy, Debug)]
pub struct Outset<'a> {
    /// The tree that the steps before left; `None` means the approved base.
    pub tree: Option<&'a str>,
    /// The step's own globs, which narrow the plan's; `None` means all of the plan's.
    pub touches: Option<&'a [String]>,
    /// The trees of the last attempt, if it is unsettled: the one it began with, and the one it left.
    pub before: Option<(&'a str, Option<&'a str>)>,
    /// Trees that steps of this plan have left.
    pub own: &'a [String],
}

impl ExecEnv {
    /// Returns the tree that an attempt begins with; `None` if checks run in the workspace itself.
    pub fn start(&self, outset: &Outset<'_>) -> Result<Option<AttemptStart>, tree::Error> {
        let Some(approved) = &self.trees else { return Ok(None) };
        let base = approved.standing(outset.tree)?;
        let layer = approved.workspace_over(&base, outset.touches)?;
        let kept = |id: &str| approved.trees.kept(id, &approved.caches);
        let before = match outset.before {
            Some((start, left)) => {
                let left = left.map(kept).transpose()?.flatten();
                kept(start)?.map(|start| OpenAttemptTrees { start, left })
            }
            None => None,
        };
        let own = || outset.own.iter().filter_map(|id| kept(id).transpose()).collect();
        approved.trees.start(&base, layer, before.as_ref(), &own).map(Some)
    }

    /// Keeps the current state of the workspace, as a tree over the one that the attempt began with.
    pub fn keep_work(&self, start: &str, touches: Option<&[String]>) -> Result<Option<String>, tree::Error> {
        let Some(approved) = &self.trees else { return Ok(None) };
        let start = approved.kept(start)?;
        let layer = approved.workspace_over(&start, touches)?;
        Ok(Some(approved.trees.advance(&start, layer)?.id))
    }
}

impl ApprovedTree {
    fn standing(&self, tree: Option<&str>) -> Result<tree::Base, tree::Error> {
        tree.map_or_else(|| Ok(self.base.clone()), |id| self.kept(id))
    }

    /// Returns the workspace's differences from a tree, inside the plan's `touches` and the step's.
    fn workspace_over(
        &self,
        base: &tree::Base,
        touches: Option<&[String]>,
    ) -> Result<tree::Layer, tree::Error> {
        let nothing: &[&str] = &[];
        let none = Touches::new(nothing)?;
        self.within(touches, base, |touches| self.trees.take_over(base, touches, &none, &self.limits))
    }
}
