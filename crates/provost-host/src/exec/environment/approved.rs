//! Builds the tree that a check sees: the approved base and the agent's changes.

use std::path::{Path, PathBuf};

use provost_core::model::event::NamedFile;
use provost_core::model::hash::Hash;

use super::ancestor_config::Above;
use super::environments::{self, FoundTools};
use super::mounts::Outfit;
use super::{ApprovedFiles, CheckSpec, Error, RunPaths};
use crate::check::judge::CheckTools;
use crate::tree;
use crate::tree::{Base, ImportLimits, Layer, Touches, Trees, Variation};

/// provost's trees of a workspace, and the approved one.
pub(super) struct ApprovedTree {
    pub trees: Trees,
    pub base: Base,
    pub touches: Touches,
    pub caches: Vec<String>,
    pub commit: Option<String>,
    /// The files that contracts name, as they were approved.
    pub files: Vec<NamedFile>,
    pub limits: ImportLimits,
    /// The repository that checks see, as it was before any agent ran.
    pub repository: Option<tree::CheckRepository>,
    pub outfit: Outfit,
    /// How the programs of checks are found.
    pub tools: CheckTools,
    /// For levels without a sandbox: the configuration above the trees of checks, from before any agent
    /// ran.
    pub above: Option<Above>,
}

impl ApprovedTree {
    pub(super) fn make(estate: &RunPaths<'_>, approval: &ApprovedFiles<'_>) -> Result<Self, Error> {
        let mut trees = trees_of(estate.workspace, estate.state)?;
        if approval.limits.as_git {
            trees.leave_out_submodules();
        }
        trees.trust_copies(approval.copies);
        let base = trees.base(approval.revision, approval.commit, approval.files, approval.caches)?;
        trees.leave_out(approval.revision, &base, estate.read_only)?;
        let base = trees.with_included(base, approval.included)?;
        let touches = Touches::new(approval.touches)?;
        let FoundTools { project, newer } = environments::of_project(
            estate,
            &base,
            approval,
            &trees_folder(estate.workspace, estate.state).join("tools"),
        );
        let tools = match approval.recorded {
            Some(recorded) => CheckTools::recorded(estate.workspace, recorded, project),
            None => CheckTools::new(estate.workspace, project),
        };
        let outfit = Outfit::new(estate, &approval.wanted, &base, (&tools, newer));
        let commit = approval.commit.map(str::to_owned);
        let (caches, limits) = (approval.caches.to_vec(), approval.limits);
        Ok(Self {
            trees,
            base,
            touches,
            caches,
            commit,
            files: approval.files.to_vec(),
            limits,
            repository: None,
            outfit,
            tools,
            above: None,
        })
    }

    /// Prepares the repository that checks see. If that fails, they see none.
    pub(super) fn show_repository(&mut self) {
        self.repository = self
            .commit
            .as_deref()
            .and_then(|commit| self.trees.repository_for_checks(&self.base, commit, &self.files).ok());
    }

    /// Returns the tree that the work began with, and a layer with the agent's changes.
    pub(super) fn look(&self, case: &CheckSpec<'_>) -> Result<(Base, Layer), tree::Error> {
        let start = case.start.filter(|_| case.with_work && case.apart.is_none());
        let base = match start.map(|start| start.tree.as_str()).or(case.tree) {
            None => self.base.clone(),
            Some(id) => self.kept(id)?,
        };
        let nothing: &[&str] = &[];
        let protect = Touches::new(case.protect)?;
        if !case.with_work {
            let layer = self.trees.take_over(&base, &Touches::new(nothing)?, &protect, &self.limits)?;
            return Ok((base, layer));
        }
        let layer = match case.apart {
            None => self.of_the_step(case, &base, None, &protect)?,
            Some(apart) => {
                let from = self.kept(&apart.base)?;
                let layer = self.of_the_step(case, &from, Some(&apart.folder), &protect)?;
                self.trees.carried(layer, &from, &base)?
            }
        };
        Ok((base, layer))
    }

    pub(super) fn kept(&self, id: &str) -> Result<Base, tree::Error> {
        let kept = self.trees.kept(id, &self.caches)?;
        kept.ok_or_else(|| tree::Error::Damaged { id: id.to_owned() })
    }

    /// Imports the changes that are inside the plan's `touches` and the step's.
    fn of_the_step(
        &self,
        case: &CheckSpec<'_>,
        base: &Base,
        folder: Option<&Path>,
        protect: &Touches,
    ) -> Result<Layer, tree::Error> {
        self.within(case.touches, base, |touches| match folder {
            None => self.trees.take_over(base, touches, protect, &self.limits),
            Some(folder) => self.trees.take_over_from(folder, base, touches, protect, &self.limits),
        })
    }

    /// Calls `take` and drops the changes that are outside of the plan's `touches`.
    pub(super) fn within(
        &self,
        globs: Option<&[String]>,
        base: &Base,
        take: impl Fn(&Touches) -> Result<Layer, tree::Error>,
    ) -> Result<Layer, tree::Error> {
        let Some(globs) = globs else { return take(&self.touches) };
        let layer = take(&Touches::new(globs)?)?;
        let is_ours = |path: &Path| self.touches.covers(path.as_os_str().as_encoded_bytes());
        if layer.changed_paths().chain(layer.deleted_paths()).all(is_ours) {
            return Ok(layer);
        }
        let mut within = self.trees.varied(base, &layer, &Variation::Only(&is_ours))?;
        within.refused = layer.refused;
        within.refused_more = layer.refused_more;
        within.ignored = layer.ignored;
        within.ignored_more = layer.ignored_more;
        within.protected_changed = layer.protected_changed;
        Ok(within)
    }
}

/// Opens provost's trees of a workspace.
pub fn trees_of(workspace: &Path, state: &Path) -> Result<Trees, Error> {
    Ok(Trees::open(&trees_folder(workspace, state), workspace)?)
}

/// Returns whether a tree seems to be kept for a workspace; only its folder is looked for.
pub fn keeps(workspace: &Path, state: &Path, tree: &str) -> bool {
    trees_folder(workspace, state).join("bases").join(tree).is_dir()
}

fn trees_folder(workspace: &Path, state: &Path) -> PathBuf {
    let key = Hash::of(workspace.as_os_str().as_encoded_bytes()).to_string();
    state.join("trees").join(&key[..16])
}

/// Opens provost's trees of a workspace and makes the approved one, without running an agent or a check.
pub fn trees(estate: &RunPaths<'_>, approval: &ApprovedFiles<'_>) -> Result<(Trees, Base), Error> {
    let approved = ApprovedTree::make(estate, approval)?;
    Ok((approved.trees, approved.base))
}
