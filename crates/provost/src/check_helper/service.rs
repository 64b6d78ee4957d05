//! Starts a program in its own process group, and ends it with everything that it started.
//!
//! This process adopts orphans of its descendants, so a program that moves into the background or into
//! another session is found too.
//!
//! **Invariant:** when a [`Service`] is dropped, no process that it started is alive.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{
    Pid, Signal, WaitOptions, getpid, kill_process, kill_process_group, set_child_subreaper, wait,
};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::ending::Ending;

/// Time between the request to end and the kill.
const GRACE: Duration = Duration::from_secs(2);
/// Time between two looks at a process.
pub(super) const PAUSE: Duration = Duration::from_millis(20);
/// Bytes of the output that are shown.
const SHOWN: u64 = 4 * 1024;

static INTERRUPTED: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// Notes signals that end this process, so that it first ends what it started.
pub(super) fn watch_signals() {
    for signal in [SIGHUP, SIGINT, SIGTERM] {
        let _ = signal_hook::flag::register(signal, INTERRUPTED.clone());
    }
}

/// Fails if a signal asked this process to end.
pub(super) fn go_on() -> Result<(), Ending> {
    match INTERRUPTED.load(Ordering::Acquire) {
        true => Err(Ending::NotRun("it was interrupted".to_owned())),
        false => Ok(()),
    }
}

/// A program that runs until it is dropped.
pub(super) struct Service {
    child: Child,
    output: File,
    ended: Option<ExitStatus>,
}

impl Service {
    /// Starts a program in a folder, with these additional variables.
    pub(super) fn start(
        folder: &Path,
        command: &[OsString],
        variables: &[(&str, String)],
    ) -> Result<Self, Ending> {
        let Some((program, words)) = command.split_first() else {
            return Err(Ending::Usage("no command after `--`".to_owned()));
        };
        set_child_subreaper(Some(getpid())).map_err(|error| Ending::not_run("adopt processes", error))?;
        let failed = |error: std::io::Error| Ending::not_run("keep the output of the service", error);
        let output = tempfile::tempfile().map_err(failed)?;
        let (stdout, stderr) = (output.try_clone().map_err(failed)?, output.try_clone().map_err(failed)?);
        let mut starting = Command::new(program);
        starting
            .current_dir(folder)
            .args(words)
            .stdin(Stdio::null())
            .stdout(stdout)
            .stderr(stderr)
            .process_group(0);
        starting.envs(variables.iter().map(|(name, value)| (name, value)));
        let child = starting.spawn().map_err(|error| {
            Ending::Unmet(format!("{} cannot be started: {error}", program.to_string_lossy()))
        })?;
        Ok(Self { child, output, ended: None })
    }

    /// Returns how the program ended, if neither it nor a process that it started is alive.
    pub(super) fn ended(&mut self) -> Option<ExitStatus> {
        if self.ended.is_none() {
            self.ended = self.child.try_wait().ok().flatten();
        }
        self.ended.filter(|_| living().is_empty())
    }

    /// Returns an ending with the last output of the program.
    pub(super) fn with_output(&mut self, ending: Ending) -> Ending {
        ending.noted(&self.last_output())
    }

    fn last_output(&mut self) -> String {
        let mut bytes = Vec::new();
        let length = self.output.seek(SeekFrom::End(0)).unwrap_or_default();
        let start = length.saturating_sub(SHOWN);
        let _ = self.output.seek(SeekFrom::Start(start));
        let _ = self.output.read_to_end(&mut bytes);
        match String::from_utf8_lossy(&bytes).trim() {
            "" => "the service printed nothing".to_owned(),
            text => {
                let lines: Vec<String> = text.lines().map(|line| format!("  | {line}")).collect();
                format!("the last output of the service:\n{}", lines.join("\n"))
            }
        }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let group = Pid::from_child(&self.child);
        if self.ended.is_none() {
            let _ = kill_process_group(group, Signal::TERM);
        }
        let asked = Instant::now();
        while !reap() {
            let signal = if asked.elapsed() < GRACE { Signal::TERM } else { Signal::KILL };
            for pid in living() {
                let _ = kill_process(pid, signal);
            }
            sleep(PAUSE);
        }
    }
}

/// Collects ended children; returns `true` if there are no children left.
fn reap() -> bool {
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some(_)) => {}
            Ok(None) => return false,
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return true,
        }
    }
}

/// Returns all living descendants of this process.
fn living() -> Vec<Pid> {
    let mut children: BTreeMap<i32, Vec<(i32, bool)>> = BTreeMap::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else {
            continue;
        };
        let Ok(text) = std::fs::read_to_string(entry.path().join("stat")) else { continue };
        // The name in parentheses may contain anything.
        let mut fields = text.rsplit(") ").next().unwrap_or_default().split(' ');
        let (state, parent) = (fields.next(), fields.next().and_then(|parent| parent.parse().ok()));
        if let Some(parent) = parent {
            children.entry(parent).or_default().push((pid, state == Some("Z")));
        }
    }
    let (mut open, mut seen) = (vec![getpid().as_raw_pid()], BTreeSet::new());
    while let Some(parent) = open.pop() {
        for (pid, is_dead) in children.get(&parent).into_iter().flatten() {
            open.push(*pid);
            if !is_dead {
                seen.insert(*pid);
            }
        }
    }
    seen.into_iter().filter_map(Pid::from_raw).collect()
}
