//! A command that the loop itself runs after edits, such as a compiler or a linter, to tell the model early
//! what it broke.
//!
//! **Invariant:** nothing here decides. The output is for the model only; the contract judges the step.

use std::time::Duration;

use super::ToolAnswer;
use super::command;
use super::files::Workspace;
use crate::truncate;

/// Most bytes of the output that the model gets without asking.
const SHOWN: usize = 4 * 1024;
const DEADLINE: Duration = Duration::from_secs(120);

#[derive(Clone, Debug)]
pub struct AfterEdit {
    command: String,
    workspace: Workspace,
}

impl AfterEdit {
    pub fn new(command: impl Into<String>, workspace: &Workspace) -> Self {
        Self { command: command.into(), workspace: workspace.clone() }
    }

    pub fn command(&self) -> &str {
        &self.command
    }

    pub(crate) async fn run(&self) -> ToolAnswer {
        command::run_in(&self.workspace, self.workspace.root(), &self.command, DEADLINE).await
    }

    /// Returns the lines for the model; of a command that succeeded, only that it did.
    pub(crate) fn shown(&self, call: u64, output: &str) -> String {
        let first = output.lines().next().unwrap_or_default();
        let output = if first == "exit code 0" { first } else { output };
        let read_on = format!("read_output with call = {call} shows them");
        let output = truncate::middle(output, SHOWN, &read_on);
        format!("\ncall:{call} after your edits, `{}` was run\n{output}", self.command)
    }
}
