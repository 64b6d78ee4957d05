//! Takes a lease of the log and waits for its holder.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use provost_store::{Error as StoreError, Holder, Lease, Log};

use crate::Error;

/// Interval at which a held lease is requested again.
const LEASE_LOOK: Duration = Duration::from_millis(100);
/// A child forked just before its parent was killed still holds the lock until it execs; wait this long.
const LAST_BREATH: Duration = Duration::from_secs(10);

/// Longest interval, after a long wait.
const LEASE_LOOK_MAX: Duration = Duration::from_millis(500);

/// Requests a lease repeatedly for `usual`, or longer if its holder has just died; after a stop at most for
/// `stopped`.
pub(crate) fn take(
    log: &dyn Log,
    name: &str,
    holder: &Holder,
    (usual, stopped): (Duration, Duration),
    stop: &AtomicBool,
) -> Result<Lease, Error> {
    let begun = Instant::now();
    let mut since: Option<Instant> = None;
    loop {
        let held = match log.lease(name, holder) {
            Err(StoreError::LeaseHeld { name, holder }) => (name, holder),
            taken => return Ok(taken?),
        };
        let is_gone = held.1.as_ref().is_some_and(Holder::is_gone);
        let patience = if is_gone { usual.max(LAST_BREATH) } else { usual };
        if stop.load(Ordering::Relaxed) {
            since.get_or_insert_with(Instant::now);
        }
        let is_stopped = since.is_some_and(|since| since.elapsed() >= stopped);
        if is_stopped || begun.elapsed() >= patience {
            return Err(StoreError::LeaseHeld { name: held.0, holder: held.1 }.into());
        }
        std::thread::sleep((begun.elapsed() / 20).clamp(LEASE_LOOK, LEASE_LOOK_MAX));
    }
}
