//! The state of a merge train, folded from the events of its log, and the events that follow.
//!
//! **Invariant:** a verdict is reused only within the train that produced it: the same plans with the same
//! revisions, on the same commit.

use crate::model::chain::PlanId;
use crate::model::event::{CheckSubject, Event, Landing, RunOutcome, Summary, TrainEntry};
use crate::model::verdict::Verdict;

#[derive(Clone, Debug, Default)]
pub struct TrainRecord {
    /// Branch, commit and plans of the last started train, if it has not ended.
    open: Option<(String, String, Vec<TrainEntry>)>,
    verdicts: Vec<(String, CheckSubject, Verdict)>,
    /// The decision that was recorded and is not known to be carried out.
    pub pending: Option<Landing>,
    /// Tip of the branch after the last train that landed.
    pub tip: Option<String>,
}

impl TrainRecord {
    pub fn apply(&mut self, event: &Event) {
        match event {
            Event::TrainStarted { target, base, plans } => {
                self.open = Some((target.clone(), base.clone(), plans.clone()));
                self.verdicts.clear();
                self.pending = None;
            }
            Event::Judged { subject, verdict, plan: Some(plan), .. } => {
                self.verdicts.push((plan.clone(), *subject, verdict.clone()));
            }
            Event::RunEnded { train: Some(landing), .. } => {
                self.open = None;
                self.pending = Some((**landing).clone()).filter(|landing| landing.commit.is_some());
            }
            Event::PlanLanded { commit, .. } => {
                self.tip = Some(commit.clone());
                self.pending = None;
            }
            _ => {}
        }
    }

    /// Returns the verdicts of this check on this tree in this train.
    pub fn verdicts(&self, plan: &PlanId, subject: CheckSubject, tree: &str) -> Vec<Verdict> {
        let same = self.verdicts.iter().filter(|(of, what, verdict)| {
            *of == plan.0 && *what == subject && verdict.tree_id() == Some(tree)
        });
        same.map(|(_, _, verdict)| verdict.clone()).collect()
    }

    /// A train starts, unless an unfinished train with the same plans on the same commit continues.
    pub fn start(&self, target: &str, base: &str, plans: &[TrainEntry]) -> Vec<Event> {
        let train = (target.to_owned(), base.to_owned(), plans.to_vec());
        if self.open.as_ref() == Some(&train) {
            return Vec::new();
        }
        let (target, base, plans) = train;
        vec![Event::TrainStarted { target, base, plans }]
    }
}

/// A check of a plan of the train ran.
pub fn judged(plan: &PlanId, subject: CheckSubject, verdict: &Verdict) -> Event {
    let step = match subject {
        CheckSubject::Final(step) => Some(step),
        _ => None,
    };
    Event::Judged { step, subject, verdict: verdict.clone(), plan: Some(plan.0.clone()) }
}

/// The train has decided; the event is in the log before anything of it is carried out.
pub fn decided(landing: &Landing) -> Event {
    let outcome = if landing.commit.is_some() { RunOutcome::Done } else { RunOutcome::Failed };
    let summary = Summary {
        completed: landing.plans.len() as u32,
        failed: landing.left_out.len() as u32,
        ..Summary::default()
    };
    Event::RunEnded { outcome, summary, tree: None, why: None, train: Some(Box::new(landing.clone())) }
}

/// The branch was moved to `commit`, and every plan was updated.
pub fn landed(landing: &Landing, commit: &str) -> Vec<Event> {
    let landed = landing.plans.iter().map(|plan| Event::PlanLanded {
        plan: plan.plan.clone(),
        target: landing.target.clone(),
        before: landing.before.clone(),
        commit: commit.to_owned(),
    });
    landed.collect()
}
