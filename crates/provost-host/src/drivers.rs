//! Creates the driver of a role from the configuration.

use std::ffi::OsString;

use crate::agent::AgentDriver;
use crate::agent::acp::Acp;
use crate::agent::builtin::BuiltinDriver;
use crate::agent::command::CommandDriver;
use crate::agent::headless::Headless;
use crate::agent::scripted::ScriptedDriver;
use crate::config::{Config, Driver};

/// Returns the driver of a role, or a message for the person who configures it.
pub fn agent(config: &Config, role: &str, launcher: &[OsString]) -> Result<Box<dyn AgentDriver>, String> {
    let Some(found) = config.agents.get(role) else {
        return Err(format!("no agent is configured for `{role}`: add [agents.{role}] to provost.toml"));
    };
    match &found.driver {
        Driver::Command { command } => match CommandDriver::new(command.iter().cloned()) {
            Some(agent) => Ok(Box::new(agent.speaking(found.speaks))),
            None => Err(format!("[agents.{role}] has an empty command")),
        },
        Driver::Scripted { script } => {
            Ok(Box::new(ScriptedDriver { launcher: launcher.to_vec(), script: script.clone() }))
        }
        Driver::Builtin(orders) => Ok(Box::new(BuiltinDriver {
            program: launcher.first().cloned().unwrap_or_default(),
            orders: orders.clone(),
            has_web: found.reads_web,
        })),
        Driver::Client { client, program, args, server } => Ok(Box::new(Headless {
            client: *client,
            program: program.clone(),
            model: found.model.clone(),
            args: args.clone(),
            server: server.clone(),
        })),
        Driver::Acp { command, permissions, mode } => match Acp::new(command) {
            Some(agent) => Ok(Box::new(Acp {
                model: found.model.clone(),
                mode: mode.clone(),
                permissions: *permissions,
                ..agent
            })),
            None => Err(format!("[agents.{role}] has an empty command")),
        },
    }
}
