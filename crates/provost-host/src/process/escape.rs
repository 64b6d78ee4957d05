//! Ends escaped processes: children that left their group, and processes that a crashed provost left
//! behind.
//!
//! When a process leaves its session and its parent dies, the kernel makes it a child of its subreaper,
//! which is this process. So it is found among our own children, without a scan of the machine. The tag
//! that every child was started with says which run it belongs to.
//!
//! **Invariant:** never ends this process, its ancestors, or processes of another active run.

use std::collections::{BTreeMap, HashSet};
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, WaitOptions, getpid, kill_process, kill_process_group,
    pidfd_open, pidfd_send_signal, set_child_subreaper, test_kill_process_group, waitid, waitpid,
};

use super::{Survivor, TAG, cgroup, proc_files};

/// Time that killed processes may take to disappear. A busy machine needs seconds.
const PATIENCE: Duration = Duration::from_secs(10);
/// After this time, check whether only zombies that no process reaps are left of a group.
const CORPSES_AFTER: Duration = Duration::from_millis(20);
/// A child that has lived this long is doing real work, and gets a cgroup.
const ALONE: Duration = Duration::from_millis(100);
/// The first pause between two checks.
const PAUSE: Duration = Duration::from_micros(100);

static IS_SUBREAPER: AtomicBool = AtomicBool::new(false);
/// Set once two runs have been active at the same time.
static IN_COMPANY: AtomicBool = AtomicBool::new(false);
static UNDER_WAY: Mutex<BTreeMap<u64, Run>> = Mutex::new(BTreeMap::new());
/// A thread that starts a child holds the read lock until it has recorded the child as the leader of its run. A search
/// for orphans takes the write lock, because it would take a child that is not recorded yet for an orphan and end it.
static STARTS: RwLock<()> = RwLock::new(());

struct Run {
    tag: String,
    leader: Option<i32>,
}

/// Makes this process the subreaper of its descendants, so that it inherits their orphans. The binary calls
/// it once.
pub fn become_subreaper() -> std::io::Result<()> {
    set_child_subreaper(Some(getpid()))?;
    IS_SUBREAPER.store(true, Ordering::Relaxed);
    Ok(())
}

/// Makes every search for orphans wait until the caller has started a child and recorded it.
pub(super) fn starting() -> RwLockReadGuard<'static, ()> {
    STARTS.read().unwrap_or_else(PoisonError::into_inner)
}

/// One call of `run`, registered from before its child exists until nothing is left of it.
pub(super) struct UnderWay(u64);

impl UnderWay {
    pub(super) fn enter(tag: &str) -> Self {
        let mut runs = runs();
        if !runs.is_empty() {
            IN_COMPANY.store(true, Ordering::Relaxed);
        }
        let number = runs.last_key_value().map_or(0, |(last, _)| last + 1);
        runs.insert(number, Run { tag: tag.to_owned(), leader: None });
        Self(number)
    }

    pub(super) fn leads(&self, leader: Pid) {
        if let Some(run) = runs().get_mut(&self.0) {
            run.leader = Some(leader.as_raw_nonzero().get());
        }
    }

    /// Returns how long its child may run without a cgroup. Zero once two runs have been active at once, because
    /// an orphan could then belong to either.
    pub(super) fn solitude(&self) -> Duration {
        if IN_COMPANY.load(Ordering::Relaxed) { Duration::ZERO } else { ALONE }
    }

    pub(super) fn buried(&self) {
        if let Some(run) = runs().get_mut(&self.0) {
            run.leader = None;
        }
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        runs().remove(&self.0);
    }
}

fn runs() -> MutexGuard<'static, BTreeMap<u64, Run>> {
    UNDER_WAY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits until nothing is left of a run whose leader was killed with its group and reaped; ends processes
/// that left the group. Returns the processes that are still there.
pub(super) fn sweep(run: &UnderWay, tag: &str, group: Pid) -> Vec<Survivor> {
    let begun = Instant::now();
    let mut pause = PAUSE;
    let mut condemned = Vec::new();
    let mut looks_needed = 1;
    let mut calm_looks = 0;
    loop {
        // Check the group first: a member that dies in between may leave us an orphan, which is then found.
        let group_is_gone = test_kill_process_group(group).is_err();
        let pass = end_orphans(run, tag, group, &mut condemned);
        if group_is_gone && pass.seen.is_empty() {
            calm_looks += 1;
            if calm_looks >= looks_needed {
                return Vec::new();
            }
            continue;
        }
        calm_looks = 0;
        if !pass.seen.is_empty() {
            // A process may have forked just before it died, and the list of children changes while it is
            // read.
            looks_needed = 2;
        }
        let waited = begun.elapsed();
        if waited > PATIENCE {
            let mut left = if group_is_gone { Vec::new() } else { living_members(group) };
            left.extend(if pass.left.is_empty() { pass.seen } else { pass.left });
            return left.into_iter().map(Survivor::of).collect();
        }
        if pass.is_fresh {
            // A process that forks and exits all the time is caught only without sleeping.
            pause = PAUSE;
            continue;
        }
        if waited > CORPSES_AFTER && pass.left.is_empty() && living_members(group).is_empty() {
            return Vec::new();
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(5));
    }
}

