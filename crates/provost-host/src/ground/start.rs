//! The tree an attempt begins with in the workspace, and the one it leaves there.

use super::{Approved, Ground};
use crate::tree;
use crate::tree::{Start, Touches, Unsettled};

/// What is known of the plan when an attempt is to begin.
#[derive(Clone, Copy, Debug)]
pub struct Outset<'a> {
    /// What the steps before left; the approved tree, if none has passed.
    pub tree: Option<&'a str>,
    /// What the step may change of what the plan may; all of it, where it says nothing.
    pub touches: Option<&'a [String]>,
    /// The trees of the last attempt, if it is not settled: what it began with, and what it left.
    pub before: Option<(&'a str, Option<&'a str>)>,
    /// Trees that steps of this plan have left.
    pub own: &'a [String],
}

impl Ground {
    /// The tree an attempt begins with; nothing, where checks run in the workspace itself.
    pub fn start(&self, outset: &Outset<'_>) -> Result<Option<Start>, tree::Error> {
        let Some(approved) = &self.trees else { return Ok(None) };
        let base = approved.standing(outset.tree)?;
        let layer = approved.workspace_over(&base, outset.touches)?;
        let kept = |id: &str| approved.trees.kept(id, &approved.caches);
        let before = match outset.before {
            Some((start, left)) => {
                let left = left.map(kept).transpose()?.flatten();
                kept(start)?.map(|start| Unsettled { start, left })
            }
            None => None,
        };
        let mut own = Vec::new();
        for id in outset.own {
            own.extend(kept(id)?);
        }
        approved.trees.start(&base, layer, before.as_ref(), &own).map(Some)
    }

    /// Keeps what the workspace holds now, over the tree that the attempt began with.
    pub fn keep_work(&self, start: &str, touches: Option<&[String]>) -> Result<Option<String>, tree::Error> {
        let Some(approved) = &self.trees else { return Ok(None) };
        let start = approved.kept(start)?;
        let layer = approved.workspace_over(&start, touches)?;
        Ok(Some(approved.trees.advance(&start, layer)?.id))
    }
}

impl Approved {
    fn standing(&self, tree: Option<&str>) -> Result<tree::Base, tree::Error> {
        tree.map_or_else(|| Ok(self.base.clone()), |id| self.kept(id))
    }

    /// What the workspace has otherwise than a tree, inside the plan's `touches` and the step's.
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
