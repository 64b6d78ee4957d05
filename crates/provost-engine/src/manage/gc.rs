//! Finds files of the state folder that are no longer needed, and removes them.
//!
//! **Invariant:** the log, the proofs, the keys and what a plan needs that can continue are never listed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use provost_core::model::chain::PlanId;
use provost_core::model::hash::Hash;
use provost_core::state::run::Stage;
use provost_host::files::remove_folder;
use provost_host::tree::{self, RetentionLimits};
use provost_store::Log;

use crate::exec::proof_map;
use crate::exec::transcript::{self, last_written};
use crate::plan::plan_registry;
use crate::settings::EngineSettings;
use crate::{Error, journal};

/// Folders of the state folder that have one folder per workspace.
const BY_WORKSPACE: [(&str, &str); 3] = [
    ("trees", "trees that checks ran on"),
    ("builds", "build caches of checks"),
    ("homes", "private homes of agents"),
];

/// Something that can be removed.
#[derive(Clone, Debug)]
pub struct UnusedFiles {
    pub path: PathBuf,
    /// What it is, and why it is not needed.
    pub what: String,
    pub bytes: u64,
    by: Removal,
}

/// How it is removed.
#[derive(Clone, Debug)]
enum Removal {
    /// The folder, if its workspace is still gone.
    Workspace(PathBuf),
    /// Bases of this folder of trees.
    Bases(PathBuf, RetentionLimits),
    /// Installed dependencies, if no check uses them.
    Supply,
    /// Transcripts of a plan or results of a proof map, if nothing was added for this time.
    Unwritten(Duration),
}

/// Lists everything that was not used for this time, and everything of workspaces that are gone.
pub fn expendable(settings: &EngineSettings, unused: Duration) -> Result<Vec<UnusedFiles>, Error> {
    let state = settings.state_folder();
    let log = journal::log_locator::for_reading(&state)?;
    let mut found = Vec::new();
    for (workspace, is_needed) in workspaces(&*log, &state)? {
        let key = &key(&workspace);
        if !workspace.exists() {
            found.extend(of_gone(&state, &workspace, key));
        } else if !is_needed {
            let limits = RetentionLimits { unused, ..RetentionLimits::default() };
            found.extend(old_bases(&state.join("trees").join(key), &workspace, limits)?);
        }
    }
    found.extend(supplies(&state.join("provision"), unused));
    found.extend(transcripts(&*log, &state, unused)?);
    found.extend(proof_maps(&state, unused));
    found.retain(|item| item.bytes > 0);
    Ok(found)
}

/// Removes one of them after a last check. Returns whether it is gone.
pub fn remove(item: &UnusedFiles) -> Result<bool, Error> {
    match &item.by {
        Removal::Workspace(workspace) if !workspace.exists() => remove_folder(&item.path),
        Removal::Workspace(_) => return Ok(false),
        Removal::Bases(trees, limits) => return Ok(tree::sweep(trees, limits).map_err(Error::Carry)? > 0),
        Removal::Supply if is_free(&item.path) => remove_folder(&item.path),
        Removal::Supply => return Ok(false),
        Removal::Unwritten(unused) if is_older(last_written(&item.path), *unused) => {
            remove_folder(&item.path);
        }
        Removal::Unwritten(_) => return Ok(false),
    }
    Ok(!item.path.exists())
}

/// Returns the workspaces of all plans; true if a plan there can continue or a process works there.
fn workspaces(log: &dyn Log, state: &Path) -> Result<BTreeMap<PathBuf, bool>, Error> {
    let mut found = BTreeMap::new();
    for (plan, place) in plan_registry::all(state) {
        let is_over = is_over(log, &plan);
        let workspace = format!("workspace {}", place.workspace.display());
        let is_held = !matches!(log.holder(&workspace), Ok(None));
        *found.entry(place.workspace).or_insert(false) |= !is_over || is_held;
    }
    Ok(found)
}

/// Returns whether a plan cannot continue. A plan whose log cannot be read may still need its files.
fn is_over(log: &dyn Log, plan: &PlanId) -> bool {
    journal::read(log, plan)
        .is_ok_and(|run| run.stage == Stage::Done || run.stage == Stage::Failed && run.given_up)
}

/// Removes everything that this machine keeps for a workspace. The caller makes sure that no process uses it.
pub fn forget_workspace(state: &Path, workspace: &Path) {
    for (name, _) in BY_WORKSPACE {
        remove_folder(&state.join(name).join(key(workspace)));
    }
}

