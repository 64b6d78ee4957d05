//! The rules of provost. Every function here depends only on its arguments: no file, no process, no clock, no
//! async. The folders are declared in reading order; each uses only the folders before it.

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
