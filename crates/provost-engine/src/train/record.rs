//! Records what a train does in its own log, and reads what an earlier train recorded.
//!
//! **Invariant:** a verdict is reused only within the train that produced it: the same plans with the same
//! revisions, on the same commit.

use crate::journal;
use std::ops::ControlFlow;

use provost_core::model::chain::PlanId;
use provost_core::model::event::{CheckSubject, Event, Landing, RunOutcome, Summary, TrainEntry};
use provost_core::model::verdict::Verdict;
use provost_core::redact::Redactor;
use provost_store::{Append, Lease, Log, LogEntry, Query};

use crate::Error;
use crate::plan::plan_context;

pub struct Record<'a> {
    /// `None` if nothing is to be written.
    to: Option<(&'a dyn Log, &'a PlanId, &'a Lease)>,
    seq: u64,
    /// The last started train, if it has not ended.
    begun: Option<(String, String, Vec<TrainEntry>)>,
    verdicts: Vec<(String, CheckSubject, Verdict)>,
    /// Decided, and not known to be carried out.
    pub decided: Option<Landing>,
    /// Tip of the branch after the last train that landed.
    pub landed: Option<String>,
    /// Removes secrets from what is written.
    redactor: Option<Redactor>,
}

impl<'a> Record<'a> {
    /// Returns a record that is kept in memory only.
    pub fn silent() -> Self {
        Self {
            to: None,
            seq: 0,
            begun: None,
            verdicts: Vec::new(),
            decided: None,
            landed: None,
            redactor: None,
        }
    }

    pub fn open(
        log: &'a dyn Log,
        id: &'a PlanId,
        lease: &'a Lease,
        redactor: Redactor,
    ) -> Result<Self, Error> {
        // This also verifies the chain.
        journal::read(log, id)?;
        let mut record = Self { to: Some((log, id, lease)), redactor: Some(redactor), ..Self::silent() };
        let mut bad = Ok(());
        log.read(&Query::plan(id), &mut |sealed| match sealed.event() {
            Ok(event) => {
                record.hear(&event);
                record.seq = sealed.seq;
                ControlFlow::Continue(())
            }
            Err(error) => {
                bad = Err(error);
                ControlFlow::Break(())
            }
        })?;
        bad?;
        Ok(record)
    }

    fn hear(&mut self, event: &Event) {
        match event {
            Event::TrainStarted { target, base, plans } => {
                self.begun = Some((target.clone(), base.clone(), plans.clone()));
                self.verdicts.clear();
                self.decided = None;
            }
            Event::Judged { subject, verdict, plan: Some(plan), .. } => {
                self.verdicts.push((plan.clone(), *subject, verdict.clone()));
            }
            Event::RunEnded { train: Some(landing), .. } => {
                self.begun = None;
                self.decided = Some((**landing).clone()).filter(|landing| landing.commit.is_some());
            }
            Event::PlanLanded { commit, .. } => {
                self.landed = Some(commit.clone());
                self.decided = None;
            }
            _ => {}
        }
    }

    /// Records the start, unless an unfinished train with the same plans on the same commit continues.
    pub fn started(&mut self, target: &str, base: &str, plans: &[TrainEntry]) -> Result<(), Error> {
        let this = (target.to_owned(), base.to_owned(), plans.to_vec());
        if self.begun.as_ref() == Some(&this) {
            return Ok(());
        }
        let (target, base, plans) = this;
        self.say(&[Event::TrainStarted { target, base, plans }])
    }

    /// Returns the verdicts of this check on this tree in this train.
    pub fn seen(&self, plan: &PlanId, subject: CheckSubject, tree: &str) -> Vec<Verdict> {
        let same = self.verdicts.iter().filter(|(of, what, verdict)| {
            *of == plan.0 && *what == subject && verdict.tree_id() == Some(tree)
        });
        same.map(|(_, _, verdict)| verdict.clone()).collect()
    }

    pub fn judged(&mut self, plan: &PlanId, subject: CheckSubject, verdict: &Verdict) -> Result<(), Error> {
        let step = match subject {
            CheckSubject::Final(step) => Some(step),
            _ => None,
        };
        let plan = Some(plan.0.clone());
        self.say(&[Event::Judged { step, subject, verdict: verdict.clone(), plan }])
    }

    /// Records the decision before anything of it is carried out.
    pub fn decided(&mut self, landing: &Landing) -> Result<(), Error> {
        let outcome = if landing.commit.is_some() { RunOutcome::Done } else { RunOutcome::Failed };
        let summary = Summary {
            completed: landing.plans.len() as u32,
            failed: landing.left_out.len() as u32,
            ..Summary::default()
        };
        let train = Some(Box::new(landing.clone()));
        self.say(&[Event::RunEnded { outcome, summary, tree: None, why: None, train }])
    }

    /// Records that the branch was moved and every plan was updated.
    pub fn landed(&mut self, landing: &Landing, commit: &str) -> Result<(), Error> {
        let landed = landing.plans.iter().map(|plan| Event::PlanLanded {
            plan: plan.plan.clone(),
            target: landing.target.clone(),
            before: landing.before.clone(),
            commit: commit.to_owned(),
        });
        self.say(&landed.collect::<Vec<_>>())
    }

    fn say(&mut self, events: &[Event]) -> Result<(), Error> {
        let clean = |event: &Event| match &self.redactor {
            Some(redactor) => redactor.event(event.clone()),
            None => event.clone(),
        };
        let events = &events.iter().map(clean).collect::<Vec<_>>();
        if let Some((log, plan, lease)) = self.to {
            let entries: Vec<LogEntry<'_>> =
                events.iter().map(|event| LogEntry { event, task_name: None }).collect();
            log.append(Append {
                plan,
                expected_seq: self.seq,
                at: plan_context::now(),
                fence: Some(lease.fence()),
                events: &entries,
                effects: &[],
            })?;
            self.seq += events.len() as u64;
        }
        for event in events {
            self.hear(event);
        }
        Ok(())
    }
}
