//! Touches the machine: starts children, judges contracts, drives agents, reads and writes plan files.
//!
//! Nothing here knows the log or decides what happens next; every function does one thing in the world
//! and says what it saw.
//!
//! **Invariant:** [`process`] is the only room that starts a child, and nothing it started outlives it
//! unnamed. [`judge`] is the only room that makes a verdict.

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

/// Somebody asked for a stop while a child was at work. It is dead; what it did is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("stopped before the end")]
pub struct Interrupted;
