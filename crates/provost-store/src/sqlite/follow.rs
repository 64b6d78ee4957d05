//! Waits for the next event without asking again and again.
//!
//! After every commit `log.lock` is opened once more, in any process; inotify tells us of it.
//! The write-ahead log itself would tell too early, before the commit can be seen.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::inotify;

use crate::{Cursor, Error, Log};

/// A writer that died between its commit and the bell is noticed after this.
const SECOND_LOOK: Duration = Duration::from_secs(1);
/// Where inotify is not to be had (too many watches, another system).
const POLL: Duration = Duration::from_millis(25);

pub fn wait(log: &dyn Log, bell: &Path, after: Cursor, timeout: Duration) -> Result<Cursor, Error> {
    let now = log.cursor()?;
    if now > after || timeout.is_zero() {
        return Ok(now);
    }
    let deadline = Instant::now() + timeout;
    // Watch first, look then: what is appended in between rings.
    let watch = watch(bell);
    loop {
        let now = log.cursor()?;
        let left = deadline.saturating_duration_since(Instant::now());
        if now > after || left.is_zero() {
            return Ok(now);
        }
        match &watch {
            Some(watch) => rung(watch, left.min(SECOND_LOOK)),
            None => std::thread::sleep(left.min(POLL)),
        }
    }
}

fn watch(bell: &Path) -> Option<OwnedFd> {
    let watch = inotify::init(inotify::CreateFlags::NONBLOCK | inotify::CreateFlags::CLOEXEC).ok()?;
    inotify::add_watch(&watch, bell, inotify::WatchFlags::OPEN).ok()?;
    Some(watch)
}

/// Returns when the bell rang or the time is over. Early is harmless: the caller looks.
fn rung(watch: &OwnedFd, patience: Duration) {
    let timeout =
        Timespec { tv_sec: patience.as_secs().cast_signed(), tv_nsec: patience.subsec_nanos().into() };
    let _ = rustix::event::poll(&mut [PollFd::new(watch, PollFlags::IN)], Some(&timeout));
    let mut heard = [0u8; 1024];
    while rustix::io::read(watch, &mut heard).is_ok_and(|length| length > 0) {}
}
