//! Takes a lease of the log and waits for its holder.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use provost_store::{Error as StoreError, Holder, Lease, Log};

use crate::Error;

/// Interval at which a held lease is requested again.
const LEASE_LOOK: Duration = Duration::from_millis(100);
/// A child forked just before its parent was killed still holds the lock until it execs; wait this long.
const LAST_BREATH: Duration = Duration::from_secs(10);

/// Requests a lease repeatedly for `usual`, or longer if its holder has just died.
pub(crate) fn take(
    log: &dyn Log,
    name: &str,
    holder: &Holder,
    usual: Duration,
    stop: &AtomicBool,
) -> Result<Lease, Error> {
    let begun = Instant::now();
    loop {
        let held = match log.lease(name, holder) {
            Err(StoreError::LeaseHeld { name, holder }) => (name, holder),
            taken => return Ok(taken?),
        };
        let is_gone = held.1.as_ref().is_some_and(Holder::is_gone);
        let patience = if is_gone { usual.max(LAST_BREATH) } else { usual };
        if begun.elapsed() >= patience || stop.load(Ordering::Relaxed) {
            return Err(StoreError::LeaseHeld { name: held.0, holder: held.1 }.into());
        }
        std::thread::sleep(LEASE_LOOK);
    }
}
