//! `provost-check migration`: a migration changes the schema, and its reverse restores it.

use std::path::Path;

use similar::TextDiff;

use super::command;
use super::ending::Ending;

/// Most lines of a difference that are shown.
const LINES: usize = 40;

/// Check that a migration changes the schema, and that its reverse restores it
///
/// Dumps the schema, runs --up, --down and --up again, and compares the dumps. The database is the one that
/// the commands use: a check has a tree of its own, so a file in it is not the one of the workspace.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  provost-check migration --up './migrate up' --down './migrate down' --dump 'sqlite3 app.db .schema'
  provost-check migration --idempotent --up 'psql -f up.sql' --down 'psql -f down.sql' --dump 'pg_dump -s'")]
pub(super) struct Args {
    /// The command that migrates
    #[arg(long, value_name = "COMMAND")]
    up: String,
    /// The command that takes the migration back
    #[arg(long, value_name = "COMMAND")]
    down: String,
    /// The command that prints the schema
    #[arg(long, value_name = "COMMAND")]
    dump: String,
    /// A second --up must be refused or change nothing
    #[arg(long)]
    idempotent: bool,
}

pub(super) fn obey(args: &Args) -> Result<String, Ending> {
    // A dump that fails says nothing about the migration.
    let dump = || run("--dump", &args.dump).map_err(|ending| Ending::NotRun(text(ending)));
    let before = dump()?;
    run("--up", &args.up)?;
    let after = dump()?;
    if after == before {
        return Err(Ending::Unmet("--up did not change the schema".to_owned()));
    }
    if args.idempotent {
        let again = command::shell(&args.up, Path::new("."))?;
        let how = if again.status.success() { "a second --up" } else { "a second --up, which was refused," };
        equal(&after, &dump()?, &format!("{how} changed the schema"))?;
    }
    run("--down", &args.down)?;
    equal(&before, &dump()?, "--down did not restore the schema")?;
    run("--up", &args.up).map_err(|ending| {
        Ending::Unmet(format!("after --down, --up does not work again: {}", text(ending)))
    })?;
    equal(&after, &dump()?, "after --down, --up made another schema than before")?;
    Ok("--up changes the schema, --down restores it, and --up works again".to_owned())
}

fn text(ending: Ending) -> String {
    match ending {
        Ending::Unmet(text) | Ending::NotRun(text) | Ending::Usage(text) => text,
    }
}

/// Runs a command, and returns what it printed.
fn run(name: &str, line: &str) -> Result<String, Ending> {
    let output = command::shell(line, Path::new("."))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => {
            let (how, said) = (command::ended(output.status), command::said(&output));
            Err(Ending::Unmet(format!("{name} ended with {how}{said}")))
        }
    }
}

fn equal(wanted: &str, found: &str, why: &str) -> Result<(), Ending> {
    if wanted == found {
        return Ok(());
    }
    let diff = TextDiff::from_lines(wanted, found);
    let diff = diff.unified_diff().context_radius(1).to_string();
    let shown: String = diff.lines().take(LINES).map(|line| format!("\n  {line}")).collect();
    Err(Ending::Unmet(format!("{why}:{shown}")))
}
