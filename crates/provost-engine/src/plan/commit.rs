//! Commits exactly the judged tree of a done plan.

use crate::plan::queries;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use provost_core::model::proof::{ProofStatement, ProofSubject};
use provost_core::model::verdict::Tree;
use provost_core::rules::command::Refusal;
use provost_core::state::run::{Run, Stage, StepRun, StepState};
use provost_host::exec::environment::{self, ApprovedFiles, CheckSettings as Means, RunPaths};
use provost_host::git;
pub use provost_host::tree::ExcludedPath;
use provost_host::tree::{Base, CommitText, Error as TreeError, ImportLimits, NewCommit, Trees, With};
use serde_json::json;

use crate::Error;
use crate::plan::harness::Harness;
use crate::plan::kept_trees;

/// Ref of the notes about commits.
pub const NOTES: &str = "refs/notes/provost";

/// Options of a commit.
#[derive(Clone, Debug)]
pub struct CommitOptions {
    /// Without `refs/heads/`.
    pub branch: String,
    pub message: Option<String>,
    /// Attach the signed statement to the commit as a note.
    pub note: bool,
    /// Include files that git ignores and `touches` names.
    pub with_ignored: bool,
    /// Include the plan and its progress file, as they are now.
    pub with_plan: bool,
    pub by: String,
    pub home: Option<PathBuf>,
    /// Include files that others changed while the plan ran.
    pub with_others: bool,
}

/// Result of a commit.
#[derive(Clone, Debug)]
pub struct CommitResult {
    pub commit: String,
    /// The tree by its git id, and by its id in the log.
    pub git_tree: String,
    pub tree: String,
    pub parent: String,
    /// Differences between the judged tree and the commit, and why.
    pub left_out: Vec<ExcludedPath>,
    /// The branch already had exactly this; nothing was committed.
    pub already: bool,
    /// Author of the commit, and whether git's own settings name it.
    pub author: String,
    pub is_known: bool,
    /// Checkouts of the branch, and whether their index could be updated.
    pub checkouts: Vec<(PathBuf, bool)>,
    /// Commit with the files that were included at the approval, if there are any.
    pub included: Option<String>,
}

/// provost's trees of a done plan.
pub(crate) struct PlanTrees {
    pub trees: Trees,
    pub approved: Base,
    /// The tree that all contracts held on.
    pub judged: Base,
    /// The approved commit.
    pub base: String,
}

pub(crate) fn kept(harness: &Harness, run: &Run) -> Result<PlanTrees, Error> {
    let (tree, base) = committable(harness, run)?;
    let (trees, approved) = trees(harness, run, &base)?;
    let judged = kept_tree(harness, run, &trees, &tree)?;
    Ok(PlanTrees { trees, approved, judged, base })
}

/// Returns provost's trees of a plan, and the approved base of this commit.
pub(crate) fn trees(harness: &Harness, run: &Run, commit: &str) -> Result<(Trees, Base), Error> {
    let read_only = crate::plan::harness::own_files(harness);
    let estate = RunPaths {
        workspace: &harness.place().workspace,
        state: harness.state(),
        read_only: &read_only,
        secrets: &[],
        launcher: &[],
    };
    let (verify, caches) = (&harness.config().verify, kept_trees::caches(harness, run));
    let copies = kept_trees::copy_trust(harness);
    let approval = ApprovedFiles {
        revision: &run.revision.0,
        commit: Some(commit),
        files: &run.binding.files,
        included: &run.binding.included,
        touches: &[],
        caches,
        limits: ImportLimits { as_git: run.sends_trees(), ..ImportLimits::default() },
        adopts: false,
        copies: &copies,
        recorded: None,
        wanted: Means { provision: &verify.provision, build_caches: false, stop: None },
    };
    Ok(environment::trees(&estate, &approval)?)
}

/// Returns a tree that a contract held on.
pub(crate) fn kept_tree(harness: &Harness, run: &Run, trees: &Trees, id: &str) -> Result<Base, Error> {
    let kept = kept_trees::find(harness, run, trees, id)?;
    Ok(kept.ok_or_else(|| environment::Error::from(TreeError::Damaged { id: id.to_owned() }))?)
}

/// Commits the tree that all contracts held on, on top of the approved base.
pub fn make(harness: &Harness, wanted: &CommitOptions) -> Result<CommitResult, Error> {
    let run = harness.run()?;
    if run.stage != Stage::Done {
        return Err(
            Refusal::WrongStage { stage: run.stage.word(), wanted: "committing", needed: "done" }.into()
        );
    }
    let kept = kept(harness, &run)?;
    let others = others(harness, &run, &kept)?;
    if !wanted.with_others && !others.is_empty() {
        return Err(Refusal::OthersWork { count: others.len(), files: named(others) }.into());
    }
    let made = commit_judged(harness, &run, wanted, &kept, others)?;
    let made = move_branch(harness, wanted, &kept.trees, made)?;
    if wanted.note && !made.already {
        let failed = environment::Error::from;
        let statement = queries::seal(harness, &statement(harness, &run, &made))?;
        let (now, before) = kept.trees.note(&made.commit, NOTES, &statement).map_err(failed)?;
        kept.trees.hand_over(&now, NOTES, before.as_deref()).map_err(failed)?;
    }
    Ok(made)
}

