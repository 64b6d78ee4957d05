//! Waits for the next event with inotify instead of polling.
//!
//! After every commit, the writing process reads a byte of `log.lock`, and inotify reports that read.
//! Watching the write-ahead log itself would wake too early, before the commit is visible.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::inotify;

use crate::{Cursor, Error, Log};

/// Longest delay if a writer died between its commit and the wake-up.
const SECOND_LOOK: Duration = Duration::from_secs(1);
/// Poll interval if inotify is not available (too many watches, another system).
const POLL: Duration = Duration::from_millis(25);

/// Idle watches. They are kept because the kernel takes milliseconds to close one.
#[derive(Default)]
pub(super) struct Watches(Mutex<Vec<OwnedFd>>);

impl Watches {
    fn take(&self, bell: &Path) -> Option<OwnedFd> {
        let idle = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop();
        idle.or_else(|| watch(bell))
    }

    fn give_back(&self, watch: Option<OwnedFd>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend(watch);
    }
}

pub(super) fn wait(
    log: &dyn Log,
    watches: &Watches,
    bell: &Path,
    after: Cursor,
    timeout: Duration,
) -> Result<Cursor, Error> {
    let now = log.cursor()?;
    if now > after || timeout.is_zero() {
        return Ok(now);
    }
    // Watches first and reads afterwards, so that an append in between wakes this wait.
    let watch = watches.take(bell);
    let found = wait_with(log, watch.as_ref(), after, Instant::now() + timeout);
    watches.give_back(watch);
    found
}

fn wait_with(
    log: &dyn Log,
    watch: Option<&OwnedFd>,
    after: Cursor,
    deadline: Instant,
) -> Result<Cursor, Error> {
    loop {
        let now = log.cursor()?;
        let left = deadline.saturating_duration_since(Instant::now());
        if now > after || left.is_zero() {
            return Ok(now);
        }
        match watch {
            Some(watch) => rung(watch, left.min(SECOND_LOOK)),
            None => std::thread::sleep(left.min(POLL)),
        }
    }
}

fn watch(bell: &Path) -> Option<OwnedFd> {
    let watch = inotify::init(inotify::CreateFlags::NONBLOCK | inotify::CreateFlags::CLOEXEC).ok()?;
    inotify::add_watch(&watch, bell, inotify::WatchFlags::ACCESS).ok()?;
    Some(watch)
}

/// Returns on a wake-up or a timeout. Returning early is harmless, because the caller checks the log.
fn rung(watch: &OwnedFd, patience: Duration) {
    let timeout =
        Timespec { tv_sec: patience.as_secs().cast_signed(), tv_nsec: patience.subsec_nanos().into() };
    let _ = rustix::event::poll(&mut [PollFd::new(watch, PollFlags::IN)], Some(&timeout));
    let mut heard = [0u8; 1024];
    while rustix::io::read(watch, &mut heard).is_ok_and(|length| length > 0) {}
}
