//! The execution environment of attempts and checks: sandbox, trees, access, and changes outside of `touches`.

pub mod environment;
pub mod access;
pub mod outside_changes;
