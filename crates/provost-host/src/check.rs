//! Runs contracts: verdicts, negative controls, dependencies and build caches.

pub mod judge;
pub mod project_tools;
pub mod negative_control;
pub mod provision;
pub mod build_cache;
pub mod visible_paths;
