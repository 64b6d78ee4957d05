//! Starts child processes and makes sure that they have ended.
//!
//! A child gets a process group, a deadline, an environment and a tag; a limited amount of its output is
//! kept. One thread waits with one `poll` for the child's pipes and its end together, and does not wake up
//! without cause.
//!
//! **Invariant:** when [`run`] returns, nothing that the child started is alive, unless it is named in
//! [`ProcessEnd::survivors`].
//! **Invariant:** the leader is reaped after its group was killed, never before: until then its pid cannot
//! be reused.

use std::ffi::{OsStr, OsString};
use std::io::{self, Seek as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use provost_core::model::plan::Stream;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

mod bounds;
mod caller;
mod cgroup;
mod escape;
mod excerpt;
mod lineage;
mod output;
mod proc_files;
mod program;
mod survivor;
mod talk;

pub use bounds::{Bounds, LimitExcess, LimitKind, size};
pub use caller::{Caller, caller, can_be_below};
pub use cgroup::{Cgroup, Enclosure, enter as enter_cgroup, offered as cgroups_offered};
pub use escape::{become_subreaper, end_attempt, end_leftovers, inside_attempt};
pub use lineage::{Age, Blind, Lineage, Seat};
pub use output::{HeadAndTail, Output};
pub use survivor::Survivor;
pub use talk::Peer;

use bounds::LimitWatch;
use escape::UnderWay;
use output::Capture;
use program::{find_program, why_not};
use talk::Ears;

/// The environment variable that says which attempt a process belongs to.
pub const TAG: &str = "PROVOST_ATTEMPT";

/// The delay after which a stop request is noticed, at most.
const STOP_LATENCY: Duration = Duration::from_millis(100);
/// Grace for a child over its bounds: short, because it may take more the longer it runs.
const HASTE: Duration = Duration::from_millis(300);
/// Time to wait for more output once every process that could print should be dead.
const DRAIN: Duration = Duration::from_millis(200);
/// Time for a child to exit by itself after its conversation is over.
const LEAVE: Duration = Duration::from_secs(2);
/// Variable that is set to the inode of the child's stdout if the environment has it: a program then knows
/// whether provost reads what it prints.
pub const STDOUT: &str = "PROVOST_STDOUT";
const USUAL_PIPE: usize = 64 * 1024;
const FLOODED_PIPE: usize = 1024 * 1024;

/// Callback that sees a child's output.
pub type Tee<'a> = Option<&'a mut dyn FnMut(Stream, &[u8])>;

/// The program to start, and its limits.
pub struct Spawn<'a> {
    /// A path, or a name that is looked up in the `PATH` of `env`.
    pub program: &'a OsStr,
    pub args: &'a [OsString],
    pub cwd: &'a Path,
    /// The whole environment; [`TAG`] is added to it.
    pub env: &'a [(OsString, OsString)],
    /// Bytes that the child reads from stdin before end of file.
    pub stdin: &'a [u8],
    pub deadline: Duration,
    /// Time between SIGTERM and SIGKILL.
    pub grace: Duration,
    pub keep: HeadAndTail,
    /// Tag of the attempt; no other running attempt may have the same.
    pub tag: &'a str,
    /// Asked again and again whether the child shall end early.
    pub stop: Option<&'a dyn StopRequest>,
    /// Sees every byte as it arrives.
    pub tee: Tee<'a>,
    /// Limits on the resources that the child may use, in `cwd` and elsewhere.
    pub bounds: Option<Bounds>,
    /// Whether a cgroup ends everything that the child starts.
    pub enclosure: Enclosure<'a>,
}

/// A request to end a child early.
pub trait StopRequest {
    fn is_made(&self) -> bool;
}

impl StopRequest for AtomicBool {
    fn is_made(&self) -> bool {
        self.load(Ordering::Relaxed)
    }
}