/// Makes the commit of the judged tree; no branch has it yet. `others` are files that the plan did not
/// change.
fn commit_judged(
    harness: &Harness,
    run: &Run,
    wanted: &CommitOptions,
    kept: &PlanTrees,
    others: Vec<String>,
) -> Result<CommitResult, Error> {
    let (tree, parent) = committable(harness, run)?;
    let PlanTrees { trees, approved, judged, .. } = kept;
    let (user, email) = git::identity(&harness.place().workspace, wanted.home.as_deref());
    let mut message = wanted.message.clone().unwrap_or_else(|| usual_message(harness, run, &tree));
    for path in others {
        message.push_str(&format!("Not-by-this-plan: {path}\n"));
    }
    let by = CommitText {
        name: user.as_deref().unwrap_or(&wanted.by),
        email: email.as_deref().unwrap_or_default(),
        message: &message,
    };
    let included = commit_included(harness, run, trees, approved, &by)?;
    let on = included.as_deref().unwrap_or(&parent);
    let place = harness.place();
    let plan = [&place.path, &place.progress].map(|path| path.strip_prefix(&place.workspace).ok());
    let plan = plan.into_iter().flatten().filter_map(|path| Some(path.to_str()?.to_owned()));
    let with = With { ignored: wanted.with_ignored, plan: wanted.with_plan.then(|| plan.collect()) };
    let NewCommit { commit, tree: git_tree, left_out } =
        trees.commit(on, approved, judged, &with, &by).map_err(environment::Error::from)?;
    Ok(CommitResult {
        commit,
        git_tree,
        tree,
        parent,
        left_out,
        already: false,
        author: format!("{} <{}>", by.name, by.email),
        is_known: user.is_some(),
        checkouts: Vec::new(),
        included,
    })
}

/// Puts the commit on the branch, and updates the checkouts of the branch. A branch may be created or moved
/// forward from the base, so that no work on it is lost.
fn move_branch(
    harness: &Harness,
    wanted: &CommitOptions,
    trees: &Trees,
    mut made: CommitResult,
) -> Result<CommitResult, Error> {
    let failed = environment::Error::from;
    let name = format!("refs/heads/{}", wanted.branch);
    let workspace = &harness.place().workspace;
    let there = git::find(workspace, &name);
    if let Some(there) = there.as_ref().filter(|there| **there != made.parent) {
        if trees.tree_of(there).map_err(failed)? != made.git_tree {
            let (branch, at) = (wanted.branch.clone(), there.chars().take(12).collect());
            return Err(Refusal::BranchElsewhere { branch, at }.into());
        }
        return Ok(CommitResult { commit: there.clone(), already: true, ..made });
    }
    let on_it = |place: &PathBuf| git::branch(place).is_some_and(|branch| branch == name);
    let checkouts: Vec<PathBuf> = match &there {
        Some(_) => git::checkouts(workspace).into_iter().filter(on_it).collect(),
        None => Vec::new(),
    };
    for place in &checkouts {
        let files = trees.in_the_way(place, &made.parent, &made.commit).map_err(failed)?;
        if !files.is_empty() {
            let (branch, place) = (wanted.branch.clone(), place.display().to_string());
            return Err(Refusal::LocalChanges { branch, place, files: named(files) }.into());
        }
    }
    let commits: Vec<&str> = made.included.as_deref().into_iter().chain([made.commit.as_str()]).collect();
    trees.hand_over_all(&commits, &name, there.as_deref()).map_err(failed)?;
    for place in checkouts {
        let follows = trees.arrive(&place, &made.parent, &made.commit).map_err(failed)?;
        made.checkouts.push((place, follows));
    }
    Ok(made)
}

/// Returns the judged tree and its parent commit, or why there is none.
fn committable(harness: &Harness, run: &Run) -> Result<(String, String), Error> {
    let is_repository = harness.place().workspace.join(".git").exists();
    match (run.tree.clone(), run.binding.base.clone()) {
        (Some(tree), Some(base)) => Ok((tree, base)),
        (_, None) if is_repository => Err(Refusal::NoBaseCommit.into()),
        (_, None) => Err(Refusal::NoRepository.into()),
        (None, Some(_)) => Err(Refusal::NoTree.into()),
    }
}

/// Maximum number of files named in a message.
const NAMED: usize = 20;

fn named(mut files: Vec<String>) -> Vec<String> {
    let more = files.len().saturating_sub(NAMED);
    files.truncate(NAMED);
    files.extend((more > 0).then(|| format!("and {more} more")));
    files
}

