//! Remembers: the append-only, hash-chained event log of every plan, and who is at work on what.
//!
//! [`Log`] is the whole of it. [`Sqlite`] keeps it in a state folder on this machine, [`Memory`] in
//! memory for tests and simulation, `Postgres` (a feature) in a database for many machines; one suite
//! (`suite.rs`) holds them to the same behaviour.
//!
//! **Invariant:** nothing here knows the rules. An event is sealed where it is written, inside the
//! transaction that writes it, and is never changed or removed.
//! **Invariant:** when `append` returns, all of its events are durable, or none was written.

use std::ops::ControlFlow;
use std::time::Duration;

use provost_core::model::chain::{Head, PlanId, Sealed};
use provost_core::model::event::Event;
use provost_core::model::plan::StepNumber;
use provost_core::model::timestamp::Timestamp;
use serde::{Deserialize, Serialize};

#[cfg(any(test, feature = "cluster"))]
#[path = "../../provost-rehearsal/src/skip.rs"]
mod skip;

mod error;
pub mod memory;
#[cfg(feature = "postgres")]
pub mod postgres;
pub mod sqlite;
#[cfg(any(test, feature = "suite"))]
#[doc(hidden)]
pub mod suite;
pub mod transfer;

pub use error::Error;
pub use memory::Memory;
#[cfg(feature = "postgres")]
pub use postgres::Postgres;
pub use sqlite::Sqlite;
pub use transfer::{Keep, Moved, transfer};

/// The log of all plans of one state folder.
pub trait Log: Send + Sync {
    /// One transaction: all events and effects, or none. Durable when it returns.
    fn append(&self, append: Append<'_>) -> Result<Vec<Sealed>, Error>;

    /// Where the plan's chain ends; [`Head::START`] for a plan nobody has heard of.
    fn head(&self, plan: &PlanId) -> Result<Head, Error>;

    /// Calls `each` for every event that matches, in the order of the plan's chain, or in the order in
    /// which they were written when no plan is named. Holds one event in memory at a time; `each` may
    /// use the log.
    fn read(&self, query: &Query, each: &mut dyn FnMut(Sealed) -> ControlFlow<()>) -> Result<(), Error> {
        self.read_placed(query, &mut |_, sealed| each(sealed))
    }

    /// The same, and says of each event where in the whole log it is.
    fn read_placed(
        &self,
        query: &Query,
        each: &mut dyn FnMut(Cursor, Sealed) -> ControlFlow<()>,
    ) -> Result<(), Error>;

    /// Blocks until something was appended after `after`, by anybody, or the time is over. Returns
    /// where the log ends now.
    fn wait(&self, after: Cursor, timeout: Duration) -> Result<Cursor, Error>;

    /// Where the log ends now.
    fn cursor(&self) -> Result<Cursor, Error>;

    /// Every plan that has an event, in the order of their first.
    fn plans(&self) -> Result<Vec<PlanId>, Error>;

    /// Takes the wake-ups that were committed and not taken yet, each plan once, in order of name.
    fn take_wakes(&self) -> Result<Vec<PlanId>, Error>;

    /// Takes `name` for this process, or says who has it. Never waits for the holder.
    fn lease(&self, name: &str, holder: &Holder) -> Result<Lease, Error>;

    /// Who holds it now, for people to see. Who may write is decided by the fence, not by this. A
    /// lease that is held and does not say by whom is an error: every holder writes it down first.
    fn holder(&self, name: &str) -> Result<Option<Holder>, Error>;
}

/// What is to be written, on which condition.
#[derive(Clone, Copy, Debug)]
pub struct Append<'a> {
    pub plan: &'a PlanId,
    /// The last event the decision was made on. Anything newer is a [`Error::Conflict`].
    pub expected_seq: u64,
    pub at: Timestamp,
    /// Write only while this lease has not been taken over.
    pub fence: Option<&'a Fence>,
    pub events: &'a [Entry<'a>],
    pub effects: &'a [Effect],
}

#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    pub event: &'a Event,
    /// The title of the step the event is about, for readers of the log.
    pub task_name: Option<&'a str>,
}

