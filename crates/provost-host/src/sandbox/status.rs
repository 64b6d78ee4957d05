//! How a fenced program ended, as told by the fence and not by the program.
//!
//! Bubblewrap writes what it sees into a file of the harness's, from outside the namespaces it made. It
//! reports an exit code only for a program that it did execute: without one, the fence itself failed,
//! whatever code came out.
//!
//! A program that died of signal n is reported as 128 + n, as a shell would. Nobody outside can tell it
//! from a program that exited so: [`signal_behind`] names the signal there may have been. It came from inside
//! the fence in any case; where somebody outside ends the fence, its own process died of the signal.

use std::fs;
use std::path::Path;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use serde::Deserialize;

use super::Unavailable;
use crate::process::{Ended, How};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// The namespaces were made. What was to be seen inside may still have been missing.
    pub started: bool,
    /// Only of a program that was executed, and that ended by itself.
    pub exit_code: Option<i32>,
    /// The fence's first process, and the namespace it is the first of.
    child: Option<i32>,
    namespace: Option<u64>,
    pub home: HomeSeen,
    /// Reported by a process that confined itself: it was about to become the program, and did or did not.
    entered: Option<bool>,
    /// Whether a check that is started by a process of ours was reached; nothing, where there is none.
    inside: Option<bool>,
}

/// What an agent had for a home, where it is the user's with a layer over it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HomeSeen {
    #[default]
    AsAsked,
    /// The layer could not be kept: what was written is gone.
    Forgotten,
    /// There could be no layer over the user's home, so there was nothing in it.
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

/// What the fence reported so far. A report that is not there or cannot be read says nothing.
pub fn read_status(path: &Path) -> Status {
    let text = fs::read(path).unwrap_or_default();
    let mut status = Status::default();
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

/// The signal that may have ended a fenced program with this exit code.
pub fn signal_behind(exit_code: i32) -> Option<i32> {
    (129..=128 + 64).contains(&exit_code).then_some(exit_code - 128)
}

/// How long the kernel may take to end what is left in a fence; it takes a millisecond.
const BURIAL: Duration = Duration::from_secs(5);

/// Waits until the fence's first process is dead, which it is only when all others inside are: the
/// kernel ends them first. Bubblewrap itself returns a moment earlier. False when it is not dead in time.
pub(super) fn is_over(status: Status) -> bool {
    let Some(first) = status.child.and_then(Pid::from_raw) else { return true };
    let Ok(end) = pidfd_open(first, PidfdFlags::empty()) else { return true };
    // The number may be somebody else's by now. Where that cannot be seen, waiting does no harm.
    let namespace = fs::read_link(format!("/proc/{}/ns/pid", first.as_raw_nonzero()));
    let is_another = |inode: u64| namespace.is_ok_and(|found| found != Path::new(&format!("pid:[{inode}]")));
    if status.namespace.is_some_and(is_another) {
        return true;
    }
    let timeout = Timespec { tv_sec: BURIAL.as_secs().cast_signed(), tv_nsec: 0 };
    matches!(poll(&mut [PollFd::new(&end, PollFlags::IN)], Some(&timeout)), Ok(1))
}

/// How the program inside ended, or that it never was.
pub(super) fn ending(status: Status, ended: &Ended) -> Result<How, Unavailable> {
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
        // The fence was ended from outside, and everything in it with it.
        (How::Signalled(_) | How::TimedOut | How::OverBounds(_) | How::Stopped, _) => Ok(ended.how),
    }
}

/// The fence's own complaint comes last; a warning may stand before it.
pub(super) fn last_line(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it said nothing").trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::{Status, read_status, signal_behind};

    fn status(text: &str) -> (bool, Option<i32>) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("status");
        std::fs::write(&path, text).unwrap();
        let Status { started, exit_code, .. } = read_status(&path);
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
