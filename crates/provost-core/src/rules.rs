//! The rules: which event follows from a command, what runs next, and who may decide it.

pub mod command;
pub mod quorum;
pub mod budget;
pub mod recover;
pub mod proof_map;
pub mod contract_score;
pub mod policy;
pub mod inbox;
pub mod decide;
pub mod foreign_events;
pub mod gate;
pub mod schedule;
pub mod session_work;
