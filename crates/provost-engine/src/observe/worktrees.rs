//! Makes, lists and removes worktrees of plans; removes one only if nothing would be lost.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use provost_core::model::hash::Hash;
use provost_core::model::plan::Stream;
use provost_core::model::timestamp::Timestamp;
use provost_host::process::{Enclosure, HeadAndTail, How, Spawn};
use provost_host::tree::Trees;
use provost_host::worktree::{Records, WorktreeRequest};
use provost_host::{config, git, process, worktree};

use crate::Error;
use crate::plan::harness::Harness;
use crate::plan::plan_registry::Here;
use crate::plan::{commit, plan_context};
use crate::settings::{Access, EngineSettings};

pub use provost_host::worktree::{Fate, ListedWorktree, NewWorktree, Note};

const GRACE: Duration = Duration::from_secs(2);
/// Maximum length of a setup's output that is kept to explain a failure.
const SAID: usize = 2000;

/// Returns the configured commands that set up a new worktree.
pub fn setup(settings: &EngineSettings) -> Result<Vec<String>, Error> {
    Ok(config::find(Here::of(&settings.cwd).workspace())?.worktrees.setup)
}

/// Makes a branch, a worktree and a marker for a plan. With `set_up` runs the configured commands in it and
/// passes their output to `tell` line by line.
pub fn spawn(
    settings: EngineSettings,
    set_up: bool,
    tell: &mut dyn FnMut(&str),
) -> Result<NewWorktree, Error> {
    let (stop, environment) = (settings.stop.clone(), settings.environment.clone());
    let harness = Harness::open(settings, Access::Write)?;
    crate::plan::authorization::only_people(&harness)?;
    let place = harness.place();
    let run = harness.run()?;
    // An approval covers its base; on another base the plan would need a new approval.
    let approved = run.binding.base.clone().filter(|_| run.approved_by.is_some());
    let base = approved.or_else(|| git::head(&place.workspace));
    let base = base.ok_or_else(|| worktree::Error::NoCommit(place.workspace.clone()))?;
    let top = top(&place.workspace);
    let settings = &harness.config().worktrees;
    let wanted = WorktreeRequest {
        trees: &trees(harness.state(), &top)?,
        records: &Records::new(harness.state()),
        workspace: &top,
        beside: &top.join(&settings.folder),
        plan: &place.name,
        slug: &place.slug,
        base: &base,
        now: plan_context::now().0,
    };
    let mut make_ready = |folder: &Path| {
        let commands = settings.setup.iter().filter(|_| set_up);
        commands.into_iter().try_for_each(|command| {
            run_in(folder, command, settings.setup_timeout, &environment, &stop, tell)
        })
    };
    Ok(worktree::spawn(&wanted, &mut make_ready)?)
}

fn run_in(
    folder: &Path,
    command: &str,
    deadline: Duration,
    environment: &[(OsString, OsString)],
    stop: &AtomicBool,
    tell: &mut dyn FnMut(&str),
) -> Result<(), String> {
    tell(&format!("setup: {command}"));
    let args: Vec<OsString> = ["-c", command].map(Into::into).into();
    let mut tee = |_: Stream, bytes: &[u8]| tell(&String::from_utf8_lossy(bytes));
    let tag = format!("setup/{}/1.", std::process::id());
    let ended = process::run(Spawn {
        program: OsStr::new("bash"),
        args: &args,
        cwd: folder,
        env: environment,
        stdin: b"",
        deadline,
        grace: GRACE,
        keep: HeadAndTail { head: 0, tail: SAID },
        tag: &tag,
        stop: Some(stop),
        tee: Some(&mut tee),
        bounds: None,
        enclosure: Enclosure::None,
    })
    .map_err(|error| error.to_string())?;
    match ended.how {
        How::Exited(0) => Ok(()),
        How::Exited(code) => Err(format!("`{command}` ended with exit code {code}")),
        How::TimedOut => Err(format!("`{command}` took longer than {}", humantime_of(deadline))),
        How::Stopped => Err(format!("`{command}` was interrupted")),
        How::Signalled(_) | How::OverBounds(_) => Err(format!("`{command}` was killed")),
    }
}

