//! The reaper: a process beside a worker that kills the worker's agents if the worker is killed.
//!
//! Usually the next check on the same machine kills such leftovers first. Without another worker on that
//! machine no check runs there, and a worker on another machine with a shared disk may judge the step once
//! the lease has expired.
//!
//! **Invariant:** nothing is killed while the worker lives, and only attempts the worker has named are
//! killed: other workers may be busy with the same plan.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io::{self, BufRead, Write as _};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};

use provost_core::fleet::work_item::WorkItem;
use provost_core::model::chain::PlanId;
use provost_host::process;

/// Name of the hidden subcommand.
pub const COMMAND: &str = "keeper";

const TAKEN: char = '+';
const OVER: char = '-';

/// Handle of the reaper in the worker. Dropping it ends the reaper.
pub struct Keeper(Mutex<Child>);

impl Keeper {
    /// Starts the reaper in the worker's process group: it belongs to no agent and is not killed with one.
    pub fn start(program: &OsStr) -> io::Result<Self> {
        let mut keeper = Command::new(program);
        keeper.arg(COMMAND).env_clear().current_dir("/");
        keeper.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(Self(Mutex::new(keeper.spawn()?)))
    }

    pub fn taken(&self, attempt: &str) {
        self.say(TAKEN, attempt);
    }

    pub fn over(&self, attempt: &str) {
        self.say(OVER, attempt);
    }

    /// Sends a line to the reaper. Errors are ignored: the reaper is needed only after the worker was killed.
    fn say(&self, sign: char, attempt: &str) {
        let mut keeper = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(ear) = keeper.stdin.as_mut() {
            let _ = ear.write_all(format!("{sign}{attempt}\n").as_bytes());
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        let keeper = self.0.get_mut().unwrap_or_else(PoisonError::into_inner);
        drop(keeper.stdin.take());
        let _ = keeper.wait();
    }
}

/// Returns the tag of the processes of an item's attempt; `None` if the item has no agent.
pub fn attempt(plan: &PlanId, item: WorkItem) -> Option<String> {
    match item {
        WorkItem::Attempt { step, attempt } => Some(format!("{plan}/{step}/{attempt}")),
        WorkItem::TakeUp { .. }
        | WorkItem::Attest
        | WorkItem::Judge { .. }
        | WorkItem::JudgeLost { .. }
        | WorkItem::End => None,
    }
}

/// Runs as the reaper: reads which attempts the worker has until the worker is gone, then kills them.
pub fn keep(worker: impl BufRead) {
    let mut held = BTreeSet::new();
    for line in worker.lines().map_while(Result::ok) {
        match line.strip_prefix(TAKEN) {
            Some(attempt) => drop(held.insert(attempt.to_owned())),
            None => drop(held.remove(line.trim_start_matches(OVER))),
        }
    }
    for attempt in held {
        process::end_attempt(&attempt);
    }
}
