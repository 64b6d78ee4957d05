//! Reads information about processes from `/proc`. Every answer may be out of date when it arrives. For a
//! process that has ended or may not be examined, the functions return nothing.

use std::fs;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Pid, geteuid, getpid};

/// The longest time a process may take to start another program; a busy machine needs part of a second.
const LONGEST_EXEC: Duration = Duration::from_secs(2);
/// Longest part of an environment that is read.
const ENVIRON_MAX: usize = 256 * 1024;

#[derive(Clone, Copy, Debug)]
pub(super) struct Stat {
    pub state: u8,
    pub parent: i32,
    pub group: i32,
}

impl Stat {
    /// Returns whether the process is dead and only waits to be reaped.
    pub(super) fn is_dead(&self) -> bool {
        matches!(self.state, b'Z' | b'X')
    }
}

pub(super) fn stat(pid: i32) -> Option<Stat> {
    let fields = stat_fields(pid)?;
    let mut fields = fields.split_ascii_whitespace();
    let state = *fields.next()?.as_bytes().first()?;
    Some(Stat { state, parent: fields.next()?.parse().ok()?, group: fields.next()?.parse().ok()? })
}

/// Returns what follows the name in `/proc/PID/stat`; its first field is the state.
fn stat_fields(pid: i32) -> Option<String> {
    let text = fs::read(format!("/proc/{pid}/stat")).ok()?;
    // The name may contain spaces and brackets; it ends at the last closing bracket.
    let after_name = text.iter().rposition(|byte| *byte == b')')?;
    String::from_utf8(text.get(after_name + 1..)?.to_vec()).ok()
}

