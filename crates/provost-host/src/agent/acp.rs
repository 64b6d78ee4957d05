//! Driver for agents that speak the Agent Client Protocol (ACP) over stdin and stdout.
//!
//! ACP is JSON-RPC, one message a line. provost sends seven kinds of messages, which are written by hand
//! here: a peer may send anything, and no async runtime is needed. One process lasts one turn. When the
//! agent ends its turn, the process ends and provost judges; a later attempt resumes the conversation by
//! its id, if the agent supports that.
//!
//! **Invariant:** nothing a peer sends makes the driver fail, wait longer than the attempt may take, or
//! hold more memory than one line may have.

use std::ffi::OsString;
use std::path::Path;

use provost_core::model::event::AttemptEnd;
use provost_core::model::plan::Stream;
use serde_json::{Value, json};

use super::client;
use crate::agent::transcript::EntrySink;
use crate::agent::{
    AgentDriver, AttemptInput, AttemptReport, Behind, Launch, Over, carry_out, served, shown,
};
use crate::config::{Client, Permissions};
use crate::process::Peer;
use crate::{Interrupted, process};

mod lines;
mod message;
mod model_choice;
mod permission;
#[cfg(test)]
mod recorded;
mod turn;
mod usage;
mod write;

use lines::Lines;
use message::{error_text, short, write_message};
use model_choice::ModelChoice;
use permission::asked_for;
use turn::{AcpTurn, Finish};
use usage::used;
use write::AcpFiles;

/// Configuration of an agent that speaks ACP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acp {
    pub program: OsString,
    pub args: Vec<OsString>,
    /// The client behind the agent, if it is known; it then gets its own folder.
    pub client: Option<Client>,
    pub model: Option<String>,
    /// Id of the mode that the agent shall work in.
    pub mode: Option<String>,
    pub permissions: Permissions,
    /// MCP servers that the agent shall use.
    pub servers: Vec<Server>,
}

/// A server of the Model Context Protocol, which the agent starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    pub name: String,
    pub command: String,
    pub args: Vec<String>,
    pub env: Vec<(String, String)>,
}

impl Server {
    /// Returns provost's own server, if the agent shall have it.
    fn of(work: &AttemptInput<'_>) -> Option<Self> {
        let (command, args) = served(work)?;
        Some(Self { name: "provost".to_owned(), command, args, env: Vec::new() })
    }

    fn told(&self) -> Value {
        let env = self.env.iter().map(|(name, value)| json!({ "name": name, "value": value }));
        let env: Vec<Value> = env.collect();
        json!({ "name": self.name, "command": self.command, "args": self.args, "env": env })
    }
}

impl Acp {
    /// Returns `None` for an empty command line.
    pub fn new(command: &[String]) -> Option<Self> {
        let (program, args) = command.split_first()?;
        Some(Self {
            program: program.into(),
            args: args.iter().map(OsString::from).collect(),
            client: Client::of(command),
            model: None,
            mode: None,
            permissions: Permissions::default(),
            servers: Vec::new(),
        })
    }

    fn furnished(
        &self,
        work: &AttemptInput<'_>,
    ) -> Result<Vec<(OsString, OsString)>, client::ClientConfigError> {
        let Some(known) = self.client else { return Ok(Vec::new()) };
        let model = self.model.as_deref();
        let home = client::furnished(known, model, None, work)?;
        Ok(client::environment(known, home, model))
    }

    fn mode(&self, work: &AttemptInput<'_>) -> Option<String> {
        let usual = match (self.client, self.permissions, work.fence) {
            // Codex's own sandbox does not work inside provost's. Its default mode would ask a second model
            // for approval.
            (Some(Client::Codex), Permissions::Allow, Some(_)) => Some("agent-full-access"),
            (Some(Client::Codex), Permissions::Allow, None) => Some("workspace-write"),
            _ => None,
        };
        self.mode.clone().or(usual.map(str::to_owned))
    }
}

impl AgentDriver for Acp {
    fn attempt(&self, work: &AttemptInput<'_>) -> Result<AttemptReport, Interrupted> {
        let env = match self.furnished(work) {
            Ok(env) => env,
            Err(error) => return Ok(AttemptReport::not_started(&error)),
        };
        let launch = Launch { program: &self.program, args: &self.args, env: &env };
        let turn = AcpTurn::new(self, work, self.mode(work));
        let mut talk = Conversation { turn, lines: Lines::default() };
        let over = carry_out(launch, work, |spawn| process::converse(spawn, &mut talk))?;
        let over = match over {
            Ok(over) => over,
            Err(not_started) => return Ok(*not_started),
        };
        Ok(ended(over, talk.turn.finish(), work))
    }

