//! Limits the resources of a child and everything it starts, and checks whether they stay within the
//! limits.
//!
//! A check costs two system calls and three small files per process. Expensive work is done only if the
//! cheap answer is above the limit: only then are shared pages counted once, and files are added up only
//! once the file system has lost as much free space as the limit allows.
//!
//! Not detected: files that were written outside the working folder and closed again.

use std::collections::HashSet;
use std::fmt;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};

use super::proc_files;

/// Interval between two checks.
const EVERY: Duration = Duration::from_millis(500);
/// Number of processes whose in-memory file systems are examined; the others share the same ones.
const MANY: usize = 64;
/// Time limit for adding up a folder; after it, the partial sum counts.
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Bytes written into the working folder, and into any single file anywhere.
    pub disk: u64,
    /// Bytes of memory of all processes together.
    pub memory: u64,
    pub processes: u64,
}

impl Bounds {
    /// Returns four fifths of the machine's memory.
    pub fn usual_memory() -> u64 {
        let machine = rustix::system::sysinfo();
        (machine.totalram as u64).saturating_mul(u64::from(machine.mem_unit)) / 5 * 4
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitKind {
    Disk,
    Memory,
    Processes,
}

/// A limit that was exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitExcess {
    pub bound: LimitKind,
    pub used: u64,
    pub allowed: u64,
}

impl fmt::Display for LimitExcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { bound, used, allowed } = *self;
        match bound {
            LimitKind::Disk => write!(f, "it wrote {}; `disk` allows {}", size(used), size(allowed)),
            LimitKind::Memory => {
                write!(f, "it used {} of memory; `memory` allows {}", size(used), size(allowed))
            }
            LimitKind::Processes => write!(f, "it had {used} processes; `processes` allows {allowed}"),
        }
    }
}

/// Formats a size for people: `1.5 GiB`.
pub fn size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    let Some(unit) = (1..=4).rev().find(|unit| bytes >> (10 * unit) > 0) else {
        return format!("{bytes} bytes");
    };
    let tenths = (bytes >> (10 * (unit - 1))).saturating_mul(10) / 1024;
    let name = UNITS[unit - 1];
    if tenths.is_multiple_of(10) {
        format!("{} {name}", tenths / 10)
    } else {
        format!("{}.{} {name}", tenths / 10, tenths % 10)
    }
}

/// Checks a child's resources at intervals.
pub(super) struct LimitWatch<'a> {
    bounds: Bounds,
    folder: &'a Path,
    begun: SystemTime,
    next: Instant,
    /// Free space of the file system at the last check.
    room: u64,
    /// Sum of all losses of free space between checks; gains are ignored. Files are added up once this
    /// exceeds the limit.
    lost: u64,
}

impl<'a> LimitWatch<'a> {
    /// Starts watching a child that was just started.
    pub(super) fn begin(bounds: Bounds, folder: &'a Path, leader: Pid) -> Self {
        limit_files(bounds.disk, vec![leader.as_raw_nonzero().get()]);
        Self {
            bounds,
            folder,
            begun: SystemTime::now(),
            next: Instant::now() + EVERY,
            room: room(folder),
            lost: 0,
        }
    }

    pub(super) fn next(&self) -> Instant {
        self.next
    }

    /// Number of processes above which counting can stop.
    pub(super) fn enough(&self) -> usize {
        usize::try_from(self.bounds.processes).unwrap_or(usize::MAX)
    }

    /// Returns the first limit that these processes or the folder exceed.
    pub(super) fn look(&mut self, processes: &[i32]) -> Option<LimitExcess> {
        self.next = Instant::now() + EVERY;
        limit_files(self.bounds.disk, processes.to_vec());
        let Bounds { memory, processes: count, .. } = self.bounds;
        let over = |bound, used, allowed| (used > allowed).then_some(LimitExcess { bound, used, allowed });
        over(LimitKind::Processes, processes.len() as u64, count)
            .or_else(|| over(LimitKind::Memory, held(processes, memory), memory))
            .or_else(|| over(LimitKind::Disk, self.written(processes), self.bounds.disk))
    }

    fn written(&mut self, processes: &[i32]) -> u64 {
        let room = room(self.folder);
        self.lost = self.lost.saturating_add(self.room.saturating_sub(room));
        self.room = room;
        if self.lost <= self.bounds.disk {
            return 0;
        }
        let found = Tally::since(self.begun, self.bounds.disk).of(self.folder, processes);
        // Most of the lost space is not the child's. Count again after half of the remaining allowance is
        // lost.
        self.lost = found.midpoint(self.bounds.disk);
        found
    }
}

/// Limits the file size of these processes and of their descendants. A shell started before the program
/// could set the limit earlier, at the cost of another exec. This way a child may have forked before the
/// limit applies; the next check finds such a process.
fn limit_files(bytes: u64, mut free: Vec<i32>) {
    if bytes == u64::MAX {
        return;
    }
    // Never above provost's own limit.
    let bytes = getrlimit(Resource::Fsize).current.map_or(bytes, |own| own.min(bytes));
    let largest = Rlimit { current: Some(bytes), maximum: Some(bytes) };
    while let Some(pid) = free.pop() {
        // Without a pid the call would change provost's own limit.
        let Some(pid_typed) = proc_files::typed(pid) else { continue };
        match prlimit(Some(pid_typed), Resource::Fsize, largest) {
            // It was limited earlier, and so were the processes it started.
            Ok(before) if before == largest => {}
            // Processes it starts from now on inherit the limit.
            Ok(_) => free.extend(proc_files::children(pid)),
            Err(_) => {}
        }
    }
}

