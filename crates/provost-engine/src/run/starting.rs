//! Checks whether a plan can start: its roles have agents, the plans it depends on are done, and the
//! workspace is writable.
//!
//! **Invariant:** these checks run before an attempt starts, so a missing requirement costs no attempt.

use crate::journal;
use std::path::PathBuf;

use provost_core::model::chain::PlanId;
use provost_core::model::plan::Step;
use provost_core::rules::command::Refusal;
use provost_core::state::run::{Run, Stage};
use rustix::fs::{Access, access};
use rustix::io::Errno;

use crate::Error;
use crate::plan::plan_registry::{self, Here};

use crate::plan::harness::Harness;

/// Returns what keeps the plan from starting or continuing as an error.
pub fn ready_to_drive(harness: &Harness, run: &Run) -> Result<(), Error> {
    let target = |step: &Step| step.target.as_ref().map(|target| target.value.clone());
    let mut roles: Vec<String> = run.plan.steps.iter().filter_map(target).collect();
    roles.sort();
    roles.dedup();
    roles.retain(|role| !harness.config().agents.contains_key(role));
    if !roles.is_empty() {
        return Err(Error::NoAgent { roles });
    }
    dependencies_are_done(harness, run)?;
    workspace_can_be_written(harness, run)
}

/// Checks that the plans named by `depends_on` are done, here or in another worktree of the repository.
pub(crate) fn dependencies_are_done(harness: &Harness, run: &Run) -> Result<(), Error> {
    let named = run.plan.depends_on.iter().map(|name| name.value.as_str());
    let mut open: Vec<(String, Option<Stage>)> = named.map(|name| (name.to_owned(), None)).collect();
    if open.is_empty() {
        return Ok(());
    }
    let here = Here::of(&harness.place().workspace);
    look_for(harness, &here, &mut open, harness.log().unarchived_plans()?)?;
    if open.iter().any(|(_, stage)| *stage != Some(Stage::Done)) {
        look_for(harness, &here, &mut open, harness.log().archived_plans()?)?;
    }
    open.retain(|(_, stage)| *stage != Some(Stage::Done));
    if open.is_empty() {
        return Ok(());
    }
    let stage = |stage: Option<Stage>| stage.unwrap_or_default().word();
    let on = open.into_iter().map(|(name, found)| format!("{name} ({})", stage(found))).collect();
    Err(Refusal::DependsOn { on }.into())
}

/// Adds the stages of the plans that have one of these names.
fn look_for(
    harness: &Harness,
    here: &Here,
    open: &mut [(String, Option<Stage>)],
    among: Vec<PlanId>,
) -> Result<(), Error> {
    for id in among {
        // The identifier of a plan is its name and a digest.
        let name = id.0.rsplit_once('-').map_or(id.0.as_str(), |(name, _)| name);
        let Some((_, stage)) = open.iter_mut().find(|(wanted, _)| wanted == name) else { continue };
        if plan_registry::find(harness.state(), &id)
            .is_none_or(|place| !here.has(&place) || place.name != name)
        {
            continue;
        }
        let found = match journal::read(harness.log(), &id) {
            Ok(found) => Some(found).filter(|other| other.forged_from.is_none()),
            Err(Error::Store(error)) if error.is_of_cold_file() => return Err(error.into()),
            // A plan that cannot be read or has forged events is not done.
            Err(_) => None,
        };
        if *stage != Some(Stage::Done) {
            *stage = found.map(|other| other.stage).or(*stage);
        }
    }
    Ok(())
}

/// Checks that an agent can write at the top of the workspace or in a folder of `touches`.
fn workspace_can_be_written(harness: &Harness, run: &Run) -> Result<(), Error> {
    if !harness.workplace.is_workspace() {
        return Ok(());
    }
    let workspace = &harness.place().workspace;
    let folders = run.plan.touches.iter().flatten().map(|glob| workspace.join(literal_folder(&glob.value)));
    let mut refused = None;
    for folder in std::iter::once(workspace.clone()).chain(folders) {
        match access(&folder, Access::WRITE_OK) {
            Ok(()) => return Ok(()),
            Err(error @ (Errno::ROFS | Errno::ACCESS | Errno::PERM)) => refused = refused.or(Some(error)),
            // A folder that does not exist yet says nothing.
            Err(_) => {}
        }
    }
    match refused {
        Some(error) => Err(Error::ReadOnly { path: workspace.clone(), source: error.into() }),
        None => Ok(()),
    }
}

/// Returns the folder that a glob names before its first wildcard.
fn literal_folder(glob: &str) -> PathBuf {
    let mut parts: Vec<&str> = glob.trim_start_matches('!').split('/').collect();
    parts.pop();
    parts.into_iter().take_while(|part| !part.contains(['*', '?', '[', '{', '\\'])).collect()
}