/// The result of one search for a run's processes among our children.
struct Pass {
    /// All of them, including dead ones.
    seen: Vec<i32>,
    /// Those that have not been reaped yet.
    left: Vec<i32>,
    /// True if some of them were not found before.
    is_fresh: bool,
}

/// Kills and reaps the orphans of this run that became our children.
fn end_orphans(run: &UnderWay, tag: &str, group: Pid, condemned: &mut Vec<i32>) -> Pass {
    let mut pass = Pass { seen: Vec::new(), left: Vec::new(), is_fresh: false };
    if !IS_SUBREAPER.load(Ordering::Relaxed) {
        return pass;
    }
    for pid in proc_files::own_children() {
        let is_known = condemned.contains(&pid);
        if !is_known && !is_of_run(run, tag, group, pid) {
            continue;
        }
        let Some(typed) = proc_files::typed(pid) else { continue };
        let _ = kill_process(typed, Signal::KILL);
        pass.seen.push(pid);
        if !is_known {
            pass.is_fresh = true;
            condemned.push(pid);
        }
    }
    // Kill all of them before waiting for the first.
    for pid in pass.seen.iter().copied() {
        // Wait for exactly this pid: other children must not be reaped here.
        if matches!(waitpid(proc_files::typed(pid), WaitOptions::NOHANG), Ok(None)) {
            pass.left.push(pid);
        } else {
            // From now on its pid may be reused.
            condemned.retain(|known| *known != pid);
        }
    }
    pass
}

fn is_of_run(run: &UnderWay, tag: &str, group: Pid, pid: i32) -> bool {
    // Without the types of rustix: a group that was made outside of this container has the number 0 here.
    let Ok(own_group) = nix::unistd::getpgid(Some(nix::unistd::Pid::from_raw(pid))) else { return false };
    if own_group.as_raw() == group.as_raw_nonzero().get() {
        return true;
    }
    let _no_start = STARTS.write().unwrap_or_else(PoisonError::into_inner);
    let runs = runs();
    if runs.values().any(|other| other.leader == Some(pid)) {
        return false;
    }
    // Our own group holds children that were not started here, such as a pager.
    let is_stranger = own_group == nix::unistd::getpgrp();
    if !is_stranger && runs.keys().all(|number| *number == run.0) {
        // No other run is active, so it must belong to this one. This comes first, because some processes
        // exit before their tag can be read.
        return true;
    }
    if proc_files::stat(pid).is_none_or(|stat| stat.is_dead()) {
        // A dead process no longer shows its tag. Reaping an orphan does no harm.
        return !is_stranger;
    }
    match proc_files::variable(pid, TAG) {
        Some(found) if found == tag => true,
        // Left over from a run that has ended.
        Some(found) => !runs.values().any(|other| other.tag == found),
        // It cleared its environment, so it may belong to another run.
        None => false,
    }
}

/// Returns the leader and its descendants, including orphans; stops soon after `enough`.
pub(super) fn members(run: &UnderWay, tag: &str, leader: Pid, enough: usize) -> Vec<i32> {
    let mut found = vec![leader.as_raw_nonzero().get()];
    let mut known: HashSet<i32> = found.iter().copied().collect();
    if IS_SUBREAPER.load(Ordering::Relaxed) {
        let orphans = proc_files::own_children().into_iter();
        found.extend(orphans.filter(|pid| known.insert(*pid) && is_of_run(run, tag, leader, *pid)));
    }
    let mut next = 0;
    while let Some(pid) = found.get(next).copied().filter(|_| found.len() <= enough) {
        found.extend(proc_files::children(pid).into_iter().filter(|child| known.insert(*child)));
        next += 1;
    }
    found
}

fn living_members(group: Pid) -> Vec<i32> {
    let group = group.as_raw_nonzero().get();
    let is_member =
        |pid: &i32| proc_files::stat(*pid).is_some_and(|stat| stat.group == group && !stat.is_dead());
    proc_files::of_this_user().into_iter().filter(is_member).collect()
}

/// Names the processes that hold these pipes open. Does not end them: a descriptor can be passed to any
/// process.
pub(super) fn holders(inodes: &[u64]) -> Vec<Survivor> {
    let mut pids: Vec<i32> = inodes.iter().flat_map(|inode| proc_files::holders_of_pipe(*inode)).collect();
    pids.sort_unstable();
    pids.dedup();
    pids.into_iter().map(Survivor::of).collect()
}

