//! Finds the ancestors of a process up to the first, and the terminal that this process was started at.
//!
//! A process can clear its environment but not change its ancestors. It could still show us a fake `/proc`,
//! so this module insists on the kernel's own `/proc` with nothing mounted over the files it reads.
//!
//! **Invariant:** a lineage is complete or an error; a partial lineage proves nothing.

use std::fs::File;
use std::io::Read as _;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::time::Duration;

use rustix::fs::{CWD, Mode, OFlags, PROC_SUPER_MAGIC, ResolveFlags};
use rustix::io::Errno;
use rustix::process::{getpid, getppid, getsid};

use super::{TAG, proc_files};

/// Inode number of the root of every `/proc`.
const PROC_ROOT_INODE: u64 = 1;
/// A parent may end while it is read; more failures than this are not chance.
const LOOKS: usize = 100;

/// Reason why the ancestors of a process cannot be determined.
#[derive(Debug, thiserror::Error)]
pub enum Blind {
    #[error("/proc is not the kernel's own")]
    NotProc,
    #[error("/proc shows another process in the place of this one")]
    NotUs,
    #[error("provost may not inspect process {pid} among its parents")]
    Cut { pid: i32 },
}

/// A process and its ancestors, nearest first.
#[derive(Debug)]
pub struct Lineage {
    ancestors: Vec<Ancestor>,
    /// The pid namespace to which the pids above belong.
    pub pid_namespace: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ancestor {
    pid: i32,
    parent: i32,
    /// In clock ticks since boot.
    started: u64,
}

/// The terminal that this process was started at, described by the age of its session.
#[derive(Clone, Copy, Debug)]
pub struct Seat {
    /// Time from the start of the session to the start of this process.
    pub begun_before: Duration,
    /// Time from boot to the start of this process.
    pub booted_before: Duration,
}

/// Time since the start of the process and of the machine.
#[derive(Clone, Copy, Debug)]
pub struct Age {
    pub process: Duration,
    pub machine: Duration,
}

impl Lineage {
    pub fn trace() -> Result<Self, Blind> {
        let proc = Proc::open()?;
        let parent = || getppid().map_or(0, |parent| parent.as_raw_nonzero().get());
        let before = parent();
        let ancestors = proc.climb(getpid().as_raw_nonzero().get())?;
        // `getppid` must agree with /proc; the parent may have changed in between.
        if ancestors.first().is_none_or(|own| own.parent != before && own.parent != parent()) {
            return Err(Blind::NotUs);
        }
        Ok(Self { ancestors, pid_namespace: pid_namespace() })
    }

    /// Returns the lineage of another process, by its pid in this namespace.
    pub fn of(pid: i32) -> Result<Self, Blind> {
        let ancestors = Proc::open()?.climb(pid)?;
        Ok(Self { ancestors, pid_namespace: pid_namespace() })
    }

    /// Returns the age of the process, less one second because clocks are rounded, and the uptime of the
    /// machine.
    pub fn age(&self) -> Option<Age> {
        let uptime = std::fs::read_to_string("/proc/uptime").ok()?;
        let machine =
            Duration::try_from_secs_f64(uptime.split_ascii_whitespace().next()?.parse().ok()?).ok()?;
        let ticks = self.ancestors.first()?.started.saturating_mul(1000);
        let begun = Duration::from_millis(ticks / rustix::param::clock_ticks_per_second().max(1));
        let process = machine.saturating_sub(begun).saturating_sub(Duration::from_secs(1));
        Some(Age { process, machine })
    }

    /// Returns the tag of the attempt that the process or one of its ancestors was started in.
    pub fn attempt(&self) -> Option<String> {
        self.ancestors.iter().find_map(|ancestor| proc_files::variable(ancestor.pid, TAG))
    }

    /// Returns whether the pid is this process or one of its ancestors.
    pub fn has(&self, pid: u32) -> bool {
        self.ancestors.iter().any(|ancestor| u32::try_from(ancestor.pid) == Ok(pid))
    }

    /// Returns the pid and the start time of this process and its ancestors, nearest first.
    pub fn processes(&self) -> impl Iterator<Item = (i32, u64)> {
        self.ancestors.iter().map(|ancestor| (ancestor.pid, ancestor.started))
    }

    /// Returns the start time of a process in ticks since boot, or `None` if it does not exist.
    pub fn started(pid: i32) -> Option<u64> {
        Proc::open().ok()?.stat(pid).map(|seen| seen.started)
    }

