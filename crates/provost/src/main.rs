//! Obeys: reads the command line, calls one command, and turns its end into an exit code.

mod cmd;
mod demo;
mod diagnose;
mod failure;
mod outcome;
mod place;
mod terminal;

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    let cli = match cmd::Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are answers; everything else is a usage error.
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { outcome::USAGE } else { 0 });
        }
    };
    outcome::conclude(cmd::obey(cli))
}