/// Returns the request that this flag makes when it is set.
pub fn stop_flag(flag: Option<&AtomicBool>) -> Option<&dyn StopRequest> {
    flag.map(|flag| flag as &dyn StopRequest)
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessEnd {
    pub how: How,
    pub stdout: Output,
    pub stderr: Output,
    pub duration: Duration,
    /// Processes that could not be ended, or could not be proven to have ended.
    pub survivors: Vec<Survivor>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    Exited(i32),
    /// Killed by a signal that provost did not send.
    Signalled(i32),
    TimedOut,
    /// It used more resources than it may, and provost ended it.
    OverBounds(LimitExcess),
    Stopped,
}

/// Reason why no child was started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("program not found: {}", .program.display())]
    NotFound { program: PathBuf },
    #[error("program cannot be executed: {}", .program.display())]
    NotExecutable { program: PathBuf, source: io::Error },
    #[error("folder is missing: {}", .cwd.display())]
    NoFolder { cwd: PathBuf },
    #[error("arguments and environment are too long for {}", .program.display())]
    TooLong { program: PathBuf },
    #[error("could not start {}", .program.display())]
    Other { program: PathBuf, source: io::Error },
}

/// Starts the child, waits for its end, and ends every process it left behind.
pub fn run(spawn: Spawn<'_>) -> Result<ProcessEnd, StartError> {
    carry_out(spawn, None)
}

/// Like [`run`], with a conversation: only `peer` writes to the child's stdin. Before provost ends the
/// child, `peer` tells it so; a child whose conversation is over gets two seconds to exit by itself.
pub fn converse(spawn: Spawn<'_>, peer: &mut dyn Peer) -> Result<ProcessEnd, StartError> {
    carry_out(spawn, Some(peer))
}

fn carry_out(mut spawn: Spawn<'_>, peer: Option<&mut dyn Peer>) -> Result<ProcessEnd, StartError> {
    let begun = Instant::now();
    let run = UnderWay::enter(spawn.tag);
    let mut ears = Ears::new(spawn.tee.take(), peer);
    let starting = escape::starting();
    let mut attended = Attended::start(&spawn, ears.converse())?;
    run.leads(attended.group);
    drop(starting);
    ears.begin(attended.child.stdin.take().map(OwnedFd::from));
    let ending = attended.attend(&spawn, &mut ears, begun, &run);
    let status = attended.bury();
    run.buried();
    let mut survivors = attended.enclosing(spawn.enclosure).map(Cgroup::end).unwrap_or_default();
    survivors.extend(escape::sweep(&run, spawn.tag, attended.group));
    attended.drain(&mut ears, DRAIN);
    // A process that is no longer our descendant can still print. It is searched for more than once: its tag cannot
    // be read while it starts another program.
    for _ in 0..3 {
        if attended.is_still_read() && survivors.is_empty() {
            survivors.extend(escape::end_remains(spawn.tag));
            attended.drain(&mut ears, DRAIN);
        }
    }
    survivors.extend(escape::holders(&attended.pipes()));
    let how = match ending {
        Some(how) => how,
        None => match status.map(|status| (status.code(), status.signal())) {
            Ok((Some(code), _)) => How::Exited(code),
            Ok((None, signal)) => How::Signalled(signal.unwrap_or(0)),
            // Other code in this process reaped the child. Its exit status is unknown, so it does not count
            // as success.
            Err(_) => How::Signalled(0),
        },
    };
    let [stdout, stderr] = attended.outputs.map(|stream| stream.capture.finish());
    Ok(ProcessEnd { how, stdout, stderr, duration: begun.elapsed(), survivors })
}

/// Returns the child's stdin. All bytes are available from the start, so that an agent is not left with
/// half a prompt if provost dies.
fn input(bytes: &[u8], converses: bool) -> io::Result<Stdio> {
    if converses {
        return Ok(Stdio::piped());
    }
    if bytes.is_empty() {
        return Ok(Stdio::null());
    }
    let memory = rustix::fs::memfd_create("stdin", rustix::fs::MemfdFlags::CLOEXEC)?;
    let mut file = std::fs::File::from(memory);
    file.write_all(bytes)?;
    file.rewind()?;
    Ok(file.into())
}

