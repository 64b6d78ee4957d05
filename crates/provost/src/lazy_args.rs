//! Only the command that was named is described to the reader of the command line.
//!
//! To describe all of them takes longer than most of them do, and clients start some at each turn of theirs.

use std::ffi::OsString;
use std::sync::OnceLock;

use clap::{ArgMatches, Args, Command, Error, FromArgMatches};

/// The arguments of a command, which are not described where another one was named.
#[derive(Debug)]
pub struct Described<T>(pub T);

impl<T: Args> Args for Described<T> {
    fn augment_args(command: Command) -> Command {
        if is_asked_for(command.get_name()) { T::augment_args(command) } else { command }
    }

    fn augment_args_for_update(command: Command) -> Command {
        T::augment_args_for_update(command)
    }
}

impl<T: FromArgMatches> FromArgMatches for Described<T> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        T::from_arg_matches(matches).map(Self)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        self.0.update_from_arg_matches(matches)
    }
}

/// A first word that is no flag names the command: what follows cannot be about another. Where it asks for
/// help, is a flag, or is not there, it may be about any.
fn is_asked_for(name: &str) -> bool {
    static FIRST: OnceLock<Option<OsString>> = OnceLock::new();
    let first = FIRST.get_or_init(|| std::env::args_os().nth(1));
    match first.as_ref().and_then(|word| word.to_str()) {
        None | Some("help") => true,
        Some(word) => word.starts_with('-') || word == name,
    }
}
