//! The rules of provost. Everything here is a function of its arguments: no file, no process, no
//! clock, no async. Read the modules in the order in which they are declared.

pub mod plan;
pub mod diagnostic;
pub mod facts;
pub mod verdict;
pub mod event;
pub mod chain;
