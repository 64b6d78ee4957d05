//! Runs the plans of many machines on one Postgres; any worker with a free job slot takes the next item.
//!
//! The log stays the truth, and the rules and the executor are the engine's. DBOS is the queue: `tick`
//! schedules a plan and offers the next items, `item` performs one offered item. Liveness, locks and the work
//! of dead workers are handled here ([`reaper`]), because the SDK does not handle them.
//!
//! **Invariant:** the effects of an event are enqueued in the transaction that writes the event.
//! **Invariant:** leases decide whether work is lost, by the clock of the database, and never the status of a
//! queue row.

mod error;
pub mod wire;
mod schema;
mod dispatch;
mod wakeup;
mod worker_context;
mod open_items;
mod continuation;
mod outpost;
mod sweep;
mod outpost_workspace;
mod work_items;
pub mod agent_reaper;
pub mod remote;
pub mod remote_base;
pub mod health;
mod heartbeat;
mod tick;
mod item;
mod queues;
pub mod reaper;
pub mod worker;
pub mod status;
pub mod budget;
pub mod metrics;

/// For measuring the cost of the SDK itself.
#[doc(hidden)]
pub use dbos;
pub use error::Error;
