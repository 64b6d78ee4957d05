//! Agent that follows a written script, for demonstrations and tests. A script can work, lie, stall, crash
//! and leave daemons behind; `docs/scripted-agent.md` is the manual.
//!
//! [`ScriptedDriver`] is the driver, inside provost. [`perform`] is the agent itself, in a separate process like
//! any other agent: the driver starts `<launcher…> <script> <step> <attempt>` with the prompt on stdin.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use provost_core::model::plan::StepNumber;
use provost_core::model::usage::Usage;
use rustix::process::{Signal, getpid, kill_process};
use serde::Deserialize;

use crate::Interrupted;
use crate::agent::{AgentDriver, AttemptInput, AttemptReport, Launch, start};
use crate::config::Speaks;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptedDriver {
    /// The program that performs the script, with its first arguments.
    pub launcher: Vec<OsString>,
    /// An absolute path, because the agent runs in the workspace.
    pub script: PathBuf,
}

impl AgentDriver for ScriptedDriver {
    fn attempt(&self, work: &AttemptInput<'_>) -> Result<AttemptReport, Interrupted> {
        let mut args: Vec<OsString> = self.launcher.iter().skip(1).cloned().collect();
        args.push(self.script.clone().into());
        args.push(work.step.to_string().into());
        args.push(work.attempt.to_string().into());
        let program = self.launcher.first().cloned().unwrap_or_default();
        let launch = Launch { program: &program, args: &args, env: &[] };
        start(launch, work.prompt.as_bytes(), Speaks::Json, work)
    }
}

/// Exit code if the script could not be followed; a script does not ask for it.
pub const BAD_SCRIPT: i32 = 2;
/// Exit code if the prompt does not contain the text of `require_prompt`.
pub const NOT_IN_PROMPT: i32 = 9;

/// Performs the script's actions for this attempt in the current folder. Returns the exit code.
pub fn perform(script: &Path, step: StepNumber, attempt: u32, prompt: &str, out: &mut dyn Write) -> i32 {
    let performed = read(script).and_then(|script| {
        let actions = script.actions(step, attempt)?;
        let mut used = None;
        let code = actions.iter().try_fold(None, |end, action| match (end, action) {
            (Some(code), _) => Ok(Some(code)),
            (None, Action::Usage(usage)) => {
                used = Some(usage);
                Ok(None)
            }
            (None, action) => action.perform(prompt, out),
        })?;
        if let Some(usage) = used {
            // The output before may lack its final newline.
            writeln!(out, "\n{}", serde_json::json!({ "usage": usage })).and_then(|()| out.flush())?;
        }
        Ok(code)
    });
    match performed {
        Ok(code) => code.unwrap_or(0),
        Err(error) => {
            eprintln!("scripted agent: {}: {error}", script.display());
            BAD_SCRIPT
        }
    }
}

