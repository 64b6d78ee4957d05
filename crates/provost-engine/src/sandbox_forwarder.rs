//! The sandbox forwarder: a process inside the agent's sandbox that forwards its connections to the proxy.

use std::ffi::OsString;

pub use provost_host::egress::proxy::sandbox_forwarder::Forwarder;

/// Name of the hidden subcommand.
pub const COMMAND: &str = "agent-portal";

/// Returns the command that starts the forwarder: the scripted agent's program with another subcommand.
pub fn launcher(launcher: &[OsString]) -> Vec<OsString> {
    launcher.first().cloned().into_iter().chain([COMMAND.into()]).collect()
}
