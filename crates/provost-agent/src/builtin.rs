//! Runs the agent loop as a separate process, which the driver `builtin` starts in the sandbox.
//!
//! Options come as arguments, the prompt on stdin, the key from the environment or a command. Each line of
//! stdout is an entry of the transcript; the last one is `{"report": …, "usage": …, "rewrites": …, "error": …}`.
//!
//! **Invariant:** nothing here judges. The model's statement that a step is done is a claim; provost judges
//! after the process has ended.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use serde_json::json;

use crate::agent::{Agent, AgentRun, Bound, Compaction, RunEnd, Settings, Stop};
use crate::answer_form::{AnswerForm, AnswerFormError};
use crate::budget::LoopBudget;
use crate::conversation::{self, Continuation};
use crate::delegate;
use crate::progress;
use crate::provider::Provider;
use crate::provider::api::{Api, Dialect, Key, NotBuilt, ThinkingEffort};
use crate::provider::text_tools::TextTools;
use crate::repo_map;
use crate::tool::after_edit::AfterEdit;
use crate::tool::files::Workspace;
use crate::tool::mcp_server::{McpConnection, McpServer, McpServerError};
use crate::tool::{Catalogue, fetch, mcp_server, topics};
use crate::transcript::Message;
use crate::truncate;

/// Longest report, in bytes; provost does not keep much more.
const REPORT: usize = 24 * 1024;

/// Variables that take precedence: the model's address, and its key.
pub const BASE_URL: &str = "MODEL_BASE_URL";
pub const API_KEY: &str = "MODEL_API_KEY";

/// Exit codes.
pub const FINISHED: i32 = 0;
pub const BAD_ORDERS: i32 = 2;
pub const BLOCKED: i32 = 3;
pub const UNFINISHED: i32 = 4;
pub const FAILED: i32 = 5;
pub const STOPPED: i32 = 130;

/// The options of the process, without the prompt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BuiltinOptions {
    pub model: String,
    /// The word of a [`Dialect`]; optional for a well-known model.
    pub provider: Option<String>,
    pub base_url: Option<String>,
    /// The variable with the key, if it is not the usual one.
    pub key_env: Option<String>,
    /// A program that prints the key.
    pub key_command: Vec<String>,
    pub max_turns: Option<u32>,
    pub context_tokens: Option<usize>,
    /// Most tokens of the map of the repository in the first prompt; 0 for none.
    pub map_tokens: Option<usize>,
    /// How much the model thinks before it answers.
    pub effort: Option<ThinkingEffort>,
    pub topics: Option<PathBuf>,
    /// MCP servers whose tools the model gets.
    pub servers: Vec<McpServer>,
    /// The file that the conversation is saved in, if it ends well.
    pub conversation: Option<PathBuf>,
    /// The file has a conversation already; the prompt is the next message in it.
    pub resume: bool,
    pub compaction: Compaction,
    /// The model writes its calls as text.
    pub text_tools: bool,
    /// There is a tool that reads pages of the web.
    pub web: bool,
    /// The JSON Schema of the final answer.
    pub answer_schema: Option<serde_json::Value>,
    /// A command for after edits.
    pub after_edit: Option<String>,
    /// Program with arguments that starts commands in a session of their own; without it, they share the
    /// terminal.
    pub launcher: Vec<OsString>,
    /// The most it may use.
    pub budget: LoopBudget,
}

