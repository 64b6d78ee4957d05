//! Driver that runs a coding agent's command line without its user interface.
//!
//! The client is started with an output format that provost can read, and with its own folder for
//! configuration and conversations. The prompt is on stdin, which is then closed. A later attempt continues
//! the conversation by its id, in a new process.

use std::ffi::OsString;

use super::client;
use crate::Interrupted;
use crate::agent::{AgentDriver, AttemptInput, AttemptReport, Launch, start};
use crate::config::{Client, ModelServer};

/// Configuration of a headless client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Headless {
    pub client: Client,
    /// Path of its program, if it is not on the `PATH` by its usual name.
    pub program: Option<String>,
    pub model: Option<String>,
    /// Arguments added to its command line.
    pub args: Vec<String>,
    /// The server of the model, if the client does not know it.
    pub server: Option<ModelServer>,
}

impl AgentDriver for Headless {
    fn attempt(&self, work: &AttemptInput<'_>) -> Result<AttemptReport, Interrupted> {
        let model = self.model.as_deref();
        let home = match client::furnished(self.client, model, self.server.as_ref(), work) {
            Ok(home) => home,
            Err(error) => return Ok(AttemptReport::not_started(&error)),
        };
        let session = work.resume.map(|resume| resume.session);
        let args = self.client.arguments(home, model, session, &self.args);
        let program = OsString::from(self.program.as_deref().unwrap_or(self.client.word()));
        let env = client::environment(self.client, home, model);
        let launch = Launch { program: &program, args: &args, env: &env };
        let prompt = work.resume.map_or(work.prompt, |resume| resume.prompt);
        start(launch, prompt.as_bytes(), self.client.speaks(), work)
    }

    fn has_client(&self) -> bool {
        true
    }
}
