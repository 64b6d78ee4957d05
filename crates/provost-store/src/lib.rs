//! Stores the append-only, hash-chained event log of every plan, and the leases on plans.
//!
//! [`Log`] is the interface. [`Sqlite`] stores the log in a state folder on this machine, [`Memory`] in
//! memory for tests and simulation, `Postgres` (a feature) in a database for many machines. One test suite
//! (`suite.rs`) checks that all behave the same.
//!
//! **Invariant:** this crate does not know the rules of plans. An event is sealed inside the transaction
//! that writes it, and is never changed. It is removed only when a verified cold file has it (`archive.rs`), and
//! is then read from there.
//! **Invariant:** when `append` returns, all of its events are durable, or none was written.

use std::ops::ControlFlow;
use std::time::Duration;

use provost_core::model::chain::{Head, PlanId, SealedEvent};
use provost_core::model::event::Event;
use provost_core::model::plan::StepNumber;
use provost_core::model::timestamp::Timestamp;
use provost_core::model::usage::Amount;
use serde::{Deserialize, Serialize};

#[cfg(any(test, feature = "cluster"))]
#[path = "../../provost-rehearsal/src/skip.rs"]
mod skip;

pub mod archive;
mod error;
pub mod memory;
#[cfg(feature = "postgres")]
pub mod postgres;
pub mod sqlite;
#[cfg(any(test, feature = "suite"))]
#[doc(hidden)]
pub mod suite;
pub mod transfer;

pub use archive::{ArchivableLog, ColdPart, archive};
pub use error::Error;
pub use memory::Memory;
#[cfg(feature = "postgres")]
pub use postgres::Postgres;
pub use sqlite::Sqlite;
pub use transfer::{SealedLog, TransferResult, transfer};

/// The log of all plans of one state folder.
pub trait Log: Send + Sync {
    /// Writes all events and effects in one transaction, or none. They are durable when it returns.
    fn append(&self, append: Append<'_>) -> Result<Vec<SealedEvent>, Error>;

    /// Returns the end of the plan's chain; [`Head::START`] for an unknown plan.
    fn head(&self, plan: &PlanId) -> Result<Head, Error>;

    /// Calls `each` for every matching event: in the order of the plan's chain, or in the order of writing
    /// if no plan is named. Holds one event in memory at a time; `each` may use the log.
    fn read(&self, query: &Query, each: &mut dyn FnMut(SealedEvent) -> ControlFlow<()>) -> Result<(), Error> {
        self.read_placed(query, &mut |_, sealed| each(sealed))
    }

    /// Like [`Log::read`], and passes the position of each event in the whole log.
    fn read_placed(
        &self,
        query: &Query,
        each: &mut dyn FnMut(Cursor, SealedEvent) -> ControlFlow<()>,
    ) -> Result<(), Error>;

    /// Blocks until any process has appended an event after `after`, or until the timeout. Returns the
    /// current end of the log.
    fn wait(&self, after: Cursor, timeout: Duration) -> Result<Cursor, Error>;

    /// Returns the current end of the log.
    fn cursor(&self) -> Result<Cursor, Error>;

    /// Returns every plan that has an event: those of which one is in the log, in the order of their first
    /// event, then the archived ones.
    fn plans(&self) -> Result<Vec<PlanId>, Error> {
        Ok([self.unarchived_plans()?, self.archived_plans()?].concat())
    }

    /// Returns the plans that lists show: those that have an event in the log, in the order of their first
    /// event. Whatever must not depend on archiving asks for `plans`.
    fn unarchived_plans(&self) -> Result<Vec<PlanId>, Error>;

    /// Returns the plans of which all events are in cold files.
    fn archived_plans(&self) -> Result<Vec<PlanId>, Error> {
        Ok(Vec::new())
    }

    /// Returns the number of plans of which all events are in cold files.
    fn archived_count(&self) -> Result<u64, Error> {
        Ok(self.archived_plans()?.len() as u64)
    }

    /// Returns where the events of a plan are that are not in the log, in the order of its chain.
    fn archived(&self, _plan: &PlanId) -> Result<Vec<ColdPart>, Error> {
        Ok(Vec::new())
    }

    /// Returns whether all events of a plan are in cold files.
    fn is_archived(&self, plan: &PlanId) -> Result<bool, Error> {
        match self.archived(plan)?.last() {
            Some(part) => Ok(self.head(plan)?.seq == part.last_seq),
            None => Ok(false),
        }
    }

    /// Returns a number that changes when events are archived. The end of the log changes then too.
    fn archivings(&self) -> Result<u64, Error> {
        Ok(0)
    }

    /// Takes the committed wake-ups, each plan once, sorted by name.
    fn take_wakes(&self) -> Result<Vec<PlanId>, Error>;

    /// Takes the lease `name` for this process, or returns its holder. Never waits for the holder.
    fn lease(&self, name: &str, holder: &Holder) -> Result<Lease, Error>;

    /// Returns the current holder, for people. The fence decides who may write, not this. A held lease
    /// without a description of its holder is an error, because every holder writes one first.
    fn holder(&self, name: &str) -> Result<Option<Holder>, Error>;

    /// Returns the only name under which this process may decide: the one of its database login. `None` for logs
    /// without logins, where the caller gives the name.
    fn own_name(&self) -> Result<Option<String>, Error> {
        Ok(None)
    }

    /// Returns whether the log adds up what all plans use ([`Effect::Used`]). Finding that out takes a look at every
    /// step of a plan.
    fn counts_usage(&self) -> bool {
        false
    }

    /// Returns why no attempt of this plan may begin, if a budget of all plans is used up. The plan is scheduled again
    /// when the budget allows it. `None` for logs without such a budget.
    fn waits_for_budget(&self, _plan: &PlanId) -> Result<Option<String>, Error> {
        Ok(None)
    }

    /// Records that a person trusts a policy, where the log asks for that before the policy may approve.
    fn trust_policy(&self, _digest: &str) -> Result<(), Error> {
        Ok(())
    }
}

/// A log that several parts of a process use.
impl<L: Log + ?Sized> Log for std::sync::Arc<L> {
    fn append(&self, append: Append<'_>) -> Result<Vec<SealedEvent>, Error> {
        (**self).append(append)
    }

