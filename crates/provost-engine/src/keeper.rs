//! Ends the agents of a worker that was killed: a process beside it that knows what it has in hand, and nothing else.
//!
//! On a machine where nobody else works, nobody would judge what a dead worker left, and end it before. Others may
//! judge it from another machine, on a disk that both have, when its lease has run out.
//!
//! **Invariant:** nothing is ended while the worker lives, and nothing but the attempts it said it has: others may be
//! at work on the same plan.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io::{self, BufRead, Write as _};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};

use provost_core::fleet::work_item::Item;
use provost_core::model::chain::PlanId;
use provost_host::process;

/// The hidden subcommand.
pub const COMMAND: &str = "keeper";

const TAKEN: char = '+';
const OVER: char = '-';

/// As the worker has it. Gone with this.
pub struct Keeper(Mutex<Child>);

impl Keeper {
    /// Left in the group of the worker: what is started there is no agent's, and is not swept away with one.
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

    /// One that is gone is missed by nobody but those who come after a worker that was killed.
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

/// What the processes of an item's attempt are known by; nothing, where it has no agent.
pub fn attempt(plan: &PlanId, item: Item) -> Option<String> {
    match item {
        Item::Attempt { step, attempt } => Some(format!("{plan}/{step}/{attempt}")),
        Item::TakeUp { .. } | Item::Attest | Item::Judge { .. } | Item::JudgeLost { .. } | Item::End => None,
    }
}

/// As the keeper: hears what the worker has until the worker is gone, and ends what it had then.
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