/// What must happen because of the events, committed together with them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Somebody should look at this plan again.
    Wake(PlanId),
    /// The same, not before `at`. Like those below it is for an engine that has queues: a log without one
    /// leaves it out, and whoever drives the plan looks at the time itself.
    WakeAt { plan: PlanId, at: Timestamp, key: String },
    /// There is work for whoever serves `pool`; once, whatever is replayed, by `key`.
    Enqueue { pool: String, plan: PlanId, key: String, body: String, priority: i32 },
    /// What was enqueued by this key is not wanted any more.
    Cancel { key: String },
}

/// Which events; the default is all of them, oldest first. Every part narrows.
#[derive(Clone, Debug, Default)]
pub struct Query {
    pub plan: Option<PlanId>,
    pub step: Option<StepNumber>,
    /// Names on the wire, any of them; empty means all.
    pub names: Vec<String>,
    /// At this instant or later.
    pub since: Option<Timestamp>,
    /// Before this instant.
    pub until: Option<Timestamp>,
    /// After this place in the plan's chain.
    pub after_seq: Option<u64>,
    /// After this place in the whole log.
    pub after: Option<Cursor>,
    /// Up to and including this place in the whole log: what [`Log::wait`] returned.
    pub through: Option<Cursor>,
    pub limit: Option<u64>,
    pub newest_first: bool,
}

impl Query {
    /// One plan's whole chain.
    pub fn plan(plan: &PlanId) -> Self {
        Self { plan: Some(plan.clone()), ..Self::default() }
    }
}

/// A place in the whole log, across plans. Later events have greater cursors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Cursor(pub u64);

/// Who is at work, in words for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    pub pid: u32,
    pub host: String,
    pub what: String,
    #[serde(with = "milliseconds")]
    pub since: Timestamp,
    /// In which `pid` is to be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid_namespace: Option<u64>,
}

impl Holder {
    /// This process on this machine.
    pub fn here(what: impl Into<String>, since: Timestamp) -> Self {
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let namespace = std::fs::metadata("/proc/self/ns/pid").ok();
        let pid_namespace = namespace.map(|found| std::os::unix::fs::MetadataExt::ino(&found));
        Self { pid: std::process::id(), host, what: what.into(), since, pid_namespace }
    }

    /// `pid` means the same process here.
    pub fn is_numbered_here(&self) -> bool {
        let here = Self::here("", self.since);
        (&self.host, self.pid_namespace) == (&here.host, here.pid_namespace)
    }

    /// Its process is dead, as far as can be seen from here.
    pub fn is_gone(&self) -> bool {
        let pid = i32::try_from(self.pid).ok().and_then(rustix::process::Pid::from_raw);
        let is_there =
            pid.is_none_or(|pid| rustix::process::test_kill_process(pid) != Err(rustix::io::Errno::SRCH));
        self.is_numbered_here() && !is_there
    }
}

impl std::fmt::Display for Holder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} (process {} on {}, since {})", self.what, self.pid, self.host, self.since)
    }
}

/// Proof of which holding of a lease a write belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fence {
    pub name: String,
    /// Grows by one with every holding.
    pub epoch: u64,
}

/// A name that is ours until this is dropped or the process dies.
#[must_use = "a lease is given back when it is dropped"]
pub struct Lease {
    fence: Fence,
    _held: Box<dyn Send + Sync>,
}

impl Lease {
    /// `held` gives the name back when it is dropped.
    fn new(fence: Fence, held: impl Send + Sync + 'static) -> Self {
        Self { fence, _held: Box::new(held) }
    }

    pub fn fence(&self) -> &Fence {
        &self.fence
    }
}

impl std::fmt::Debug for Lease {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lease").field("fence", &self.fence).finish_non_exhaustive()
    }
}

/// `Timestamp` is core's and core serialises events only.
mod milliseconds {
    use provost_core::model::timestamp::Timestamp;
    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(at: &Timestamp, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u64(at.0)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Timestamp, D::Error> {
        u64::deserialize(from).map(Timestamp)
    }
}
