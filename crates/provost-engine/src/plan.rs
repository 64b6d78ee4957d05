//! The plan: its handle, its file, its log, and the commands it accepts.

pub mod plan_context;
pub mod plan_registry;
pub mod sessions;
pub mod human_check;
pub mod gate;
pub mod prove;
pub(crate) mod past_levels;
pub(crate) mod section_trust;
pub mod audit;
pub mod subplan;
pub mod harness;
pub mod reading;
pub mod uncommitted;
pub mod kept_trees;
pub mod commit;
pub mod step_changes;
pub(crate) mod authorization;
pub mod recording;
pub mod queries;
pub mod commands;
pub mod outside;
pub mod tamper_watch;
pub mod projections;
