//! Drivers that start an agent for one attempt at a step and collect its report.
//!
//! A driver knows how to pass a prompt to an agent and how to read its report. It does not know what a step
//! is for, and nothing that it returns can pass a step.
//!
//! **Invariant:** when an attempt returns, every process of it is dead or listed in [`AttemptReport::survivors`].

use std::ffi::OsString;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use provost_core::model::event::{AttemptEnd, OutsidePath, TopicPost};
use provost_core::model::plan::{StepNumber, Stream};
use provost_core::model::usage::Usage;
use provost_core::model::verdict::Excerpt;

use crate::config::Speaks;
use crate::process::{Bounds, Enclosure, HeadAndTail, How, Output, ProcessEnd, Spawn, StartError, Survivor};
use crate::sandbox::{
    AgentFence, AgentPaths, CommandLine, Confines, HomeSeen, Outlet, SandboxFeatures, SandboxedCommand,
    find_program,
};
use crate::{Interrupted, process, sandbox};

pub mod acp;
pub mod builtin;
pub mod client;
pub mod command;
pub mod headless;
mod hidden;
pub mod home;
pub mod instructions;
pub mod item;
pub mod outbox;
pub mod report;
pub mod scripted;
pub mod spending;
pub mod transcript;

pub use item::{AgentStatement, StepTools};
pub use spending::SpendLimit;
pub use transcript::Ear;

pub(crate) use item::server as served;

use report::{ParsedReport, Reader, believable, is_session, micro};
use spending::SpendWatch;

/// The environment variable that names the folder into which an agent writes its topics.
pub const TOPICS: &str = "PROVOST_TOPICS";

/// Longest report that is kept, in bytes; provost cuts a longer one in the middle.
const REPORT: usize = 64 * 1024;
const STDERR: usize = 8 * 1024;
const KEEP: HeadAndTail = HeadAndTail { head: REPORT / 2, tail: REPORT / 2 };
/// Time that an agent has between the request to end and the kill, to save its session and stop its
/// children.
const GRACE: Duration = Duration::from_secs(5);
/// Exit code of the sandbox forwarder if it could not execute the agent's program.
const NOT_STARTED: i32 = 70;

/// Most times that the sandbox of one attempt is built.
const SANDBOX_BUILDS: usize = 8;

pub trait AgentDriver: Send + Sync {
    /// Gives the work to the agent and waits until its process has ended.
    fn attempt(&self, work: &AttemptInput<'_>) -> Result<AttemptReport, Interrupted>;

    /// Returns whether the agent has a client that keeps its configuration and conversations in a folder.
    fn has_client(&self) -> bool {
        false
    }
}

/// Gives the work to the agent in bubblewrap. The agent has not started if a file was replaced while it was
/// being mounted, as provost and editors replace the plan file; the sandbox is then built again.
pub(crate) fn attempt_in_bubblewrap(
    agent: &dyn AgentDriver,
    offer: &SandboxFeatures,
    fence: AgentFence<'_>,
    work: &AttemptInput<'_>,
) -> Result<AttemptReport, Interrupted> {
    let work = AttemptInput { fence: Some(Behind::Bubblewrap(offer, fence)), ..*work };
    let mut report = agent.attempt(&work)?;
    for _ in 1..SANDBOX_BUILDS {
        if !report.is_mount_failed {
            break;
        }
        report = agent.attempt(&work)?;
    }
    Ok(report)
}

/// One attempt at a step, as the driver gets it.
#[derive(Clone, Copy)]
pub struct AttemptInput<'a> {
    pub prompt: &'a str,
    pub workspace: &'a Path,
    pub step: StepNumber,
    pub attempt: u32,
    pub timeout: Duration,
    /// Tag of the attempt that the processes belong to; unique among the attempts that are running.
    pub tag: &'a str,
    pub stop: Option<&'a AtomicBool>,
    /// The sandbox; without one, the agent may access everything its user may.
    pub fence: Option<Behind<'a>>,
    /// The environment of the person who started provost.
    pub environment: &'a [(OsString, OsString)],
    /// Limits on memory, processes and other resources of the machine.
    pub bounds: Option<Bounds>,
    /// Folder of the agent's client, if it has one. The folder outlives the attempt.
    pub home: Option<&'a Path>,
    /// The conversation to continue.
    pub resume: Option<Resume<'a>>,
    /// The folder for topics, and the topics that the agent may write.
    pub outbox: Option<Outbox<'a>>,
    /// Receives what the agent says and does, as it arrives.
    pub heard: Option<Ear<'a>>,
    /// The most it may use, if no meter holds it to that.
    pub limit: Option<SpendLimit<'a>>,
    /// What the agent asked for in this step, and a person allowed.
    pub granted: &'a [String],
    /// JSON Schema of the answer, for an agent that can be held to one.
    pub answer_schema: Option<&'a serde_json::Value>,
}

