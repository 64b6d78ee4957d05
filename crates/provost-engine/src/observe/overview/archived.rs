//! Plans of the overview whose events are in cold files, all or the first of them.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use provost_core::model::chain::{PlanId, SealedEvent};
use provost_core::model::timestamp::Timestamp;
use provost_store::{Log, Query};

use super::{Fold, Known, Overview, PlanSnapshot};
use crate::Error;
use crate::plan::human_check;
use crate::plan::plan_registry::{self, PlanLocation};

impl Overview {
    /// If agents of any plan have run without a sandbox, requires a terminal that none of them can have.
    pub fn only_at_a_terminal(&self) -> Result<(), Error> {
        for plan in self.log.plans()? {
            if let Some(why) = human_check::no_terminal(&*self.log, &plan, self.begun)? {
                return Err(Error::NoTerminal { why });
            }
        }
        Ok(())
    }

    /// Reads a plan that the lists leave out.
    pub(super) fn archived_plan(&self, id: &PlanId) -> Result<Option<PlanSnapshot>, Error> {
        if !self.log.is_archived(id)? {
            return Ok(None);
        }
        let mut fold = Fold::new(Timestamp::default(), plan_registry::find(&self.settings.state, id));
        fold.hear_archived(&*self.log, id, u64::MAX);
        Ok(self.shows(&fold).then(|| fold.seen(id)))
    }

    /// Returns the number of plans that the lists leave out, because they are archived.
    pub fn archived(&self) -> Result<u64, Error> {
        let Some(only) = &self.only else { return Ok(self.log.archived_count()?) };
        let is_here = |id: &PlanId| {
            plan_registry::find(&self.settings.state, id)
                .is_some_and(|place| only.contains(&place.repository_key()))
        };
        Ok(self.log.archived_plans()?.iter().filter(|id| is_here(id)).count() as u64)
    }

    /// Forgets the plans of which no event is in the log any more.
    pub(super) fn forget_archived(&self, known: &mut Known) -> Result<(), Error> {
        let archivings = self.log.archivings()?;
        if archivings == known.archivings {
            return Ok(());
        }
        let in_log: BTreeSet<PlanId> = self.log.unarchived_plans()?.into_iter().collect();
        known.plans.retain(|id, _| in_log.contains(id));
        known.waiting = known.plans.values().map(|fold| fold.waiting).sum();
        known.archivings = archivings;
        Ok(())
    }
}

impl Fold {
    /// Returns whether events before this one were not heard. A plan in trouble hears no more events.
    pub(super) fn misses_events_before(&self, sealed: &SealedEvent) -> bool {
        self.trouble.is_none() && self.auditor.head().seq + 1 < sealed.seq
    }

    /// Returns the plan of an event as it was before the event. `waiting` is what was counted of it.
    pub(super) fn before(
        log: &dyn Log,
        sealed: &SealedEvent,
        place: Option<PlanLocation>,
        waiting: usize,
    ) -> Self {
        let mut fold = Self { waiting, ..Self::new(sealed.at, place) };
        fold.hear_archived(log, &sealed.plan, sealed.seq - 1);
        fold
    }

    /// Reads the first events of a plan, which are in cold files.
    fn hear_archived(&mut self, log: &dyn Log, plan: &PlanId, count: u64) {
        let query = Query { limit: Some(count), ..Query::plan(plan) };
        if count == 0 {
            return;
        }
        let read = log.read(&query, &mut |sealed| {
            if sealed.seq == 1 {
                self.begun = sealed.at;
            }
            self.hear(&sealed);
            ControlFlow::Continue(())
        });
        if let Err(error) = read {
            self.trouble = Some(error.to_string());
        }
    }
}
