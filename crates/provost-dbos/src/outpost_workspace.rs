//! Opens a plan on a machine without its workspace, from the log and the remote.
//!
//! ```text
//! <state>/depots/<remote>/               what was fetched, for all workspaces
//! <state>-cluster/<plan>/<commit>/work   the workspace, with the plan as it is in the log
//! <state>-cluster/<plan>/<commit>/used   the plan, when it was last opened (its time), and a lock for its users
//! ```
//!
//! [`crate::sweep`] removes them.
//!
//! The workspaces are beside the state folder, because processes in the sandbox see nothing of that folder.
//!
//! The plan keeps the identifier it has in the log, although its path differs here. No agent works in this
//! workspace: each attempt has its own tree.
//!
//! **Invariant:** the configuration of the commit yields the approved run policy, or nothing is done.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use provost_core::model::approved_spec;
use provost_core::model::chain::PlanId;
use provost_core::model::event::NamedFile;
use provost_core::state::run::Run;
use provost_engine::plan::harness::Harness;
use provost_engine::plan::{plan_registry, reading};
use provost_engine::settings::EngineSettings;
use provost_engine::{Error, journal};
use provost_host::exec::environment;
use provost_host::plans::plan_file::{self, PlanPlace};
use provost_host::tree::{Error as TreeError, fetch_commit};
use provost_host::{config, files, tree};
use provost_store::Log;

use crate::outpost::{Outpost, refuses_level};
use crate::remote::{NO_COMMIT, approved_name, depot, word};
use crate::sweep::{self, WorkspaceUse};

/// Opens a plan by its log, in a workspace that provost makes.
pub(crate) fn open(
    settings: EngineSettings,
    log: Arc<dyn Log>,
    plan: &PlanId,
    outpost: Arc<Outpost>,
) -> Result<(Harness, WorkspaceUse), Error> {
    let run = journal::read(&*log, plan)?;
    let refused = |why: String| Error::NotCarried { plan: plan.clone(), why };
    let commit = run.binding.base.clone().ok_or_else(|| refused(NO_COMMIT.to_owned()))?;
    if let Some(why) = cannot_travel(&run) {
        return Err(refused(why.to_owned()));
    }
    let state = settings.state_folder();
    let (work, in_use) = workspace(&state, plan, &commit, &outpost)?;
    bring_files(&state, &work, plan, &run, &commit, &outpost)?;
    let place = plan_place(&work, plan, &run)?;
    let mut config = config::find(&place.workspace)?;
    // Caches belong to the workspace of one machine.
    config.verify.caches.clear();
    let settings = EngineSettings { workplace: outpost, ..settings };
    let harness = Harness::for_logged_plan(place, config, state, settings, log, plan.clone());
    if reading::terms(harness.site(), &run.plan) != run.binding.terms {
        let path = harness.config().path.clone();
        let found = path.map_or("there is no provost.toml".to_owned(), |path| {
            let name = path.strip_prefix(&work).unwrap_or(&path);
            format!("{} differs", name.display())
        });
        return Err(refused(format!(
            "it was approved with other settings than those of commit {}: {found}; commit the \
             configuration and approve the plan again",
            short(&commit)
        )));
    }
    Ok((harness, in_use))
}

/// Returns why a plan needs a disk that all workers share, if so.
fn cannot_travel(run: &Run) -> Option<&'static str> {
    let is_carried_out = run.plan.steps.iter().any(|step| step.plan.is_some());
    let by_a_plan = "one of its steps is run by another plan, which must be in the workspace";
    let deletes = run.binding.included.iter().any(|file| file.sha256.is_none());
    let deleted =
        "its base includes deletions that are not committed; commit them and approve the plan again";
    let kept_here = is_carried_out.then_some(by_a_plan).or(deletes.then_some(deleted));
    run.binding.terms.isolation.and_then(refuses_level).or(kept_here)
}

fn short(commit: &str) -> &str {
    commit.get(..12).unwrap_or(commit)
}

