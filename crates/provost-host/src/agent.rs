//! Agents: who is given the work of a step, and what they said when they came back.
//!
//! A driver knows how to hand a prompt over and how to collect a report. It does not know what a step
//! is for, and nothing it returns can pass one.
//!
//! **Invariant:** when an attempt returns, its processes are dead or named.

use std::ffi::OsString;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use provost_core::model::event::{AttemptEnd, Outside, Post};
use provost_core::model::plan::{StepNumber, Stream};
use provost_core::model::usage::Usage;
use provost_core::model::verdict::Excerpt;

use crate::config::Speaks;
use crate::process::{Bounds, Ended, How, Keep, NotStarted, Output, Spawn, Survivor};
use crate::sandbox::{AgentFence, CommandLine, Confines, HomeSeen, Needs, Offer, Outlet, find_program};
use crate::{Interrupted, process, sandbox};

pub mod acp;
pub mod builtin;
pub mod client;
pub mod command;
pub mod headless;
pub mod home;
pub mod item;
pub mod outbox;
pub mod report;
pub mod scripted;

pub use item::{Item, Saying};

pub(crate) use item::server as served;

use report::{Heard, Reader, believable, is_session, micro};

/// The variable that says where topics are written to.
pub const TOPICS: &str = "PROVOST_TOPICS";

/// What an agent says at most; more is cut in the middle.
const REPORT: usize = 64 * 1024;
const STDERR: usize = 8 * 1024;
const KEEP: Keep = Keep { head: REPORT / 2, tail: REPORT / 2 };
/// For an agent that is asked to end: to save its session and stop its own children.
const GRACE: Duration = Duration::from_secs(5);
/// The exit code of a portal that could not become the agent's program.
const NOT_STARTED: i32 = 70;

pub trait Agent: Send + Sync {
    /// Gives the work to the agent and waits for the end of its process.
    fn attempt(&self, work: &Work<'_>) -> Result<Attempt, Interrupted>;

    /// It has a client that keeps its configuration and its conversations in a folder.
    fn has_client(&self) -> bool {
        false
    }
}

/// Hears what an agent prints, piece by piece.
pub type Ear<'a> = &'a (dyn Fn(&[u8]) + Sync + 'a);

/// One attempt at a step, as the agent gets it.
#[derive(Clone, Copy)]
pub struct Work<'a> {
    pub prompt: &'a str,
    pub workspace: &'a Path,
    pub step: StepNumber,
    pub attempt: u32,
    pub timeout: Duration,
    /// Which attempt its processes belong to; unique among those under way.
    pub tag: &'a str,
    pub stop: Option<&'a AtomicBool>,
    /// What it may reach; without one, everything its user may.
    pub fence: Option<Behind<'a>>,
    /// What the harness was given by the person who started it.
    pub environment: &'a [(OsString, OsString)],
    /// How much of the machine it may take.
    pub bounds: Option<Bounds>,
    /// The folder of its client, for an agent that has one. It outlives the attempt.
    pub home: Option<&'a Path>,
    /// The conversation to go on with.
    pub resume: Option<Resume<'a>>,
    /// Where it writes to topics, and to which.
    pub outbox: Option<Outbox<'a>>,
    /// Is told what it prints or says, as it comes.
    pub heard: Option<Ear<'a>>,
}

/// A folder, empty at first, in which each of these topics may get a file.
#[derive(Clone, Copy, Debug)]
pub struct Outbox<'a> {
    pub folder: &'a Path,
    pub topics: &'a [String],
    /// What its tools are to tell of its work, where it has such tools.
    pub item: Option<&'a Item>,
}

/// A conversation, and what is said next in it. Where it cannot be gone on with, the whole prompt begins
/// a new one.
#[derive(Clone, Copy, Debug)]
pub struct Resume<'a> {
    pub session: &'a str,
    pub prompt: &'a str,
    /// What its turns have used until now.
    pub used: &'a Usage,
}

/// The fence around an agent.
#[derive(Clone, Copy)]
pub enum Behind<'a> {
    Bubblewrap(&'a Offer, AgentFence<'a>),
    /// And variables that are otherwise there.
    Confines(&'a Confines<'a>, &'a [(OsString, OsString)]),
}