    fn has_client(&self) -> bool {
        self.client.is_some()
    }
}

/// Combines the end of the turn with the end of its process.
fn ended(over: Over, finish: Finish, work: &AttemptInput<'_>) -> AttemptReport {
    let left = format!("the agent exited while {}", finish.at);
    let failure = match (&over.end, finish.failure) {
        (_, Some(failure)) => Some(failure),
        (AttemptEnd::Exited { .. } | AttemptEnd::Signalled { .. }, None) if !finish.done => Some(left),
        _ => None,
    };
    let told = finish.usage;
    let usage = match work.resume.filter(|_| finish.goes_on_counting) {
        Some(resume) => {
            provost_core::model::usage::Usage { micro_usd: told.less(resume.used).micro_usd, ..told }
        }
        None => told,
    };
    let mut sink = EntrySink::new(work.heard);
    failure.iter().for_each(|failure| sink.error(failure));
    sink.usage(&usage);
    if let (false, Some(failure)) = (finish.begun, &failure) {
        let stderr = over.ended.stderr.excerpt(1024).to_string();
        let reason = [failure.as_str(), stderr.trim()].join("\n").trim_end().to_owned();
        let survivors = over.ended.survivors.clone();
        return AttemptReport { survivors, ..not_begun(shown(&reason)) };
    }
    let mut attempt = over.attempt(shown(&finish.words), usage);
    attempt.notes.extend(finish.notes);
    let by_itself = matches!(attempt.end, AttemptEnd::Exited { .. } | AttemptEnd::Signalled { .. });
    match failure {
        Some(failure) => {
            let is_well = matches!(attempt.end, AttemptEnd::Exited { exit_code: 0 });
            if is_well || finish.done || finish.over_limit || finish.asks.is_some() {
                attempt.end = AttemptEnd::Exited { exit_code: 1 };
            }
            attempt.report = [attempt.report.trim_end(), &shown(&failure)].join("\n").trim_start().to_owned();
            attempt.has_reason = true;
            // After a person's answer the agent goes on in the same conversation.
            attempt.session = finish.session.filter(|_| finish.asks.is_some());
            attempt.asks = finish.asks;
        }
        // The turn was over before the process ended, so the exit code of the process does not matter.
        None if by_itself => {
            attempt.end = AttemptEnd::Exited { exit_code: 0 };
            attempt.session = finish.session;
        }
        None => {}
    }
    attempt
}

fn not_begun(reason: String) -> AttemptReport {
    AttemptReport { end: AttemptEnd::NotStarted { reason }, ..AttemptReport::not_started(&std::fmt::Error) }
}

/// A turn, and the reader that splits the agent's output into messages.
struct Conversation<'a> {
    turn: AcpTurn<'a>,
    lines: Lines,
}

impl Peer for Conversation<'_> {
    fn begin(&mut self, say: &mut Vec<u8>) {
        self.turn.begin(say);
    }

    fn hear(&mut self, stream: Stream, bytes: &[u8], say: &mut Vec<u8>) {
        if stream == Stream::Stderr {
            return;
        }
        let Self { turn, lines } = self;
        if let Err(why) = lines.take(bytes, &mut |message| turn.hear(message, say)) {
            turn.fail(why);
        }
    }

    fn break_off(&mut self, say: &mut Vec<u8>) {
        self.turn.cancel(say);
    }

    fn is_over(&self) -> bool {
        self.turn.is_over()
    }
}

/// Returns the rules for files that provost writes on the agent's behalf.
fn desk<'a>(work: &AttemptInput<'a>) -> AcpFiles<'a> {
    let mut closed: Vec<&'a Path> = Vec::new();
    if let Some(Behind::Bubblewrap(_, fence)) = work.fence {
        closed.extend(fence.read_only.iter().chain(fence.hidden).copied().chain([fence.scratch]));
        closed.extend(fence.veiled.iter().chain(fence.instead).map(|(place, _)| *place));
    }
    AcpFiles { workspace: work.workspace, closed }
}