/// A folder, empty at first, in which the agent may write one file for each of these topics.
#[derive(Clone, Copy, Debug)]
pub struct Outbox<'a> {
    pub folder: &'a Path,
    pub topics: &'a [String],
    /// Data for the agent's tools, if the agent has such tools.
    pub item: Option<&'a StepTools>,
}

/// A conversation to continue, and the next prompt in it. If the agent cannot continue it, the driver
/// starts a new one with the whole prompt.
#[derive(Clone, Copy, Debug)]
pub struct Resume<'a> {
    pub session: &'a str,
    pub prompt: &'a str,
    /// Usage of the conversation's earlier turns.
    pub used: &'a Usage,
    /// What the agent claimed at the end of the last turn.
    pub claim: &'a str,
}

/// The sandbox around an agent.
#[derive(Clone, Copy)]
pub enum Behind<'a> {
    Bubblewrap(&'a SandboxFeatures, AgentFence<'a>),
    /// The second field holds variables that replace those of the environment.
    Confines(&'a Confines<'a>, &'a [(OsString, OsString)]),
}

/// How an attempt ended. provost keeps and shows it; it decides nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptReport {
    pub end: AttemptEnd,
    /// The agent was not started because a file could not be mounted.
    pub is_mount_failed: bool,
    pub report: String,
    /// The report ends with the reason for the failure, as the client told it.
    pub has_reason: bool,
    pub stderr: Excerpt,
    pub duration: Duration,
    pub survivors: Vec<Survivor>,
    /// Notes of the driver and the sandbox, for people.
    pub notes: Vec<String>,
    /// The attempt's usage, as far as the driver knows it.
    pub usage: Usage,
    /// The conversation, if it can be continued and did not fail.
    pub session: Option<String>,
    /// What the agent asked for, and only a person can allow.
    pub asks: Option<String>,
    /// Texts that the agent published to topics.
    pub published: Vec<TopicPost>,
    /// The agent's statement about its step, made with its tools.
    pub said: Option<AgentStatement>,
    /// Changes that the agent made to its own plan during the attempt.
    pub rewrites: Vec<String>,
    /// Paths that the agent may not write and that differ after the attempt.
    pub outside: Vec<OutsidePath>,
}

impl AttemptReport {
    pub(crate) fn not_started(error: &dyn std::error::Error) -> Self {
        let reason = match error.source() {
            Some(source) => format!("{error}: {source}"),
            None => error.to_string(),
        };
        Self {
            end: AttemptEnd::NotStarted { reason },
            is_mount_failed: false,
            report: String::new(),
            has_reason: false,
            stderr: Excerpt::default(),
            duration: Duration::ZERO,
            survivors: Vec::new(),
            notes: Vec::new(),
            usage: Usage::default(),
            session: None,
            asks: None,
            published: Vec::new(),
            said: None,
            rewrites: Vec::new(),
            outside: Vec::new(),
        }
    }
}