/// Returns the value of a variable in the environment the process was started with.
///
/// While a process starts another program (`exec`), its environment reads as empty for a moment. A tagged
/// process must not be missed for that, so this function reads again until the program has started.
pub(super) fn variable(pid: i32, name: &str) -> Option<String> {
    let begun = Instant::now();
    loop {
        let environ = environ(pid)?;
        // Some programs, such as PostgreSQL, write over theirs with zero bytes: that is not an empty one.
        if !environ.is_empty() || !may_be_in_exec(pid) || begun.elapsed() > LONGEST_EXEC {
            return value_of(&environ, name);
        }
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// Returns the environment as the kernel shows it now, which is empty for a moment during `exec`.
fn environ(pid: i32) -> Option<Vec<u8>> {
    let path = format!("/proc/{pid}/environ");
    let read = fs::File::open(path).and_then(|mut file| {
        // One read sees one program; with several, the end could be missing.
        let mut environ = vec![0; ENVIRON_MAX];
        let count = file.read(&mut environ)?;
        environ.truncate(count);
        Ok(environ)
    });
    match read {
        Err(error) if error.raw_os_error() == Some(Errno::SRCH.raw_os_error()) => Some(Vec::new()),
        read => read.ok(),
    }
}

fn value_of(environ: &[u8], name: &str) -> Option<String> {
    let mut entries = environ.split(|byte| *byte == 0);
    while let Some(entry) = entries.next() {
        let Some(rest) = entry.strip_prefix(name.as_bytes()) else { continue };
        let value = match rest {
            // bash writes a zero byte over the `=` for a moment while it starts.
            [] => entries.next()?,
            [b'=', value @ ..] => value,
            _ => continue,
        };
        return Some(String::from_utf8_lossy(value).into_owned());
    }
    None
}

/// Returns whether a process whose environment read as empty may be in the middle of `exec`: it is no
/// kernel thread, is not dead, and the kernel does not say that its environment is empty.
fn may_be_in_exec(pid: i32) -> bool {
    let Some(fields) = stat_fields(pid) else { return false };
    let fields: Vec<&str> = fields.split_ascii_whitespace().collect();
    let number = |index: usize| fields.get(index).and_then(|field| field.parse::<u64>().ok()).unwrap_or(0);
    // Fields 23, 26, 50 and 51 of proc(5), counted from the state, which is the third. The kernel sets the
    // start of the code last.
    let (memory, code_start, environ_start, environ_end) = (number(20), number(23), number(47), number(48));
    let is_dead = matches!(fields.first(), Some(&("Z" | "X")));
    !is_dead && memory > 0 && (code_start == 0 || environ_start < environ_end)
}

/// Returns the command line of the process, shortened, or its short name.
pub(super) fn name(pid: i32) -> String {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let line = String::from_utf8_lossy(&line).replace('\0', " ");
    match line.trim() {
        "" => fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim().to_owned(),
        line => line.chars().take(120).collect(),
    }
}

/// Returns the start time of the process in clock ticks since boot: pid and start time identify one
/// process.
pub(super) fn started(pid: i32) -> Option<u64> {
    stat_fields(pid)?.split_ascii_whitespace().nth(19)?.parse().ok()
}

/// Returns the children of our first thread, which also receives the orphans.
pub(super) fn own_children() -> Vec<i32> {
    let me = getpid().as_raw_nonzero().get();
    children_of_thread(me, me)
}

/// Returns the children of all threads of a process.
pub(super) fn children(pid: i32) -> Vec<i32> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let threads = threads.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    threads.flat_map(|thread| children_of_thread(pid, thread)).collect()
}

fn children_of_thread(pid: i32, thread: i32) -> Vec<i32> {
    let listed = fs::read_to_string(format!("/proc/{pid}/task/{thread}/children")).unwrap_or_default();
    listed.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

/// Returns the resident memory in bytes, shared pages included.
pub(super) fn resident(pid: i32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/statm")).unwrap_or_default();
    let pages: u64 = text.split(' ').nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(0);
    pages.saturating_mul(rustix::param::page_size() as u64)
}

/// Returns the memory in bytes with only its share of shared pages. Takes longer for larger processes.
pub(super) fn proportional(pid: i32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()?.saturating_mul(1024))
}

/// Returns the open files as `/proc` paths, which also work for deleted files.
pub(super) fn open_files(pid: i32) -> Vec<PathBuf> {
    let open = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    open.map(|entry| entry.path()).collect()
}

/// Returns every process of this user.
pub(super) fn of_this_user() -> Vec<i32> {
    let me = geteuid().as_raw();
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries
        .flatten()
        .filter_map(|entry| {
            let pid: i32 = entry.file_name().to_str()?.parse().ok()?;
            // Root takes all processes, because it may have started processes as another user.
            (me == 0 || entry.metadata().ok()?.uid() == me).then_some(pid)
        })
        .collect()
}

/// Returns this process and its ancestors, nearest first.
pub(super) fn lineage() -> Vec<i32> {
    let mut lineage = vec![getpid().as_raw_nonzero().get()];
    while let Some(parent) = lineage.last().and_then(|pid| stat(*pid)).map(|stat| stat.parent) {
        if parent <= 0 || lineage.contains(&parent) {
            break;
        }
        lineage.push(parent);
    }
    lineage
}

/// Returns the processes that have this pipe open, except this one.
pub(super) fn holders_of_pipe(inode: u64) -> Vec<i32> {
    let link = format!("pipe:[{inode}]");
    let me = getpid().as_raw_nonzero().get();
    let holds = |pid: &i32| {
        let Ok(open) = fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
        open.flatten()
            .any(|entry| fs::read_link(entry.path()).is_ok_and(|to| to.as_os_str() == link.as_str()))
    };
    of_this_user().into_iter().filter(|pid| *pid != me).filter(holds).collect()
}

pub(super) fn typed(pid: i32) -> Option<Pid> {
    if pid > 0 { Pid::from_raw(pid) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_is_read_while_bash_starts_too() {
        let read = |environ: &str| value_of(environ.as_bytes(), "TAG");
        assert_eq!(read("A=1\0TAG=a/1\0B=2\0").as_deref(), Some("a/1"));
        assert_eq!(read("A=1\0TAG\0a/1\0B=2\0").as_deref(), Some("a/1"));
        assert_eq!(read("A=1\0TAGS=a/1\0"), None);
        assert_eq!(read(""), None);
    }
}