fn workspace(
    state: &Path,
    plan: &PlanId,
    commit: &str,
    outpost: &Outpost,
) -> Result<(PathBuf, WorkspaceUse), Error> {
    let work = sweep::workspaces(state).join(word(plan)).join(short(commit)).join("work");
    let io = |source| Error::Io { what: "make a workspace in", path: work.clone(), source };
    // Before the fetch: a repository is kept while a workspace may use it.
    let in_use = WorkspaceUse::begin(&work, plan).map_err(io)?;
    let fetched = fetch_commit(&depot(state, &outpost.remote), &outpost.remote, commit);
    let repository = fetched.map_err(|error| match error {
        TreeError::NotOnRemote { .. } => Error::NotCarried {
            plan: plan.clone(),
            why: format!(
                "the git remote does not have commit {}, which it was approved on; run `provost \
                 cluster push` on the machine of the approval",
                short(commit)
            ),
        },
        error => Error::Carry(error),
    })?;
    let work = work.canonicalize().map_err(io)?;
    let trees = environment::trees_of(&work, state)?;
    trees.inhabit(&repository, commit).map_err(Error::Carry)?;
    trees.restore(commit, config::FILE_NAME).map_err(Error::Carry)?;
    Ok((work, in_use))
}

/// Fetches approved files that were not committed as approved. Their digests are compared with the approved
/// ones when the base is made.
fn bring_files(
    state: &Path,
    work: &Path,
    plan: &PlanId,
    run: &Run,
    commit: &str,
    outpost: &Outpost,
) -> Result<(), Error> {
    let included = run
        .binding
        .included
        .iter()
        .filter_map(|file| Some(NamedFile { path: file.path.clone(), sha256: file.sha256.clone()? }));
    let wanted: Vec<NamedFile> = run.binding.files.iter().cloned().chain(included).collect();
    let names: Vec<String> = wanted.iter().map(|file| file.path.clone()).collect();
    let here = files::digests(work, &names);
    // Large files are missing there.
    let is_large = |file: &NamedFile| tree::digest_at(work, &file.path).as_ref() == Some(&file.sha256);
    let other: Vec<&str> = (wanted.iter().filter(|file| !here.contains(file) && !is_large(file)))
        .map(|file| file.path.as_str())
        .collect();
    if other.is_empty() {
        return Ok(());
    }
    let trees = environment::trees_of(work, state)?;
    let name = approved_name(plan, run);
    trees.receive_files(&outpost.remote, commit, &name, &other).map_err(|error| match error {
        TreeError::NotOnRemote { .. } => Error::NotCarried {
            plan: plan.clone(),
            why: format!(
                "{} was approved without being committed, and the git remote does not have it; run \
                 `provost cluster push` on the machine of the approval",
                other.join(", ")
            ),
        },
        error => Error::Carry(error),
    })
}

/// Returns the plan file, at its path in the commit or in the plan folder, and writes the log's text to it if
/// it differs.
fn plan_place(work: &Path, plan: &PlanId, run: &Run) -> Result<PlanPlace, Error> {
    let slug = plan.0.rsplit_once('-').map_or(plan.0.as_str(), |(slug, _)| slug);
    let folder = plan_registry::folder(work)?;
    let listed = plan_file::list_in(work, &folder)?.plans.into_iter();
    let place = listed.filter(|place| place.path.starts_with(work)).find(|place| place.slug == slug);
    let path = place.map(|place| place.path).unwrap_or_else(|| {
        let folder = if folder.is_absolute() { Path::new(plan_file::FOLDER) } else { &folder };
        let name = if slug == "plan" { "PLAN.md".to_owned() } else { format!("PLAN-{slug}.md") };
        work.join(folder).join(name)
    });
    let is_lawful = fs::read_to_string(&path).is_ok_and(|text| run.has_spec(&text));
    if !is_lawful {
        let text = approved_spec::mark(&run.text, &run.plan, run.stage.word(), |step| run.mark(step));
        write(&path, &text).map_err(|source| Error::Io {
            what: "write the plan to",
            path: path.clone(),
            source,
        })?;
    }
    plan_registry::resolve(path.to_str(), work)
}

fn write(path: &Path, text: &str) -> std::io::Result<()> {
    let new = path.with_extension(format!("{}.new", std::process::id()));
    fs::create_dir_all(path.parent().unwrap_or(path))?;
    fs::write(&new, text)?;
    fs::rename(&new, path)
}
