//! Ends the run of a plan from another process, as Ctrl-C in its terminal does.
//!
//! **Invariant:** only the process that the plan's lease names is signalled, and only while it holds the
//! lease.

use std::time::{Duration, Instant};

use provost_store::Holder;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::Error;
use crate::plan::harness::Harness;

const PAUSE: Duration = Duration::from_millis(50);

/// What became of the run.
#[derive(Debug)]
pub enum StopOutcome {
    /// No run works on the plan.
    NoRun,
    /// The run has ended.
    Ended(Holder),
    /// The run was asked to end, and has not ended yet.
    Ending(Holder),
    /// The plan is held by a process that cannot be ended from here, and why.
    NotHere(Holder, &'static str),
}

/// Asks the run of this plan to end, and waits until it has ended.
pub fn stop(harness: &Harness, patience: Duration) -> Result<StopOutcome, Error> {
    let lease = format!("plan {}", harness.id());
    let Some(holder) = harness.log().holder(&lease)? else { return Ok(StopOutcome::NoRun) };
    if !holder.is_numbered_here() {
        return Ok(StopOutcome::NotHere(holder, "it runs on another machine or in another container"));
    }
    if !holder.is_run {
        return Ok(StopOutcome::NotHere(holder, "it is no `provost run`, and ends by itself"));
    }
    let Some(pid) = i32::try_from(holder.pid).ok().and_then(Pid::from_raw) else {
        return Ok(StopOutcome::NoRun);
    };
    let process = match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(process) => process,
        Err(_) => return Ok(StopOutcome::NoRun),
    };
    // The number may have passed to another process before it was opened.
    if harness.log().holder(&lease)?.as_ref() != Some(&holder) {
        return Ok(StopOutcome::NoRun);
    }
    match pidfd_send_signal(&process, Signal::INT) {
        Ok(()) => {}
        Err(Errno::SRCH) => return Ok(StopOutcome::Ended(holder)),
        Err(_) => return Ok(StopOutcome::NotHere(holder, "it belongs to another user")),
    }
    let begun = Instant::now();
    while harness.log().holder(&lease)?.as_ref() == Some(&holder) {
        if begun.elapsed() > patience {
            return Ok(StopOutcome::Ending(holder));
        }
        std::thread::sleep(PAUSE);
    }
    Ok(StopOutcome::Ended(holder))
}