/// How an attempt went. It is kept, shown, and never decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    pub end: AttemptEnd,
    pub report: String,
    pub stderr: Excerpt,
    pub duration: Duration,
    pub survivors: Vec<Survivor>,
    /// What its fence had to say, for people.
    pub notes: Vec<String>,
    /// What it used, as far as its driver could tell.
    pub usage: Usage,
    /// The conversation it was, where it ended well and can be gone on with.
    pub session: Option<String>,
    /// What it wrote to topics.
    pub published: Vec<Post>,
    /// What it said about its step by its tools.
    pub said: Option<Saying>,
    /// How it changed its own plan on the way.
    pub rewrites: Vec<String>,
    /// What was otherwise after it than before, where it may not write.
    pub outside: Vec<Outside>,
}

impl Attempt {
    pub(crate) fn not_started(error: &dyn std::error::Error) -> Self {
        let reason = match error.source() {
            Some(source) => format!("{error}: {source}"),
            None => error.to_string(),
        };
        Self {
            end: AttemptEnd::NotStarted { reason },
            report: String::new(),
            stderr: Excerpt::default(),
            duration: Duration::ZERO,
            survivors: Vec::new(),
            notes: Vec::new(),
            usage: Usage::default(),
            session: None,
            published: Vec::new(),
            said: None,
            rewrites: Vec::new(),
            outside: Vec::new(),
        }
    }
}

/// An agent's program, as it is started.
#[derive(Clone, Copy)]
struct Launch<'a> {
    program: &'a OsString,
    args: &'a [OsString],
    /// Beside the user's own variables, and before them.
    env: &'a [(OsString, OsString)],
}

/// A program that is over.
struct Over {
    end: AttemptEnd,
    ended: Ended,
    notes: Vec<String>,
}

impl Over {
    fn attempt(self, report: String, usage: Usage) -> Attempt {
        Attempt {
            end: self.end,
            report,
            stderr: self.ended.stderr.excerpt(STDERR),
            duration: self.ended.duration,
            survivors: self.ended.survivors,
            notes: self.notes,
            usage,
            session: None,
            published: Vec::new(),
            said: None,
            rewrites: Vec::new(),
            outside: Vec::new(),
        }
    }
}

/// Starts an agent's program and reads what it prints. The prompt is on its stdin, and then nothing.
fn start(launch: Launch<'_>, stdin: &[u8], speaks: Speaks, work: &Work<'_>) -> Result<Attempt, Interrupted> {
    let mut reader = Reader::new(speaks);
    let mut listen = |stream: Stream, bytes: &[u8]| {
        if stream == Stream::Stdout {
            reader.take(bytes);
        }
        work.heard.inspect(|heard| heard(bytes));
    };
    let over =
        carry_out(launch, work, |spawn| process::run(Spawn { stdin, tee: Some(&mut listen), ..spawn }))?;
    let over = match over {
        Ok(over) => over,
        Err(not_started) => return Ok(*not_started),
    };
    let heard = reader.finish(matches!(over.end, AttemptEnd::Exited { .. }));
    let printed = over.ended.stdout.excerpt(REPORT).to_string();
    let usage = match work.resume {
        Some(resume) => speaks.since(resume.used, &heard),
        None => heard.usage.clone(),
    };
    let mut attempt = over.attempt(words(&heard, printed), usage);
    attempt.rewrites = heard.rewrites.iter().map(|diff| shown(diff)).collect();
    Ok(match heard.failure {
        Some(failure) => failed(attempt, &failure),
        // What did not end well is not gone on with.
        None if attempt.end == (AttemptEnd::Exited { exit_code: 0 }) => {
            Attempt { session: heard.session, ..attempt }
        }
        None => attempt,
    })
}

