//! The program: parses the command line, runs one command, and turns its result into an exit code.

mod activity_line;
mod chat;
mod check_helper;
mod clients;
#[cfg(feature = "cluster")]
mod cluster_rows;
mod cmd;
mod completion;
mod demo;
mod lazy_args;
mod diagnose;
mod failure;
mod input;
mod outcome;
mod open_plan;
mod plan_document;
mod proof_lines;
mod hardening;
mod help_groups;
mod here;
mod hints;
mod lsp;
mod report;
mod run_view;
mod start;
mod table;
mod terminal;
mod visible_text;
mod watch;

use std::process::ExitCode;

use clap::CommandFactory as _;

/// The same text as clap prints.
const VERSION: &str = concat!("provost ", env!("PROVOST_VERSION"), "\n");

fn main() -> ExitCode {
    // Runs once per check, so it must not parse the arguments of all commands.
    if let Some(args) = cmd::fence::alone() {
        return outcome::conclude(cmd::fence::obey(args));
    }
    if let Some(code) = check_helper::alone() {
        return code;
    }
    if let Some(code) = cmd::hook::alone() {
        return code;
    }
    if std::env::args_os().skip(1).eq(["--version"]) {
        return outcome::conclude(terminal::print(VERSION).map(|()| outcome::Outcome::Done));
    }
    if let Some(code) = completion::answer(cmd::Cli::command) {
        return code;
    }
    let cli = match cmd::parse() {
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