/// The command line with which a driver starts the agent's program.
#[derive(Clone, Copy)]
struct Launch<'a> {
    program: &'a OsString,
    args: &'a [OsString],
    /// Variables that take precedence over the user's own.
    env: &'a [(OsString, OsString)],
}

/// An agent's program that has ended.
struct Over {
    end: AttemptEnd,
    ended: ProcessEnd,
    notes: Vec<String>,
}

impl Over {
    fn attempt(self, report: String, usage: Usage) -> AttemptReport {
        AttemptReport {
            end: self.end,
            is_mount_failed: false,
            report,
            has_reason: false,
            stderr: self.ended.stderr.excerpt(STDERR),
            duration: self.ended.duration,
            survivors: self.ended.survivors,
            notes: self.notes,
            usage,
            session: None,
            asks: None,
            published: Vec::new(),
            said: None,
            rewrites: Vec::new(),
            outside: Vec::new(),
        }
    }
}

/// Starts an agent's program and reads its output. Writes `stdin` to its stdin and then closes it.
fn start(
    launch: Launch<'_>,
    stdin: &[u8],
    speaks: Speaks,
    work: &AttemptInput<'_>,
) -> Result<AttemptReport, Interrupted> {
    let mut reader = Reader::new(speaks, work.heard);
    let watch = SpendWatch::new(work.limit, work.stop);
    let mut exceeded = None;
    let mut listen = |stream: Stream, bytes: &[u8]| match stream {
        Stream::Stdout => {
            reader.take(bytes);
            exceeded = exceeded.take().or_else(|| watch.look(&reader.spent()));
        }
        Stream::Stderr => reader.take_stderr(bytes),
    };
    let over = carry_out(launch, work, |spawn| {
        let mut ended = process::run(Spawn { stdin, tee: Some(&mut listen), stop: Some(&watch), ..spawn })?;
        // The limit ended it, not a person.
        if watch.is_over() && ended.how == How::Stopped {
            ended.how = How::TimedOut;
        }
        Ok(ended)
    })?;
    let mut over = match over {
        Ok(over) => over,
        Err(not_started) => return Ok(*not_started),
    };
    if let Some(reason) = exceeded.clone().filter(|_| over.end == AttemptEnd::TimedOut) {
        over.end = AttemptEnd::OverBounds { reason };
    }
    let spent = reader.spent();
    let heard = reader.finish(matches!(over.end, AttemptEnd::Exited { .. }));
    let printed = over.ended.stdout.excerpt(REPORT).to_string();
    let printed = if speaks == Speaks::Json { transcript::readable(&printed) } else { printed };
    let is_over_budget = exceeded.is_some() && matches!(over.end, AttemptEnd::OverBounds { .. });
    let usage = match work.resume {
        // It could not report the whole.
        _ if is_over_budget => spent,
        Some(resume) => speaks.since(resume.used, &heard),
        None => heard.usage.clone(),
    };
    reader.tell_usage(&usage);
    let mut attempt = over.attempt(words(&heard, printed), usage);
    attempt.rewrites = heard.rewrites.iter().map(|diff| shown(diff)).collect();
    let failure = exceeded.filter(|_| is_over_budget).or(heard.failure);
    Ok(match failure.or_else(|| hidden_from(launch, work, &attempt)) {
        Some(failure) => failed(attempt, &failure),
        // A conversation that did not end well is not continued.
        None if attempt.end == (AttemptEnd::Exited { exit_code: 0 }) => {
            AttemptReport { session: heard.session, ..attempt }
        }
        None => attempt,
    })
}

/// Returns what the sandbox hides from a program that could not start because of that.
fn hidden_from(launch: Launch<'_>, work: &AttemptInput<'_>, attempt: &AttemptReport) -> Option<String> {
    let has_failed = matches!(attempt.end, AttemptEnd::Exited { exit_code } if exit_code != 0);
    work.fence.filter(|fence| has_failed && matches!(fence, Behind::Bubblewrap(..)))?;
    let printed = format!("{}\n{}", attempt.report, attempt.stderr);
    hidden::by_sandbox(&printed, work.workspace, &environment_of_launch(launch.env, work))
}