/// A running child with its pipes and handles.
struct Attended {
    child: Child,
    group: Pid,
    end: OwnedFd,
    outputs: [Reading; 2],
    buffer: Vec<u8>,
    /// The cgroup that the child was moved into.
    moved_into: Option<Cgroup>,
}

/// The progress of a child towards its end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    AtWork,
    /// Told to end, in its conversation.
    Told,
    /// Asked to end, by a signal.
    Asked,
}

struct Reading {
    stream: Stream,
    /// `None` once the last writer has closed it.
    pipe: Option<OwnedFd>,
    capture: Capture,
}

impl Attended {
    fn start(spawn: &Spawn<'_>, converses: bool) -> Result<Self, StartError> {
        let program = find_program(spawn)?;
        let other = |source| StartError::Other { program: program.clone(), source };
        let (stdout, stdout_of_child, inode) = output::pipe().map_err(other)?;
        let is_asked = spawn.env.iter().any(|(name, _)| name == STDOUT);
        // A process group, but no closure before exec: that would prevent the use of posix_spawn.
        let started = Command::new(&program)
            .args(spawn.args)
            .current_dir(spawn.cwd)
            .env_clear()
            .envs(spawn.env.iter().map(|(name, value)| (name, value)))
            .envs(is_asked.then_some((STDOUT, inode)))
            .env(TAG, spawn.tag)
            .process_group(0)
            .stdin(input(spawn.stdin, converses).map_err(other)?)
            .stdout(stdout_of_child)
            .stderr(Stdio::piped())
            .spawn();
        let mut child = started.map_err(|source| why_not(program.clone(), spawn.cwd, source))?;
        let pid = Pid::from_child(&child);
        match pidfd_open(pid, PidfdFlags::empty())
            .and_then(|end| Self::attach(&mut child, stdout, end, spawn.keep))
        {
            Ok((end, outputs)) => {
                let buffer = vec![0; USUAL_PIPE];
                Ok(Self { child, group: pid, end, outputs, buffer, moved_into: None })
            }
            Err(source) => {
                // Out of descriptors: a child that cannot be supervised must not run.
                let _ = kill_process_group(pid, Signal::KILL);
                let _ = child.wait();
                Err(StartError::Other { program, source: source.into() })
            }
        }
    }

    fn attach(
        child: &mut Child,
        stdout: OwnedFd,
        end: OwnedFd,
        keep: HeadAndTail,
    ) -> rustix::io::Result<(OwnedFd, [Reading; 2])> {
        let pipes =
            [(Stream::Stdout, Some(stdout)), (Stream::Stderr, child.stderr.take().map(OwnedFd::from))];
        for pipe in pipes.iter().filter_map(|(_, pipe)| pipe.as_ref()) {
            rustix::io::ioctl_fionbio(pipe, true)?;
        }
        Ok((end, pipes.map(|(stream, pipe)| Reading { stream, pipe, capture: Capture::new(keep) })))
    }

