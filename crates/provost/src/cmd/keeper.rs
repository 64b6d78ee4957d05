use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::outcome::{Answer, Outcome};

/// End the agents of a worker that was killed (internal: the worker starts it)
#[derive(clap::Args, Debug)]
pub(super) struct Args {}

pub(super) fn obey(args: Args) -> Answer {
    let Args {} = args;
    // What is said to the worker's terminal is said to the worker; this one leaves when the worker has.
    for signal in [SIGHUP, SIGINT, SIGTERM] {
        let _ = signal_hook::flag::register(signal, Arc::<AtomicBool>::default());
    }
    provost_dbos::agent_reaper::keep(std::io::stdin().lock());
    Ok(Outcome::Done)
}
