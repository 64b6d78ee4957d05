//! `provost-check`: recipes for contracts that are not tests, on the `PATH` of every check.
//!
//! It is provost's own program under another name, so a check needs nothing else. `provost check-helper`
//! starts it outside of a check.
//!
//! **Invariant:** a recipe ends with 0 only if everything it was asked for holds.

mod api;
mod base_tree;
mod browser;
mod command;
mod coverage;
mod ending;
mod faster;
mod http;
mod links;
mod migration;
mod page;
mod schema;
mod screenshot;
mod service;
mod size;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use clap::Parser as _;
use provost_core::language::recipes;

use ending::Ending;

/// The word that starts it outside of a check.
const COMMAND: &str = "check-helper";

/// Recipes for contracts that are not tests
///
/// Each recipe starts what it needs, looks at the result, and stops everything that it started.
#[derive(clap::Parser, Debug)]
#[command(
    name = recipes::PROGRAM,
    version = env!("PROVOST_VERSION"),
    max_term_width = 100,
    after_help = "\
Examples:
  provost-check http --path /health --contains ok -- python3 app.py
  provost-check size dist/app.js --max 200kB
  provost-check faster --ratio 0.8 -- ./bench.sh
  provost-check api --new openapi.json
  provost-check migration --up './migrate up' --down './migrate down' --dump 'sqlite3 app.db .schema'
  provost-check coverage --lcov lcov.info --min 80
  provost-check links docs
  provost-check page --text Welcome --no-console-errors -- python3 app.py
  provost-check screenshot --max-difference 0.5% -- npm start

Exit codes: 0 it holds · 1 it does not hold · 2 usage · 69 it could not be run"
)]
struct HelperCli {
    #[command(subcommand)]
    recipe: Recipe,
}

#[derive(clap::Subcommand, Debug)]
enum Recipe {
    Http(http::Args),
    Size(size::Args),
    Faster(faster::Args),
    Api(api::Args),
    Migration(migration::Args),
    Coverage(coverage::Args),
    Links(links::Args),
    Page(page::Args),
    Screenshot(screenshot::Args),
}

/// Runs a recipe if the program was started for one.
pub(crate) fn alone() -> Option<ExitCode> {
    let mut words = std::env::args_os();
    let own = words.next()?;
    let is_named = Path::new(&own).file_name().is_some_and(|name| name == recipes::PROGRAM);
    if !is_named && words.next()? != COMMAND {
        return None;
    }
    let words = std::iter::once(OsString::from(recipes::PROGRAM)).chain(words);
    Some(match HelperCli::try_parse_from(words) {
        Ok(cli) => conclude(obey(cli.recipe)),
        Err(error) => {
            let _ = error.print();
            ExitCode::from(if error.use_stderr() { crate::outcome::USAGE } else { 0 })
        }
    })
}

fn obey(recipe: Recipe) -> Result<String, Ending> {
    service::watch_signals();
    match recipe {
        Recipe::Http(args) => http::obey(&args),
        Recipe::Size(args) => size::obey(&args),
        Recipe::Faster(args) => faster::obey(&args),
        Recipe::Api(args) => api::obey(&args),
        Recipe::Migration(args) => migration::obey(&args),
        Recipe::Coverage(args) => coverage::obey(&args),
        Recipe::Links(args) => links::obey(&args),
        Recipe::Page(args) => page::obey(&args),
        Recipe::Screenshot(args) => screenshot::obey(&args),
    }
}

/// Prints how a recipe ended, and returns its exit code.
fn conclude(found: Result<String, Ending>) -> ExitCode {
    let (text, code) = match found {
        Ok(text) => {
            let _ = crate::terminal::print(&format!("holds: {text}\n"));
            return ExitCode::SUCCESS;
        }
        Err(Ending::Unmet(text)) => (format!("does not hold: {text}"), crate::outcome::FAILED),
        Err(Ending::Usage(text)) => (format!("{}: {text}", recipes::PROGRAM), crate::outcome::USAGE),
        Err(Ending::NotRun(text)) => (format!("{}{text}", recipes::NOT_RUN), recipes::NOT_RUN_CODE),
    };
    crate::terminal::talk(&text);
    ExitCode::from(code)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn verify_knows_every_recipe_and_each_has_an_example() {
        let command = HelperCli::command();
        let names: Vec<&str> = command.get_subcommands().map(clap::Command::get_name).collect();
        assert_eq!(names, recipes::NAMES);
        let shown = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        for recipe in command.get_subcommands() {
            let call = format!("{} {}", recipes::PROGRAM, recipe.get_name());
            assert!(shown.contains(&call), "the help lacks an example of {call}");
            let help = recipe.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.contains(&call), "{call} --help lacks an example");
        }
    }
}
