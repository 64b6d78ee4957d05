//! Copies a log to another place, event by event, with the same chains and hashes.
//!
//! Events that exist already are not written again, so the same call continues an interrupted transfer.
//!
//! **Invariant:** if a plan at the destination has different events, nothing at all is written.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use provost_core::model::chain::{Head, PlanId, SealedEvent};
use provost_core::model::hash::Hash;
use provost_core::model::timestamp::Timestamp;

use crate::{ArchivableLog, Cursor, Error, Log, Query};

/// A log that accepts events that were sealed elsewhere.
pub trait SealedLog: ArchivableLog {
    /// Writes all events in one transaction, or none. Each must be the next of its plan, with a valid seal.
    fn keep(&self, events: &[SealedEvent]) -> Result<(), Error>;
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TransferResult {
    pub plans: u64,
    /// Events written by this call.
    pub events: u64,
    /// Events that existed before.
    pub present: u64,
    /// Roles of the target that do not exist and that its login may not create.
    pub missing_roles: Vec<String>,
}

const AT_ONCE: usize = 512;

/// Copies all events in the order of writing. `told` gets the number of events processed so far.
pub fn transfer(
    from: &dyn Log,
    to: &dyn SealedLog,
    told: &mut dyn FnMut(u64),
) -> Result<TransferResult, Error> {
    let mut ends = common_ends(from, to)?;
    let mut moved = TransferResult { plans: ends.len() as u64, ..TransferResult::default() };
    for (plan, end) in &mut ends {
        *end = transfer_archived(from, to, plan, *end, &mut moved)?;
    }
    let mut through = Cursor(0);
    loop {
        // Another process may append meanwhile.
        let end = from.cursor()?;
        if end == through {
            break;
        }
        let query = Query { after: Some(through), through: Some(end), ..Query::default() };
        let mut batch = Vec::with_capacity(AT_ONCE);
        let mut kept = Ok(());
        from.read(&query, &mut |sealed| {
            let seq = ends.entry(sealed.plan.clone()).or_insert(0);
            if sealed.seq <= *seq {
                moved.present += 1;
            } else {
                *seq = sealed.seq;
                batch.push(sealed);
                moved.events += 1;
            }
            if let Some(doubted) = batch.last().and_then(in_doubt) {
                kept = Err(doubted);
            } else if batch.len() == AT_ONCE {
                kept = to.keep(&batch);
                batch.clear();
                told(moved.present + moved.events);
            }
            if kept.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        kept?;
        to.keep(&batch)?;
        told(moved.present + moved.events);
        through = end;
    }
    check(from, to)?;
    Ok(moved)
}

/// The other log would not know why an event is not believed.
fn in_doubt(event: &SealedEvent) -> Option<Error> {
    let why = event.doubt.clone()?;
    Some(Error::InDoubt { plan: event.plan.clone(), seq: event.seq, why })
}

/// Moves what is in cold files. A plan that the destination does not have stays there; of another one, the events
/// are copied. Returns the last event of the plan at the destination.
fn transfer_archived(
    from: &dyn Log,
    to: &dyn SealedLog,
    plan: &PlanId,
    there: u64,
    moved: &mut TransferResult,
) -> Result<u64, Error> {
    let parts = from.archived(plan)?;
    let Some(end) = parts.last().map(|part| part.last_seq).filter(|end| *end > there) else {
        return Ok(there);
    };
    let (mut batch, mut kept, mut at, mut through) = (Vec::new(), Ok(()), Timestamp::default(), Cursor(0));
    from.read_placed(
        &Query { after_seq: Some(there), limit: Some(end - there), ..Query::plan(plan) },
        &mut |place, sealed| {
            (at, through) = (sealed.at, place);
            batch.push(sealed);
            if let Some(doubted) = batch.last().and_then(in_doubt) {
                kept = Err(doubted);
            } else if there == 0 {
                batch.clear();
            } else if batch.len() == AT_ONCE {
                kept = to.keep(&batch);
                batch.clear();
            }
            if kept.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        },
    )?;
    kept?;
    if there == 0 {
        to.keep_archived(&parts, at, through)?
    } else {
        to.keep(&batch)?
    }
    moved.events += end - there;
    Ok(end)
}

/// Returns for each plan the last event at the destination, after checking that both logs agree so far. A
/// plan that differs is an error.
fn common_ends(from: &dyn Log, to: &dyn Log) -> Result<BTreeMap<PlanId, u64>, Error> {
    let mut ends = BTreeMap::new();
    for plan in from.plans()? {
        let (here, there) = (from.head(&plan)?, to.head(&plan)?);
        let (shorter, longer) = if there.seq <= here.seq { (there, from) } else { (here, to as &dyn Log) };
        if hash_at(longer, &plan, shorter)? != shorter.hash {
            return Err(Error::OtherEvents { plan, seq: shorter.seq });
        }
        ends.insert(plan, there.seq);
    }
    Ok(ends)
}

/// Returns the hash of the event with `head`'s number, in another log.
fn hash_at(log: &dyn Log, plan: &PlanId, head: Head) -> Result<Hash, Error> {
    let Some(before) = head.seq.checked_sub(1) else { return Ok(Hash::NONE) };
    let query = Query { after_seq: Some(before), limit: Some(1), ..Query::plan(plan) };
    let mut found = Hash::NONE;
    log.read(&query, &mut |sealed| {
        found = sealed.hash;
        ControlFlow::Break(())
    })?;
    Ok(found)
}

fn check(from: &dyn Log, to: &dyn Log) -> Result<(), Error> {
    for plan in from.plans()? {
        let (here, there) = (from.head(&plan)?, to.head(&plan)?);
        if there.seq < here.seq || hash_at(to, &plan, here)? != here.hash {
            return Err(Error::OtherEvents { plan, seq: here.seq });
        }
    }
    Ok(())
}

/// Checks that the event is the next after `head`, the end of the plan's chain, and that its seal is valid.
/// Returns the new head.
pub(crate) fn fits(head: Head, sealed: &SealedEvent) -> Result<Head, Error> {
    if sealed.seq != head.seq + 1 {
        let (expected, found) = (sealed.seq.saturating_sub(1), head.seq);
        return Err(Error::Conflict { plan: sealed.plan.clone(), expected, found });
    }
    if sealed.prev != head.hash || sealed.computed_hash() != sealed.hash {
        return Err(Error::BadSeal { plan: sealed.plan.clone(), seq: sealed.seq });
    }
    Ok(Head { seq: sealed.seq, hash: sealed.hash })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Sqlite, suite};

    fn sqlite() -> (tempfile::TempDir, Sqlite) {
        let folder = tempfile::tempdir().unwrap();
        let log = Sqlite::open(folder.path()).unwrap();
        (folder, log)
    }

    fn everything(log: &dyn Log) -> Vec<SealedEvent> {
        suite::all(log, Query::default())
    }

    #[test]
    fn a_log_arrives_as_it_was_and_a_second_time_changes_nothing() {
        let ((_a, from), (_b, to)) = (sqlite(), sqlite());
        for round in 0..300 {
            suite::append_steps(&from, &format!("plan {}", round % 7), 1 + round % 3);
        }
        let moved = transfer(&from, &to, &mut |_| {}).unwrap();
        assert_eq!(
            moved,
            TransferResult { plans: 7, events: from.cursor().unwrap().0, ..TransferResult::default() }
        );
        assert_eq!(everything(&from), everything(&to));
        let again = transfer(&from, &to, &mut |_| {}).unwrap();
        assert_eq!((again.events, again.present), (0, moved.events));
    }

    #[test]
    fn a_move_that_was_cut_short_is_taken_up() {
        let ((_a, from), (_b, to)) = (sqlite(), sqlite());
        suite::append_steps(&from, "a", 5);
        suite::append_steps(&from, "b", 5);
        to.keep(&everything(&from)[..7]).unwrap();
        suite::append_steps(&from, "a", 1);
        let moved = transfer(&from, &to, &mut |_| {}).unwrap();
        assert_eq!((moved.events, moved.present), (4, 7));
        assert_eq!(everything(&from), everything(&to));
    }

    #[test]
    fn a_plan_with_other_events_stops_the_move_before_it_begins() {
        let ((_a, from), (_b, to)) = (sqlite(), sqlite());
        suite::append_steps(&from, "a", 2);
        suite::append_steps(&from, "b", 2);
        suite::write(&to, "b", 0, 77, &[suite::started(9)]).unwrap();
        let refused = transfer(&from, &to, &mut |_| {}).unwrap_err();
        assert!(matches!(&refused, Error::OtherEvents { plan, seq: 1 } if plan.0 == "b"), "{refused}");
        assert_eq!(to.unarchived_plans().unwrap(), [suite::plan("b")]);
    }

    #[test]
    fn an_event_that_was_changed_on_the_way_is_not_kept() {
        let ((_a, from), (_b, to)) = (sqlite(), sqlite());
        suite::append_steps(&from, "a", 2);
        let mut events = everything(&from);
        events[1].details = events[1].details.replace("coder", "crook");
        assert!(matches!(to.keep(&events), Err(Error::BadSeal { seq: 2, .. })));
        assert_eq!(to.cursor().unwrap(), Cursor(0));
    }
}