/// Starts an agent's program in the workspace and behind its fence, with the user's environment: it needs
/// its keys. `attend` is what becomes of it until it is over.
fn carry_out(
    launch: Launch<'_>,
    work: &Work<'_>,
    attend: impl FnOnce(Spawn<'_>) -> Result<Ended, NotStarted>,
) -> Result<Result<Over, Box<Attempt>>, Interrupted> {
    let not_started = |error: &dyn std::error::Error| Ok(Err(Box::new(Attempt::not_started(error))));
    let Launch { program, args, env: own } = launch;
    let mut env: Vec<_> =
        environment(work).into_iter().filter(|(name, _)| !own.iter().any(|(set, _)| set == name)).collect();
    env.extend_from_slice(own);
    env.extend(work.outbox.map(|outbox| (TOPICS.into(), outbox.folder.into())));
    if let Some(Behind::Confines(_, more)) = work.fence {
        env.extend_from_slice(more);
    }
    // Behind a portal nobody else would find out.
    let is_behind_portal = matches!(work.fence, Some(Behind::Bubblewrap(_, fence)) if matches!(fence.network, Outlet::Portal(_)));
    if is_behind_portal && find_program(program, work.workspace, &env).is_none() {
        return not_started(&NotStarted::NotFound { program: program.into() });
    }
    let needs = needs(program, args, &env, work);
    let wrapped = work.fence.map(|fence| match fence {
        Behind::Bubblewrap(offer, fence) => {
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
    let has_namespace = matches!(work.fence, Some(Behind::Bubblewrap(..)));
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
        stop: work.stop,
        tee: None,
        // In a namespace of its own the kernel ends what is left.
        bounds: work.bounds.map(|bounds| Bounds { cgroup: !has_namespace, ..bounds }),
    });
    let ended = match ended {
        Ok(ended) => ended,
        Err(error) => return not_started(&error),
    };
    let how = match wrapped.as_ref().map(|wrapped| wrapped.how(&ended)) {
        None => ended.how,
        Some(Ok(how)) => how,
        Some(Err(error)) => return not_started(&error),
    };
    let home = wrapped.map(|wrapped| sandbox::read_status(&wrapped.status).home).unwrap_or_default();
    let notes = Vec::from_iter(about(home).map(str::to_owned));
    if let Some(reason) = not_started_behind_portal(is_behind_portal, how, &ended) {
        let end = AttemptEnd::NotStarted { reason };
        return Ok(Ok(Over { end, ended, notes }));
    }
    let end = match how {
        How::Exited(exit_code) => AttemptEnd::Exited { exit_code },
        How::Signalled(signal) => AttemptEnd::Signalled { signal },
        How::TimedOut => AttemptEnd::TimedOut,
        How::OverBounds(exceeded) => AttemptEnd::OverBounds { reason: exceeded.to_string() },
        How::Stopped => return Err(Interrupted),
    };
    Ok(Ok(Over { end, ended, notes }))
}

/// The agent's last words, as text that can be kept and shown.
fn words(heard: &Heard, printed: String) -> String {
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

/// Some clients are turned away by the model's API and end as if all were well.
fn failed(attempt: Attempt, failure: &str) -> Attempt {
    let mut attempt = attempt;
    let failure = shown(failure);
    if attempt.end == (AttemptEnd::Exited { exit_code: 0 }) {
        attempt.end = AttemptEnd::Exited { exit_code: 1 };
        attempt.notes.push("its client exited with 0 and reported an error".to_owned());
    }
    if !attempt.report.contains(&failure) {
        attempt.report = [attempt.report.trim_end(), &failure].join("\n").trim_start().to_owned();
    }
    attempt
}

fn about(home: HomeSeen) -> Option<&'static str> {
    match home {
        HomeSeen::AsAsked => None,
        HomeSeen::Forgotten => {
            Some("what the agent wrote to its home is gone: no layer can be kept in the state folder")
        }
        HomeSeen::Empty => Some(
            "the agent's home was empty: your home cannot have a layer over it (home = \"shared\" gives it as it is)",
        ),
    }
}

/// The user's, less what is the harness's own.
pub(crate) fn environment(work: &Work<'_>) -> Vec<(OsString, OsString)> {
    work.environment.iter().filter(|(name, _)| !is_ours(name)).cloned().collect()
}

/// The portal becomes the agent's program; where it cannot, it says why and ends with its own code.
fn not_started_behind_portal(is_behind_portal: bool, how: How, ended: &Ended) -> Option<String> {
    let text = String::from_utf8_lossy(&ended.stderr.head);
    let (_, said) = text.trim().strip_prefix("error: cannot start the agent")?.split_once("because: ")?;
    let is_portals = is_behind_portal && how == How::Exited(NOT_STARTED) && !said.contains('\n');
    is_portals.then(|| format!("its program cannot be started inside the sandbox: {said}"))
}

/// What the configured command needs of the machine. A prompt among its words is not looked at: an agent
/// may have written part of it.
fn needs(
    program: &OsString,
    args: &[OsString],
    environment: &[(OsString, OsString)],
    work: &Work<'_>,
) -> Needs {
    let prompts = [Some(work.prompt), work.resume.map(|resume| resume.prompt)];
    let has_prompt = |arg: &OsString| {
        let text = arg.to_string_lossy();
        prompts.iter().flatten().any(|prompt| !prompt.is_empty() && text.contains(prompt))
    };
    let args: Vec<OsString> = args.iter().filter(|arg| !has_prompt(arg)).cloned().collect();
    Needs::from_command(&CommandLine { program, args: &args, folder: work.workspace, environment })
}

/// What configures the harness is not the agent's business.
fn is_ours(name: &std::ffi::OsStr) -> bool {
    name.as_encoded_bytes().starts_with(b"PROVOST_")
}
