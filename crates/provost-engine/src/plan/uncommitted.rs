//! Lists files of the workspace that are not in the base commit, and whose they are; shown at the gate before
//! approval.
//!
//! A plan starts with its base. Files inside `touches` that differ from it would be judged as work of the
//! agent, so a person commits, stashes or explicitly includes them first. Files outside take part in no
//! check.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use provost_core::model::approved_spec::Binding;
use provost_core::model::event::IncludedFile;
use provost_core::model::plan::Step;
use provost_core::state::run::{Run, Stage};
use provost_host::exec::environment;
use provost_host::plans::plan_file;
use provost_host::tree::{Base, OwnFiles, Touches, Trees};
use provost_host::{git, tree};

use crate::plan::harness::Harness;
use crate::plan::plan_registry;
use crate::plan::reading::BoundPlan;
use crate::{Error, journal};

pub use crate::uncommitted_files::{UncommittedFile, UncommittedFiles, Whose, ways_out};

/// Returns the differences between the workspace and the base commit of the run. Empty if there is no commit,
/// or if the workspace was made for the plan.
pub fn look(harness: &Harness, run: &Run) -> Result<UncommittedFiles, Error> {
    let Some(commit) = run.binding.base.as_ref().filter(|_| harness.workplace.is_workspace()) else {
        return Ok(UncommittedFiles::default());
    };
    let workspace = &harness.place().workspace;
    let differing = tree::uncommitted(workspace, commit).map_err(environment::Error::from)?;
    let all = [String::from("**")];
    let globs: Vec<String> = match &run.plan.touches {
        Some(globs) => globs.iter().map(|glob| glob.value.clone()).collect(),
        None => all.to_vec(),
    };
    let Ok(touches) = Touches::new(&globs) else { return Ok(UncommittedFiles::default()) };
    let own = OwnFiles::of(workspace, &crate::plan::harness::own_files(harness));
    let mut found = UncommittedFiles::default();
    let known = Known::of(harness, run, !differing.is_empty())?;
    for file in differing {
        let tree::DifferingFile { path, change, size } = file;
        let is_cache = |cache: &String| Path::new(&path).starts_with(cache);
        if own.leaves_out(path.as_bytes(), &touches) || harness.site().caches().iter().any(is_cache) {
            continue;
        }
        // A file that is too large to be taken over takes part in no check.
        let is_inside = touches.covers(path.as_bytes()) && size <= harness.config().verify.max_file;
        let is_asked = is_inside || !known.others.is_empty();
        let sha256 = is_asked.then(|| tree::digest_at(workspace, &path)).flatten();
        let is_named = run.binding.files.iter().any(|file| file.path == path);
        if is_inside && known.is_of_this_plan(&path, &sha256) || !is_inside && is_named {
            continue;
        }
        let whose = known.whose(&path, &sha256);
        let file = UncommittedFile { path, change, whose, sha256 };
        if is_inside { found.inside.push(file) } else { found.outside.push(file) }
    }
    Ok(found)
}

/// Trees that plans of this workspace have left.
struct Known {
    own: Vec<Base>,
    included: Vec<IncludedFile>,
    others: Vec<(String, Stage, Base)>,
}

impl Known {
    fn of(harness: &Harness, run: &Run, wanted: bool) -> Result<Self, Error> {
        let mut known = Self { own: Vec::new(), included: run.binding.included.clone(), others: Vec::new() };
        let (workspace, state) = (&harness.place().workspace, harness.state());
        if !wanted {
            return Ok(known);
        }
        let caches = harness.site().caches();
        let kept = |id: &str| -> Option<Base> {
            let trees: Trees = match environment::keeps(workspace, state, id) {
                true => environment::trees_of(workspace, state).ok()?,
                false => return None,
            };
            trees.kept(id, caches).ok().flatten()
        };
        known.own = own_trees(run).iter().filter_map(|id| kept(id)).collect();
        let listed = plan_file::list_in(workspace, &plan_registry::folder(workspace)?)?.plans;
        for place in listed {
            let id = plan_file::id(&place);
            if id == *harness.id() {
                continue;
            }
            // A plan that cannot be read has left nothing that is known.
            let Ok(other) = journal::read(harness.log(), &id) else { continue };
            let mut trees = own_trees(&other);
            trees.extend(other.tree.clone());
            for tree in trees.iter().filter_map(|id| kept(id)) {
                known.others.push((place.slug.clone(), other.stage, tree));
            }
        }
        Ok(known)
    }

