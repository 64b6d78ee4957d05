//! Obeys: reads the command line, calls one command, and turns its end into an exit code.

mod clients;
mod cmd;
mod demo;
mod lazy_args;
mod diagnose;
mod failure;
mod input;
mod outcome;
mod open_plan;
mod plan_document;
mod hardening;
mod report;
mod table;
mod terminal;
mod watch;

use std::process::ExitCode;

use clap::Parser as _;

/// As the reader of the command line says it, too.
const VERSION: &str = concat!("provost ", env!("CARGO_PKG_VERSION"), "\n");

fn main() -> ExitCode {
    // Started for each check: it has no time for the command line of all the others.
    if let Some(args) = cmd::fence::alone() {
        return outcome::conclude(cmd::fence::obey(args));
    }
    if let Some(code) = cmd::hook::alone() {
        return code;
    }
    if std::env::args_os().skip(1).eq(["--version"]) {
        return outcome::conclude(terminal::print(VERSION).map(|()| outcome::Outcome::Done));
    }
    let cli = match cmd::Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are answers; everything else is a usage error.
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { outcome::USAGE } else { 0 });
        }
    };
    if !cli.is_an_agent() {
        hardening::hide();
    }
    if cli.starts_agents_or_checks()
        && let Err(failure) = hardening::shut()
    {
        return outcome::conclude(Err(failure));
    }
    outcome::conclude(cmd::obey(cli))
}
