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

use provost_core::event::AttemptEnd;
use provost_core::plan::{StepNumber, Stream};
use provost_core::usage::Usage;
use provost_core::verdict::Excerpt;

use crate::Interrupted;
use crate::process::{self, Bounds, How, Keep, NotStarted, Output, Spawn, Survivor};
use crate::sandbox::{self, AgentFence, Confines, HomeSeen, Offer, Outlet};

pub mod builtin;
pub mod command;
pub mod report;
pub mod scripted;

pub use report::Speaks;

use report::{Heard, Reader};

/// What an agent says at most; more is cut in the middle.
const REPORT: usize = 64 * 1024;
const STDERR: usize = 8 * 1024;
const KEEP: Keep = Keep { head: REPORT / 2, tail: REPORT / 2 };
/// For an agent that is asked to end: to save its session and stop its own children.
const GRACE: Duration = Duration::from_secs(5);

pub trait Agent: Send + Sync {
    /// Gives the work to the agent and waits for the end of its process.
    fn attempt(&self, work: &Work<'_>) -> Result<Attempt, Interrupted>;
}

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
        }
    }
}

/// Starts an agent's program in the workspace, with the user's environment: it needs its keys.
fn start(
    program: &OsString,
    args: &[OsString],
    stdin: &[u8],
    speaks: Speaks,
    work: &Work<'_>,
) -> Result<Attempt, Interrupted> {
    let mut env = environment(work);
    if let Some(Behind::Confines(_, more)) = work.fence {
        env.extend_from_slice(more);
    }
    // Behind a portal nobody else would find out.
    let is_behind_portal = matches!(work.fence, Some(Behind::Bubblewrap(_, fence)) if matches!(fence.network, Outlet::Portal(_)));
    if is_behind_portal && !is_there(program, work.workspace, &env) {
        return Ok(Attempt::not_started(&NotStarted::NotFound { program: program.into() }));
    }
    let wrapped = work.fence.map(|fence| match fence {
        Behind::Bubblewrap(offer, fence) => sandbox::agent(offer, &fence, program, args),
        Behind::Confines(confines, _) => sandbox::confine(confines, program, args),
    });
    let wrapped = match wrapped {
        None => None,
        Some(Ok(wrapped)) => Some(wrapped),
        Some(Err(error)) => return Ok(Attempt::not_started(&error)),
    };
    let (program, args) = match &wrapped {
        Some(wrapped) => (&wrapped.program, wrapped.args.as_slice()),
        None => (program, args),
    };
    let has_namespace = matches!(work.fence, Some(Behind::Bubblewrap(..)));
    let mut reader = Reader::new(speaks);
    let mut listen = |stream: Stream, bytes: &[u8]| {
        if stream == Stream::Stdout {
            reader.take(bytes);
        }
    };
    let ended = process::run(Spawn {
        program,
        args,
        cwd: work.workspace,
        env: &env,
        stdin,
        deadline: work.timeout,
        grace: GRACE,
        keep: KEEP,
        tag: work.tag,
        stop: work.stop,
        tee: Some(&mut listen),
        // In a namespace of its own the kernel ends what is left.
        bounds: work.bounds.map(|bounds| Bounds { cgroup: !has_namespace, ..bounds }),
    });
    let ended = match ended {
        Ok(ended) => ended,
        Err(error) => return Ok(Attempt::not_started(&error)),
    };
    let how = match wrapped.as_ref().map(|wrapped| wrapped.how(&ended)) {
        None => ended.how,
        Some(Ok(how)) => how,
        Some(Err(error)) => return Ok(Attempt::not_started(&error)),
    };
    let home = wrapped.map(|wrapped| sandbox::read_status(&wrapped.status).home).unwrap_or_default();
    let notes = Vec::from_iter(about(home).map(str::to_owned));
    let end = match how {
        How::Exited(exit_code) => AttemptEnd::Exited { exit_code },
        How::Signalled(signal) => AttemptEnd::Signalled { signal },
        How::TimedOut => AttemptEnd::TimedOut,
        How::OverBounds(exceeded) => AttemptEnd::OverBounds { reason: exceeded.to_string() },
        How::Stopped => return Err(Interrupted),
    };
    let heard = reader.finish(matches!(end, AttemptEnd::Exited { .. }));
    let printed = ended.stdout.excerpt(REPORT).to_string();
    let attempt = Attempt {
        end,
        report: words(&heard, printed),
        stderr: ended.stderr.excerpt(STDERR),
        duration: ended.duration,
        survivors: ended.survivors,
        notes,
        usage: heard.usage,
    };
    Ok(match heard.failure {
        Some(failure) => failed(attempt, &failure),
        None => attempt,
    })
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

/// Whether there is such a program, as far as can be seen from outside.
fn is_there(program: &OsString, workspace: &Path, env: &[(OsString, OsString)]) -> bool {
    if Path::new(program).components().count() > 1 {
        return workspace.join(program).exists();
    }
    let path = env.iter().find(|(name, _)| name == "PATH").map(|(_, path)| std::env::split_paths(path));
    path.into_iter().flatten().any(|folder| folder.join(program).exists())
}

/// What configures the harness is not the agent's business.
fn is_ours(name: &std::ffi::OsStr) -> bool {
    name.as_encoded_bytes().starts_with(b"PROVOST_")
}