    /// Reads, writes and waits until the leader is dead. Returns `Some` if provost ended it.
    fn attend(
        &mut self,
        spawn: &Spawn<'_>,
        ears: &mut Ears<'_, '_>,
        begun: Instant,
        run: &UnderWay,
    ) -> Option<How> {
        let mut watch = spawn.bounds.map(|bounds| LimitWatch::begin(bounds, spawn.cwd, self.group));
        // If no other run is active, the orphans of a child can only be its own.
        let is_moved = matches!(spawn.enclosure, Enclosure::IfLasting);
        let mut enclose = is_moved.then(|| begun + run.solitude());
        let mut ending = None;
        let mut phase = Phase::AtWork;
        let mut next = begun.checked_add(spawn.deadline);
        loop {
            let now = Instant::now();
            let at_work = phase == Phase::AtWork;
            if ears.part() && phase != Phase::Asked {
                let leave = now + LEAVE;
                (phase, next) =
                    (Phase::Told, Some(next.filter(|_| !at_work).map_or(leave, |next| next.min(leave))));
            } else if at_work && spawn.stop.is_some_and(StopRequest::is_made) {
                ending = Some(How::Stopped);
                (phase, next) = self.end(ears, now, spawn.grace);
            } else if next.is_some_and(|next| now >= next) {
                (phase, next) = match phase {
                    Phase::AtWork => {
                        ending = Some(How::TimedOut);
                        self.end(ears, now, spawn.grace)
                    }
                    Phase::Told => (Phase::Asked, self.ask_to_end(now, spawn.grace)),
                    Phase::Asked => {
                        // The grace is over.
                        let _ = kill_process_group(self.group, Signal::KILL);
                        (Phase::Asked, None)
                    }
                };
            } else if let Some(watch) = watch.as_mut().filter(|watch| at_work && now >= watch.next())
                && let Some(exceeded) = watch.look(&self.members(run, spawn, watch.enough()))
            {
                ending = Some(How::OverBounds(exceeded));
                (phase, next) = (Phase::Asked, self.ask_to_end(now, spawn.grace.min(HASTE)));
            }
            if enclose.take_if(|at| now >= *at).is_some() {
                self.moved_into = Cgroup::make();
                let members = || escape::members(run, spawn.tag, self.group, usize::MAX);
                self.moved_into.iter().for_each(|cgroup| cgroup.take_in(members));
            }
            let is_awaited = phase == Phase::AtWork;
            let stop = spawn.stop.filter(|_| is_awaited).map(|_| now + STOP_LATENCY);
            let look = watch.as_ref().filter(|_| is_awaited).map(LimitWatch::next);
            let wake = [next, enclose, stop, look].into_iter().flatten().min();
            let patience = wake.map(|wake| wake.saturating_duration_since(now));
            if self.serve(ears, patience) {
                return ending;
            }
        }
    }

    /// Ends the child: tells a conversing child first, and sends SIGTERM to any other.
    fn end(&self, ears: &mut Ears<'_, '_>, now: Instant, grace: Duration) -> (Phase, Option<Instant>) {
        match ears.break_off() {
            true => (Phase::Told, now.checked_add(grace)),
            false => (Phase::Asked, self.ask_to_end(now, grace)),
        }
    }

