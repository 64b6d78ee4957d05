//! A cgroup for a child that no fence encloses: whatever it starts is in it, and ends by one write,
//! however fast it forks and whatever it forgot of where it came from.
//!
//! It needs a cgroup of version 2 that this user may write: root's, or one that was delegated. Where
//! there is none, nothing is different. A child of the same rights can leave it again: it is one more
//! net, not the only one. So it is taken in after its start, with what it has forked by then: a shell that
//! enters before it becomes the program would cost as much as the program's own start.
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

/// How long the kernel may take; a millisecond or three, and seconds on a busy machine.
const PATIENCE: Duration = Duration::from_secs(10);
/// One child's own. Gone with this.
pub struct Cgroup {
    path: PathBuf,
}

/// Where cgroups can be made here, or why they cannot.
pub fn offered() -> Result<&'static Path, &'static str> {
    static HOME: OnceLock<Result<PathBuf, &'static str>> = OnceLock::new();
    HOME.get_or_init(|| {
        let home = own_folder().ok_or("there is no cgroup of version 2")?;
        remove_abandoned(&home);
        let tried = Cgroup::make_in(&home).ok_or("this user may not make one")?;
        if !tried.path.join("cgroup.kill").exists() {
            return Err("the kernel cannot end one as a whole");
        }
        Ok(home)
    })
    .as_deref()
    .map_err(|why| *why)
}

impl Cgroup {
    /// Takes in these processes, which are all of a child's, and what they have forked meanwhile.
    pub fn around(mut outside: Vec<i32>) -> Option<Self> {
        let cgroup = Self::make_in(offered().ok()?)?;
        let procs = cgroup.path.join("cgroup.procs");
        while let Some(pid) = outside.pop() {
            // What it forks from here on is born inside.
            if fs::write(&procs, pid.to_string()).is_ok() {
                let own = proc_files::children(pid).into_iter();
                outside.extend(own.filter(|child| !cgroup.has(*child)));
            }
        }
        Some(cgroup)
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

    /// Ends everything inside. Returns what is there all the same.
    pub fn end(&self) -> Vec<Survivor> {
        let begun = Instant::now();
        let mut pause = Duration::from_micros(100);
        // One that holds nobody is gone with the first of these, which is all it takes.
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

    pub fn members(&self) -> Vec<i32> {
        let listed = fs::read_to_string(self.path.join("cgroup.procs")).unwrap_or_default();
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

/// It may have made some inside, which go first. The files in them are the kernel's.
fn remove(path: &Path) {
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove(&entry.path());
        }
    }
    let _ = fs::remove_dir(path);
}

/// The cgroup this process is in, as a folder.
fn own_folder() -> Option<PathBuf> {
    let ours = fs::read_to_string("/proc/self/cgroup").ok()?;
    let ours = Path::new(ours.lines().find_map(|line| line.strip_prefix("0::"))?);
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    mounts.lines().find_map(|line| {
        let (mount, kind) = line.split_once(" - ")?;
        let mut words = mount.split(' ').skip(3);
        let (root, at) = (words.next()?, words.next()?);
        // A place with a space in its name is written otherwise; nobody has that.
        let within = ours.strip_prefix(root).ok().filter(|_| kind.starts_with("cgroup2 "))?;
        Some(Path::new(at).join(within)).filter(|folder| folder.is_dir())
    })
}

/// Whose a cgroup is, as its name says: which process, of those that had the number, and who counts.
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

/// Ends and removes what a harness left that died.
fn remove_abandoned(home: &Path) {
    let Some(here) = namespace() else { return };
    for entry in fs::read_dir(home).into_iter().flatten().flatten() {
        let Some(owner) = Owner::read(&entry.file_name()) else { continue };
        if owner.namespace == here && proc_files::started(owner.pid) != Some(owner.started) {
            drop(Cgroup { path: entry.path() });
        }
    }
}
