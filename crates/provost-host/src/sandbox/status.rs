//! Tells how a program in a sandbox ended, as reported by the sandbox and not by the program.
//!
//! Bubblewrap writes its observations into a file of provost, from outside the namespaces it made. It
//! reports an exit code only for a program that it did execute: without one, the sandbox itself failed,
//! whatever exit code came out.
//!
//! A program killed by signal n is reported as 128 + n, as in a shell. From outside it cannot be told from
//! a program that exited with this code: [`signal_behind`] names the possible signal. That signal came from
//! inside the sandbox; if the sandbox is killed from outside, its own process dies of the signal.

use std::fs;
use std::path::Path;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use serde::Deserialize;

use super::Unavailable;
use crate::process::{How, ProcessEnd};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SandboxStatus {
    /// The namespaces were made. A path that should be visible inside may still have been missing.
    pub started: bool,
    /// Only for a program that was executed and ended by itself.
    pub exit_code: Option<i32>,
    /// The sandbox's first process; `namespace` is the pid namespace whose first process it is.
    child: Option<i32>,
    namespace: Option<u64>,
    pub home: HomeSeen,
    /// Reported by a process that confined itself: true before it executed the program, false if that
    /// failed.
    entered: Option<bool>,
    /// True once a check that provost's own program starts was reached; `None` if that program is not used.
    inside: Option<bool>,
}

/// The home that an agent really had, if it should be the user's with a layer over it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HomeSeen {
    #[default]
    AsAsked,
    /// The layer could not be kept: the writes are lost.
    Forgotten,
    /// A layer over the user's home was not possible, so the home was empty.
    Empty,
}

#[derive(Deserialize)]
struct Report {
    #[serde(rename = "child-pid")]
    child: Option<i32>,
    #[serde(rename = "pid-namespace")]
    namespace: Option<u64>,
    #[serde(rename = "exit-code")]
    exit_code: Option<i32>,
    #[serde(default)]
    home: HomeSeen,
    entered: Option<bool>,
    inside: Option<bool>,
}

/// Reads what the sandbox reported so far. A missing or unreadable report counts as no report.
pub fn read_status(path: &Path) -> SandboxStatus {
    let text = fs::read(path).unwrap_or_default();
    let mut status = SandboxStatus::default();
    for report in serde_json::Deserializer::from_slice(&text).into_iter::<Report>().map_while(Result::ok) {
        status.child = status.child.or(report.child);
        status.namespace = status.namespace.or(report.namespace);
        status.exit_code = status.exit_code.or(report.exit_code);
        status.entered = report.entered.or(status.entered);
        status.inside = report.inside.or(status.inside);
        if report.home != HomeSeen::AsAsked {
            status.home = report.home;
        }
    }
    status.started = status.child.is_some();
    status
}

/// Returns the signal that may have ended a program in a sandbox with this exit code.
pub fn signal_behind(exit_code: i32) -> Option<i32> {
    (129..=128 + 64).contains(&exit_code).then_some(exit_code - 128)
}

/// Time the kernel may take to end the rest of a sandbox; usually a millisecond.
const BURIAL: Duration = Duration::from_secs(5);

/// Waits until the sandbox's first process is dead. The kernel ends all other processes inside first, so
/// everything is dead then. Bubblewrap itself returns a moment earlier. Returns false after the timeout.
pub(super) fn is_over(status: SandboxStatus) -> bool {
    let Some(first) = status.child.and_then(Pid::from_raw) else { return true };
    let Ok(end) = pidfd_open(first, PidfdFlags::empty()) else { return true };
    // The pid may have been reused. If that cannot be seen, waiting does no harm.
    let namespace = fs::read_link(format!("/proc/{}/ns/pid", first.as_raw_nonzero()));
    let is_another = |inode: u64| namespace.is_ok_and(|found| found != Path::new(&format!("pid:[{inode}]")));
    if status.namespace.is_some_and(is_another) {
        return true;
    }
    let timeout = Timespec { tv_sec: BURIAL.as_secs().cast_signed(), tv_nsec: 0 };
    matches!(poll(&mut [PollFd::new(&end, PollFlags::IN)], Some(&timeout)), Ok(1))
}

/// Returns how the program inside ended, or an error if it never started.
pub(super) fn ending(status: SandboxStatus, ended: &ProcessEnd) -> Result<How, Unavailable> {
    if !is_over(status) {
        return Err(Unavailable::Outlived { pid: status.child.unwrap_or_default() });
    }
    if status.entered == Some(true) {
        return Ok(ended.how);
    }
    match (ended.how, status.exit_code) {
        (How::Exited(_), _) if status.inside == Some(false) => {
            Err(Unavailable::NotEntered { said: last_line(&ended.stderr.head) })
        }
        (How::Exited(code), Some(reported)) if code == reported => Ok(ended.how),
        (How::Exited(_), _) => Err(Unavailable::NotEntered { said: last_line(&ended.stderr.head) }),
        // The sandbox was ended from outside, with everything in it.
        (How::Signalled(_) | How::TimedOut | How::OverBounds(_) | How::Stopped, _) => Ok(ended.how),
    }
}

/// Returns the last line: the sandbox's own error comes last; warnings may precede it.
pub(super) fn last_line(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it said nothing").trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::{SandboxStatus, read_status, signal_behind};

    fn status(text: &str) -> (bool, Option<i32>) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("status");
        std::fs::write(&path, text).unwrap();
        let SandboxStatus { started, exit_code, .. } = read_status(&path);
        (started, exit_code)
    }

    #[test]
    fn a_report_says_only_what_was_written() {
        let begun = r#"{ "child-pid": 7, "pid-namespace": 4026532183 }"#;
        assert_eq!(status(""), (false, None));
        assert_eq!(status("not a report"), (false, None));
        assert_eq!(status(begun), (true, None));
        assert_eq!(status(&format!("{begun}\n{{ \"exit-code\": 3 }}\n")), (true, Some(3)));
        assert_eq!(status(&format!("{begun}\n{{ \"exit-co")), (true, None));
    }

    #[test]
    fn only_codes_beyond_128_can_hide_a_signal() {
        let hidden = [0, 1, 124, 127, 128, 129, 137, 192, 193, 255].map(signal_behind);
        assert_eq!(hidden, [None, None, None, None, None, Some(1), Some(9), Some(64), None, None]);
    }
}
