//! Describes a run: the current plan, and one line per event.
//!
//! The terminal, the progress file and other readers use it. It has no colour, no width and no clock; callers
//! add those.

pub mod base;
pub mod graph;
pub mod transcript;
mod event_line;
mod plan_text;

pub use event_line::{EventLine, Symbol, event};
pub use plan_text::plan;
