//! The binary under test: real processes, real git, a real log, real kills.

mod env;

mod bad_input;
mod bad_repository;
mod bounds;
mod budget;
mod builtin;
mod cheating;
mod checklist;
mod ci;
mod commit;
mod demo;
mod doors;
mod drivers;
mod follow;
mod gate;
mod hook;
mod inbox;
mod init;
mod kill;
mod levels;
mod notify;
mod log;
mod mcp;
mod otel;
mod meter;
mod private;
mod proof;
mod provision;
mod reach;
mod recovery;
mod redteam;
mod run;
mod teeth;
mod terminal;
mod tidy;