#[derive(Debug, thiserror::Error)]
enum BadScript {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("{0}")]
    Toml(#[from] Box<toml::de::Error>),
    #[error("step {step}, action {action}: {what}")]
    Action { step: u32, action: usize, what: &'static str },
    #[error("the script has no entry for step {step}, attempt {attempt}")]
    Silent { step: StepNumber, attempt: u32 },
    #[error("could not {what}: {source}")]
    Undone { what: String, source: io::Error },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Script {
    #[serde(default)]
    step: Vec<Part>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Part {
    number: u32,
    attempt: Option<u32>,
    #[serde(rename = "do")]
    actions: Vec<Written>,
}

fn read(script: &Path) -> Result<Script, BadScript> {
    toml::from_str(&fs::read_to_string(script)?).map_err(|error| Box::new(error).into())
}

impl Script {
    /// Returns the actions for exactly this attempt, or else those for any attempt at the step.
    fn actions(&self, step: StepNumber, attempt: u32) -> Result<Vec<Action>, BadScript> {
        let of_step = || self.step.iter().filter(|part| part.number == step.0);
        let part = of_step()
            .find(|part| part.attempt == Some(attempt))
            .or_else(|| of_step().find(|part| part.attempt.is_none()))
            .ok_or(BadScript::Silent { step, attempt })?;
        let read = |(index, written): (usize, &Written)| {
            let place = |what| BadScript::Action { step: step.0, action: index + 1, what };
            written.read().map_err(place)
        };
        part.actions.iter().enumerate().map(read).collect()
    }
}

/// An action as it is written: one of these keys, and `text` beside `write` and `append`.
#[derive(Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    write: Option<PathBuf>,
    append: Option<PathBuf>,
    text: Option<String>,
    remove: Option<PathBuf>,
    run: Option<String>,
    say: Option<String>,
    #[serde(default, deserialize_with = "duration")]
    sleep: Option<Duration>,
    exit: Option<i32>,
    crash: Option<bool>,
    hang: Option<bool>,
    daemon: Option<String>,
    require_prompt: Option<String>,
    usage: Option<Usage>,
}

fn duration<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    let text = String::deserialize(from)?;
    humantime::parse_duration(&text).map(Some).map_err(serde::de::Error::custom)
}

enum Action {
    Write(PathBuf, String),
    Append(PathBuf, String),
    Remove(PathBuf),
    Run(String),
    Say(String),
    Sleep(Duration),
    Exit(i32),
    Crash,
    Hang,
    Daemon(String),
    RequirePrompt(String),
    /// Printed when the script has ended.
    Usage(Box<Usage>),
}

impl Written {
    fn read(&self) -> Result<Action, &'static str> {
        let it = self.clone();
        let wants_text = it.write.is_some() || it.append.is_some();
        if it.text.is_some() != wants_text {
            return Err("`text` belongs to `write` and `append`, and they need it");
        }
        if it.crash == Some(false) || it.hang == Some(false) {
            return Err("`crash` and `hang` are `true` or absent");
        }
        let text = it.text.unwrap_or_default();
        let found = [
            it.write.map(|path| Action::Write(path, text.clone())),
            it.append.map(|path| Action::Append(path, text)),
            it.remove.map(Action::Remove),
            it.run.map(Action::Run),
            it.say.map(Action::Say),
            it.sleep.map(Action::Sleep),
            it.exit.map(Action::Exit),
            it.crash.map(|_| Action::Crash),
            it.hang.map(|_| Action::Hang),
            it.daemon.map(Action::Daemon),
            it.require_prompt.map(Action::RequirePrompt),
            it.usage.map(|usage| Action::Usage(Box::new(usage))),
        ];
        let mut found = found.into_iter().flatten();
        match (found.next(), found.next()) {
            (Some(action), None) => Ok(action),
            (None, _) => Err("it names no action"),
            (Some(_), Some(_)) => Err("one action has one key; write two actions"),
        }
    }
}

impl Action {
    /// Performs the action. `Some` ends the script with that exit code.
    fn perform(&self, prompt: &str, out: &mut dyn Write) -> Result<Option<i32>, BadScript> {
        let undone = |what: String| move |source| BadScript::Undone { what, source };
        match self {
            Action::Write(path, text) => {
                write(path, text, false).map_err(undone(format!("write {}", path.display())))?
            }
            Action::Append(path, text) => {
                write(path, text, true).map_err(undone(format!("append to {}", path.display())))?;
            }
            Action::Remove(path) => remove(path).map_err(undone(format!("remove {}", path.display())))?,
            Action::Run(command) => return run(command, out).map_err(undone(format!("run `{command}`"))),
            Action::Say(text) => writeln!(out, "{text}").and_then(|()| out.flush())?,
            Action::Sleep(time) => std::thread::sleep(*time),
            Action::Exit(code) => return Ok(Some(*code)),
            Action::Crash => {
                kill_process(getpid(), Signal::KILL)
                    .map_err(|error| undone("crash".to_owned())(error.into()))?;
            }
            Action::Hang => loop {
                std::thread::sleep(Duration::from_secs(3600));
            },
            Action::Daemon(command) => {
                daemon(command).map_err(undone(format!("start the daemon `{command}`")))?
            }
            Action::RequirePrompt(text) if !prompt.contains(text) => {
                eprintln!("scripted agent: the prompt does not contain {text:?}");
                return Ok(Some(NOT_IN_PROMPT));
            }
            Action::RequirePrompt(_) | Action::Usage(_) => {}
        }
        Ok(None)
    }
}

fn write(path: &Path, text: &str, append: bool) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let mut file =
        fs::File::options().create(true).write(true).append(append).truncate(!append).open(path)?;
    file.write_all(text.as_bytes())
}

fn remove(path: &Path) -> io::Result<()> {
    if path.symlink_metadata()?.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }
}

// This code runs in the agent's process, not in provost, so it starts children as any agent would.

/// Runs a command. A command that fails ends the script with its exit code.
fn run(command: &str, out: &mut dyn Write) -> io::Result<Option<i32>> {
    let done = Command::new("bash").arg("-c").arg(command).stdin(Stdio::null()).output()?;
    out.write_all(&done.stdout)?;
    out.flush()?;
    io::stderr().write_all(&done.stderr)?;
    Ok(if done.status.success() { None } else { Some(done.status.code().unwrap_or(1)) })
}

/// Starts a command in its own session, without a parent and with closed streams.
fn daemon(command: &str) -> io::Result<()> {
    let started = Command::new("setsid")
        .args(["--fork", "bash", "-c", command])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()?;
    if started.success() { Ok(()) } else { Err(io::Error::other("setsid failed")) }
}
