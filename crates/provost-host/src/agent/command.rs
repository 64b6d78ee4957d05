//! Driver that runs any program as an agent: `claude -p`, `codex exec`, a script.
//!
//! The program gets the prompt on stdin, or in place of the argument `{prompt}`. Its output is the report,
//! read in the configured format.

use std::ffi::OsString;

use crate::Interrupted;
use crate::agent::{AgentDriver, AttemptInput, AttemptReport, Launch, start};
use crate::config::Speaks;

/// The argument that is replaced by the prompt.
pub const PLACEHOLDER: &str = "{prompt}";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandDriver {
    pub program: OsString,
    pub args: Vec<OsString>,
    pub speaks: Speaks,
}

impl CommandDriver {
    /// Returns `None` for an empty command line.
    pub fn new(argv: impl IntoIterator<Item = impl Into<OsString>>) -> Option<Self> {
        let mut argv = argv.into_iter().map(Into::into);
        Some(Self { program: argv.next()?, args: argv.collect(), speaks: Speaks::Text })
    }

    pub fn speaking(self, speaks: Speaks) -> Self {
        Self { speaks, ..self }
    }
}

impl AgentDriver for CommandDriver {
    fn attempt(&self, work: &AttemptInput<'_>) -> Result<AttemptReport, Interrupted> {
        let launch = Launch { program: &self.program, args: &self.args, env: &[] };
        // The arguments that would continue a conversation are unknown for an arbitrary program.
        let alone = |attempt: AttemptReport| AttemptReport { session: None, ..attempt };
        if !self.args.iter().any(|arg| arg == PLACEHOLDER) {
            return start(launch, work.prompt.as_bytes(), self.speaks, work).map(alone);
        }
        let fill =
            |arg: &OsString| if arg == PLACEHOLDER { OsString::from(work.prompt) } else { arg.clone() };
        let args: Vec<OsString> = self.args.iter().map(fill).collect();
        start(Launch { args: &args, ..launch }, b"", self.speaks, work).map(alone)
    }
}
