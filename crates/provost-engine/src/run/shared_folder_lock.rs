//! The claim on a plan in a shared folder, held against other machines during a drive.
//!
//! The lease in the state folder excludes other processes of this machine; the claim file beside the plan
//! excludes machines with another state folder. A thread renews it. If the claim is lost, the drive stops as
//! if a person had interrupted it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use provost_host::plans::plan_lease::{self, Candidate, Error as LeaseError, OwnLease};

use crate::Error;
use crate::plan::harness::Harness;
use crate::plan::plan_context;

/// Interval at which a held claim is read again.
const LOOK: Duration = Duration::from_millis(200);

pub(crate) struct SharedFolderLock {
    over: Arc<(Mutex<bool>, Condvar)>,
    keeper: Option<JoinHandle<Result<(), LeaseError>>>,
    /// Previous holder, if the plan was taken over.
    pub took_over: Option<String>,
}

/// Claims the plan if its folder is shared; waits at most `patience` for its holder.
pub(crate) fn share(
    harness: &Harness,
    what: &str,
    patience: Duration,
) -> Result<Option<SharedFolderLock>, Error> {
    let plans = &harness.config().plans;
    // A plan that was named by its path may be anywhere.
    let folder = harness.place().workspace.join(&plans.folder).canonicalize().ok();
    if !plans.is_shared() || folder.as_ref() != Some(&harness.place().dir) {
        return Ok(None);
    }
    let path = plan_lease::file(harness.place());
    let mut candidate = Candidate::new(&path, what, plans.lease);
    let begun = Instant::now();
    let stop = harness.site().stop.clone();
    let (held, before) = loop {
        match candidate.claim(plan_context::now().0) {
            Err(LeaseError::Held(_)) if begun.elapsed() < patience && !stop.load(Ordering::Relaxed) => {
                std::thread::sleep(LOOK);
            }
            claimed => break claimed?,
        }
    };
    let took_over = before.map(|before| format!("epoch {} from {before}", held.claim().epoch));
    let over = Arc::new((Mutex::new(false), Condvar::new()));
    let (shared, pause) = (over.clone(), held.pause());
    let keeper = std::thread::spawn(move || keep(held, pause, &shared, &stop));
    Ok(Some(SharedFolderLock { over, keeper: Some(keeper), took_over }))
}

impl SharedFolderLock {
    /// Releases the claim; an error if it was lost.
    pub(crate) fn end(mut self) -> Result<(), Error> {
        Ok(self.finish()?)
    }

    fn finish(&mut self) -> Result<(), LeaseError> {
        let (over, wake) = &*self.over;
        *over.lock().unwrap_or_else(PoisonError::into_inner) = true;
        wake.notify_all();
        match self.keeper.take().map(JoinHandle::join) {
            Some(Ok(ended)) => ended,
            Some(Err(_)) => Err(LeaseError::Lost("the thread that renewed the claim ended".to_owned())),
            None => Ok(()),
        }
    }
}

impl Drop for SharedFolderLock {
    fn drop(&mut self) {
        let _ = self.finish();
    }
}

fn keep(
    mut held: OwnLease,
    pause: Duration,
    over: &(Mutex<bool>, Condvar),
    stop: &AtomicBool,
) -> Result<(), LeaseError> {
    let mut is_over = over.0.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        let waited = over.1.wait_timeout_while(is_over, pause, |is_over| !*is_over);
        is_over = waited.unwrap_or_else(PoisonError::into_inner).0;
        if *is_over {
            held.give_back();
            return Ok(());
        }
        if let Err(lost) = held.renew(plan_context::now().0) {
            stop.store(true, Ordering::Relaxed);
            return Err(lost);
        }
    }
}
