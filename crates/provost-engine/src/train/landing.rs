//! Carries out the decision of a train: commits the union, moves the branch in one step, attaches the proof,
//! updates the checkouts of the branch, and records the landing in every plan.
//!
//! The first parent of the commit is the branch; the others are the plans' own commits, each exactly the tree
//! the plan was judged by. Nothing enters the history that was not judged as a whole.
//!
//! **Invariant:** every part is idempotent: after a crash the next process starts with the first part again.

use crate::plan::commands;
use std::fs;
use std::io::Write as _;
use std::path::PathBuf;

use provost_core::fleet::train::TrainDecision;
use provost_core::model::event::{Landing, TrainEntry, TrainExclusion};
use provost_core::model::proof::{ProofStatement, ProofSubject};
use provost_core::rules::command::{HarnessCommand, Refusal};
use provost_host::exec::environment;
use provost_host::tree::{CommitText, Error as TreeError};
use provost_host::{config, git};
use serde_json::json;

use super::boarding::{self, TrainCandidates, TrainPlan};
use super::train_log::TrainLog;
use super::{Wish, Yard};
use crate::Error;
use crate::plan::commit::{NOTES, usual_branch};
use crate::plan::prove::Prover;

/// Attempts to write a note while other commands write notes too.
const TRIES: u32 = 5;
/// Maximum number of files named.
const FILES: usize = 10;

/// A checkout of the moved branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MovedCheckout {
    pub place: PathBuf,
    /// Its files and index match the commit; if not, its owner must update them.
    pub is_current: bool,
}

/// Returns the decision: which plans land as which commit, and which do not.
pub(super) fn decided(
    yard: &Yard<'_>,
    boarding: &TrainCandidates,
    before: &str,
    settled: TrainDecision,
    git_tree: String,
) -> Result<Landing, Error> {
    let cars = boarding.cars();
    let mut left_out = boarding.left_out.clone();
    for (place, reason) in &settled.left_out {
        let plan = &boarding.plans[*place];
        let with = reason.with().and_then(|other| cars.get(other)).map(|car| car.name.clone());
        let (id, name) = (plan.id().to_string(), plan.name.clone());
        left_out.push(TrainExclusion { plan: id, name, reason: reason.say(&cars), with });
    }
    let landing: Vec<&TrainPlan> = settled.landing.iter().map(|place| &boarding.plans[*place]).collect();
    let commit = match landing.is_empty() || yard.request.wish == Wish::DryRun {
        true => None,
        false => Some(commit(yard, &landing, before, &git_tree)?),
    };
    Ok(Landing {
        target: yard.target.clone(),
        before: before.to_owned(),
        commit,
        git_tree,
        plans: landing.into_iter().map(TrainPlan::boarded).collect(),
        left_out,
    })
}

fn commit(yard: &Yard<'_>, plans: &[&TrainPlan], before: &str, tree: &str) -> Result<String, Error> {
    let names: Vec<&str> = plans.iter().map(|plan| plan.name.as_str()).collect();
    let mut message = format!("Land {} on {}\n", names.join(", "), yard.target);
    for plan in plans {
        message.push_str(&format!("\n* {}: {}", plan.name, plan.run.plan.title));
    }
    message.push_str(&format!("\n\nProvost-Train: {}\n", yard.id));
    for plan in plans {
        message.push_str(&format!("Provost-Plan: {}\n", plan.id()));
    }
    let (user, email) = git::identity(&yard.workspace, yard.request.home.as_deref());
    let by = CommitText {
        name: user.as_deref().unwrap_or(&yard.request.by),
        email: email.as_deref().unwrap_or_default(),
        message: &message,
    };
    let pieces = plans.iter().filter_map(|plan| plan.piece.as_ref()).map(|piece| piece.commit.as_str());
    let parents: Vec<&str> = [before].into_iter().chain(pieces).collect();
    Ok(yard.trees.merge_commit(tree, &parents, &by).map_err(environment::Error::from)?)
}

/// Returns the checkouts of the branch.
fn checkouts(yard: &Yard<'_>) -> impl Iterator<Item = PathBuf> {
    let on_it = |place: &PathBuf| git::branch(place).is_some_and(|branch| branch == yard.reference());
    git::checkouts(&yard.workspace).into_iter().filter(on_it)
}

/// Refuses if local changes in a checkout would be overwritten.
pub(super) fn would_fit(yard: &Yard<'_>, before: &str, tree: &str) -> Result<(), Error> {
    for place in checkouts(yard) {
        let mut files = yard.trees.in_the_way(&place, before, tree).map_err(environment::Error::from)?;
        if !files.is_empty() {
            files.truncate(FILES);
            let (branch, place) = (yard.target.clone(), place.display().to_string());
            return Err(Refusal::LocalChanges { branch, place, files }.into());
        }
    }
    Ok(())
}

/// Moves the branch, if it has not moved since, and does all that follows.
pub(super) fn carry_out(
    yard: &Yard<'_>,
    landing: &Landing,
    record: &mut TrainLog<'_>,
) -> Result<Vec<MovedCheckout>, Error> {
    let failed = environment::Error::from;
    let Some(commit) = &landing.commit else { return Ok(Vec::new()) };
    let parents = yard.trees.parents(commit).map_err(failed)?;
    // The first parent already exists there.
    let commits: Vec<&str> = parents.iter().skip(1).chain([commit]).map(String::as_str).collect();
    yard.trees.hand_over_all(&commits, &yard.reference(), Some(&landing.before)).map_err(failed)?;
    follow_up(yard, landing, commit, record)
}