/// Returns the name of the folders of a workspace.
fn key(workspace: &Path) -> String {
    Hash::of(workspace.as_os_str().as_encoded_bytes()).to_string()[..16].to_owned()
}

fn of_gone(state: &Path, workspace: &Path, key: &str) -> Vec<UnusedFiles> {
    let folders = BY_WORKSPACE.into_iter().map(|(name, what)| (state.join(name).join(key), what));
    let there = folders.filter(|(path, _)| path.is_dir());
    let item = |(path, what): (PathBuf, &str)| UnusedFiles {
        what: format!("{what}; {} is gone", workspace.display()),
        bytes: size(&path),
        by: Removal::Workspace(workspace.to_owned()),
        path,
    };
    there.map(item).collect()
}

fn old_bases(trees: &Path, workspace: &Path, limits: RetentionLimits) -> Result<Option<UnusedFiles>, Error> {
    let old = tree::expendable(trees, &limits).map_err(Error::Carry)?;
    Ok((!old.is_empty()).then(|| UnusedFiles {
        path: trees.join("bases"),
        what: format!("{} unused trees of {}", old.len(), workspace.display()),
        bytes: old.iter().map(|path| size(path)).sum(),
        by: Removal::Bases(trees.to_owned(), limits),
    }))
}

/// Returns the transcripts of plans that have ended, or whose workspace is gone, if nothing was added for this
/// time.
fn transcripts(log: &dyn Log, state: &Path, unused: Duration) -> Result<Vec<UnusedFiles>, Error> {
    let known = plan_registry::all(state);
    let mut found = Vec::new();
    let archived: BTreeSet<PlanId> = log.archived_plans()?.into_iter().collect();
    for plan in log.plans()? {
        let path = transcript::folder(state, &plan);
        if !is_older(last_written(&path), unused) {
            continue;
        }
        let place = known.iter().find(|(id, _)| *id == plan);
        if place.is_some_and(|(_, place)| !place.workspace.exists())
            || archived.contains(&plan)
            || is_over(log, &plan)
        {
            let what = format!("old transcripts of the plan {plan}");
            found.push(UnusedFiles { bytes: size(&path), what, by: Removal::Unwritten(unused), path });
        }
    }
    Ok(found)
}

fn is_older(at: Option<SystemTime>, age: Duration) -> bool {
    at.is_some_and(|at| SystemTime::now().duration_since(at).is_ok_and(|passed| passed >= age))
}

fn supplies(place: &Path, unused: Duration) -> Vec<UnusedFiles> {
    let is_old = |path: &Path| {
        let used = fs::metadata(path.join("used")).and_then(|found| found.modified());
        used.is_ok_and(|at| SystemTime::now().duration_since(at).is_ok_and(|age| age > unused))
    };
    let entries = fs::read_dir(place).into_iter().flatten().flatten().map(|entry| entry.path());
    let old = entries.filter(|path| is_old(path) && is_free(path));
    let what = "unused dependencies that provost installed for checks";
    old.map(|path| UnusedFiles { bytes: size(&path), what: what.to_owned(), by: Removal::Supply, path })
        .collect()
}

/// Returns the results of proof maps to which nothing was added for this time.
fn proof_maps(state: &Path, unused: Duration) -> Vec<UnusedFiles> {
    let entries = fs::read_dir(state.join(proof_map::FOLDER)).into_iter().flatten().flatten();
    let old = entries.map(|entry| entry.path()).filter(|path| is_older(last_written(path), unused));
    let what = "old results of `provost proved`";
    old.map(|path| UnusedFiles {
        bytes: size(&path),
        what: what.to_owned(),
        by: Removal::Unwritten(unused),
        path,
    })
    .collect()
}

/// Returns whether no check uses these dependencies.
fn is_free(supply: &Path) -> bool {
    File::open(supply.join("used")).is_ok_and(|note| note.try_lock().is_ok())
}

/// Returns the bytes on disk below a folder; a file with several names counts once.
fn size(path: &Path) -> u64 {
    let (mut bytes, mut seen, mut rest) = (0, BTreeSet::new(), vec![path.to_owned()]);
    while let Some(path) = rest.pop() {
        let Ok(found) = fs::symlink_metadata(&path) else { continue };
        if seen.insert((found.dev(), found.ino())) {
            bytes += found.blocks() * 512;
        }
        if found.is_dir() {
            rest.extend(fs::read_dir(&path).into_iter().flatten().flatten().map(|entry| entry.path()));
        }
    }
    bytes
}
