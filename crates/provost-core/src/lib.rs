//! The rules of provost. Everything here is a function of its arguments: no file, no process, no
//! clock, no async. Read the modules in the order in which they are declared.

pub mod plan;
pub mod diagnostic;
pub mod near;
pub mod parse;
pub mod shell;
pub mod oracle;
pub mod runner;
pub mod facts;
pub mod verify;
pub mod verdict;
pub mod terms;
pub mod usage;
pub mod law;
pub mod event;
pub mod chain;
pub mod proof;
pub mod command;
pub mod ledger;
pub mod run;
pub mod budget;
pub mod inbox;
pub mod decide;
pub mod doors;
pub mod summary;
pub mod recover;
pub mod schedule;
pub mod gate;
pub mod policy;
pub mod draft;
pub mod prompt;
pub mod dialect;
pub mod render;
pub mod redact;
