//! A coding agent with a command line of its own, run headless.
//!
//! It is started in the form in which its report can be read, with a folder of its own for configuration and
//! conversations. The prompt is on stdin, whole, and then there is nothing to wait for. A conversation is
//! gone on with by its name, in a process of its own.

use std::ffi::OsString;

use super::client;
use crate::Interrupted;
use crate::agent::{Agent, Attempt, Launch, Work, start};
use crate::config::Client;

/// One of them as an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Headless {
    pub client: Client,
    /// Where its program is, if not on the `PATH` by its usual name.
    pub program: Option<String>,
    pub model: Option<String>,
    /// Added to its command line.
    pub args: Vec<String>,
}

impl Agent for Headless {
    fn attempt(&self, work: &Work<'_>) -> Result<Attempt, Interrupted> {
        let model = self.model.as_deref();
        let home = match client::furnished(self.client, model, work) {
            Ok(home) => home,
            Err(error) => return Ok(Attempt::not_started(&error)),
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
