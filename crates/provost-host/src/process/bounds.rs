//! How much of the machine a child and everything it starts may take, and the look whether they do.
//!
//! A look is two system calls and three small files for each process; what is dear is done only where the
//! cheap answer is above the bound: pages that processes share are counted once only then, and files are
//! only added up once the file system has lost as much room as the bound is wide.
//!
//! Not seen: what was written outside of the working folder and closed again.

use std::collections::HashSet;
use std::fmt;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};

use super::proc_files;

/// From one look to the next.
const EVERY: Duration = Duration::from_millis(500);
/// So many processes are looked at for files in memory; they have the same ones.
const MANY: usize = 64;
/// A tree that takes longer than this to add up is not added up to its end.
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Bytes written into the working folder, and into any one file anywhere.
    pub disk: u64,
    /// Bytes of memory, of all processes together.
    pub memory: u64,
    pub processes: u64,
    /// In a cgroup of its own, where that can be had: for what no fence ends.
    pub cgroup: bool,
}

impl Bounds {
    /// Four fifths of the memory there is.
    pub fn usual_memory() -> u64 {
        let machine = rustix::system::sysinfo();
        (machine.totalram as u64).saturating_mul(u64::from(machine.mem_unit)) / 5 * 4
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    Disk,
    Memory,
    Processes,
}

/// More than was allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exceeded {
    pub bound: Bound,
    pub used: u64,
    pub allowed: u64,
}

impl fmt::Display for Exceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { bound, used, allowed } = *self;
        match bound {
            Bound::Disk => write!(f, "it wrote {}; `disk` allows {}", size(used), size(allowed)),
            Bound::Memory => write!(f, "it held {} of memory; `memory` allows {}", size(used), size(allowed)),
            Bound::Processes => write!(f, "it had {used} processes; `processes` allows {allowed}"),
        }
    }
}

/// As people say it: `1.5 GiB`.
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

/// Looks at a child from time to time.
pub struct Watch<'a> {
    bounds: Bounds,
    folder: &'a Path,
    begun: SystemTime,
    next: Instant,
    /// What the file system had left at the last look.
    room: u64,
    /// What it lost from look to look, whatever it won. The files are added up once this is too much.
    lost: u64,
}

impl<'a> Watch<'a> {
    /// Of a child that was started this moment.
    pub fn begin(bounds: Bounds, folder: &'a Path, leader: Pid) -> Self {
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

    pub fn next(&self) -> Instant {
        self.next
    }

    /// So many processes are certainly too many.
    pub fn enough(&self) -> usize {
        usize::try_from(self.bounds.processes).unwrap_or(usize::MAX)
    }

    /// What is over its bound among these processes and in the folder.
    pub fn look(&mut self, processes: &[i32]) -> Option<Exceeded> {
        self.next = Instant::now() + EVERY;
        limit_files(self.bounds.disk, processes.to_vec());
        let Bounds { memory, processes: count, .. } = self.bounds;
        let over = |bound, used, allowed| (used > allowed).then_some(Exceeded { bound, used, allowed });
        over(Bound::Processes, processes.len() as u64, count)
            .or_else(|| over(Bound::Memory, held(processes, memory), memory))
            .or_else(|| over(Bound::Disk, self.written(processes), self.bounds.disk))
    }

    fn written(&mut self, processes: &[i32]) -> u64 {
        let room = room(self.folder);
        self.lost = self.lost.saturating_add(self.room.saturating_sub(room));
        self.room = room;
        if self.lost <= self.bounds.disk {
            return 0;
        }
        let found = Tally::since(self.begun, self.bounds.disk).of(self.folder, processes);
        // Somebody else's, most of it. Half of what is left may go before they are added up again.
        self.lost = found.midpoint(self.bounds.disk);
        found
    }
}

/// Lets no file of these processes grow past the bound, nor of what they have started. A shell before the
/// program could do it earlier, for the price of another exec; this way a child may be a fork ahead, and
/// is caught up with.
fn limit_files(bytes: u64, mut free: Vec<i32>) {
    if bytes == u64::MAX {
        return;
    }
    // Never more than we have ourselves.
    let bytes = getrlimit(Resource::Fsize).current.map_or(bytes, |own| own.min(bytes));
    let largest = Rlimit { current: Some(bytes), maximum: Some(bytes) };
    while let Some(pid) = free.pop() {
        // Without a number it would be ourselves.
        let Some(pid_typed) = proc_files::typed(pid) else { continue };
        match prlimit(Some(pid_typed), Resource::Fsize, largest) {
            // It has been limited before, and so has what it started.
            Ok(before) if before == largest => {}
            // What it starts from here on is limited from the start.
            Ok(_) => free.extend(proc_files::children(pid)),
            Err(_) => {}
        }
    }
}

/// Memory of these processes. Pages that several of them have are counted once, if it matters.
fn held(processes: &[i32], allowed: u64) -> u64 {
    let files = in_memory(processes);
    let resident: u64 = processes.iter().map(|pid| proc_files::resident(*pid)).sum();
    if resident + files <= allowed {
        return resident + files;
    }
    let own = |pid: &i32| proc_files::proportional(*pid).unwrap_or_else(|| proc_files::resident(*pid));
    processes.iter().map(own).sum::<u64>() + files
}

/// Files in memory (on a tmpfs, by its magic number) that are these processes' own: behind a fence,
/// temporary folders are.
fn in_memory(processes: &[i32]) -> u64 {
    const PLACES: [&str; 4] = ["/tmp", "/run", "/var/tmp", "/dev/shm"];
    let device = |path: &str| fs::metadata(path).map(|found| found.dev()).ok();
    // What the machine has is not theirs.
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
    // Where it cannot be asked, nothing is ever missing.
    rustix::fs::statvfs(folder).map_or(u64::MAX, |found| found.f_bfree.saturating_mul(found.f_frsize))
}

/// Adds up what was written since a moment.
struct Tally {
    since: (i64, i64),
    enough: u64,
    bytes: u64,
    /// Those with several names, or none.
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
        // Also files that have no name any more.
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

    /// By the time of its last change, which nobody can set back.
    fn take(&mut self, found: &fs::Metadata) {
        if found.is_file() && (found.ctime(), found.ctime_nsec()) >= self.since {
            self.bytes += found.blocks() * 512;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Bound, Bounds, Exceeded, size};

    #[test]
    fn sizes_are_said_as_people_say_them() {
        let said = [0, 1023, 1024, 1536, 64 << 20, (20 << 30) + (300 << 20), 3 << 40].map(size);
        assert_eq!(said, ["0 bytes", "1023 bytes", "1 KiB", "1.5 KiB", "64 MiB", "20.2 GiB", "3 TiB"]);
        let exceeded = Exceeded { bound: Bound::Disk, used: 70 << 20, allowed: 64 << 20 };
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
