use std::path::{Path, PathBuf};

use clap::Command;
use clap_mangen::Man;

use crate::failure::Failure;
use crate::outcome::{Answer, Outcome};

/// Write the man pages, one per command
///
/// Packages use it: the pages are made from the same text as `--help`.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  provost man --to ~/.local/share/man/man1")]
pub(super) struct Args {
    /// Folder for the pages; provost creates it
    #[arg(long, value_name = "DIR")]
    to: PathBuf,
}

pub(super) fn obey(mut program: Command, args: Args) -> Answer {
    let folder = &args.to;
    program.build();
    std::fs::create_dir_all(folder)
        .and_then(|()| write(&program, folder))
        .map_err(|source| Failure::Io { what: format!("write man pages to {}", folder.display()), source })?;
    Ok(Outcome::Done)
}

/// Writes the page of a command and those of its subcommands. Hidden commands and clap's `help` have none.
fn write(command: &Command, folder: &Path) -> std::io::Result<()> {
    for below in command.get_subcommands().filter(|below| !below.is_hide_set() && below.get_name() != "help")
    {
        write(below, folder)?;
    }
    // The place of the date: without one, readers of the page take the next field for it.
    let page = Man::new(command.clone()).date(env!("PROVOST_VERSION")).source("provost").manual("provost");
    page.generate_to(folder).map(|_| ())
}
