//! Finds the project's instructions for agents: AGENTS.md, CLAUDE.md or GEMINI.md.
//!
//! A client that reads a file of the workspace by itself keeps doing so. For all others, and where only
//! another client's file is there, the text goes into the first prompt.

use std::path::Path;

use crate::config::{Client, Driver};
use crate::files;

const ALL: [&str; 3] = ["AGENTS.md", "CLAUDE.md", "GEMINI.md"];

/// The file with the instructions for the agent of a role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InstructionFile {
    pub name: &'static str,
    /// The agent does not read it by itself.
    pub in_prompt: bool,
}

impl InstructionFile {
    /// Returns its name with the beginning of its digest, for a person.
    pub fn with_digest(self, workspace: &Path) -> Option<String> {
        let digest = files::digests(workspace, &[self.name.to_owned()]).pop()?.sha256;
        Some(format!("{} (sha256 {})", self.name, digest.get(..12)?))
    }
}

/// Returns the file for an agent with this driver; `None` if there is none, or if provost does not know what
/// the agent reads.
pub fn of(driver: &Driver, workspace: &Path) -> Option<InstructionFile> {
    // The files that the agent reads by itself, then the file that it prefers.
    let (own, preferred): (&[&str], &str) = match driver {
        Driver::Scripted { .. } | Driver::Command { .. } => return None,
        Driver::Builtin(_) => (&[], "AGENTS.md"),
        // It starts without the settings of the project, and so without its CLAUDE.md.
        Driver::Client { client: Client::Claude, .. } => (&[], "CLAUDE.md"),
        Driver::Client { client, .. } => reads(*client),
        Driver::Acp { command, .. } => reads(Client::of(command)?),
    };
    if let Some(name) = ALL.into_iter().find(|name| own.contains(name) && workspace.join(name).is_file()) {
        return Some(InstructionFile { name, in_prompt: false });
    }
    // Skips links: CLAUDE.md is often a link to AGENTS.md, and then AGENTS.md is used.
    let is_there = |name: &str| workspace.join(name).symlink_metadata().is_ok_and(|found| found.is_file());
    let mut all = ALL.into_iter().filter(|name| *name == preferred).chain(ALL);
    all.find(|name| is_there(name)).map(|name| InstructionFile { name, in_prompt: true })
}

fn reads(client: Client) -> (&'static [&'static str], &'static str) {
    match client {
        Client::Claude => (&["CLAUDE.md"], "CLAUDE.md"),
        Client::Codex => (&["AGENTS.md"], "AGENTS.md"),
        Client::Gemini => (&["GEMINI.md"], "GEMINI.md"),
        Client::Opencode => (&["AGENTS.md", "CLAUDE.md"], "AGENTS.md"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::BuiltinConfig;

    #[test]
    fn the_agents_own_file_comes_first_and_any_other_goes_into_the_prompt() {
        let client = |client| Driver::Client { client, program: None, args: Vec::new(), server: None };
        let (claude, codex) = (client(Client::Claude), client(Client::Codex));
        let (gemini, builtin) = (client(Client::Gemini), Driver::Builtin(BuiltinConfig::default()));
        let folder = tempfile::tempdir().expect("a folder");
        let found = |driver: &Driver| of(driver, folder.path()).map(|file| (file.name, file.in_prompt));
        assert_eq!(found(&claude), None);
        std::fs::write(folder.path().join("CLAUDE.md"), "tabs\n").expect("a file");
        let drivers = [&claude, &codex, &gemini, &builtin];
        assert!(drivers.iter().all(|driver| found(driver) == Some(("CLAUDE.md", true))));
        assert_eq!(found(&client(Client::Opencode)), Some(("CLAUDE.md", false)));
        std::fs::rename(folder.path().join("CLAUDE.md"), folder.path().join("AGENTS.md")).expect("a file");
        std::os::unix::fs::symlink("AGENTS.md", folder.path().join("CLAUDE.md")).expect("a link");
        assert_eq!(found(&claude), Some(("AGENTS.md", true)));
        assert_eq!(found(&codex), Some(("AGENTS.md", false)));
        let acp = Driver::Acp {
            command: vec!["claude-agent-acp".to_owned()],
            permissions: Default::default(),
            mode: None,
        };
        assert_eq!(found(&acp), Some(("CLAUDE.md", false)));
        assert_eq!(found(&Driver::Command { command: vec!["claude".to_owned()] }), None);
    }
}
