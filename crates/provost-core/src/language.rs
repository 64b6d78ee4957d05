//! The plan language: reads and writes plan files, and finds what is wrong with them.

pub mod diagnostic;
pub mod globs;
pub mod named_checks;
pub mod parse;
pub mod shell;
pub mod shell_word;
pub mod test_files;
pub mod source_code;
pub mod sabotage;
pub mod hunks;
pub mod recipes;
pub mod runner;
pub mod tool_names;
pub mod inconclusive_failure;
pub mod hidden_output;
pub mod observation;
pub mod contract_signs;
pub mod task_names;
pub mod facts;
pub mod verify;
pub mod template;
pub mod plan_writer;
pub mod patch;
