//! Ends the agents and checks of a run when a person sends the plan back or ends it while they work.
//!
//! A decision of a person is an event of the log, and the loop reads the log only between two tasks. So a
//! thread looks for it meanwhile.

use std::ops::ControlFlow;
use std::sync::atomic::Ordering;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use provost_core::model::event::{Choice, Event};
use provost_store::Query;

use crate::Error;
use crate::plan::harness::Harness;

/// Interval at which the log is read.
const LOOK: Duration = Duration::from_millis(500);

/// Does the work, and asks its programs to stop if the plan is withdrawn meanwhile.
pub(super) fn watching<T>(harness: &Harness, work: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    // A sub-plan shares its programs with the parent's run, which must not stop.
    if harness.within.is_some() {
        return work();
    }
    let begun = harness.log().head(harness.id())?.seq;
    let over = Over::default();
    std::thread::scope(|scope| {
        scope.spawn(|| look_until(&over, harness, begun));
        let _guard = SetWhenDropped(&over);
        work()
    })
}

#[derive(Default)]
struct Over {
    is_over: Mutex<bool>,
    bell: Condvar,
}

impl Over {
    fn lock(&self) -> MutexGuard<'_, bool> {
        self.is_over.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct SetWhenDropped<'a>(&'a Over);

impl Drop for SetWhenDropped<'_> {
    fn drop(&mut self) {
        *self.0.lock() = true;
        self.0.bell.notify_all();
    }
}

/// Looks for a withdrawal after event `seen` until the work is over.
fn look_until(over: &Over, harness: &Harness, mut seen: u64) {
    let mut is_over = over.lock();
    while !*is_over {
        let waited = over.bell.wait_timeout(is_over, LOOK).unwrap_or_else(PoisonError::into_inner);
        is_over = waited.0;
        if *is_over {
            return;
        }
        drop(is_over);
        // If the log cannot be read now, the run itself reports it.
        if is_withdrawn(harness, &mut seen).unwrap_or(false) {
            return harness.site().stop.store(true, Ordering::Relaxed);
        }
        is_over = over.lock();
    }
}

/// Returns whether a person withdrew the plan after event `seen`, which becomes the newest event.
fn is_withdrawn(harness: &Harness, seen: &mut u64) -> Result<bool, Error> {
    let head = harness.log().head(harness.id())?.seq;
    if head == *seen {
        return Ok(false);
    }
    let names = ["GATE_REJECTED", "HUMAN_ANSWERED"].map(str::to_owned).to_vec();
    let wanted = Query { names, after_seq: Some(*seen), ..Query::plan(harness.id()) };
    let mut withdrawn = false;
    harness.log().read(&wanted, &mut |sealed| {
        withdrawn |= matches!(
            sealed.event(),
            Ok(Event::Rejected { .. } | Event::Answered { choice: Choice::Revise | Choice::Abort, .. })
        );
        ControlFlow::Continue(())
    })?;
    *seen = head;
    Ok(withdrawn)
}