/// Does what follows after the branch was moved.
fn follow_up(
    yard: &Yard<'_>,
    landing: &Landing,
    commit: &str,
    record: &mut TrainLog<'_>,
) -> Result<Vec<MovedCheckout>, Error> {
    let failed = environment::Error::from;
    for known in [commit, &landing.before] {
        yard.trees.tree_of(known).map_err(failed)?;
    }
    attest(yard, landing, commit)?;
    let is_tip = git::find(&yard.workspace, &yard.reference()).as_deref() == Some(commit);
    let mut found = Vec::new();
    // If the branch has moved on since, its files were already updated.
    for place in checkouts(yard).filter(|_| is_tip) {
        let is_current = yard.trees.arrive(&place, &landing.before, commit).map_err(failed)?;
        found.push(MovedCheckout { place, is_current });
    }
    let pieces = yard.trees.parents(commit).map_err(failed)?.into_iter().skip(1);
    for (plan, piece) in landing.plans.iter().zip(pieces) {
        let Some(plan) = boarding::open_by_id(yard, &plan.plan) else { continue };
        name_piece(yard, &plan, &piece);
        let told = commands::harness_alone(
            &plan.harness,
            HarnessCommand::Landed {
                plan_id: plan.id().to_string(),
                target: landing.target.clone(),
                before: landing.before.clone(),
                commit: commit.to_owned(),
            },
        );
        match told {
            // The plan was continued meanwhile; the train's log has the landing.
            Ok(_) | Err(Error::Refused(_)) => {}
            Err(error) => return Err(error),
        }
    }
    record.landed(landing, commit)?;
    Ok(found)
}

/// Gives the plan's commit the branch name that `provost commit` would use, if it is free. This shows that a
/// worktree has nothing unmerged.
fn name_piece(yard: &Yard<'_>, plan: &TrainPlan, piece: &str) {
    let name = format!("refs/heads/{}", usual_branch(&plan.harness.place().path));
    if git::find(&yard.workspace, &name).is_none() {
        let _ = yard.trees.hand_over(piece, &name, None);
    }
}

/// Completes a train that had decided and was killed before it was done.
pub(super) fn finish_earlier(
    yard: &Yard<'_>,
    record: &mut TrainLog<'_>,
) -> Result<Option<(Landing, Vec<MovedCheckout>)>, Error> {
    let Some(landing) = record.state.pending.clone() else { return Ok(None) };
    let Some(commit) = landing.commit.clone() else { return Ok(None) };
    let tip = yard.tip()?;
    let carried_out = if tip == landing.before {
        // provost's own repository may have been recreated since.
        if !yard.trees.has(&commit) {
            return Ok(None);
        }
        would_fit(yard, &landing.before, &commit)?;
        carry_out(yard, &landing, record)
    } else if yard.trees.is_in(&commit, &tip).unwrap_or(false) {
        follow_up(yard, &landing, &commit, record)
    } else {
        return Ok(None);
    };
    match carried_out {
        Err(Error::Ground(environment::Error::Trees(TreeError::Moved { .. }))) => Ok(None),
        done => done.map(|checkouts| Some((landing, checkouts))),
    }
}

/// Attaches the signed statement to the commit and adds it to the proofs.
fn attest(yard: &Yard<'_>, landing: &Landing, commit: &str) -> Result<(), Error> {
    let config = config::find(&yard.workspace)?;
    let prover = Prover::new(&yard.state, &yard.id, config.proof.ssh_key.as_deref());
    let envelope = prover.seal(&statement(yard, landing, commit)?)?;
    let path = prover.file().to_owned();
    let kept = fs::read_to_string(&path).unwrap_or_default();
    if !kept.lines().any(|line| line == envelope.trim_end()) {
        let written = path.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| {
            let mut file = fs::OpenOptions::new().create(true).append(true).open(&path)?;
            file.write_all(envelope.as_bytes()).and_then(|()| file.sync_all())
        });
        written.map_err(|source| Error::Io { what: "write the proof", path, source })?;
    }
    for attempt in 1.. {
        let failed = environment::Error::from;
        let (now, before) = yard.trees.note(commit, NOTES, &envelope).map_err(failed)?;
        match yard.trees.hand_over(&now, NOTES, before.as_deref()) {
            Err(TreeError::Moved { .. }) if attempt < TRIES => {}
            done => return Ok(done.map_err(failed)?),
        }
    }
    Ok(())
}

/// Returns the statement: the union, its plans, and the positions in the log.
fn statement(yard: &Yard<'_>, landing: &Landing, commit: &str) -> Result<ProofStatement, Error> {
    let log = super::open_log(yard)?;
    let head = |id: &str| {
        let head = log.head(&provost_core::model::chain::PlanId(id.to_owned())).ok();
        head.map(|head| json!({ "seq": head.seq, "hash": head.hash.to_string() }))
    };
    let plan = |plan: &TrainEntry| json!({ "plan": plan.plan, "name": plan.name, "revision": plan.revision, "tree": plan.tree });
    let names: Vec<&str> = landing.plans.iter().map(|plan| plan.name.as_str()).collect();
    let subjects = vec![ProofSubject::commit(commit), ProofSubject::git_tree(&landing.git_tree)];
    let predicate = json!({
        "plan": yard.id,
        "title": format!("{} on {}", names.join(", "), landing.target),
        "stage": "landed",
        "target": landing.target,
        "base": landing.before,
        "gitTree": landing.git_tree,
        "plans": landing.plans.iter().map(plan).collect::<Vec<_>>(),
        "log": head(&yard.id.0),
    });
    Ok(ProofStatement::new(subjects, predicate))
}
