//! Waits until a person has answered what a plan asks.

use std::ops::ControlFlow;
use std::sync::atomic::Ordering;
use std::time::Duration;

use provost_core::model::event::{Event, Revision};
use provost_core::model::timestamp::Timestamp;
use provost_core::rules::schedule::{self, InHand};
use provost_core::state::run::{Run, Stage};
use provost_store::Query;

use crate::Error;
use crate::observe::inbox::plan_items;
use crate::observe::notifier::Notices;
use crate::plan::harness::Harness;
use crate::plan::subplan::SubplanRunner as _;
use crate::plan::{plan_context, queries};

/// Interval at which interruptions and the clock are checked while waiting for a person.
const EAR: Duration = Duration::from_millis(300);

/// Reason why waiting for a person ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Woken {
    /// Something can be done again.
    GoOn,
    /// A person sent the plan back to draft.
    Draft,
    Interrupted,
}

/// Waits until a person has answered, and sends reminders meanwhile.
pub fn wait_for_a_person(harness: &Harness, notices: &Notices<'_>) -> Result<Woken, Error> {
    let mut seen = harness.log().cursor()?;
    let first = harness.run()?;
    let mut due = next_reminder(harness, &first)?;
    let (revision, mut run) = (first.revision.clone(), first);
    loop {
        if harness.site().stop.load(Ordering::Relaxed) {
            return Ok(Woken::Interrupted);
        }
        if let Some(woken) = woken(harness, &run, &revision)? {
            return Ok(woken);
        }
        let now = queries::wait(harness, seen, EAR)?;
        if now != seen {
            (seen, run) = (now, harness.run()?);
            if harness.resumable_step(&run).is_some() {
                return Ok(Woken::GoOn);
            }
        }
        if due.is_some_and(|due| due <= plan_context::now()) {
            notices.look(&run);
            due = next_reminder(harness, &run)?;
        }
    }
}

fn woken(harness: &Harness, run: &Run, revision: &Revision) -> Result<Option<Woken>, Error> {
    // The caller continues and then reports what is wrong with the log.
    if run.forged_from.is_some() {
        return Ok(Some(Woken::GoOn));
    }
    let now = plan_context::now();
    Ok(match run.stage {
        Stage::Done | Stage::Failed => Some(Woken::GoOn),
        Stage::Approved | Stage::InProgress => {
            let idle = schedule::next(run, &InHand::default(), 1, now).is_empty();
            let waits = schedule::wakes(run, now).is_some();
            (!idle || waits).then_some(Woken::GoOn)
        }
        // Another revision is at the gate; it may be asked about or covered by a policy.
        Stage::Verified => (run.revision != *revision).then_some(Woken::GoOn),
        Stage::Draft => was_sent_back(harness)?.then_some(Woken::Draft),
    })
}

/// Returns whether a person sent the plan back; a new text also passes through draft.
fn was_sent_back(harness: &Harness) -> Result<bool, Error> {
    let mut by_a_person = false;
    let last = Query { newest_first: true, limit: Some(1), ..Query::plan(harness.id()) };
    queries::each(harness, &last, &mut |sealed| {
        by_a_person = matches!(sealed.event(), Ok(Event::Rejected { .. } | Event::Answered { .. }));
        ControlFlow::Break(())
    })?;
    Ok(by_a_person)
}

fn next_reminder(harness: &Harness, run: &Run) -> Result<Option<Timestamp>, Error> {
    let Some(patience) = harness.config().gate.remind_after else { return Ok(None) };
    let now = plan_context::now();
    Ok(plan_items(harness, run)?.iter().filter_map(|item| item.next_reminder(now, patience)).min())
}
