use std::ffi::OsString;

use clap::Parser as _;
use provost_engine::exec::confined::COMMAND;

use crate::failure::Failure;
use crate::outcome::Answer;

/// Drop privileges, then execute an agent or a check (internal: provost starts it)
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Privileges to drop
    orders: String,
    #[arg(last = true)]
    command: Vec<OsString>,
}

/// Parses the command line if it names this command, without the cost of parsing all other commands.
pub(crate) fn alone() -> Option<Args> {
    #[derive(clap::Parser)]
    struct Alone {
        #[command(flatten)]
        args: Args,
    }
    let mut words = std::env::args_os().skip(1);
    (words.next()? == COMMAND).then(|| Alone::parse_from([COMMAND.into()].into_iter().chain(words)).args)
}

pub(crate) fn obey(args: Args) -> Answer {
    let failed = |source| Failure::Io { what: "enter the sandbox".to_owned(), source };
    match provost_engine::exec::confined::enter(&args.orders, &args.command).map_err(failed)? {}
}
