//! The last stage of entering a check: a separate pid namespace without provost's processes, in which the
//! check's processes are protected from each other.
//!
//! Bubblewrap starts [`enter`], which makes new namespaces and starts [`begin`] as their first process.
//! That process mounts its own `/proc`, gives up its capabilities, starts the contract and waits for it.
//!
//! **Invariant:** the contract is started only after all of this was done and reported; if one part is not
//! available, the process ends instead.

use std::convert::Infallible;
use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, exit};

use nix::sched::{CloneFlags, unshare};
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change, mount_remount};
use rustix::process::{DumpableBehavior, WaitOptions, getegid, geteuid, set_dumpable_behavior, wait};
use rustix::thread::{CapabilitySet, CapabilitySets};

use super::{Processes, capabilities, untraced};

/// The order for the process that bubblewrap starts.
pub(super) const ORDER: &str = "inside";
/// The order for the first process of the namespace.
pub(super) const BEGIN: &str = "begin";
/// Placeholder for the number of the status descriptor.
pub(super) const STATUS: &str = "@status";
/// The report of the first process: the contract is about to start.
const ENTERED: &str = "{\"inside\":true}\n";

impl Processes {
    pub(super) fn word(self) -> &'static str {
        match self {
            Processes::Guarded => "guarded",
            Processes::Unseen => "unseen",
            Processes::Traceable => "traceable",
        }
    }
}

/// Makes new namespaces and starts their first process with the same arguments.
pub(super) fn enter(words: &[OsString]) -> io::Result<Infallible> {
    let (user, group) = (geteuid().as_raw(), getegid().as_raw());
    close_own_file();
    // The preloaded library has made this process unreadable, for itself too.
    set_dumpable_behavior(DumpableBehavior::Dumpable)?;
    unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWPID | CloneFlags::CLONE_NEWNS)?;
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("{user} {user} 1"))?;
    fs::write("/proc/self/gid_map", format!("{group} {group} 1"))?;
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
    keep_for_the_next(CapabilitySet::SYS_ADMIN | CapabilitySet::SYS_RESOURCE | CapabilitySet::SETPCAP)?;
    let before = env::args_os().skip(1).take_while(|word| word != ORDER);
    let mut first = Command::new("/proc/self/exe").args(before).args([BEGIN, "--"]).args(words).spawn()?;
    let ended = first.wait()?;
    exit(ended.code().or(ended.signal().map(|signal| 128 + signal)).unwrap_or(1))
}

/// Closes the descriptor this program was started by, so that nothing inside inherits it.
fn close_own_file() {
    let own = env::args_os().next().unwrap_or_default();
    let number = own.to_str().and_then(|own| own.strip_prefix("/proc/self/fd/")?.parse::<i32>().ok());
    if let Some(number) = number {
        let _ = nix::unistd::close(number);
    }
}

/// Keeps capabilities across exec. A program not run by root gets them only from the ambient set.
fn keep_for_the_next(kept: CapabilitySet) -> io::Result<()> {
    let all = rustix::thread::capabilities(None)?;
    rustix::thread::set_capabilities(None, CapabilitySets { inheritable: kept, ..all })?;
    for capability in kept.iter() {
        rustix::thread::configure_capability_in_ambient_set(capability, true)?;
    }
    Ok(())
}

/// Runs as the first process of the namespace. Arguments: the descriptor to report on, how processes see
/// each other, and the program with its arguments.
pub(super) fn begin(words: &[OsString]) -> io::Result<Infallible> {
    let [descriptor, processes, program, args @ ..] = words else {
        return Err(io::Error::other("words are missing"));
    };
    set_dumpable_behavior(DumpableBehavior::Dumpable)?;
    let mut status = report_on(descriptor)?;
    let options = (processes == Processes::Unseen.word()).then_some(c"hidepid=ptraceable");
    let usual = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    mount("proc", "/proc", "proc", usual, options)?;
    fs::write("/proc/sys/user/max_user_namespaces", "0")?;
    mount_remount("/proc", MountFlags::BIND | MountFlags::RDONLY | usual, "")?;
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    capabilities::give_up()?;
    untraced::forbid_tracing()?;
    status.write_all(ENTERED.as_bytes())?;
    drop(status);
    let started = Command::new(program).args(args).spawn();
    let child =
        started.map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", program.display())))?;
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((pid, ended))) if pid.as_raw_nonzero().get().unsigned_abs() == child.id() => {
                let signal = ended.terminating_signal().map(|signal| 128 + signal);
                exit(ended.exit_status().or(signal).unwrap_or(1));
            }
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Opens the status file again for this process only: the program that starts next must not inherit it.
fn report_on(descriptor: &OsStr) -> io::Result<File> {
    let number: i32 = descriptor
        .to_str()
        .and_then(|word| word.parse().ok())
        .ok_or_else(|| io::Error::other("there is nothing to report on"))?;
    let status = File::options().append(true).open(format!("/proc/self/fd/{number}"))?;
    nix::unistd::close(number)?;
    Ok(status)
}