    /// Returns whether a step of this plan left the file, or it was included at the approval.
    fn is_of_this_plan(&self, path: &str, sha256: &Option<String>) -> bool {
        let is_included = |file: &IncludedFile| file.path == path && file.sha256 == *sha256;
        self.own.iter().any(|tree| tree.digest(path) == *sha256) || self.included.iter().any(is_included)
    }

    fn whose(&self, path: &str, sha256: &Option<String>) -> Whose {
        let found = self.others.iter().find(|(_, _, tree)| tree.digest(path) == *sha256);
        match found {
            Some((name, stage, _)) => Whose::Plan { name: name.clone(), stage: *stage },
            None => Whose::Yours,
        }
    }
}

/// Returns the differences between the workspace and the base commit, for the person at the gate.
pub fn uncommitted(harness: &Harness, run: &Run) -> Result<UncommittedFiles, Error> {
    look(harness, run)
}

/// Refuses uncommitted files inside `touches` before a plan starts; they must be committed, stashed or
/// included first. After the start every attempt has a start tree, and changes of others are not credited
/// to it.
pub(crate) fn refuse_uncommitted(harness: &Harness, run: &Run) -> Result<(), Error> {
    if run.started() || !matches!(run.stage, Stage::Draft | Stage::Verified) {
        return Ok(());
    }
    let files = look(harness, run)?.inside;
    if files.is_empty() || is_part_of_a_plan_under_way(harness)? {
        return Ok(());
    }
    let branch = git::branch(&harness.place().workspace);
    Err(Error::Uncommitted { files, branch })
}

/// Returns whether this is a sub-plan of a running plan; it then starts with that plan's work so far.
fn is_part_of_a_plan_under_way(harness: &Harness) -> Result<bool, Error> {
    let (workspace, slug) = (&harness.place().workspace, harness.place().slug.as_str());
    let plans = plan_file::list_in(workspace, &plan_registry::folder(workspace)?)?.plans;
    Ok(plans.iter().map(plan_file::id).filter(|id| id != harness.id()).any(|id| {
        let Ok(other) = journal::read(harness.log(), &id) else { return false };
        let carries_it_out = |step: &Step| step.carried_by() == Some(slug);
        other.stage == Stage::InProgress && other.plan.steps.iter().any(carries_it_out)
    }))
}

/// Makes uncommitted files inside `touches` part of the base of what is recorded from now on.
pub fn include_uncommitted(harness: &Harness) {
    harness.includes.store(true, Ordering::Relaxed);
}

/// Adds all other uncommitted files inside `touches` that are not this plan's own work.
pub(crate) fn with_uncommitted(
    harness: &Harness,
    run: Run,
    reading: &BoundPlan,
    included: Vec<IncludedFile>,
) -> Result<Vec<IncludedFile>, Error> {
    let mut now = run;
    now.binding = Binding { included: included.clone(), ..reading.binding.clone() };
    now.plan = Arc::new(reading.plan.clone());
    let mut all = included;
    all.extend(look(harness, &now)?.included());
    all.sort_by(|one, other| one.path.cmp(&other.path));
    all.dedup_by(|one, other| one.path == other.path);
    Ok(all)
}

/// Returns whether the plan is not approved yet and uncommitted files are to be included.
pub(crate) fn is_to_include(harness: &Harness, run: &Run) -> bool {
    harness.includes.load(Ordering::Relaxed) && matches!(run.stage, Stage::Draft | Stage::Verified)
}

/// Returns the trees that attempts of this plan left; a file equal to one of theirs is the plan's own work.
pub(crate) fn own_trees(run: &Run) -> Vec<String> {
    let trees = run.steps().flat_map(|(_, step)| {
        let judged = step.verdict.as_ref().and_then(|verdict| verdict.tree_id());
        [judged.map(str::to_owned), step.left.clone()]
    });
    let last = run.last.as_ref().and_then(|last| last.left.clone());
    let mut trees: Vec<String> = trees.flatten().chain(last).collect();
    trees.sort();
    trees.dedup();
    trees
}