/// Returns the memory of these processes. Shared pages are counted once if the simple sum is too large.
fn held(processes: &[i32], allowed: u64) -> u64 {
    let files = in_memory(processes);
    let resident: u64 = processes.iter().map(|pid| proc_files::resident(*pid)).sum();
    if resident + files <= allowed {
        return resident + files;
    }
    let own = |pid: &i32| proc_files::proportional(*pid).unwrap_or_else(|| proc_files::resident(*pid));
    processes.iter().map(own).sum::<u64>() + files
}

/// Returns the size of the in-memory files (tmpfs, recognised by its magic number) that only these
/// processes have: in a sandbox, temporary folders are in memory.
fn in_memory(processes: &[i32]) -> u64 {
    const PLACES: [&str; 4] = ["/tmp", "/run", "/var/tmp", "/dev/shm"];
    let device = |path: &str| fs::metadata(path).map(|found| found.dev()).ok();
    // File systems of the machine itself do not count.
    let mut known: HashSet<u64> = PLACES.into_iter().chain(["/", "/dev"]).filter_map(device).collect();
    let mut bytes = 0;
    for pid in processes.iter().take(MANY) {
        for place in PLACES {
            let path = format!("/proc/{pid}/root{place}");
            if device(&path).is_some_and(|device| known.insert(device))
                && let Ok(found) = rustix::fs::statfs(&path)
                && found.f_type == 0x0102_1994
            {
                let blocks = found.f_blocks.saturating_sub(found.f_bfree);
                bytes += blocks.saturating_mul(found.f_bsize.unsigned_abs());
            }
        }
    }
    bytes
}

fn room(folder: &Path) -> u64 {
    // If the file system cannot be asked, no space is ever lost.
    rustix::fs::statvfs(folder).map_or(u64::MAX, |found| found.f_bfree.saturating_mul(found.f_frsize))
}

/// Adds up the files that were written since a given time.
struct Tally {
    since: (i64, i64),
    enough: u64,
    bytes: u64,
    /// Inodes that were counted by descriptor, or that have several names.
    known: HashSet<u64>,
    until: Instant,
}

impl Tally {
    fn since(begun: SystemTime, enough: u64) -> Self {
        let since = begun.duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            since: (since.as_secs().cast_signed(), since.subsec_nanos().into()),
            enough,
            bytes: 0,
            known: HashSet::new(),
            until: Instant::now() + PATIENCE,
        }
    }

    fn of(mut self, folder: &Path, processes: &[i32]) -> u64 {
        let Ok(top) = fs::metadata(folder) else { return 0 };
        // Open descriptors also show files that have been deleted.
        for path in processes.iter().flat_map(|pid| proc_files::open_files(*pid)) {
            if let Ok(found) = fs::metadata(path)
                && found.dev() == top.dev()
                && self.known.insert(found.ino())
            {
                self.take(&found);
            }
        }
        let mut folders: Vec<PathBuf> = vec![folder.to_path_buf()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
                if self.bytes > self.enough || Instant::now() > self.until {
                    return self.bytes;
                }
                let Ok(found) = entry.metadata() else { continue };
                if found.dev() != top.dev() {
                    continue;
                }
                if found.is_dir() {
                    folders.push(entry.path());
                } else if !self.known.contains(&found.ino())
                    && (found.nlink() == 1 || self.known.insert(found.ino()))
                {
                    self.take(&found);
                }
            }
        }
        self.bytes
    }

    /// Counts a file by its ctime, which no program can set back.
    fn take(&mut self, found: &fs::Metadata) {
        if found.is_file() && (found.ctime(), found.ctime_nsec()) >= self.since {
            self.bytes += found.blocks() * 512;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Bounds, LimitExcess, LimitKind, size};

    #[test]
    fn sizes_are_said_as_people_say_them() {
        let said = [0, 1023, 1024, 1536, 64 << 20, (20 << 30) + (300 << 20), 3 << 40].map(size);
        assert_eq!(said, ["0 bytes", "1023 bytes", "1 KiB", "1.5 KiB", "64 MiB", "20.2 GiB", "3 TiB"]);
        let exceeded = LimitExcess { bound: LimitKind::Disk, used: 70 << 20, allowed: 64 << 20 };
        assert_eq!(exceeded.to_string(), "it wrote 70 MiB; `disk` allows 64 MiB");
    }

    #[test]
    fn the_usual_memory_is_most_of_what_there_is() {
        let text = std::fs::read_to_string("/proc/meminfo").unwrap();
        let total = text.lines().next().unwrap().split_whitespace().nth(1).unwrap();
        let total = total.parse::<u64>().unwrap() * 1024;
        assert!(Bounds::usual_memory() > total / 2 && Bounds::usual_memory() < total, "{total}");
    }
}
