//! The plan registry: a small file per plan in the state folder with the plan's path, so that the inbox finds
//! plans that were not named.
//!
//! The registry is not trusted: a plan's identifier is derived from its path, and is derived again when the
//! plan is opened.

use std::fs;
use std::path::{Path, PathBuf};

use provost_core::language::shell_word::quoted;
use provost_core::model::chain::PlanId;
use provost_host::plans::plan_file::{self, PlanPlace};
use provost_host::{config, git};
use serde::{Deserialize, Serialize};

use crate::Error;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanLocation {
    /// Name of the plan for people.
    pub name: String,
    pub path: PathBuf,
    pub workspace: PathBuf,
    /// Folder that all worktrees of the repository share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repository: Option<PathBuf>,
}

impl PlanLocation {
    fn of(place: &PlanPlace) -> Self {
        Self { repository: git::repository(&place.workspace), ..Self::unregistered(place) }
    }

    /// Returns the location without a look at the repository.
    pub(crate) fn unregistered(place: &PlanPlace) -> Self {
        Self {
            name: place.slug.clone(),
            path: place.path.clone(),
            workspace: place.workspace.clone(),
            repository: None,
        }
    }

    /// Returns the name of the repository: of the folder of its main checkout.
    pub fn repository_name(&self) -> Option<String> {
        let shared = self.repository.clone().or_else(|| git::repository(&self.workspace));
        let folder = folder_of(shared.as_ref().unwrap_or(&self.workspace));
        Some(folder.file_name()?.to_string_lossy().into_owned())
    }

    /// Returns the key of the repository that the plan is in.
    pub fn repository_key(&self) -> PathBuf {
        self.repository.clone().unwrap_or_else(|| repository_key(&self.workspace))
    }

    pub fn is_there(&self) -> bool {
        self.path.is_file()
    }
}

/// Returns the folder of the main checkout of a repository.
fn folder_of(key: &Path) -> &Path {
    key.parent().filter(|_| key.ends_with(".git")).unwrap_or(key)
}

/// Returns the name of a repository for people, by its key: the path of its main checkout.
pub fn repository_name(key: &Path) -> String {
    folder_of(key).display().to_string()
}

/// Returns the key of the repository that a folder is in: what all its worktrees share, or the folder itself.
pub fn repository_key(folder: &Path) -> PathBuf {
    let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    git::repository(&folder).unwrap_or(folder)
}

/// Registers the path of a plan. Without this the plan is found only by its name or path.
pub fn keep(state: &Path, plan: &PlanId, place: &PlanPlace) {
    let (path, now) = (file(state, plan), PlanLocation::of(place));
    if find(state, plan).as_ref() == Some(&now) {
        return;
    }
    let written = path.parent().map(fs::create_dir_all).and(serde_json::to_vec(&now).ok());
    if let Some(text) = written {
        let _ = fs::write(path, text);
    }
}

/// Registers the plans of the repository that a folder is in.
pub fn keep_all(state: &Path, cwd: &Path) -> Result<(), Error> {
    let listing = plan_file::list_in(cwd, &folder(cwd)?)?;
    listing.plans.iter().for_each(|place| keep(state, &plan_file::id(place), place));
    Ok(())
}

pub fn find(state: &Path, plan: &PlanId) -> Option<PlanLocation> {
    serde_json::from_slice(&fs::read(file(state, plan)).ok()?).ok()
}

/// Returns all registered plans.
pub fn all(state: &Path) -> Vec<(PlanId, PlanLocation)> {
    let entries = fs::read_dir(state.join("places")).into_iter().flatten().flatten();
    let plans = entries.filter_map(|entry| Some(PlanId(entry.file_name().into_string().ok()?)));
    plans.filter_map(|plan| find(state, &plan).map(|place| (plan, place))).collect()
}

fn file(state: &Path, plan: &PlanId) -> PathBuf {
    // Identifiers consist of a slug and a digest, and fit a file name.
    state.join("places").join(plan.0.replace('/', "_"))
}

/// Returns the plan folder of the configuration that applies in `cwd`.
pub fn folder(cwd: &Path) -> Result<PathBuf, Error> {
    let workspace = git::top(cwd).unwrap_or_else(|| cwd.to_owned());
    Ok(config::plans_folder(&workspace)?)
}

/// Returns the plan that an argument names, in the configured plan folder.
pub fn resolve(argument: Option<&str>, cwd: &Path) -> Result<PlanPlace, Error> {
    Ok(plan_file::resolve_in(argument, cwd, &folder(cwd)?)?)
}

/// Returns the plan for a program's argument: a name or nothing, and never a path.
pub fn resolve_named(name: Option<&str>, cwd: &Path) -> Result<PlanPlace, Error> {
    Ok(plan_file::resolve_named(name, cwd, &folder(cwd)?)?)
}

/// Returns the plan's identifier in the log.
pub fn id(place: &PlanPlace) -> PlanId {
    plan_file::id(place)
}

/// The repository or folder that a command is run in.
pub struct Here {
    cwd: PathBuf,
    workspace: PathBuf,
    repository: Option<PathBuf>,
    /// The plan that is used if none is named.
    pub active: Option<PlanId>,
}

impl Here {
    pub fn of(cwd: &Path) -> Self {
        let cwd = cwd.canonicalize().unwrap_or_else(|_| cwd.to_owned());
        let workspace = git::top(&cwd).unwrap_or_else(|| cwd.clone());
        let active = resolve(None, &cwd).ok().map(|place| plan_file::id(&place));
        Self { repository: git::repository(&workspace), workspace, cwd, active }
    }

    /// Returns the top of the checkout, or the folder itself.
    pub fn workspace(&self) -> &Path {
        &self.workspace
    }

    pub fn is_repository(&self) -> bool {
        self.repository.is_some()
    }

    pub fn has_commit(&self) -> bool {
        git::head(&self.workspace).is_some()
    }

    /// Returns whether the folder is this one, or a checkout of the same repository.
    pub(crate) fn is_of(&self, workspace: &Path) -> bool {
        workspace == self.workspace
            || self.repository.is_some() && self.repository == git::repository(workspace)
    }

    pub fn has(&self, place: &PlanLocation) -> bool {
        let same_repository = self.repository.is_some() && self.repository == place.repository;
        same_repository || place.workspace == self.workspace
    }

    /// Returns the command line argument that names the plan here, for a shell; `None` for the active one.
    pub fn argument(&self, plan: &PlanId, place: &PlanLocation) -> Option<String> {
        self.path_from_here(plan, place).map(|path| quoted(&path))
    }

    /// Returns the path that names the plan here; `None` for the active one.
    pub fn path_from_here(&self, plan: &PlanId, place: &PlanLocation) -> Option<String> {
        let path = place.path.strip_prefix(&self.cwd).unwrap_or(&place.path);
        (self.active.as_ref() != Some(plan)).then(|| path.display().to_string())
    }
}