fn humantime_of(time: Duration) -> String {
    format!("{} s", time.as_secs())
}

/// Returns the main checkout of the repository.
fn top(workspace: &Path) -> PathBuf {
    git::main_checkout(workspace).unwrap_or_else(|| workspace.to_owned())
}

fn trees(state: &Path, top: &Path) -> Result<Trees, Error> {
    let key = Hash::of(top.as_os_str().as_encoded_bytes()).to_string();
    Ok(Trees::open(&state.join("trees").join(&key[..16]), top).map_err(worktree::Error::from)?)
}

/// Returns all worktrees of the repository besides its main checkout.
pub fn list(settings: &EngineSettings) -> Vec<ListedWorktree> {
    worktree::list(Here::of(&settings.cwd).workspace(), &records(settings))
}

/// Returns the records in the state folder of the worktrees that provost made.
pub fn records(settings: &EngineSettings) -> Records {
    Records::new(&settings.state_folder())
}

/// Returns the worktrees of a plan, newest attempt last.
pub fn of_plan(settings: &EngineSettings, name: &str) -> Vec<ListedWorktree> {
    let is_of =
        |found: &ListedWorktree| found.note.as_ref().is_some_and(|note| note.plan == name && note.finished);
    let mut found: Vec<ListedWorktree> = list(settings).into_iter().filter(is_of).collect();
    found.sort_by_key(|found| found.note.as_ref().map(|note| note.attempt));
    found
}

/// Returns when it was made.
pub fn since(note: &Note) -> Timestamp {
    Timestamp(note.at)
}

/// Returns for each worktree whether it would be removed or kept.
pub fn fates(settings: &EngineSettings) -> Result<Vec<(ListedWorktree, Fate)>, Error> {
    let all = list(settings);
    if all.is_empty() {
        return Ok(Vec::new());
    }
    let keeper = Keeper::new(settings)?;
    Ok(all.into_iter().map(|found| (found.clone(), keeper.fate(&found))).collect())
}

/// Removes a worktree, if that is allowed.
pub fn prune(settings: &EngineSettings, found: &ListedWorktree) -> Result<(), Error> {
    let keeper = Keeper::new(settings)?;
    let is_busy = |folder: &Path| keeper.is_busy(folder);
    Ok(worktree::prune(&keeper.trees, &keeper.top, found, &records(settings), &is_busy)?)
}

struct Keeper {
    trees: Trees,
    top: PathBuf,
    log: Box<dyn provost_store::Log>,
}

impl Keeper {
    fn new(settings: &EngineSettings) -> Result<Self, Error> {
        let state = settings.state_folder();
        let top = top(Here::of(&settings.cwd).workspace());
        Ok(Self { trees: trees(&state, &top)?, log: crate::journal::log_locator::for_reading(&state)?, top })
    }

    fn fate(&self, found: &ListedWorktree) -> Fate {
        worktree::fate(&self.trees, &self.top, found, &|folder| self.is_busy(folder))
    }

    /// Returns whether a process holds the workspace lease; `true` also if this cannot be read.
    fn is_busy(&self, folder: &Path) -> bool {
        let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
        !matches!(self.log.holder(&format!("workspace {}", folder.display())), Ok(None))
    }
}

/// Returns the branch of a plan's work: the one that `provost commit` makes.
pub fn branch_of(plan: &Path) -> String {
    commit::usual_branch(plan)
}

/// Returns how many lines the branch of each plan file changes; `None` for a plan without a branch.
pub fn sizes(settings: &EngineSettings, plans: &[&Path]) -> Vec<Option<u64>> {
    let workspace = Here::of(&settings.cwd).workspace().to_owned();
    let commits: Vec<Option<String>> =
        plans.iter().map(|plan| git::find(&workspace, &format!("refs/heads/{}", branch_of(plan)))).collect();
    let head = git::head(&top(&workspace)).filter(|_| commits.iter().any(Option::is_some));
    let state = settings.state_folder();
    let Some((head, trees)) = head.and_then(|head| Some((head, trees(&state, &top(&workspace)).ok()?)))
    else {
        return vec![None; plans.len()];
    };
    commits.into_iter().map(|commit| trees.lines_between(&head, &commit?).ok()).collect()
}