    /// Returns all living processes of this child; stops soon after `enough`.
    fn members(&self, run: &UnderWay, spawn: &Spawn<'_>, enough: usize) -> Vec<i32> {
        let mut all = escape::members(run, spawn.tag, self.group, enough);
        // Processes in its cgroup certainly belong to this child.
        all.extend(self.enclosing(spawn.enclosure).into_iter().flat_map(Cgroup::members));
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Returns the cgroup around the child.
    fn enclosing<'c>(&'c self, enclosure: Enclosure<'c>) -> Option<&'c Cgroup> {
        match enclosure {
            Enclosure::Entered(cgroup) => Some(cgroup),
            Enclosure::None | Enclosure::IfLasting => self.moved_into.as_ref(),
        }
    }

    fn ask_to_end(&self, now: Instant, grace: Duration) -> Option<Instant> {
        let _ = kill_process_group(self.group, Signal::TERM);
        // A stopped process would not receive SIGTERM.
        let _ = kill_process_group(self.group, Signal::CONT);
        now.checked_add(grace)
    }

    /// Waits for the next event and handles it. Returns true if the leader is dead.
    fn serve(&mut self, ears: &mut Ears<'_, '_>, patience: Option<Duration>) -> bool {
        let [end, stdout, stderr, stdin] = self.wait(ears.mouth(), patience);
        for (index, ready) in [(0, stdout), (1, stderr)] {
            if ready {
                self.read(index, ears);
            }
        }
        if stdin {
            ears.speak();
        }
        end
    }

    /// Returns which of end, stdout, stderr and stdin are ready.
    fn wait(&self, mouth: Option<&OwnedFd>, patience: Option<Duration>) -> [bool; 4] {
        let timeout = patience.and_then(|patience| Timespec::try_from(patience).ok());
        let sources: [Option<(BorrowedFd<'_>, PollFlags)>; 4] = [
            Some((self.end.as_fd(), PollFlags::IN)),
            self.outputs[0].pipe.as_ref().map(|pipe| (pipe.as_fd(), PollFlags::IN)),
            self.outputs[1].pipe.as_ref().map(|pipe| (pipe.as_fd(), PollFlags::IN)),
            mouth.map(|pipe| (pipe.as_fd(), PollFlags::OUT)),
        ];
        // A closed source keeps its slot: it polls an open descriptor for no events.
        let mut polled = sources.map(|source| match source {
            Some((fd, events)) => PollFd::from_borrowed_fd(fd, events),
            None => PollFd::from_borrowed_fd(self.end.as_fd(), PollFlags::empty()),
        });
        match rustix::event::poll(&mut polled, timeout.as_ref()) {
            Ok(_) => std::array::from_fn(|i| sources[i].is_some() && !polled[i].revents().is_empty()),
            // A signal for this process: the caller checks the stop flag next.
            Err(_) => [false; 4],
        }
    }

    /// Reads once only, so that a flood of output cannot delay the deadline. Returns true if there may be
    /// more.
    fn read(&mut self, index: usize, ears: &mut Ears<'_, '_>) -> bool {
        let reading = &mut self.outputs[index];
        let Some(pipe) = &reading.pipe else { return false };
        match rustix::io::read(pipe, &mut self.buffer[..]) {
            Ok(0) => reading.pipe = None,
            Ok(count) => {
                reading.capture.take(&self.buffer[..count]);
                ears.hear(reading.stream, &self.buffer[..count]);
                if count == USUAL_PIPE && self.buffer.len() == USUAL_PIPE {
                    self.widen();
                }
                return true;
            }
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {}
            Err(_) => reading.pipe = None,
        }
        false
    }

    /// Enlarges the pipes and the buffer for a flood of output: fewer and larger reads.
    fn widen(&mut self) {
        for pipe in self.outputs.iter().filter_map(|reading| reading.pipe.as_ref()) {
            // The kernel refuses this if the user's pipes already use much memory; then reading is only
            // slower.
            let _ = rustix::pipe::fcntl_setpipe_size(pipe, FLOODED_PIPE);
        }
        self.buffer.resize(FLOODED_PIPE, 0);
    }

    /// Kills the group of the dead leader, and only then reaps the leader.
    fn bury(&mut self) -> io::Result<std::process::ExitStatus> {
        let _ = kill_process_group(self.group, Signal::KILL);
        self.child.wait()
    }

    /// Reads the rest of the output from the pipes.
    fn drain(&mut self, ears: &mut Ears<'_, '_>, patience: Duration) {
        let deadline = Instant::now() + patience;
        while self.is_still_read() {
            let mut came = false;
            for index in [0, 1] {
                came |= self.read(index, ears);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            if !came && self.is_still_read() {
                self.wait_for_output(left);
            }
        }
    }

    fn wait_for_output(&self, patience: Duration) {
        let timeout =
            Timespec { tv_sec: patience.as_secs().cast_signed(), tv_nsec: patience.subsec_nanos().into() };
        let pipes = self.outputs.iter().filter_map(|reading| reading.pipe.as_ref());
        let mut polled: Vec<_> = pipes.map(|pipe| PollFd::new(pipe, PollFlags::IN)).collect();
        let _ = rustix::event::poll(&mut polled, Some(&timeout));
    }

    fn is_still_read(&self) -> bool {
        self.outputs.iter().any(|reading| reading.pipe.is_some())
    }

    fn pipes(&self) -> Vec<u64> {
        let open = self.outputs.iter().filter_map(|reading| reading.pipe.as_ref());
        open.filter_map(|pipe| rustix::fs::fstat(pipe).ok()).map(|stat| stat.st_ino).collect()
    }
}
