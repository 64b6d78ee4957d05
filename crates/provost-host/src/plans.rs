//! Plan files and what lies beside them: locks, progress files, and which configuration a person trusts.

pub mod plan_file;
pub mod plan_lease;
pub mod progress;
pub mod trust;
