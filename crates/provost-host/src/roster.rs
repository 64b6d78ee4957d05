//! Which agent a role is, by the configuration.

use std::ffi::OsString;

use crate::agent::Agent;
use crate::agent::command::Command;
use crate::agent::scripted::Scripted;
use crate::config::{Config, Driver};

/// The agent of a role, or why there is none, in words for the person who configures it.
pub fn agent(config: &Config, role: &str, launcher: &[OsString]) -> Result<Box<dyn Agent>, String> {
    let Some(found) = config.agents.get(role) else {
        return Err(format!("no agent is configured for `{role}`: add [agents.{role}] to provost.toml"));
    };
    match &found.driver {
        Driver::Command { command } => match Command::new(command.iter().cloned()) {
            Some(agent) => Ok(Box::new(agent.speaking(found.speaks))),
            None => Err(format!("[agents.{role}] has an empty command")),
        },
        Driver::Scripted { script } => {
            Ok(Box::new(Scripted { launcher: launcher.to_vec(), script: script.clone() }))
        }
        driver @ (Driver::Human | Driver::Acp { .. } | Driver::Builtin { .. }) => Err(format!(
            "[agents.{role}] wants the driver `{}`, which this version does not have",
            driver.word()
        )),
    }
}