    /// Returns the terminal this process was started at, or the reason why there is no usable one. The
    /// leader of the terminal's session must be among our ancestors, because any process can open a
    /// terminal and write to it.
    pub fn seat(&self) -> Result<Seat, &'static str> {
        let stdin = std::io::stdin();
        if !rustix::termios::isatty(&stdin) {
            return Err("its standard input is not a terminal");
        }
        let session = getsid(None).ok().filter(|own| rustix::termios::tcgetsid(&stdin) == Ok(*own));
        let Some(session) = session else { return Err("its terminal belongs to another session") };
        let leader = self.ancestors.iter().find(|each| each.pid == session.as_raw_nonzero().get());
        let (Some(leader), Some(own)) = (leader, self.ancestors.first()) else {
            return Err("the process that opened its terminal is not among its parents");
        };
        let ticks = |count: u64| {
            Duration::from_millis(count.saturating_mul(1000) / rustix::param::clock_ticks_per_second().max(1))
        };
        Ok(Seat {
            // One tick less, because both values are rounded down.
            begun_before: ticks(own.started.saturating_sub(leader.started).saturating_sub(1)),
            booted_before: ticks(own.started),
        })
    }
}

fn pid_namespace() -> Option<u64> {
    std::fs::metadata("/proc/self/ns/pid").ok().map(|found| found.ino())
}

/// The kernel's own `/proc`, in the pid namespace of this process.
struct Proc(OwnedFd);

impl Proc {
    fn open() -> Result<Self, Blind> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = rustix::fs::openat(CWD, "/proc", flags, Mode::empty()).map_err(|_| Blind::NotProc)?;
        let is_proc = rustix::fs::fstatfs(&folder).is_ok_and(|found| found.f_type == PROC_SUPER_MAGIC);
        let is_root = rustix::fs::fstat(&folder).is_ok_and(|found| found.st_ino == PROC_ROOT_INODE);
        if !is_proc || !is_root {
            return Err(Blind::NotProc);
        }
        let own = rustix::fs::readlinkat(&folder, "self", Vec::new()).ok();
        let own = own.and_then(|link| link.to_str().ok()?.parse::<i32>().ok());
        if own != Some(getpid().as_raw_nonzero().get()) {
            return Err(Blind::NotUs);
        }
        Ok(Self(folder))
    }

    /// Returns the process and its ancestors up to the first.
    fn climb(&self, mut pid: i32) -> Result<Vec<Ancestor>, Blind> {
        let mut ancestors: Vec<Ancestor> = Vec::new();
        let mut looks = 0;
        loop {
            match self.stat(pid) {
                Some(seen) => {
                    ancestors.push(seen);
                    if seen.parent <= 0 {
                        return Ok(ancestors);
                    }
                    pid = seen.parent;
                }
                // It ended, and its child has another parent now.
                None if looks < LOOKS => {
                    looks += 1;
                    match ancestors.pop() {
                        Some(child) => pid = child.pid,
                        None => return Err(Blind::Cut { pid }),
                    }
                }
                None => return Err(Blind::Cut { pid }),
            }
        }
    }

    fn stat(&self, pid: i32) -> Option<Ancestor> {
        let mut text = Vec::new();
        File::from(self.file(&format!("{pid}/stat")).ok()?).read_to_end(&mut text).ok()?;
        parsed(pid, &text)
    }

    /// Opens a file of `/proc`, but not one that something was mounted over.
    fn file(&self, path: &str) -> Result<OwnedFd, Errno> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let resolve = ResolveFlags::NO_XDEV | ResolveFlags::NO_SYMLINKS;
        match rustix::fs::openat2(self.0.as_fd(), path, flags, Mode::empty(), resolve) {
            // The kernel is too old for `openat2`, or a container forbids it.
            Err(Errno::NOSYS | Errno::PERM) => rustix::fs::openat(self.0.as_fd(), path, flags, Mode::empty()),
            other => other,
        }
    }
}

/// Parses a `stat` file. The name may contain brackets and spaces; it ends at the last closing bracket.
fn parsed(pid: i32, text: &[u8]) -> Option<Ancestor> {
    let after_name = text.iter().rposition(|byte| *byte == b')')?;
    let fields = std::str::from_utf8(&text[after_name + 1..]).ok()?;
    let fields: Vec<&str> = fields.split_ascii_whitespace().collect();
    Some(Ancestor { pid, parent: fields.get(1)?.parse().ok()?, started: fields.get(19)?.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::{Ancestor, Lineage, parsed};

    #[test]
    fn a_name_cannot_pose_as_the_fields_after_it() {
        let rest = "S 7 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 4242 1 1";
        let text = format!("12 (x) S 1 1 1) {rest}\n");
        assert_eq!(parsed(12, text.as_bytes()), Some(Ancestor { pid: 12, parent: 7, started: 4242 }));
        assert_eq!(parsed(12, b"12 (x) S 7"), None);
    }

    #[test]
    fn our_own_lineage_reaches_the_first_process() {
        let lineage = Lineage::trace().expect("a lineage");
        assert!(lineage.has(std::process::id()));
        assert!(lineage.has(std::os::unix::process::parent_id()));
        assert_eq!(lineage.ancestors.last().map(|first| first.parent), Some(0));
        assert!(!lineage.has(0));
    }
}
