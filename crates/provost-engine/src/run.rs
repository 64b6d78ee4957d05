//! Runs a plan with one of the strategies: agents, a session, a stopped session, or one that
//! another crate provides.

pub mod run_strategy;
pub mod run_environment;
pub mod proved;
pub mod run_plan;
pub(crate) mod live_session;
pub mod starting;
pub(crate) mod shared_folder_lock;
pub(crate) mod subplan_runner;
mod withdrawal;
