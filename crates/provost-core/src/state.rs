//! The state of a run, folded from its events.

pub mod spending;
pub mod run;