/// Starts an agent's program in the workspace and in its sandbox. It gets the user's environment, because
/// it needs the keys in there. `attend` runs the process until it has ended.
fn carry_out(
    launch: Launch<'_>,
    work: &AttemptInput<'_>,
    attend: impl FnOnce(Spawn<'_>) -> Result<ProcessEnd, StartError>,
) -> Result<Result<Over, Box<AttemptReport>>, Interrupted> {
    let not_started = |error: &dyn std::error::Error| Ok(Err(Box::new(AttemptReport::not_started(error))));
    let Launch { program, args, env: own } = launch;
    let env = environment_of_launch(own, work);
    // The sandbox forwarder starts the program itself, so a missing program has to be found here.
    let is_behind_portal = matches!(work.fence, Some(Behind::Bubblewrap(_, fence)) if matches!(fence.network, Outlet::Portal(_)));
    if is_behind_portal && find_program(program, work.workspace, &env).is_none() {
        return not_started(&StartError::NotFound { program: program.into() });
    }
    let wrapped = work.fence.map(|fence| match fence {
        Behind::Bubblewrap(offer, fence) => {
            let needs = needs(program, args, &env, work);
            sandbox::agent(offer, &AgentFence { needs: &needs, ..fence }, program, args)
        }
        Behind::Confines(confines, _) => sandbox::confine(confines, program, args),
    });
    let wrapped = match wrapped.transpose() {
        Ok(wrapped) => wrapped,
        Err(error) => return not_started(&error),
    };
    let (program, args) = match &wrapped {
        Some(wrapped) => (&wrapped.program, wrapped.args.as_slice()),
        None => (program, args),
    };
    let enclosure = wrapped.as_ref().map_or(Enclosure::IfLasting, SandboxedCommand::enclosure);
    let ended = attend(Spawn {
        program,
        args,
        cwd: work.workspace,
        env: &env,
        stdin: b"",
        deadline: work.timeout,
        grace: GRACE,
        keep: KEEP,
        tag: work.tag,
        stop: process::stop_flag(work.stop),
        tee: None,
        bounds: work.bounds,
        enclosure,
    });
    let ended = match ended {
        Ok(ended) => ended,
        Err(error) => return not_started(&error),
    };
    let how = match wrapped.as_ref().map(|wrapped| wrapped.how(&ended)) {
        None => ended.how,
        Some(Ok(how)) => how,
        Some(Err(error)) => {
            let is_mount_failed = error.is_mount_failed();
            return Ok(Err(Box::new(AttemptReport {
                is_mount_failed,
                ..AttemptReport::not_started(&error)
            })));
        }
    };
    let home = wrapped.map(|wrapped| sandbox::read_status(&wrapped.status).home).unwrap_or_default();
    let notes = Vec::from_iter(about(home).map(str::to_owned));
    if let Some(reason) = not_started_behind_portal(is_behind_portal, how, &ended) {
        let end = AttemptEnd::NotStarted { reason };
        return Ok(Ok(Over { end, ended, notes }));
    }
    Ok(Ok(Over { end: end_of(how)?, ended, notes }))
}

/// Returns the environment of the agent: what the driver sets replaces what provost passes on.
fn environment_of_launch(own: &[(OsString, OsString)], work: &AttemptInput<'_>) -> Vec<(OsString, OsString)> {
    let mut env: Vec<_> =
        environment(work).into_iter().filter(|(name, _)| !own.iter().any(|(set, _)| set == name)).collect();
    env.extend_from_slice(own);
    env.extend(work.outbox.map(|outbox| (TOPICS.into(), outbox.folder.into())));
    if let Some(Behind::Confines(_, more)) = work.fence {
        env.extend_from_slice(more);
    }
    env
}

fn end_of(how: How) -> Result<AttemptEnd, Interrupted> {
    Ok(match how {
        How::Exited(exit_code) => AttemptEnd::Exited { exit_code },
        How::Signalled(signal) => AttemptEnd::Signalled { signal },
        How::TimedOut => AttemptEnd::TimedOut,
        How::OverBounds(exceeded) => AttemptEnd::OverBounds { reason: exceeded.to_string() },
        How::Stopped => return Err(Interrupted),
    })
}

/// Returns the agent's last message, or its output if the client reports no message.
fn words(heard: &ParsedReport, printed: String) -> String {
    match (&heard.report, heard.last_line_is_ours) {
        (Some(report), _) => shown(report),
        (None, true) => printed.trim_end().rsplit_once('\n').map_or("", |(before, _)| before).to_owned(),
        (None, false) => printed,
    }
}

fn shown(text: &str) -> String {
    let whole = Output { head: text.as_bytes().to_vec(), tail: Vec::new(), bytes: text.len() as u64 };
    whole.excerpt(REPORT).to_string()
}

/// Turns an attempt into a failed one. Some clients exit with 0 although the model's API rejected them.
fn failed(attempt: AttemptReport, failure: &str) -> AttemptReport {
    let mut attempt = attempt;
    let failure = shown(failure);
    if attempt.end == (AttemptEnd::Exited { exit_code: 0 }) {
        attempt.end = AttemptEnd::Exited { exit_code: 1 };
        attempt.notes.push("its client exited with 0 and reported an error".to_owned());
    }
    if !attempt.report.trim_end().ends_with(failure.trim_end()) {
        attempt.report = [attempt.report.trim_end(), &failure].join("\n").trim_start().to_owned();
    }
    attempt.has_reason = true;
    attempt
}

fn about(home: HomeSeen) -> Option<&'static str> {
    match home {
        HomeSeen::AsAsked => None,
        HomeSeen::Forgotten => {
            Some("provost discarded what the agent wrote to its home: the state folder cannot hold a layer")
        }
        HomeSeen::Empty => Some(
            "the agent had an empty home: provost cannot put a layer over your home (home = \"shared\" \
             gives the agent your home as it is)",
        ),
    }
}

