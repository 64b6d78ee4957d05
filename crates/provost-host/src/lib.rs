//! Runs child processes, judges contracts, drives agents, and reads and writes plan files.
//!
//! No module here reads the log or decides what happens next. Each function performs one operation on the
//! machine and returns what it observed.
//!
//! **Invariant:** only [`process`] starts child processes. When a call of it returns, every process it
//! started is dead or named as a survivor. Only [`check::judge`] makes verdicts.

pub mod activity;
pub mod process;
pub mod files;
pub mod git;
pub mod config;
pub mod plans;
pub mod tree;
pub mod sandbox;
pub mod check;
pub mod egress;
pub mod agent;
pub mod drivers;
pub mod exec;
pub mod worktree;
pub mod survey;
pub mod project;
pub mod notify;

/// Error: the caller asked for a stop while a child was running. The child is dead; its result is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("stopped before the end")]
pub struct Interrupted;
