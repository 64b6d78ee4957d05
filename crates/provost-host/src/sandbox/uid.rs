//! Switches to another user without name, group and files, and gives up root's rights.

use std::io;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::process::{Gid, Uid, geteuid};
use rustix::thread::{CapabilitySet, CapabilitySets};

use super::MissingFeature;

/// Above the ids that systems, containers and network directories assign.
const FIRST: u32 = 2_000_000_000;
/// Number of user ids for each provost process.
const EACH: u32 = 64;

/// Returns a user id that no other provost process on this machine has and that was not used recently here.
pub fn unused_uid() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    FIRST + std::process::id() % (1 << 22) * EACH + NEXT.fetch_add(1, Ordering::Relaxed) % EACH
}

pub fn offered() -> Result<String, MissingFeature> {
    if !geteuid().is_root() {
        let hint = "Only root can start programs as other users; `clean` and `landlock` need no root.";
        return Err(MissingFeature { why: "provost does not run as root".to_owned(), hint: hint.to_owned() });
    }
    // A user namespace may map only a few users.
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    let is_mapped = map.lines().any(|line| {
        let numbers: Vec<u64> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        matches!(numbers[..], [first, _, count]
            if first <= u64::from(FIRST) && first + count > u64::from(FIRST) + u64::from(EACH << 22))
    });
    if !is_mapped {
        let hint =
            "Run provost as the machine's root, not as root of a user namespace or a rootless container.";
        return Err(MissingFeature {
            why: format!("there are no users from {FIRST} on here"),
            hint: hint.to_owned(),
        });
    }
    Ok("works: provost runs as root".to_owned())
}

/// Switches this process to that user. Must be called while the process has one thread.
pub fn become_another(number: u32) -> io::Result<()> {
    let (user, group) = (Uid::from_raw(number), Gid::from_raw(number));
    // Otherwise the program could not open `/dev/stdout`.
    let streams = [
        rustix::fs::fchown(io::stdout(), Some(user), None),
        rustix::fs::fchown(io::stderr(), Some(user), None),
    ];
    streams.into_iter().collect::<Result<(), _>>()?;
    rustix::thread::set_thread_groups(&[])?;
    rustix::thread::set_thread_res_gid(group, group, group)?;
    rustix::thread::set_thread_res_uid(user, user, user)?;
    Ok(())
}

/// Gives up all capabilities. `no_new_privs` makes sure that no program that is started gets them back.
pub fn give_up_capabilities() -> io::Result<()> {
    rustix::thread::set_no_new_privs(true)?;
    for capability in CapabilitySet::all().iter() {
        // Fails for users other than root, and is not needed for them.
        let _ = rustix::thread::remove_capability_from_bounding_set(capability);
    }
    let _ = rustix::thread::clear_ambient_capability_set();
    let none = CapabilitySet::empty();
    let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
    Ok(rustix::thread::set_capabilities(None, sets)?)
}
