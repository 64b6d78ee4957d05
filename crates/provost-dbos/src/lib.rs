//! Spreads: the plans of many machines on one Postgres, taken up by whoever has a hand free.
//!
//! The log stays the truth, and rules and hands are the engine's. DBOS is queue and mailbox: `tick` looks at a
//! plan and offers what is next, `item` does one thing that was offered. Who is alive, who holds what and what
//! becomes of the work of the dead is ours ([`sweep`]): the SDK does not ask.
//!
//! **Invariant:** what follows from an event is enqueued in the transaction that writes the event.
//! **Invariant:** whether work is lost is decided by leases, on the clock of the database, and never by the
//! status of a queue's row.

mod error;
pub mod wire;
mod schema;
mod dispatch;
mod bell;
mod place;
mod pulse;
mod tick;
mod stint;
mod item;
mod queues;
pub mod sweep;
pub mod worker;
pub mod status;
pub mod gauges;

/// For whoever measures what the SDK costs by itself.
#[doc(hidden)]
pub use dbos;
pub use error::Error;
