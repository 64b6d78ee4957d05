//! The rules of provost. Everything here is a function of its arguments: no file, no process, no
//! clock, no async. Read the modules in the order in which they are declared.

#[cfg(test)]
#[path = "../../provost-rehearsal/src/skip.rs"]
mod skip;

pub mod pass;
pub mod plan;
pub mod graph;
pub mod diagnostic;
pub mod near;
pub mod scope;
pub mod parse;
pub mod shell;
pub mod oracle;
pub mod runner;
pub mod tools;
pub mod unable;
pub mod facts;
pub mod verify;
pub mod judgement;
pub mod verdict;
pub mod terms;
pub mod usage;
pub mod law;
pub mod patch;
pub mod event;
pub mod chain;
pub mod proof;
pub mod command;
pub mod ledger;
pub mod run;
pub mod quorum;
pub mod budget;
pub mod inbox;
pub mod decide;
pub mod doors;
pub mod agenda;
pub mod summary;
pub mod recover;
pub mod schedule;
pub mod item;
pub mod labels;
pub mod train;
pub mod gate;
pub mod policy;
pub mod draft;
pub mod quote;
pub mod prompt;
pub mod dialect;
pub mod template;
pub mod proposal;
pub mod render;
pub mod redact;
