//! The process of an agent or a check that confines itself, before it becomes the program that is meant.

use std::convert::Infallible;
use std::ffi::OsString;
use std::io;

/// The hidden subcommand.
pub const COMMAND: &str = "fence";

/// How it is started: the program that starts the scripted agent, with another word.
pub fn launcher(launcher: &[OsString]) -> Vec<OsString> {
    launcher.first().cloned().into_iter().chain([COMMAND.into()]).collect()
}

/// Returns only where something that was ordered cannot be had.
pub fn enter(orders: &str, command: &[OsString]) -> io::Result<Infallible> {
    provost_host::sandbox::enter(orders, command)
}