/// Why the loop did not start.
#[derive(Debug, thiserror::Error)]
pub enum NotBegun {
    #[error("no provider is known for the model `{model}`: set `provider` to one of {}", words())]
    NoProvider { model: String },
    #[error("there is no provider `{word}`: use one of {}", words())]
    UnknownProvider { word: String },
    #[error("{variable} is not set: it must hold the key of the model's API")]
    NoKey { variable: String },
    #[error("the key command `{command}` failed: {why}")]
    KeyCommand { command: String, why: String },
    #[error(transparent)]
    Provider(#[from] NotBuilt),
    #[error(transparent)]
    AnswerForm(#[from] AnswerFormError),
    #[error(transparent)]
    McpServer(#[from] McpServerError),
    #[error("the conversation of the last attempt cannot be read: {0}")]
    Conversation(io::Error),
    #[error("the workspace cannot be opened: {0}")]
    Workspace(io::Error),
    #[error("the async runtime cannot be started: {0}")]
    Runtime(io::Error),
}

fn words() -> String {
    Dialect::ALL.map(Dialect::word).join(", ")
}

/// Looks up a variable; an empty one counts as unset.
pub type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The model behind its API.
pub struct ModelConnection {
    pub provider: Arc<dyn Provider>,
    key: Key,
    /// The variables that may contain the key.
    withheld: Vec<String>,
}

impl BuiltinOptions {
    fn dialect(&self) -> Result<Dialect, NotBegun> {
        match &self.provider {
            Some(word) => {
                Dialect::from_word(word).ok_or_else(|| NotBegun::UnknownProvider { word: word.clone() })
            }
            None => Dialect::of_model(&self.model)
                .ok_or_else(|| NotBegun::NoProvider { model: self.model.clone() }),
        }
    }

    /// Returns the model's address: from this process's own variable, the configuration, or the usual
    /// variable.
    fn base_url(&self, dialect: Dialect, environment: Environment<'_>) -> Option<String> {
        let usual = || {
            let found = environment(dialect.base_url_variable())?;
            Some(if found.contains("://") { found } else { format!("http://{found}") })
        };
        environment(BASE_URL).or_else(|| self.base_url.clone()).or_else(usual)
    }

    /// Returns the key, and the variables that may contain it.
    fn key(&self, dialect: Dialect, environment: Environment<'_>) -> Result<(Key, Vec<String>), NotBegun> {
        let own: Vec<String> = self.key_env.iter().cloned().collect();
        let usual: Vec<String> = dialect.key_variables().iter().map(|name| (*name).to_owned()).collect();
        let named = if own.is_empty() { usual.clone() } else { own };
        let withheld = || {
            let mut all = vec![API_KEY.to_owned()];
            all.extend(named.iter().chain(&usual).cloned());
            all
        };
        if let Some(key) = environment(API_KEY) {
            return Ok((Key::new(key), withheld()));
        }
        if !self.key_command.is_empty() {
            return Ok((key_of_command(&self.key_command)?, withheld()));
        }
        if let Some(key) = named.iter().find_map(|name| environment(name)) {
            return Ok((Key::new(key), withheld()));
        }
        // A server of the user's own may need no key.
        match (dialect, named.first()) {
            (Dialect::Ollama, _) | (_, None) => Ok((Key::none(), withheld())),
            (Dialect::Chat, _) if self.key_env.is_none() => Ok((Key::none(), withheld())),
            (_, Some(variable)) => Err(NotBegun::NoKey { variable: variable.clone() }),
        }
    }
}

impl BuiltinOptions {
    pub fn connect(&self, environment: Environment<'_>) -> Result<ModelConnection, NotBegun> {
        let dialect = self.dialect()?;
        let (key, withheld) = self.key(dialect, environment)?;
        let base_url = self.base_url(dialect, environment);
        let api = Api::new(dialect, self.model.as_str(), base_url.as_deref(), key.clone())?;
        let api = api.with_effort(self.effort);
        let provider: Arc<dyn Provider> = match self.text_tools {
            true => Arc::new(TextTools { model: api }),
            false => Arc::new(api),
        };
        Ok(ModelConnection { provider, key, withheld })
    }

    /// Returns the map of the repository for the first prompt.
    pub(crate) fn map(&self, workspace: &Workspace, task: &str) -> Option<String> {
        repo_map::draw(workspace, task, self.map_tokens.unwrap_or(repo_map::DEFAULT_TOKENS))
    }

    /// Returns the model's API with its key, and the folder, in which no command gets the key.
    pub(crate) fn open(
        &self,
        folder: &Path,
        environment: Environment<'_>,
    ) -> Result<(Arc<dyn Provider>, Key, Workspace), NotBegun> {
        let ModelConnection { provider, key, withheld } = self.connect(environment)?;
        let workspace = Workspace::new(folder).map_err(NotBegun::Workspace)?;
        let workspace = workspace.started_by(self.launcher.clone());
        Ok((provider, key, withheld.into_iter().fold(workspace, Workspace::withhold)))
    }
}

fn key_of_command(words: &[String]) -> Result<Key, NotBegun> {
    let failed = |why: String| NotBegun::KeyCommand { command: words.join(" "), why };
    let [program, arguments @ ..] = words else { return Ok(Key::none()) };
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stderr(Stdio::inherit());
    let output = command.output().map_err(|error| failed(error.to_string()))?;
    let key = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    match (output.status.success(), key.is_empty()) {
        (false, _) => Err(failed(output.status.to_string())),
        (true, true) => Err(failed("it printed nothing".to_owned())),
        (true, false) => Ok(Key::new(key)),
    }
}

/// Works on the prompt in the folder. Returns the exit code.
pub fn perform(
    orders: &BuiltinOptions,
    prompt: &str,
    folder: &Path,
    environment: Environment<'_>,
    out: &mut (dyn Write + Send),
) -> Result<i32, NotBegun> {
    let (provider, key, workspace) = orders.open(folder, environment)?;
    let Continuation { transcript, holder, ledger } = match orders.conversation.as_ref() {
        Some(file) if orders.resume => {
            let mut known = conversation::load(file, &*provider).map_err(NotBegun::Conversation)?;
            known.transcript.push(Message::User(prompt.to_owned()));
            known
        }
        _ => Continuation::of_task(&match orders.map(&workspace, prompt) {
            Some(map) => format!("{}\n\n{map}", prompt.trim_end()),
            None => prompt.to_owned(),
        }),
    };
    let mut catalogue = Catalogue::standard(&workspace, &ledger).with_plan(&holder, &ledger);
    if let Some(folder) = &orders.topics {
        catalogue = catalogue.with_all(topics::declared(&workspace.root().join(folder)));
    }
    if orders.web {
        catalogue = catalogue.with(fetch::tool().map_err(NotBuilt::Client)?);
    }
    let after_edit = orders.after_edit.as_ref().map(|command| AfterEdit::new(command, &workspace));
    let form = orders.answer_schema.clone().map(AnswerForm::new).transpose()?;
    catalogue = catalogue.with_all(form.as_ref().map(AnswerForm::tool));
    let settings = Settings { after_edit, form, ..settings(orders, key) };
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(NotBegun::Runtime)?;
    let servers = runtime.block_on(connections(&orders.servers, &workspace))?;
    let catalogue = catalogue.with_all(mcp_server::tools(&servers));
    let sub_agents = delegate::tool(provider.clone(), &workspace, &settings, catalogue.side_account());
    let catalogue = catalogue.with(sub_agents);
    let agent = Agent { provider: &*provider, catalogue, holder, ledger, settings };
    let run = runtime.block_on(async {
        let stop = Stop::default();
        tokio::spawn(stop_on_signal(stop.clone()));
        agent.go_on(transcript, &stop, &mut |event| progress::tell(&event, out)).await
    });
    drop(servers);
    // A search that is still running must not delay the exit.
    runtime.shutdown_background();
    if let (Some(file), RunEnd::Finished { .. }) = (&orders.conversation, &run.outcome)
        && let Err(error) =
            conversation::save(file, provider.model(), (&run.transcript, run.plan.as_ref()), &agent.ledger)
    {
        // The next attempt begins a new conversation.
        eprintln!("builtin agent: the conversation could not be saved: {error}");
    }
    write_report(&run, out);
    Ok(exit_code(&run.outcome))
}

/// Writes the line that provost reads.
fn write_report(run: &AgentRun, out: &mut dyn Write) {
    let rewrites: Vec<String> = run.rewrites.iter().map(|diff| diff.join("\n")).collect();
    let mut report = json!({ "report": report(run), "usage": run.usage });
    if let Some(why) = failure(&run.outcome) {
        report["error"] = json!(why);
    }
    if !rewrites.is_empty() {
        report["rewrites"] = json!(rewrites);
    }
    // An error is ignored: the reader has gone away.
    let _ = writeln!(out, "{report}").and_then(|()| out.flush());
}

/// Connects to all servers at once.
pub async fn connections(
    servers: &[McpServer],
    workspace: &Workspace,
) -> Result<Vec<McpConnection>, McpServerError> {
    let all = servers.iter().map(|server| McpConnection::open(server, workspace));
    futures_util::future::try_join_all(all).await
}

pub(crate) fn settings(orders: &BuiltinOptions, key: Key) -> Settings {
    let usual = Settings::default();
    let context_tokens = orders.context_tokens.unwrap_or(usual.context_tokens);
    let output =
        orders.effort.map_or(usual.max_output_tokens, |it| it.output_tokens(usual.max_output_tokens));
    let quarter = u32::try_from(context_tokens / 4).unwrap_or(u32::MAX);
    Settings {
        max_turns: orders.max_turns.unwrap_or(usual.max_turns),
        context_tokens,
        max_output_tokens: output.min(quarter),
        budget: orders.budget,
        compaction: orders.compaction,
        key,
        ..usual
    }
}

/// Stops the run on a signal, so that the process can still report its usage.
async fn stop_on_signal(stop: Stop) {
    use tokio::signal::unix::{SignalKind, signal};
    let (Ok(mut asked), Ok(mut interrupted)) =
        (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        return;
    };
    tokio::select! {
        _ = asked.recv() => {}
        _ = interrupted.recv() => {}
    }
    stop.stop();
}

fn exit_code(outcome: &RunEnd) -> i32 {
    match outcome {
        RunEnd::Finished { .. } => FINISHED,
        RunEnd::Blocked { .. } => BLOCKED,
        RunEnd::Unfinished { .. } => UNFINISHED,
        RunEnd::Failed(_) => FAILED,
        RunEnd::Stopped => STOPPED,
    }
}

/// Returns why the run could not go on, if neither the model nor its plan is at fault.
fn failure(outcome: &RunEnd) -> Option<String> {
    match outcome {
        RunEnd::Failed(failure) => Some(failure.to_string()),
        RunEnd::Unfinished { bound: bound @ Bound::Budget(_), .. } => Some(bound.to_string()),
        RunEnd::Unfinished { .. } | RunEnd::Finished { .. } | RunEnd::Blocked { .. } | RunEnd::Stopped => {
            None
        }
    }
}

/// Returns the answer, the plan, and how often a final answer was refused.
pub fn report(run: &AgentRun) -> String {
    let mut out = match &run.outcome {
        RunEnd::Finished { answer } => answer.trim().to_owned(),
        RunEnd::Blocked { answer } => format!("blocked: {}", answer.trim()),
        RunEnd::Unfinished { bound, missing, answer } => {
            format!("unfinished: {bound}; {}\n{}", missing.join("; "), answer.trim()).trim_end().to_owned()
        }
        RunEnd::Failed(failure) => failure.to_string(),
        RunEnd::Stopped => "stopped before the end".to_owned(),
    };
    if let Some(plan) = &run.plan {
        let _ = write!(out, "\n\n{}", plan.render());
    }
    match run.refusals {
        0 => {}
        1 => out.push_str("\n\nA final answer was refused once."),
        times => _ = write!(out, "\n\nA final answer was refused {times} times."),
    }
    truncate::middle(&out, REPORT, "the report was too long")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn orders(model: &str) -> BuiltinOptions {
        BuiltinOptions { model: model.to_owned(), ..BuiltinOptions::default() }
    }

    #[test]
    fn the_key_comes_from_the_variable_that_is_meant() {
        let set = |names: &'static [&'static str]| {
            move |name: &str| names.contains(&name).then(|| format!("value-of-{name}"))
        };
        let key = |orders: &BuiltinOptions, names| {
            let dialect = orders.dialect().expect("a dialect");
            let found = orders
                .key(dialect, &set(names))
                .map(|(key, _)| key.hide("value-of-OWN_KEY").contains("[key]"));
            found.map_err(|error| error.to_string())
        };
        let own = BuiltinOptions { key_env: Some("OWN_KEY".to_owned()), ..orders("claude-x") };
        assert_eq!(key(&own, &["OWN_KEY", "ANTHROPIC_API_KEY"]), Ok(true));
        assert_eq!(key(&orders("claude-x"), &["OWN_KEY", "ANTHROPIC_API_KEY"]), Ok(false));
        let missing = key(&own, &["ANTHROPIC_API_KEY"]).expect_err("no key");
        assert!(missing.starts_with("OWN_KEY is not set"), "{missing}");
        assert_eq!(key(&own, &[API_KEY]), Ok(false), "what is said for this process goes before");
        let local = BuiltinOptions { provider: Some("chat".to_owned()), ..orders("qwen3") };
        assert_eq!(key(&local, &[]), Ok(false), "a server of one's own may want none");
    }

    #[test]
    fn a_key_may_come_from_a_program() {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let key = key_of_command(&words(&["printf", "sk-not-a-real-key\\n"])).expect("a key");
        assert_eq!(key.hide("sk-not-a-real-key"), "[key]");
        assert!(key_of_command(&words(&["false"])).is_err());
        assert!(
            key_of_command(&words(&["true"])).expect_err("nothing").to_string().contains("printed nothing")
        );
    }

    #[test]
    fn the_nearest_base_url_counts() {
        let orders = BuiltinOptions { base_url: Some("http://configured".to_owned()), ..orders("claude-x") };
        let dialect = Dialect::Anthropic;
        let all = |name: &str| match name {
            "MODEL_BASE_URL" => Some("http://meter".to_owned()),
            "ANTHROPIC_BASE_URL" => Some("http://usual".to_owned()),
            _ => None,
        };
        assert_eq!(orders.base_url(dialect, &all).as_deref(), Some("http://meter"));
        let usual = |name: &str| (name == "ANTHROPIC_BASE_URL").then(|| "http://usual".to_owned());
        assert_eq!(orders.base_url(dialect, &usual).as_deref(), Some("http://configured"));
        let orders = BuiltinOptions { base_url: None, ..orders };
        assert_eq!(orders.base_url(dialect, &usual).as_deref(), Some("http://usual"));
        let bare = |name: &str| (name == "OLLAMA_HOST").then(|| "127.0.0.1:11434".to_owned());
        assert_eq!(orders.base_url(Dialect::Ollama, &bare).as_deref(), Some("http://127.0.0.1:11434"));
    }

    #[test]
    fn an_unknown_model_says_what_to_write() {
        let error = orders("qwen3").dialect().expect_err("no dialect").to_string();
        assert!(error.ends_with("anthropic, openai, chat, gemini, ollama"), "{error}");
    }
}
