//! Runs child processes, judges contracts, drives agents, and reads and writes plan files.
//!
//! No module here reads the log or decides what happens next. Each function performs one operation on the
//! machine and returns what it observed.
//!
//! **Invariant:** only [`process`] starts child processes. When a call of it returns, every process it
//! started is dead or named as a survivor. Only [`judge`] makes verdicts.

pub mod process;
mod safe_open;
pub mod tree;
pub mod sandbox;
pub mod judge;
mod wires;
pub mod proxy;
pub mod collector;
pub mod meter;
pub mod agent;
pub mod prices;
pub mod config;
pub mod plan_file;
pub mod plan_lease;
pub mod progress;
pub mod files;
mod folder;
pub mod git;
pub mod provision;
pub mod builds;
pub mod teeth;
pub mod reach;
pub mod outside;
pub mod trust;
pub mod ground;
pub mod worktree;
pub mod sight;
pub mod survey;
pub mod roster;
pub mod notify;

/// Error: the caller asked for a stop while a child was running. The child is dead; its result is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("stopped before the end")]
pub struct Interrupted;
