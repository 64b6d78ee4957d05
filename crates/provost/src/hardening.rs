//! Process hardening: protects provost's memory, its descriptors, and the secrets it was started with.
//!
//! Agents and checks are often processes of the same user. Such a process may read the memory and the
//! environment of another, unless that one is marked as not dumpable (root can read it anyway). Children also
//! inherit all open descriptors.
//!
//! A process cannot remove anything from the environment that the kernel shows of it. A command that starts
//! agents or checks therefore executes itself again without the variables that look secret. They are passed
//! in a sealed in-memory file that no other process has open. Without such variables it is not executed
//! again.
//!
//! **Invariant:** once [`shut`] has returned, only the standard streams are open, and no variable of this
//! process's own environment looks secret. [`environment`] still returns them all.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

use provost_core::redact;
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::process::{DumpableBehavior, Resource, Rlimit, set_dumpable_behavior, setrlimit};

use crate::failure::Failure;

/// Name of the in-memory file, and the link that the kernel shows for it.
const NAME: &str = "provost-environment";
const LINK: &str = "/memfd:provost-environment (deleted)";
const SEALS: SealFlags =
    SealFlags::SEAL.union(SealFlags::SHRINK).union(SealFlags::GROW).union(SealFlags::WRITE);
const OPEN: &str = "/proc/self/fd";

type Variables = Vec<(OsString, OsString)>;

/// Variables passed on by the process before the re-execution.
static HANDED: OnceLock<Variables> = OnceLock::new();

/// Returns the environment that this command was given.
pub(crate) fn environment() -> Variables {
    std::env::vars_os().chain(HANDED.get().into_iter().flatten().cloned()).collect()
}

/// Prevents other processes of the same user from inspecting this process.
pub(crate) fn hide() {
    // This does not fail in practice, and everything works without it too.
    let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
}

/// Protects this process before it starts the first child.
pub(crate) fn shut() -> Result<(), Failure> {
    // Agents and checks inherit this: their memory is never dumped to a file.
    let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
    match close_all() {
        Some(handed) => {
            let _ = HANDED.set(handed);
            // After execution by descriptor the process name would be `exe`.
            let _ = rustix::thread::set_name(c"provost");
            Ok(())
        }
        None => start_again()
            .map_err(|source| Failure::Io { what: "remove the secrets from its environment".into(), source }),
    }
}

/// Closes all inherited descriptors and returns the variables that were passed in one of them.
fn close_all() -> Option<Variables> {
    let numbers: Vec<i32> = fs::read_dir(OPEN)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|number| *number > 2)
        .collect();
    let mut handed = None;
    for number in numbers {
        let path = Path::new(OPEN).join(number.to_string());
        if fs::read_link(&path).is_ok_and(|to| to == Path::new(LINK)) {
            handed = handed.or_else(|| read(&path).ok());
        }
        // Safe: no other thread exists yet, and no file has been opened.
        let _ = nix::unistd::close(number);
    }
    handed
}

fn read(path: &Path) -> io::Result<Variables> {
    let mut file = File::open(path)?;
    if !rustix::fs::fcntl_get_seals(&file)?.contains(SEALS) {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(unpacked(&bytes))
}

/// Executes the same program with the same arguments and without the secrets in its environment. Returns only
/// if there are none, or if this fails.
fn start_again() -> io::Result<()> {
    let (secret, plain): (Variables, Variables) =
        std::env::vars_os().partition(|(name, _)| redact::looks_secret(&name.to_string_lossy()));
    if secret.is_empty() {
        return Ok(());
    }
    // Not closed on exec: it is the one descriptor that is passed on.
    let mut memory = File::from(rustix::fs::memfd_create(NAME, MemfdFlags::ALLOW_SEALING)?);
    memory.write_all(&packed(&secret))?;
    rustix::fs::fcntl_add_seals(&memory, SEALS)?;
    let mut words = std::env::args_os();
    // The file that this process runs, even if another file is at its path now.
    let mut same = Command::new("/proc/self/exe");
    same.arg0(words.next().unwrap_or_else(|| "provost".into()));
    Err(same.args(words).env_clear().envs(plain).exec())
}

/// Packs variables in the kernel's format: neither a name nor a value contains a zero byte.
fn packed(variables: &Variables) -> Vec<u8> {
    let parts = variables.iter().flat_map(|(name, value)| [name.as_bytes(), b"=", value.as_bytes(), b"\0"]);
    parts.flatten().copied().collect()
}

fn unpacked(bytes: &[u8]) -> Variables {
    let split = |entry: &[u8]| {
        let at = entry.iter().position(|byte| *byte == b'=')?;
        let value = OsString::from_vec(entry[at + 1..].to_vec());
        Some((OsStr::from_bytes(&entry[..at]).to_owned(), value))
    };
    bytes.split(|byte| *byte == 0).filter_map(split).collect()
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt as _;

    use super::{packed, redact, unpacked};

    #[test]
    fn what_is_handed_over_arrives_as_it_was() {
        let variables = vec![
            ("A_TOKEN".into(), "a=b=c\nd".into()),
            ("B_KEY".into(), "".into()),
            ("C_SECRET".into(), OsString::from_vec(vec![0xff, b'x'])),
        ];
        assert_eq!(unpacked(&packed(&variables)), variables);
        assert_eq!(unpacked(b""), []);
    }

    /// These are read from the process environment, which has no secrets any more.
    #[test]
    fn no_variable_the_harness_reads_looks_secret() {
        for name in [
            "HOME",
            "PATH",
            "TMPDIR",
            "TERM",
            "NO_COLOR",
            "USER",
            "LOGNAME",
            "VISUAL",
            "EDITOR",
            "COLUMNS",
            "PROVOST_STATE",
            "PROVOST_ATTEMPT",
            "XDG_STATE_HOME",
            "RUSTUP_HOME",
            "PYENV_ROOT",
            "RBENV_ROOT",
            "VOLTA_HOME",
            "ASDF_DATA_DIR",
            "MISE_DATA_DIR",
            "RUST_BACKTRACE",
        ] {
            assert!(!redact::looks_secret(name), "{name}");
        }
    }
}
