//! Finds the model and the project's instructions for a chat in a folder.

use std::ffi::OsString;
use std::path::Path;

use provost_host::agent::builtin::BuiltinDriver;
use provost_host::agent::instructions;
use provost_host::config::{self, BuiltinConfig, Driver};
use provost_host::files;

use crate::Error;

/// Longest file of instructions, in bytes.
const INSTRUCTIONS_MAX: usize = 64 * 1024;

/// The settings of a chat.
pub struct ChatRole {
    /// The options of the built-in agent's command.
    pub options: Vec<OsString>,
    /// The project's own instructions for agents, with the name of their file.
    pub instructions: Option<(&'static str, String)>,
}

/// Why there is no role for a chat.
#[derive(Debug, thiserror::Error)]
pub enum ChatRoleError {
    #[error("the role `{role}` is not built in")]
    NotBuiltIn { role: String },
    #[error("there is no model to talk to")]
    NoModel,
    #[error(transparent)]
    Engine(#[from] Error),
}

/// Returns the settings of the named role, or of the first that is built in; `model` replaces its model.
pub fn find(folder: &Path, role: Option<&str>, model: Option<&str>) -> Result<ChatRole, ChatRoleError> {
    let config = config::find(folder).map_err(Error::from)?;
    let built_in = |name: &str| match config.agents.get(name).map(|role| &role.driver) {
        Some(Driver::Builtin(orders)) => Some(orders.clone()),
        _ => None,
    };
    let found = match role {
        Some(role) => match built_in(role) {
            Some(orders) => Some(orders),
            None => return Err(ChatRoleError::NotBuiltIn { role: role.to_owned() }),
        },
        None => config.agents.keys().find_map(|name| built_in(name)),
    };
    let orders = match (found, model) {
        (Some(orders), None) => orders,
        // Another model has another context window.
        (Some(orders), Some(model)) => {
            BuiltinConfig { model: model.to_owned(), context_tokens: None, ..orders }
        }
        (None, Some(model)) => BuiltinConfig { model: model.to_owned(), ..BuiltinConfig::default() },
        (None, None) => return Err(ChatRoleError::NoModel),
    };
    let options = BuiltinDriver { program: OsString::new(), orders: orders.clone(), has_web: true }.options();
    let file = instructions::of(&Driver::Builtin(orders), folder);
    let text = |file: instructions::InstructionFile| {
        Some((file.name, files::beginning(folder, file.name.as_ref(), INSTRUCTIONS_MAX).ok()?))
    };
    Ok(ChatRole { options, instructions: file.and_then(text) })
}
