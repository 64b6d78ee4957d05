//! Forks a plan at a step, so that another agent can do the rest: a branch with the kept tree, a worktree of
//! it, and a new plan.
//!
//! **Invariant:** the original plan, its workspace and its log are not changed.

use crate::journal;
use std::fs;
use std::path::{Path, PathBuf};

use provost_core::language::patch;
use provost_core::model::event::Event;
use provost_core::model::plan::StepNumber;
use provost_core::rules::command::Refusal;
use provost_host::exec::environment;
use provost_host::plans::plan_file;
use provost_host::tree::{CommitText, Error as TreeError, Trees, With};
use provost_host::worktree::{BranchCheckout, Records};
use provost_host::{git, worktree};

use crate::Error;
use crate::plan::harness::Harness;
use crate::plan::{commit, plan_context};

/// Options of a fork.
#[derive(Clone, Debug)]
pub struct ForkOptions {
    pub from: StepNumber,
    /// Role of all its steps, if not their own.
    pub target: Option<String>,
    /// Slug of the new plan and of its branch.
    pub name: String,
    /// Folder of the worktree.
    pub folder: PathBuf,
    pub by: String,
    pub home: Option<PathBuf>,
}

/// Result of a fork.
#[derive(Clone, Debug)]
pub struct ForkResult {
    pub branch: String,
    pub folder: PathBuf,
    pub plan: PathBuf,
    pub commit: String,
}

pub fn make(harness: &Harness, wanted: &ForkOptions) -> Result<ForkResult, Error> {
    let (run, tree) = beginning(harness, wanted.from)?;
    let place = harness.place();
    if let Some(target) =
        wanted.target.as_ref().filter(|target| !harness.config().agents.contains_key(*target))
    {
        return Err(Error::NoAgent { roles: vec![target.clone()] });
    }
    let text = patch::rest(&run.text, &run.plan, wanted.from, wanted.target.as_deref())
        .map_err(|why| Refusal::NoFork { why: why.to_string() })?;
    let name = format!("PLAN-{}.md", wanted.name);
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if !wanted.name.bytes().all(fits) || wanted.name.trim_matches('-').is_empty() || wanted.name.len() > 100 {
        return Err(plan_file::Error::BadName { argument: wanted.name.clone() }.into());
    }
    if wanted.folder.symlink_metadata().is_ok() {
        return Err(plan_file::Error::Exists { path: wanted.folder.clone() }.into());
    }
    let parent = run.binding.base.clone().ok_or(Refusal::NoTree)?;
    let branch = format!("provost/{}", wanted.name);
    let (trees, commit) = branch_of(harness, &run, wanted, &parent, tree.as_deref(), &branch)?;
    let checkout = BranchCheckout {
        trees: &trees,
        records: &Records::new(harness.state()),
        workspace: &place.workspace,
        path: &wanted.folder,
        plan: &wanted.name,
        branch: &branch,
        commit: &commit,
        now: plan_context::now().0,
    };
    let dir = place.dir.strip_prefix(&place.workspace).unwrap_or(Path::new(plan_file::FOLDER));
    let folder = worktree::check_out(&checkout, |folder| {
        write(&folder.join(dir).join(&name), text.as_bytes())?;
        // Copy a configuration that is not in the repository, so that it applies there too.
        if let Some(config) = &harness.config().path
            && let Ok(within) = config.strip_prefix(&place.workspace)
            && !folder.join(within).exists()
            && let Ok(bytes) = fs::read(config)
        {
            write(&folder.join(within), &bytes)?;
        }
        Ok::<_, Error>(())
    })?;
    let plan = folder.join(dir).join(&name);
    Ok(ForkResult { branch, folder, plan, commit })
}

/// Returns the run and the tree that the step first started with; `None` if that was the base.
fn beginning(
    harness: &Harness,
    from: StepNumber,
) -> Result<(provost_core::state::run::Run, Option<String>), Error> {
    let (mut last, mut begun) = (None, None);
    let (run, _) = journal::replay(harness.log(), harness.id(), &mut |_, _, event| match event {
        Event::StepPassed { tree: Some(tree), .. } => last = Some(tree.clone()),
        Event::StepStarted { step, .. } if *step == from && begun.is_none() => begun = Some(last.clone()),
        _ => {}
    })?;
    if run.plan.step(from).is_none() {
        return Err(Refusal::NoSuchStep { step: from }.into());
    }
    match begun {
        Some(tree) => Ok((run, tree)),
        // Not started: it would start with the current tree, if it is ready.
        None if run.is_ready(from) => Ok((run, last)),
        None => Err(Refusal::NotBegun { step: from }.into()),
    }
}

fn branch_of(
    harness: &Harness,
    run: &provost_core::state::run::Run,
    wanted: &ForkOptions,
    parent: &str,
    tree: Option<&str>,
    branch: &str,
) -> Result<(Trees, String), Error> {
    let failed = environment::Error::from;
    let name = format!("refs/heads/{branch}");
    if let Some(now) = git::find(&harness.place().workspace, &name) {
        return Err(failed(TreeError::Moved { name, now: Some(now) }).into());
    }
    let (trees, approved) = commit::trees(harness, run, parent)?;
    let commit = match tree {
        None => parent.to_owned(),
        Some(id) => {
            let kept = commit::kept_tree(harness, run, &trees, id)?;
            let (user, email) = git::identity(&harness.place().workspace, wanted.home.as_deref());
            let message = format!(
                "{}, before step {}\n\nProvost-Plan: {}\nProvost-Tree: {id}\n",
                run.plan.title,
                wanted.from,
                harness.id()
            );
            let by = CommitText {
                name: user.as_deref().unwrap_or(&wanted.by),
                email: email.as_deref().unwrap_or_default(),
                message: &message,
            };
            trees.commit(parent, &approved, &kept, &With::default(), &by).map_err(failed)?.commit
        }
    };
    trees.hand_over(&commit, &name, None).map_err(failed)?;
    Ok((trees, commit))
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let io = |source| Error::Io { what: "write", path: path.to_owned(), source };
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(io)?;
    }
    fs::write(path, bytes).map_err(io)
}