/// Ends every process of this user whose attempt tag begins with `tag_prefix`, with its group, and waits
/// until they are gone. Scans all processes of the machine: for a resume, not for every run.
pub fn end_leftovers(tag_prefix: &str) -> Vec<Survivor> {
    // The first call of `offered` ends the cgroups of a dead provost process.
    let _ = cgroup::offered();
    let is_live = |tag: &str| runs().values().any(|run| run.tag == tag);
    end_tagged(|tag| tag.starts_with(tag_prefix) && !is_live(tag))
}

/// Ends the processes of one attempt whose leader is dead.
pub(super) fn end_remains(tag: &str) -> Vec<Survivor> {
    end_tagged(|found| found == tag)
}

/// Ends the processes of one attempt of a provost process that is dead.
pub fn end_attempt(tag: &str) -> Vec<Survivor> {
    let _ = cgroup::offered();
    end_remains(tag)
}

fn end_tagged(is_meant: impl Fn(&str) -> bool) -> Vec<Survivor> {
    let spared = Spared::now();
    let deadline = Instant::now() + PATIENCE;
    loop {
        let found: Vec<(i32, OwnedFd)> = proc_files::of_this_user()
            .into_iter()
            .filter_map(|pid| leftover(pid, &is_meant, &spared))
            .collect();
        for (pid, handle) in &found {
            let group = proc_files::stat(*pid).map(|stat| stat.group);
            let _ = pidfd_send_signal(handle, Signal::KILL);
            if let Some(group) =
                group.filter(|group| !spared.groups.contains(group)).and_then(proc_files::typed)
            {
                let _ = kill_process_group(group, Signal::KILL);
            }
        }
        // Wait until these are gone: the next search finds what they forked meanwhile.
        let left: Vec<i32> =
            found.iter().filter(|(_, handle)| !gone(handle, deadline)).map(|(pid, _)| *pid).collect();
        if found.is_empty() || Instant::now() >= deadline {
            return left.into_iter().map(Survivor::of).collect();
        }
    }
}

/// This process and its ancestors, which must not be ended.
struct Spared {
    pids: Vec<i32>,
    groups: Vec<i32>,
}

impl Spared {
    fn now() -> Self {
        let pids = proc_files::lineage();
        let groups = pids.iter().filter_map(|pid| proc_files::stat(*pid)).map(|stat| stat.group).collect();
        Self { pids, groups }
    }
}

/// Returns a handle of the process if its tag matches. The handle is opened before the tag is read, so that
/// the process that is killed is the one that was examined.
fn leftover(pid: i32, is_meant: impl Fn(&str) -> bool, spared: &Spared) -> Option<(i32, OwnedFd)> {
    if spared.pids.contains(&pid) {
        return None;
    }
    let handle = pidfd_open(proc_files::typed(pid)?, PidfdFlags::empty()).ok()?;
    let tag = proc_files::variable(pid, TAG)?;
    is_meant(&tag).then_some((pid, handle))
}

fn gone(handle: &OwnedFd, deadline: Instant) -> bool {
    let left = deadline.saturating_duration_since(Instant::now());
    let timeout = Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: left.subsec_nanos().into() };
    let ended = rustix::event::poll(&mut [PollFd::new(handle, PollFlags::IN)], Some(&timeout));
    // Reap it if it is our child; otherwise it would stay a zombie.
    let _ = waitid(WaitId::PidFd(handle.as_fd()), WaitIdOptions::EXITED | WaitIdOptions::NOHANG);
    ended.is_ok_and(|ready| ready > 0)
}

/// Returns the tag of the attempt this process runs in: its own or an ancestor's, because a child can clear
/// its own environment but not that of its ancestors.
pub fn inside_attempt() -> Option<String> {
    match std::env::var_os(TAG) {
        Some(tag) => Some(tag.to_string_lossy().into_owned()),
        None => proc_files::lineage().into_iter().find_map(|pid| proc_files::variable(pid, TAG)),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt as _;
    use std::process::{Command, Stdio};
    use std::sync::mpsc;
    use std::thread;

    use super::*;

    #[test]
    fn a_child_that_ends_before_its_run_names_it_is_no_orphan_of_another_run() {
        let (sweeping, starting_run) = (UnderWay::enter("one"), UnderWay::enter("other"));
        let starts = starting();
        let mut child = Command::new("true").process_group(0).stdin(Stdio::null()).spawn().unwrap();
        let pid = Pid::from_child(&child);
        let number = pid.as_raw_nonzero().get();
        while proc_files::stat(number).is_some_and(|stat| !stat.is_dead()) {
            thread::yield_now();
        }
        thread::scope(|scope| {
            let (tell, answer) = mpsc::channel();
            scope.spawn(move || tell.send(is_of_run(&sweeping, "one", getpid(), number)));
            let early = answer.recv_timeout(Duration::from_millis(100));
            starting_run.leads(pid);
            drop(starts);
            assert!(early.is_err(), "it waits until the run has named its child");
            assert!(!answer.recv().unwrap());
        });
        assert!(child.wait().unwrap().success());
    }
}
