//! Puts a child that runs without a sandbox into a cgroup: everything it starts is in the cgroup, and one
//! write ends all of it, however fast it forks and even if it cleared its environment.
//!
//! This needs a version 2 cgroup that this user may write: root's, or a delegated one. Without one, provost
//! works without a cgroup. A child with the same rights can leave the cgroup again, so it is an additional
//! protection, not the only one. A confined child enters by itself ([`enter`]) before it executes the program,
//! so nothing escapes; any other child is moved, together with what it has forked by then ([`Enclosure`]).
//!
//! **Invariant:** only folders that were made here are written to or removed.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use super::{Survivor, proc_files};

/// Time the kernel may take: usually 1 to 3 ms, on a busy machine seconds.
const PATIENCE: Duration = Duration::from_secs(10);
/// Most looks for processes that were forked while others were moved.
const LOOKS: usize = 20;
/// The file of a cgroup that lists its processes; a number written to it moves that process.
const PROCESSES: &str = "cgroup.procs";

/// The cgroup of one child. Dropping it ends and removes the cgroup.
#[derive(Debug)]
pub struct Cgroup {
    path: PathBuf,
}

/// Whether a child is put into a cgroup.
#[derive(Clone, Copy, Debug)]
pub enum Enclosure<'a> {
    /// Never: a pid namespace ends everything inside, or the program starts nothing that stays.
    None,
    /// It enters this one by itself before its program starts.
    Entered(&'a Cgroup),
    /// It is moved into one if it does not end soon, or as soon as two runs have been active at once, because an
    /// orphan could belong to either. A short program would take twice as long with a cgroup.
    IfLasting,
}

/// Returns the folder in which cgroups can be made, or the reason why they cannot.
pub fn offered() -> Result<&'static Path, &'static str> {
    static HOME: OnceLock<Result<PathBuf, &'static str>> = OnceLock::new();
    HOME.get_or_init(|| {
        let home = own_folder().ok_or("there is no cgroup of version 2")?;
        remove_abandoned(&home);
        // A process may be moved only by those who may write this file of the cgroup above both.
        let may_move = rustix::fs::access(home.join(PROCESSES), rustix::fs::Access::WRITE_OK);
        may_move.map_err(|_| "this user may not move processes into one")?;
        let tried = Cgroup::make_in(&home).ok_or("this user may not make one")?;
        if !tried.path.join("cgroup.kill").exists() {
            return Err("the kernel cannot end one as a whole");
        }
        Ok(home)
    })
    .as_deref()
    .map_err(|why| *why)
}

/// Moves this process into the cgroup at `path`.
pub fn enter(path: &Path) -> std::io::Result<()> {
    fs::write(path.join(PROCESSES), "0")
}

impl Cgroup {
    /// Makes a cgroup for one child, where this is possible.
    pub fn make() -> Option<Self> {
        Self::make_in(offered().ok()?)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Moves the processes that `members` returns into it, and looks again until no more are outside: what a
    /// process forks before it is moved stays outside, and may have lost its parent since.
    pub(super) fn take_in(&self, members: impl Fn() -> Vec<i32>) {
        let procs = self.path.join(PROCESSES);
        for _ in 0..LOOKS {
            let outside = members().into_iter().filter(|pid| !self.has(*pid));
            // What a process forks from now on starts inside.
            if outside.filter(|pid| fs::write(&procs, pid.to_string()).is_ok()).count() == 0 {
                break;
            }
        }
    }

    fn has(&self, pid: i32) -> bool {
        let found = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
        let name = self.path.file_name().and_then(OsStr::to_str).unwrap_or_default();
        found.lines().any(|line| line.starts_with("0::") && line.ends_with(name))
    }

    fn make_in(home: &Path) -> Option<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = home.join(format!("{}{number}", Owner::me()?));
        fs::create_dir(&path).ok()?;
        Some(Self { path })
    }

    /// Ends everything inside. Returns the processes that are still there.
    pub(super) fn end(&self) -> Vec<Survivor> {
        let begun = Instant::now();
        let mut pause = Duration::from_micros(100);
        // For an empty cgroup the first `remove_dir` succeeds, and nothing else is needed.
        while fs::remove_dir(&self.path).is_err() && self.is_populated() {
            let _ = fs::write(self.path.join("cgroup.kill"), "1");
            if begun.elapsed() > PATIENCE {
                return self.members().into_iter().map(Survivor::of).collect();
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(5));
        }
        Vec::new()
    }

    fn is_populated(&self) -> bool {
        let events = fs::read_to_string(self.path.join("cgroup.events")).unwrap_or_default();
        events.lines().any(|line| line == "populated 1")
    }

    pub(super) fn members(&self) -> Vec<i32> {
        let listed = fs::read_to_string(self.path.join(PROCESSES)).unwrap_or_default();
        listed.lines().filter_map(|pid| pid.parse().ok()).collect()
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        if self.path.exists() {
            self.end();
            remove(&self.path);
        }
    }
}

/// Removes a cgroup, its nested cgroups first. The files in them belong to the kernel.
fn remove(path: &Path) {
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove(&entry.path());
        }
    }
    let _ = fs::remove_dir(path);
}

/// Returns the folder of the cgroup this process is in.
fn own_folder() -> Option<PathBuf> {
    let ours = fs::read_to_string("/proc/self/cgroup").ok()?;
    let ours = Path::new(ours.lines().find_map(|line| line.strip_prefix("0::"))?);
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    mounts.lines().find_map(|line| {
        let (mount, kind) = line.split_once(" - ")?;
        let mut words = mount.split(' ').skip(3);
        let (root, at) = (words.next()?, words.next()?);
        // A mount point with a space in its name is escaped here and not recognised; this does not occur in
        // practice.
        let within = ours.strip_prefix(root).ok().filter(|_| kind.starts_with("cgroup2 "))?;
        Some(Path::new(at).join(within)).filter(|folder| folder.is_dir())
    })
}

/// The owner of a cgroup, as encoded in its name: pid, start time and pid namespace.
struct Owner {
    namespace: u64,
    pid: i32,
    started: u64,
}

impl Owner {
    fn me() -> Option<Self> {
        let pid = std::process::id().cast_signed();
        Some(Self { namespace: namespace()?, pid, started: proc_files::started(pid)? })
    }

    fn read(name: &OsStr) -> Option<Self> {
        let mut words = name.to_str()?.strip_prefix("provost-")?.split('-');
        Some(Self {
            namespace: words.next()?.parse().ok()?,
            pid: words.next()?.parse().ok()?,
            started: words.next()?.parse().ok()?,
        })
    }
}

impl std::fmt::Display for Owner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "provost-{}-{}-{}-", self.namespace, self.pid, self.started)
    }
}

fn namespace() -> Option<u64> {
    Some(fs::metadata("/proc/self/ns/pid").ok()?.ino())
}

/// Ends and removes the cgroups that a dead provost process left behind.
fn remove_abandoned(home: &Path) {
    let Some(here) = namespace() else { return };
    for entry in fs::read_dir(home).into_iter().flatten().flatten() {
        let Some(owner) = Owner::read(&entry.file_name()) else { continue };
        if owner.namespace == here && proc_files::started(owner.pid) != Some(owner.started) {
            drop(Cgroup { path: entry.path() });
        }
    }
}
