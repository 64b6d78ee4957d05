//! Runs plans: connects the rules (core), the log (store) and the machine (host).
//!
//! The crate is also the entry point for commands of people and agents. It asks core for every decision, host
//! for every effect on the machine, and writes what happened to the store.
//!
//! The modules are layers; each uses only those above it in this file's list.

mod uncommitted_files;
mod error;
pub mod workplace;
pub mod settings;
pub mod journal;
pub mod run_loop;
pub mod plan;
pub mod exec;
pub mod observe;
pub mod run;
pub mod session;
pub mod manage;
pub mod train;
pub mod sandbox_forwarder;
pub mod scripted;

pub use error::{CommandOrigin, Error};
pub use provost_host::activity;
pub use provost_host::config::{Error as ConfigError, SessionGate, SignInMatch};
pub use provost_host::egress::provider_client::{ProviderAnswer, ProviderClient};
pub use provost_host::exec::environment::Error as GroundError;
pub use provost_host::files::{Put, make_private_folder, write_new_file, write_report};
pub use provost_host::notify::collector::{Collector, Error as CollectorError};
pub use provost_host::plans::plan_file::Error as PlanFileError;
pub use provost_host::plans::plan_lease::Error as PlanLeaseError;
pub use provost_host::plans::trust;
pub use provost_host::project;
pub use provost_host::tree::{BadRemote, Error as TreeError};
pub use provost_host::worktree::Error as WorktreeError;
pub use provost_store::{Cursor, Error as StoreError, Query};
