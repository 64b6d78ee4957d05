//! Decides which environments of the project the checks of a run use, before any agent runs.
//!
//! An environment inside the workspace, such as `.venv`, is copied into the approved base. Its programs are
//! on the `PATH` of checks only if no agent made or changed it: a copy that was made from a trusted folder
//! stays trusted, whatever becomes of the folder.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::{ApprovedFiles, RunPaths};
use crate::check::project_tools::{self, ApprovedProject, Person, ProjectTools};
use crate::files::{self, folder};
use crate::plans::trust;
use crate::tree::Base;

/// The tools of a project, and the folders of the workspace that the person made or changed since its base
/// was copied.
pub(super) struct FoundTools {
    pub project: ProjectTools,
    pub newer: Vec<String>,
}

/// Returns the tools of the project whose approved base this is. `folder` keeps what is known of bases.
pub(super) fn of_project(
    estate: &RunPaths<'_>,
    base: &Base,
    approval: &ApprovedFiles<'_>,
    folder: &Path,
) -> FoundTools {
    let known = folder.join(&base.id);
    let before = fs::read_to_string(&known).unwrap_or_default();
    // A copy that was made from a trusted folder is on a line: its name and the stamps of that folder.
    let mut trusted: BTreeMap<&str, &str> = before.lines().filter_map(|line| line.split_once('\t')).collect();
    let (mut environments, mut held_back, mut newer) = (Vec::new(), Vec::new(), Vec::new());
    let mut stamps = BTreeMap::new();
    for name in approval.caches {
        let place = estate.workspace.join(name);
        let is_copied = project_tools::is_environment(&base.path.join(name));
        let distrust = trust::check(&place).err();
        let now = distrust.is_none().then(|| trust::fingerprint(&place)).flatten();
        match (trusted.get(name.as_str()), distrust) {
            (None, Some(untrusted)) if is_copied => {
                held_back.push((PathBuf::from(name), untrusted.to_string()));
            }
            (None, None) if is_copied => _ = stamps.insert(name.as_str(), now.unwrap_or_default()),
            (Some(then), None) if now.as_deref().is_some_and(|now| now != *then) => newer.push(name.clone()),
            (None, None) if now.is_some() => newer.push(name.clone()),
            _ => {}
        }
        let is_usable = is_copied && !held_back.iter().any(|(root, _)| root == Path::new(name));
        environments.extend(is_usable.then(|| PathBuf::from(name)));
    }
    newer.retain(|name| approval.adopts && project_tools::is_environment(&estate.workspace.join(name)));
    trusted.extend(stamps.iter().map(|(name, stamp)| (*name, stamp.as_str())));
    let text: String = trusted.iter().map(|(name, stamp)| format!("{name}\t{stamp}\n")).collect();
    remember(&known, &before, &text);
    let file = |name: &str| base.file(name);
    let project = ApprovedProject {
        file: &file,
        environments: &environments,
        held_back: &held_back,
        workspace: estate.workspace,
    };
    FoundTools { project: ProjectTools::find(&project, &Person::of_process()), newer }
}

/// Writes down that these copies were made from trusted folders. If that fails, a later run asks again.
fn remember(known: &Path, before: &str, text: &str) {
    if text != before && !text.is_empty() {
        let made = known.parent().map_or(Ok(()), folder::make_private);
        let _ = made.and_then(|()| files::write_whole(known, text.as_bytes()));
    }
}
