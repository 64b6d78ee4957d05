//! Writes what a train does to its own log, and reads what an earlier train recorded.

use provost_core::fleet::train_record::{self, TrainRecord};
use provost_core::model::chain::PlanId;
use provost_core::model::event::{CheckSubject, Event, Landing, TrainEntry};
use provost_core::model::verdict::Verdict;
use provost_core::redact::Redactor;
use provost_store::{Append, Lease, Log, LogEntry};

use crate::plan::plan_context;
use crate::{Error, journal};

/// The log of a train.
pub(super) struct TrainLog<'a> {
    /// `None` if nothing is to be written.
    to: Option<(&'a dyn Log, &'a PlanId, &'a Lease)>,
    seq: u64,
    pub state: TrainRecord,
    /// Removes secrets from what is written.
    redactor: Option<Redactor>,
}

impl<'a> TrainLog<'a> {
    /// Returns a log that is kept in memory only.
    pub(super) fn silent() -> Self {
        Self { to: None, seq: 0, state: TrainRecord::default(), redactor: None }
    }

    pub(super) fn open(
        log: &'a dyn Log,
        id: &'a PlanId,
        lease: &'a Lease,
        redactor: Redactor,
    ) -> Result<Self, Error> {
        let mut opened = Self { to: Some((log, id, lease)), redactor: Some(redactor), ..Self::silent() };
        let (_, head) = journal::replay(log, id, &mut |_, _, event| opened.state.apply(event))?;
        opened.seq = head.seq;
        Ok(opened)
    }

    pub(super) fn started(&mut self, target: &str, base: &str, plans: &[TrainEntry]) -> Result<(), Error> {
        self.append(self.state.start(target, base, plans))
    }

    pub(super) fn judged(
        &mut self,
        plan: &PlanId,
        subject: CheckSubject,
        verdict: &Verdict,
    ) -> Result<(), Error> {
        self.append(vec![train_record::judged(plan, subject, verdict)])
    }

    /// Records the decision before anything of it is carried out.
    pub(super) fn decided(&mut self, landing: &Landing) -> Result<(), Error> {
        self.append(vec![train_record::decided(landing)])
    }

    pub(super) fn landed(&mut self, landing: &Landing, commit: &str) -> Result<(), Error> {
        self.append(train_record::landed(landing, commit))
    }

    fn append(&mut self, events: Vec<Event>) -> Result<(), Error> {
        let events: Vec<Event> = match &self.redactor {
            Some(redactor) => events.into_iter().map(|event| redactor.event(event)).collect(),
            None => events,
        };
        if let Some((log, plan, lease)) = self.to.filter(|_| !events.is_empty()) {
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
        events.iter().for_each(|event| self.state.apply(event));
        Ok(())
    }
}