/// Returns the user's environment without provost's own variables.
pub(crate) fn environment(work: &AttemptInput<'_>) -> Vec<(OsString, OsString)> {
    work.environment.iter().filter(|(name, _)| !is_ours(name)).cloned().collect()
}

/// Returns the reason if the sandbox forwarder could not execute the agent's program. It then prints the
/// reason and exits with `NOT_STARTED`.
fn not_started_behind_portal(is_behind_portal: bool, how: How, ended: &ProcessEnd) -> Option<String> {
    let text = String::from_utf8_lossy(&ended.stderr.head);
    let (_, said) = text.trim().strip_prefix("error: cannot start the agent")?.split_once("because: ")?;
    let is_portals = is_behind_portal && how == How::Exited(NOT_STARTED) && !said.contains('\n');
    is_portals.then(|| format!("its program cannot be started inside the sandbox: {said}"))
}

/// Returns the paths of the machine that the configured command needs. Arguments that contain the prompt
/// are skipped, because an agent may have written part of the prompt.
fn needs(
    program: &OsString,
    args: &[OsString],
    environment: &[(OsString, OsString)],
    work: &AttemptInput<'_>,
) -> AgentPaths {
    let prompts = [Some(work.prompt), work.resume.map(|resume| resume.prompt)];
    let has_prompt = |arg: &OsString| {
        let text = arg.to_string_lossy();
        prompts.iter().flatten().any(|prompt| !prompt.is_empty() && text.contains(prompt))
    };
    let args: Vec<OsString> = args.iter().filter(|arg| !has_prompt(arg)).cloned().collect();
    AgentPaths::from_command(&CommandLine { program, args: &args, folder: work.workspace, environment })
}

/// Returns whether the variable configures provost; agents do not get such variables.
fn is_ours(name: &std::ffi::OsStr) -> bool {
    name.as_encoded_bytes().starts_with(b"PROVOST_")
}
