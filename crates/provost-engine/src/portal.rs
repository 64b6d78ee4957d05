//! The portal's own process: behind an agent's fence, it leads the agent's connections to the proxy.

use std::ffi::OsString;

pub use provost_host::proxy::portal::Portal;

/// The hidden subcommand.
pub const COMMAND: &str = "agent-portal";

/// How the portal is started: the program that starts the scripted agent, with another word.
pub fn launcher(launcher: &[OsString]) -> Vec<OsString> {
    launcher.first().cloned().into_iter().chain([COMMAND.into()]).collect()
}
