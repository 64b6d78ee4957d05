//! Exactly the tree that was judged, as a commit: for plans that are done.

use std::path::{Path, PathBuf};

use provost_core::command::Refusal;
use provost_core::proof::{Statement, Subject};
use provost_core::run::{Run, Stage};
use provost_host::git;
use provost_host::ground::{self, Approval, Estate, Wanted as Means};
pub use provost_host::tree::Refused;
use provost_host::tree::{Authored, Base, Committed, Error as TreeError, Limits, Trees, With};
use serde_json::json;

use crate::Error;
use crate::carry;
use crate::harness::Harness;

/// Where notes about commits are kept.
pub const NOTES: &str = "refs/notes/provost";

/// What is wanted.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// Without `refs/heads/`.
    pub branch: String,
    pub message: Option<String>,
    /// Leave the signed statement beside the commit.
    pub note: bool,
    /// Take along what git ignores and `touches` names.
    pub with_ignored: bool,
    /// Take along the plan and its progress file, as they are now.
    pub with_plan: bool,
    pub by: String,
    pub home: Option<PathBuf>,
}

/// What was made.
#[derive(Clone, Debug)]
pub struct Made {
    pub commit: String,
    /// The tree as git names it, and as the log does.
    pub git_tree: String,
    pub tree: String,
    pub parent: String,
    /// What the judged tree has otherwise than the commit, and why.
    pub left_out: Vec<Refused>,
}

/// The harness's trees of a plan that is done.
pub(crate) struct Kept {
    pub trees: Trees,
    pub approved: Base,
    /// What all contracts held on.
    pub judged: Base,
    /// The commit that was approved.
    pub base: String,
}

pub(crate) fn kept(harness: &Harness, run: &Run) -> Result<Kept, Error> {
    let (Some(tree), Some(base)) = (run.tree.clone(), run.binding.base.clone()) else {
        return Err(Refusal::NoTree.into());
    };
    let (trees, approved) = trees(harness, run, &base)?;
    let judged = kept_tree(harness, run, &trees, &tree)?;
    Ok(Kept { trees, approved, judged, base })
}

/// The harness's trees of a plan, and the one that was approved, of this commit.
pub(crate) fn trees(harness: &Harness, run: &Run, commit: &str) -> Result<(Trees, Base), Error> {
    let read_only = harness.own_files();
    let estate = Estate {
        workspace: &harness.place().workspace,
        state: harness.state(),
        read_only: &read_only,
        secret: None,
        launcher: &[],
    };
    let (verify, caches) = (&harness.config().verify, carry::caches(harness, run));
    let approval = Approval {
        revision: &run.revision.0,
        commit: Some(commit),
        files: &run.binding.files,
        touches: &[],
        caches,
        limits: Limits { as_git: run.work.is_some(), ..Limits::default() },
        wanted: Means { provision: &verify.provision, build_caches: false, stop: None },
    };
    Ok(ground::trees(&estate, &approval)?)
}

/// A tree that a contract held on.
pub(crate) fn kept_tree(harness: &Harness, run: &Run, trees: &Trees, id: &str) -> Result<Base, Error> {
    let kept = carry::kept(harness, run, trees, id)?;
    Ok(kept.ok_or_else(|| ground::Error::from(TreeError::Damaged { id: id.to_owned() }))?)
}

/// Commits the tree that all contracts held on, on top of the base that was approved.
pub fn make(harness: &Harness, wanted: &Wanted) -> Result<Made, Error> {
    let run = harness.run()?;
    if run.stage != Stage::Done {
        return Err(
            Refusal::WrongStage { stage: run.stage.word(), wanted: "committing", needed: "done" }.into()
        );
    }
    let (Some(tree), Some(parent)) = (run.tree.clone(), run.binding.base.clone()) else {
        return Err(Refusal::NoTree.into());
    };
    let name = format!("refs/heads/{}", wanted.branch);
    let Kept { trees, approved, judged, .. } = kept(harness, &run)?;
    let (user, email) = wanted.home.as_deref().map(git::identity).unwrap_or_default();
    let message = wanted.message.clone().unwrap_or_else(|| usual_message(harness, &run, &tree));
    let by = Authored {
        name: user.as_deref().unwrap_or(&wanted.by),
        email: email.as_deref().unwrap_or_default(),
        message: &message,
    };
    let failed = ground::Error::from;
    // A branch may be made, or moved on from the base; nobody's work is lost to it.
    let there = git::find(&harness.place().workspace, &name);
    if there.as_ref().is_some_and(|there| *there != parent) {
        return Err(failed(TreeError::Moved { name, now: there }).into());
    }
    let place = harness.place();
    let plan = [&place.path, &place.progress].map(|path| path.strip_prefix(&place.workspace).ok());
    let plan = plan.into_iter().flatten().filter_map(|path| Some(path.to_str()?.to_owned()));
    let with = With { ignored: wanted.with_ignored, plan: wanted.with_plan.then(|| plan.collect()) };
    let Committed { commit, tree: git_tree, left_out } =
        trees.commit(&parent, &approved, &judged, &with, &by).map_err(failed)?;
    trees.hand_over(&commit, &name, there.as_deref()).map_err(failed)?;
    let made = Made { commit, git_tree, tree, parent, left_out };
    if wanted.note {
        let statement = harness.seal(&statement(harness, &run, &made))?;
        let (now, before) = trees.note(&made.commit, NOTES, &statement).map_err(failed)?;
        trees.hand_over(&now, NOTES, before.as_deref()).map_err(failed)?;
    }
    Ok(made)
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

/// The commit, the tree that was judged, and where in the log it says so.
fn statement(harness: &Harness, run: &Run, made: &Made) -> Statement {
    let head = harness.log().head(harness.id()).ok();
    let subjects = vec![Subject::commit(&made.commit), Subject::new("tree", made.tree.clone())];
    Statement::new(
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

/// The branch a plan is committed to, where nobody says another.
pub fn usual_branch(plan: &Path) -> String {
    let stem = plan.file_stem().map(|stem| stem.to_string_lossy().to_lowercase()).unwrap_or_default();
    let slug: String = stem.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    let slug = slug.strip_prefix("plan-").unwrap_or(&slug).trim_matches('-');
    format!("provost/{}", if slug.is_empty() { "plan" } else { slug })
}