/// Returns the files that differ between the judged and the approved tree and that no attempt of the plan
/// changed.
fn others(harness: &Harness, run: &Run, kept: &PlanTrees) -> Result<Vec<String>, Error> {
    let failed = environment::Error::from;
    let mut own: BTreeSet<PathBuf> = BTreeSet::new();
    for (step, state) in run.steps().filter(|(_, state)| state.state == StepState::Passed) {
        let Some((before, after)) = step_trees(state, run.confirmed_by_person(step.number)) else {
            // It is unknown what this step changed, so no file can be attributed to others.
            return Ok(Vec::new());
        };
        let (before, after) = (tree(harness, run, kept, before)?, tree(harness, run, kept, after)?);
        let (Some(before), Some(after)) = (before, after) else { return Ok(Vec::new()) };
        own.extend(kept.trees.differing_paths(&before, &after).map_err(failed)?);
    }
    let all = kept.trees.differing_paths(&kept.approved, &kept.judged).map_err(failed)?;
    let others = all.into_iter().filter(|path| !own.contains(path));
    Ok(others.map(|path| path.to_string_lossy().into_owned()).collect())
}

fn tree(harness: &Harness, run: &Run, kept: &PlanTrees, id: &str) -> Result<Option<Base>, Error> {
    match id == kept.approved.id {
        true => Ok(Some(kept.approved.clone())),
        false => Ok(kept_trees::find(harness, run, &kept.trees, id).ok().flatten()),
    }
}

/// Commits the files included at the approval separately: the plan's commit has only the plan's work.
fn commit_included(
    harness: &Harness,
    run: &Run,
    trees: &Trees,
    approved: &Base,
    by: &CommitText<'_>,
) -> Result<Option<String>, Error> {
    let (false, Some(commit)) = (run.binding.included.is_empty(), run.binding.base.as_deref()) else {
        return Ok(None);
    };
    let failed = environment::Error::from;
    let caches = kept_trees::caches(harness, run);
    let plain = trees.base(&run.revision.0, Some(commit), &run.binding.files, caches).map_err(failed)?;
    let message = format!(
        "Files that were not committed when \u{201c}{}\u{201d} was approved\n\nProvost-Plan: {}\n",
        run.plan.title,
        harness.id()
    );
    let by = CommitText { message: &message, ..by.clone() };
    let with = With { ignored: true, plan: None };
    Ok(Some(trees.commit(commit, &plain, approved, &with, &by).map_err(failed)?.commit))
}

pub(crate) fn usual_message(harness: &Harness, run: &Run, tree: &str) -> String {
    let approver = run.approvers().unwrap_or_default();
    format!(
        "{}\n\nProvost-Plan: {}\nProvost-Revision: {}\nProvost-Tree: {tree}\nApproved-by: {approver}\n",
        run.plan.title,
        harness.id(),
        run.revision,
    )
}

/// Returns the statement: the commit, the judged tree, and the position in the log.
fn statement(harness: &Harness, run: &Run, made: &CommitResult) -> ProofStatement {
    let head = harness.log().head(harness.id()).ok();
    let subjects = vec![ProofSubject::commit(&made.commit), ProofSubject::new("tree", made.tree.clone())];
    ProofStatement::new(
        subjects,
        json!({
            "plan": harness.id(),
            "title": run.plan.title,
            "revision": run.revision,
            "base": made.parent,
            "gitTree": made.git_tree,
            "approver": run.approvers(),
            "stage": run.stage.word(),
            "summary": run.summary(),
            "log": head.map(|head| json!({ "seq": head.seq, "hash": head.hash.to_string() })),
        }),
    )
}

/// Returns the default branch for the commit of a plan.
pub fn usual_branch(plan: &Path) -> String {
    let stem = plan.file_stem().map(|stem| stem.to_string_lossy().to_lowercase()).unwrap_or_default();
    let slug: String = stem.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    let slug = slug.strip_prefix("plan-").unwrap_or(&slug).trim_matches('-');
    format!("provost/{}", if slug.is_empty() { "plan" } else { slug })
}

/// Returns the trees before and after.
pub(crate) fn step_trees(step: &StepRun, by_person: bool) -> Option<(&str, &str)> {
    let seen = judged(step).map(|tree| (tree.start.as_deref().unwrap_or(&tree.base), tree.id.as_str()));
    let left = step.start.as_ref().and_then(|start| Some((start.tree.as_str(), step.left.as_deref()?)));
    // A person confirms what the attempt left; a verdict of such a step belongs to a precondition.
    match step.state {
        StepState::Passed if !by_person => seen.or(left),
        _ => left.or(seen),
    }
}

pub(crate) fn judged(step: &StepRun) -> Option<&Tree> {
    step.verdict.as_ref().and_then(|verdict| verdict.tree.as_deref())
}
