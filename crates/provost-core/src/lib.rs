//! The rules of provost. Everything here is a function of its arguments: no file, no process, no
//! clock, no async. Read the folders in the order in which they
//! are declared; each uses only those before it.

#[cfg(test)]
#[path = "../../provost-rehearsal/src/skip.rs"]
mod skip;

pub mod model;
pub mod language;
pub mod state;
pub mod redact;
pub mod rules;
pub mod fleet;
pub mod text;