    fn head(&self, plan: &PlanId) -> Result<Head, Error> {
        (**self).head(plan)
    }

    fn read_placed(
        &self,
        query: &Query,
        each: &mut dyn FnMut(Cursor, SealedEvent) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        (**self).read_placed(query, each)
    }

    fn wait(&self, after: Cursor, timeout: Duration) -> Result<Cursor, Error> {
        (**self).wait(after, timeout)
    }

    fn cursor(&self) -> Result<Cursor, Error> {
        (**self).cursor()
    }

    fn unarchived_plans(&self) -> Result<Vec<PlanId>, Error> {
        (**self).unarchived_plans()
    }

    fn archived_plans(&self) -> Result<Vec<PlanId>, Error> {
        (**self).archived_plans()
    }

    fn archived_count(&self) -> Result<u64, Error> {
        (**self).archived_count()
    }

    fn archived(&self, plan: &PlanId) -> Result<Vec<ColdPart>, Error> {
        (**self).archived(plan)
    }

    fn archivings(&self) -> Result<u64, Error> {
        (**self).archivings()
    }

    fn take_wakes(&self) -> Result<Vec<PlanId>, Error> {
        (**self).take_wakes()
    }

    fn lease(&self, name: &str, holder: &Holder) -> Result<Lease, Error> {
        (**self).lease(name, holder)
    }

    fn holder(&self, name: &str) -> Result<Option<Holder>, Error> {
        (**self).holder(name)
    }

    fn own_name(&self) -> Result<Option<String>, Error> {
        (**self).own_name()
    }

    fn counts_usage(&self) -> bool {
        (**self).counts_usage()
    }

    fn waits_for_budget(&self, plan: &PlanId) -> Result<Option<String>, Error> {
        (**self).waits_for_budget(plan)
    }

    fn trust_policy(&self, digest: &str) -> Result<(), Error> {
        (**self).trust_policy(digest)
    }
}

/// The events to write, and the conditions.
#[derive(Clone, Copy, Debug)]
pub struct Append<'a> {
    pub plan: &'a PlanId,
    /// The last event that the decision was based on. A newer event is an [`Error::Conflict`].
    pub expected_seq: u64,
    pub at: Timestamp,
    /// Write only if no other process has taken over this lease.
    pub fence: Option<&'a Fence>,
    pub events: &'a [LogEntry<'a>],
    pub effects: &'a [Effect],
}

