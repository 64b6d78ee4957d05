//! Gives clap the arguments of the named command only.
//!
//! To describe the arguments of all commands takes longer than most commands run, and clients start some
//! of them at each turn.

use std::ffi::OsString;
use std::sync::OnceLock;

use clap::{ArgMatches, Args, Command, Error, FromArgMatches};

/// Arguments of a command; they are empty if another command is named.
#[derive(Debug)]
pub(crate) struct Described<T>(pub T);

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

/// Returns whether the arguments of this command are needed. The first word decides if it is a command; with
/// `help`, `man` or a flag all commands are needed, and without a word none is.
fn is_asked_for(name: &str) -> bool {
    // A test reads the definition of all commands.
    if cfg!(test) {
        return true;
    }
    static FIRST: OnceLock<Option<OsString>> = OnceLock::new();
    let first = FIRST.get_or_init(|| std::env::args_os().nth(1));
    match first.as_ref().and_then(|word| word.to_str()) {
        None => false,
        Some("help" | "man") => true,
        Some(word) => word.starts_with('-') || word == name,
    }
}
