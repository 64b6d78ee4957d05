//! Finds the agents that are installed here, and names the driver for each.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use super::Ground;

/// An agent on `PATH`, and how a role uses it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct InstalledAgent {
    pub name: String,
    pub program: PathBuf,
    /// The keys of its section in `provost.toml`.
    pub keys: String,
}

/// Clients with a driver of their own.
pub(crate) const CLIENTS: [&str; 4] = ["claude", "codex", "gemini", "opencode"];
/// How programs that speak the Agent Client Protocol are called, by convention.
const ACP: &str = "-acp";

impl Ground {
    /// Returns the installed agents: clients with a driver first, then agents that speak ACP.
    pub(crate) fn installed_agents(&self) -> Vec<InstalledAgent> {
        let clients = CLIENTS.iter().filter_map(|name| {
            let keys = format!("driver = \"{name}\"\n");
            Some(InstalledAgent { name: (*name).to_owned(), program: self.program_on_path(name)?, keys })
        });
        let mut found: Vec<InstalledAgent> = clients.collect();
        for program in self.programs_ending_with(ACP) {
            let name = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if !found.iter().any(|other| other.name == name) {
                found.push(acp(&[name], program));
            }
        }
        if let Some(program) = self.program_on_path("goose") {
            found.push(acp(&["goose".to_owned(), "acp".to_owned()], program));
        }
        found
    }

    /// Returns the agent that a person named: a client, or the command of an agent that speaks ACP.
    pub(crate) fn agent_named(&self, wanted: &str) -> Option<InstalledAgent> {
        let known = self.installed_agents().into_iter().find(|agent| agent.name == wanted);
        known.or_else(|| {
            let words: Vec<String> = wanted.split_whitespace().map(str::to_owned).collect();
            let program = words.first().filter(|program| !CLIENTS.contains(&program.as_str()))?;
            let program = if program.contains('/') {
                Some(PathBuf::from(program)).filter(|program| is_program(program))
            } else {
                self.program_on_path(program)
            };
            Some(acp(&words, program?))
        })
    }

    fn programs_ending_with(&self, ending: &str) -> Vec<PathBuf> {
        let folders = self.variable("PATH").map(std::env::split_paths).into_iter().flatten();
        let entries = folders.filter_map(|folder| std::fs::read_dir(folder).ok()).flatten().flatten();
        let paths = entries.map(|entry| entry.path());
        let mut found: Vec<PathBuf> =
            paths.filter(|path| path.to_string_lossy().ends_with(ending) && is_program(path)).collect();
        found.sort();
        found
    }
}

pub(super) fn is_program(path: &Path) -> bool {
    path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

fn acp(command: &[String], program: PathBuf) -> InstalledAgent {
    let words: Vec<toml::Value> = command.iter().cloned().map(toml::Value::String).collect();
    InstalledAgent {
        name: command.first().cloned().unwrap_or_default(),
        program,
        keys: format!("driver = \"acp\"\ncommand = {}\n", toml::Value::Array(words)),
    }
}
