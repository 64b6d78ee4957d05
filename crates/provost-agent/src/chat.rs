//! A conversation with a person: the agent loop, one message of the person at a time.
//!
//! The loop keeps no plan of its own here. Plans come from the tools of provost's MCP server, which is one of
//! the servers, so each of them passes the gate and is judged like any other.

use std::io;
use std::path::Path;
use std::sync::Arc;

use provost_core::model::usage::Usage;
use serde_json::Value;
use tokio::runtime::Runtime;

use crate::agent::{Agent, Observer, RunEnd, Settings, Stop};
use crate::answer_form::AnswerForm;
use crate::builtin::{self, BuiltinOptions, Environment, NotBegun};
use crate::call_log::CallLog;
use crate::conversation::{self, Continuation};
use crate::plan_state::PlanHolder;
use crate::provider::Provider;
use crate::provider::api::NotBuilt;
use crate::tool::mcp_server::{self, McpConnection};
use crate::tool::{Catalogue, Tool, ToolAnswer, fetch};
use crate::transcript::{Message, ToolResult, Transcript};

const INSTRUCTIONS: &str = include_str!("prompt/chat.md");
const INTERRUPTED: &str = "error\nthe person interrupted this call";

/// Sees every tool call of a chat. Its methods may block, for example to ask a person.
pub trait ToolWatch: Send + Sync {
    /// Says whether the call may run; an error is the model's answer.
    fn before(&self, call: &WatchedCall<'_>) -> Result<(), String>;

    /// Sees the answer of a call that ran. Returns the answer that the model gets.
    fn after(&self, call: &WatchedCall<'_>, answer: ToolAnswer) -> ToolAnswer;
}

/// A tool call, for a [`ToolWatch`].
pub struct WatchedCall<'a> {
    pub tool: &'a str,
    pub arguments: &'a Value,
    /// It changes nothing.
    pub reads_only: bool,
}

/// An open conversation.
pub struct Chat {
    runtime: Runtime,
    provider: Arc<dyn Provider>,
    catalogue: Catalogue,
    /// Their processes live as long as the chat.
    _servers: Vec<McpConnection>,
    ledger: CallLog,
    settings: Settings,
    transcript: Transcript,
    /// `None` before the first answer.
    usage: Option<Usage>,
}

impl Chat {
    /// Connects to the model's API and to the MCP servers. `project` is added to the system prompt.
    pub fn open(
        orders: &BuiltinOptions,
        folder: &Path,
        environment: Environment<'_>,
        project: &str,
        watch: Arc<dyn ToolWatch>,
    ) -> Result<Self, NotBegun> {
        let (provider, key, workspace) = orders.open(folder, environment)?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .map_err(NotBegun::Runtime)?;
        let servers = runtime.block_on(builtin::connections(&orders.servers, &workspace))?;
        let known = orders.conversation.as_ref().filter(|_| orders.resume);
        let known = known.map(|file| conversation::load(file, &*provider).map_err(NotBegun::Conversation));
        let (transcript, ledger) = match known.transpose()? {
            Some(Continuation { transcript, ledger, .. }) => (transcript, ledger),
            None => (Transcript::default(), CallLog::default()),
        };
        let mut catalogue = Catalogue::standard(&workspace, &ledger).with_all(mcp_server::tools(&servers));
        if orders.web {
            catalogue = catalogue.with(fetch::tool().map_err(NotBuilt::Client)?);
        }
        let form = orders.answer_schema.clone().map(AnswerForm::new).transpose()?;
        let catalogue = catalogue.map(|tool| watched(tool, watch.clone()));
        let catalogue = catalogue.with_all(form.as_ref().map(AnswerForm::tool));
        let map = orders.map(&workspace, "").unwrap_or_default();
        let parts = [INSTRUCTIONS.trim_end(), project.trim(), &map];
        let system = parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n\n");
        let settings = Settings { form, system, ..builtin::settings(orders, key) };
        let usage = None;
        Ok(Self { runtime, provider, catalogue, _servers: servers, ledger, settings, transcript, usage })
    }

    /// Sends a message and works until the model has answered it, or until Ctrl-C.
    pub fn say(&mut self, message: &str, tell: Observer<'_>) -> RunEnd {
        let mut transcript = std::mem::take(&mut self.transcript);
        transcript.push(Message::User(message.to_owned()));
        let agent = Agent {
            provider: &*self.provider,
            catalogue: self.catalogue.clone(),
            holder: PlanHolder::default(),
            ledger: self.ledger.clone(),
            settings: self.settings.clone(),
        };
        let run = self.runtime.block_on(async {
            let stop = Stop::default();
            let stopped = stop.clone();
            let listening = tokio::spawn(async move {
                if tokio::signal::ctrl_c().await.is_ok() {
                    stopped.stop();
                }
            });
            let run = agent.go_on(transcript, &stop, tell).await;
            listening.abort();
            run
        });
        self.usage = Some(self.usage.take().map_or(run.usage.clone(), |sum| sum.and(&run.usage)));
        self.transcript = run.transcript;
        self.answer_open_calls();
        run.outcome
    }

    /// Answers calls that were interrupted: no API accepts a call without an answer.
    fn answer_open_calls(&mut self) {
        let Some(Message::Assistant { calls, .. }) = self.transcript.messages().last() else { return };
        let results: Vec<ToolResult> = calls
            .iter()
            .map(|call| {
                let number = self.ledger.begin();
                self.ledger.fail(number, INTERRUPTED);
                let text = format!("call:{number} {INTERRUPTED}");
                ToolResult { id: call.id.clone(), call: number, tool: call.tool.clone(), text, failed: true }
            })
            .collect();
        if !results.is_empty() {
            self.transcript.push(Message::Results(results));
        }
    }

    /// Forgets the conversation; the next message begins a new one.
    pub fn clear(&mut self) {
        self.transcript = Transcript::default();
    }

    /// Returns what the conversation used since it was opened.
    pub fn usage(&self) -> Option<&Usage> {
        self.usage.as_ref()
    }

    /// Returns how many messages of the person the conversation has.
    pub fn messages(&self) -> usize {
        self.transcript.messages().iter().filter(|message| matches!(message, Message::User(_))).count()
    }

    /// Writes the conversation into a file, for [`BuiltinOptions::resume`].
    pub fn save(&self, file: &Path) -> io::Result<()> {
        conversation::save(file, self.provider.model(), (&self.transcript, None), &self.ledger)
    }
}

fn watched(tool: Tool, watch: Arc<dyn ToolWatch>) -> Tool {
    let Tool { spec, reads_only, edits, .. } = tool.clone();
    let name = spec.name.clone();
    let mut watched = Tool::described(spec, move |arguments| {
        let (tool, watch, name) = (tool.clone(), watch.clone(), name.clone());
        async move {
            let (first, named, given) = (watch.clone(), name.clone(), arguments.clone());
            let allowed = tokio::task::spawn_blocking(move || {
                first.before(&WatchedCall { tool: &named, arguments: &given, reads_only })
            });
            allowed.await.unwrap_or_else(|_| Err("the call was stopped".to_owned()))?;
            let answer = tool.call(arguments.clone()).await;
            let seen = tokio::task::spawn_blocking(move || {
                watch.after(&WatchedCall { tool: &name, arguments: &arguments, reads_only }, answer)
            });
            seen.await.unwrap_or_else(|_| Err("the answer was lost".to_owned()))
        }
    });
    (watched.reads_only, watched.edits) = (reads_only, edits);
    watched
}
