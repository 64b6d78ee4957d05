//! Where agents work that work side by side: in trees of their own, from which the workspace is brought up
//! to what has passed.
//!
//! ```text
//! <state>/apart/<plan>/<step>/   a tree of an agent's own, named after the text of its step; see `tree::Apart`
//! <state>/apart/<plan>/home      the tree that the workspace was brought up to last
//! ```

use std::fs;
use std::path::{Path, PathBuf};

use provost_core::model::hash::Hash;
use provost_core::model::verdict::Isolation;

use super::{Approved, Ground};
use crate::tree;
use crate::tree::{Apart, Base, Touches, clear_apart};

/// What an attempt in a tree of its own begins with.
#[derive(Clone, Copy, Debug)]
pub struct Beginning<'a> {
    pub plan: &'a str,
    /// What the tree is called by. Another text of the step is another step.
    pub step: &'a str,
    /// What the steps before left; without it the workspace as it is.
    pub tree: Option<&'a str>,
    pub touches: &'a [String],
}

/// What a plan's agents leave there goes with the plan.
pub fn forget(state: &Path, plan: &str) {
    let _ = clear_apart(&room(state, plan));
}

pub(super) fn room(state: &Path, plan: &str) -> PathBuf {
    state.join("apart").join(&Hash::of(plan.as_bytes()).to_string()[..16])
}

impl Ground {
    pub(super) fn place_apart(&self, plan: &str, step: &str) -> PathBuf {
        room(&self.state, plan).join(step)
    }

    /// The tree in which the agent of a step works or has worked, if it has one of its own.
    pub fn apart(&self, plan: &str, step: &str) -> Option<Apart> {
        self.trees.as_ref()?;
        Apart::at(&self.place_apart(plan, step))
    }

    pub fn forget_apart(&self, plan: &str, step: &str) {
        let _ = clear_apart(&self.place_apart(plan, step));
    }

    /// A tree for one attempt, from what the steps before left. What an earlier attempt at the step has
    /// done is in it, unless others have changed the same files since.
    pub fn set_apart(&self, beginning: &Beginning<'_>) -> Result<Apart, tree::Error> {
        let Some(approved) = &self.trees else {
            return Err(tree::Error::NotInside { path: "at this level a tree of its own".to_owned() });
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

    /// Behind bubblewrap whatever the terms allow is mounted there; elsewhere it has a clone.
    pub(super) fn make_repository(&self, approved: &Approved, folder: &Path) -> Result<(), tree::Error> {
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

    /// A file of the workspace is to be seen where the agent works.
    pub(super) fn shows(&self, apart: Option<&Apart>, path: &Path) -> bool {
        let Some(apart) = apart else { return true };
        path.strip_prefix(&self.workspace).is_ok_and(|within| apart.folder.join(within).exists())
    }

    /// Where the content of a file of a kept tree lies; nothing, where it is not in it.
    pub fn file_in(&self, tree: &str, path: &str) -> Option<PathBuf> {
        let tree = self.trees.as_ref()?.kept(tree).ok()?;
        tree.has(path).then(|| tree.file(path))
    }

    /// Brings the workspace up to a tree that has passed. Says what was left alone, because somebody else
    /// had changed it. To do it again changes nothing.
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

impl Approved {
    /// The approved tree with what the workspace has inside `touches`.
    fn as_it_is(&self) -> Result<Base, tree::Error> {
        let nothing: &[&str] = &[];
        let none = Touches::new(nothing)?;
        let layer = self.trees.take_over(&self.base, &self.touches, &none, &self.limits)?;
        self.trees.advance(&self.base, layer)
    }

    /// A tree, and on it what an attempt has left in a tree of its own.
    fn with_work(&self, before: &Apart, base: &Base, touches: &[String]) -> Result<Base, tree::Error> {
        let nothing: &[&str] = &[];
        let from = self.kept(&before.base)?;
        let (touches, none) = (Touches::new(touches)?, Touches::new(nothing)?);
        let layer = self.trees.take_over_from(&before.folder, &from, &touches, &none, &self.limits)?;
        self.trees.advance(base, self.trees.carried(layer, &from, base)?)
    }
}
