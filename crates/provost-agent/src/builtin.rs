//! Runs the agent loop as a separate process, which the driver `builtin` starts in the sandbox.
//!
//! Options come as arguments, the prompt on stdin, the key from the environment or a command. Progress is
//! printed to stderr; the last line of stdout is `{"report": …, "usage": …, "rewrites": …}`.
//!
//! **Invariant:** nothing here judges. The model's statement that a step is done is a claim; provost judges
//! after the process has ended.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::json;

use crate::agent::{Agent, AgentRun, RunEnd, Settings, Stop};
use crate::call_log::CallLog;
use crate::event::AgentEvent;
use crate::plan_state::{PlanHolder, counted};
use crate::provider::api::{Api, Dialect, Key, NotBuilt};
use crate::tool::files::Workspace;
use crate::tool::{Catalogue, topics};
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
    pub topics: Option<PathBuf>,
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
    out: &mut dyn Write,
) -> Result<i32, NotBegun> {
    let dialect = orders.dialect()?;
    let (key, withheld) = orders.key(dialect, environment)?;
    let base_url = orders.base_url(dialect, environment);
    let provider = Api::new(dialect, orders.model.as_str(), base_url.as_deref(), key.clone())?;
    let workspace = Workspace::new(folder).map_err(NotBegun::Workspace)?;
    let workspace = withheld.into_iter().fold(workspace, Workspace::withhold);
    let (holder, ledger) = (PlanHolder::default(), CallLog::default());
    let mut catalogue = Catalogue::standard(&workspace, &ledger).with_plan(&holder, &ledger);
    if let Some(folder) = &orders.topics {
        catalogue = catalogue.with_all(topics::declared(&workspace.root().join(folder)));
    }
    let agent = Agent { provider: &provider, catalogue, holder, ledger, settings: settings(orders, key) };
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(NotBegun::Runtime)?;
    let run = runtime.block_on(async {
        let stop = Stop::default();
        tokio::spawn(stop_on_signal(stop.clone()));
        agent.run(prompt, &stop, &mut |event| tell(&event)).await
    });
    // The model's last text may lack a newline.
    let _ = writeln!(io::stderr());
    // A search that is still running must not delay the exit.
    runtime.shutdown_background();
    let rewrites: Vec<String> = run.rewrites.iter().map(|diff| diff.join("\n")).collect();
    let mut report = json!({ "report": report(&run), "usage": run.usage });
    if !rewrites.is_empty() {
        report["rewrites"] = json!(rewrites);
    }
    // An error is ignored: the reader has gone away.
    let _ = writeln!(out, "{report}").and_then(|()| out.flush());
    Ok(exit_code(&run.outcome))
}

fn settings(orders: &BuiltinOptions, key: Key) -> Settings {
    let usual = Settings::default();
    let context_tokens = orders.context_tokens.unwrap_or(usual.context_tokens);
    let quarter = u32::try_from(context_tokens / 4).unwrap_or(u32::MAX);
    Settings {
        max_turns: orders.max_turns.unwrap_or(usual.max_turns),
        context_tokens,
        max_output_tokens: usual.max_output_tokens.min(quarter),
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

/// Prints progress for people; the model's text is printed as it arrives.
fn tell(event: &AgentEvent) {
    let mut to = io::stderr().lock();
    // Errors are ignored, because stderr may be closed.
    let _ = match event {
        AgentEvent::Text(text) => to.write_all(text.as_bytes()),
        AgentEvent::Thought(_)
        | AgentEvent::StepUpdated { .. }
        | AgentEvent::PostconditionAnswered { .. } => Ok(()),
        AgentEvent::TurnStarted { turn } => writeln!(to, "\n[turn {turn}]"),
        AgentEvent::Called { call, tool, arguments } => writeln!(to, "\n[call:{call} {tool}] {arguments}"),
        AgentEvent::Answered { call, failed, characters, .. } => match failed {
            true => writeln!(to, "[call:{call}] failed"),
            false => writeln!(to, "[call:{call}] {characters} characters"),
        },
        AgentEvent::PlanCreated { steps, postconditions } => {
            let (steps, posts) = (counted(*steps, "step"), counted(*postconditions, "postcondition"));
            writeln!(to, "[plan: {steps}, {posts}]")
        }
        AgentEvent::PlanRewritten { diff } => writeln!(to, "[plan rewritten]\n{}", diff.join("\n")),
        AgentEvent::FinalizationRefused { missing } => {
            writeln!(to, "\n[final answer refused: {}]", missing.join("; "))
        }
        AgentEvent::Compacted { before, after } => writeln!(to, "[context: {before} → {after} tokens]"),
        AgentEvent::Retrying { after, why } => writeln!(to, "\n[again in {} s: {why}]", after.as_secs()),
    };
    let _ = to.flush();
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
