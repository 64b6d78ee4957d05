//! The process that confines itself before it becomes the program of an agent or a check.

use std::convert::Infallible;
use std::ffi::OsString;
use std::io;

/// Name of the hidden subcommand.
pub const COMMAND: &str = "fence";

/// Returns the command that starts it: the scripted agent's program with another subcommand.
pub fn launcher(launcher: &[OsString]) -> Vec<OsString> {
    launcher.first().cloned().into_iter().chain([COMMAND.into()]).collect()
}

/// Confines this process and replaces it by `command`. Returns only if a part of the confinement fails.
pub fn enter(orders: &str, command: &[OsString]) -> io::Result<Infallible> {
    provost_host::sandbox::enter(orders, command)
}