#[derive(Clone, Copy, Debug)]
pub struct LogEntry<'a> {
    pub event: &'a Event,
    /// The title of the event's step, for readers of the log.
    pub task_name: Option<&'a str>,
}

/// A consequence of the events, committed together with them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Schedule this plan again.
    Wake(PlanId),
    /// Schedule this plan again, not before `at`. This and the effects below are for an engine with queues:
    /// a log without queues ignores them, and the driver of the plan checks the time itself.
    WakeAt { plan: PlanId, at: Timestamp, key: String },
    /// Add work for the workers of `pool`; `key` makes it unique if it is replayed.
    Enqueue { pool: String, plan: PlanId, key: String, body: String, priority: i32 },
    /// Remove the work with this key from its queue.
    Cancel { key: String },
    /// The tokens and money that count of the plan after these events, for a budget of all plans. A log without one
    /// ignores it.
    Used(Amount),
}

/// A filter for events; the default is all events, oldest first. Every field narrows it.
#[derive(Clone, Debug, Default)]
pub struct Query {
    pub plan: Option<PlanId>,
    pub step: Option<StepNumber>,
    /// Wire names of events; empty means all.
    pub names: Vec<String>,
    /// At this time or later.
    pub since: Option<Timestamp>,
    /// Before this time.
    pub until: Option<Timestamp>,
    /// After this sequence number of the plan's chain.
    pub after_seq: Option<u64>,
    /// After this position in the whole log.
    pub after: Option<Cursor>,
    /// Up to and including this position in the whole log, as returned by [`Log::wait`].
    pub through: Option<Cursor>,
    pub limit: Option<u64>,
    pub newest_first: bool,
}

impl Query {
    /// Selects the whole chain of one plan.
    pub fn plan(plan: &PlanId) -> Self {
        Self { plan: Some(plan.clone()), ..Self::default() }
    }
}

/// A position in the whole log, across plans. Later events have greater cursors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Cursor(pub u64);

/// The holder of a lease, for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    pub pid: u32,
    pub host: String,
    pub what: String,
    #[serde(with = "milliseconds")]
    pub since: Timestamp,
    /// The PID namespace that `pid` belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid_namespace: Option<u64>,
    /// It only checks the work of an agent that provost did not start.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub checks_session: bool,
    /// It is a run that an interrupt signal ends in good order.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_run: bool,
}

impl Holder {
    /// Describes this process on this machine.
    pub fn here(what: impl Into<String>, since: Timestamp) -> Self {
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let namespace = std::fs::metadata("/proc/self/ns/pid").ok();
        let pid_namespace = namespace.map(|found| std::os::unix::fs::MetadataExt::ino(&found));
        let (pid, what) = (std::process::id(), what.into());
        Self { pid, host, what, since, pid_namespace, checks_session: false, is_run: false }
    }

    /// Describes this process, which runs a plan until it stops or is interrupted.
    pub fn running(what: impl Into<String>, since: Timestamp) -> Self {
        Self { is_run: true, ..Self::here(what, since) }
    }

    /// Describes this process, which only checks the work of a session.
    pub fn checking_session(what: impl Into<String>, since: Timestamp) -> Self {
        Self { checks_session: true, ..Self::here(what, since) }
    }

    /// Returns whether `pid` means the same process here.
    pub fn is_numbered_here(&self) -> bool {
        let here = Self::here("", self.since);
        (&self.host, self.pid_namespace) == (&here.host, here.pid_namespace)
    }

    /// Returns whether its process is dead, as far as this process can tell.
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

/// Proof of which holder of a lease a write belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fence {
    pub name: String,
    /// Incremented by every new holder.
    pub epoch: u64,
}

/// A lease that is ours until this is dropped or the process dies.
#[must_use = "a lease is given back when it is dropped"]
pub struct Lease {
    fence: Fence,
    _held: Box<dyn Send + Sync>,
}

impl Lease {
    /// Creates a lease; dropping `held` gives it back.
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

/// `Timestamp` is defined in core, which serialises events only.
mod milliseconds {
    use provost_core::model::timestamp::Timestamp;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(at: &Timestamp, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u64(at.0)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Timestamp, D::Error> {
        u64::deserialize(from).map(Timestamp)
    }
}
