//! The room of a check, as `check.sh` builds it, by the harness's own program: five programs less to be
//! started for each check. It makes itself root of a user and mount namespace of its own first; nothing
//! it mounts is seen outside.
//!
//! **Invariant:** what the script does, this does, and nothing more: the tests of the fence hold for both.

use std::convert::Infallible;
use std::ffi::{CString, OsStr, OsString};
use std::fs::{self, DirBuilder, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use nix::sched::{CloneFlags, unshare};
use rustix::fs::{Mode, OFlags};
use rustix::io::FdFlags;
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
use rustix::process::{getegid, geteuid};

/// The word that says that a room is to be built.
pub const ORDER: &str = "room";
/// What bubblewrap reports on; the number is put in here.
const REPORT: &str = "--json-status-fd";

/// Room, status, size, lower, layer, over, how many are to vanish, how many are layered, three words for
/// each of these, what is to vanish, and the program with its arguments.
pub fn build(words: &[OsString]) -> io::Result<Infallible> {
    let mut words = words.iter();
    let mut next =
        || words.next().map(OsString::as_os_str).ok_or_else(|| io::Error::other("words are missing"));
    let (room, status, size) = (next()?, next()?, next()?);
    let (lower, layer, over) = (next()?, next()?, next()?);
    let (vanish, layered) = (count(next()?)?, count(next()?)?);
    step_aside()?;
    rustix::process::umask(Mode::from_raw_mode(0o022));
    let status = OpenOptions::new().write(true).create(true).truncate(true).open(status)?;
    rustix::io::fcntl_setfd(&status, FdFlags::empty())?;
    let folders = [layer, over, lower].into_iter().filter(|path| !path.is_empty());
    let lowers: Vec<OwnedFd> = folders.map(folder).collect::<io::Result<_>>()?;
    let options = option(format!("size={}", size.to_string_lossy()).into_bytes())?;
    mount("tmpfs", room, "tmpfs", MountFlags::NOSUID | MountFlags::NODEV, options.as_c_str())?;
    std::env::set_current_dir(room)?;
    for name in ["upper", "work", "tree", "tmp", "home", "run", "shm"] {
        make(name)?;
    }
    let names: Vec<String> = lowers.iter().map(|fd| format!("/proc/self/fd/{}", fd.as_raw_fd())).collect();
    overlay(names.join(":").as_bytes(), "", Path::new("tree"))?;
    drop(lowers);
    for _ in 0..layered {
        let (number, place, names) = (next()?.to_string_lossy().into_owned(), next()?, next()?);
        for name in ["kept", "upper", "work"] {
            make(&format!("{name}{number}"))?;
        }
        std::env::set_current_dir(place)?;
        overlay(names.as_bytes(), ",volatile", &Path::new(room).join(format!("kept{number}")))?;
        std::env::set_current_dir(room)?;
    }
    for _ in 0..vanish {
        remove(&Path::new("tree").join(next()?))?;
    }
    let program = next()?;
    let mut arguments: Vec<OsString> = words.cloned().collect();
    let report = arguments.iter().position(|word| word == REPORT);
    if let Some(number) = report.and_then(|at| arguments.get_mut(at + 1)) {
        *number = status.as_raw_fd().to_string().into();
    }
    let error = Command::new(program).args(arguments).exec();
    Err(io::Error::new(error.kind(), format!("{}: {error}", program.display())))
}

/// Into a user namespace of its own, where the user is root, and a mount namespace of its own.
fn step_aside() -> io::Result<()> {
    let (user, group) = (geteuid().as_raw(), getegid().as_raw());
    unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNS)?;
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("0 {user} 1"))?;
    fs::write("/proc/self/gid_map", format!("0 {group} 1"))?;
    Ok(mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?)
}

fn count(word: &OsStr) -> io::Result<usize> {
    word.to_str().and_then(|word| word.parse().ok()).ok_or_else(|| io::Error::other("a number is missing"))
}

fn folder(path: &OsStr) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?)
}

fn make(name: &str) -> io::Result<()> {
    DirBuilder::new().mode(0o755).create(name)
}

/// Folders that are named in `lowers` lie one over the other; what is written goes into `upper`.
fn overlay(lowers: &[u8], more: &str, at: &Path) -> io::Result<()> {
    let rest = format!(",upperdir=upper,workdir=work,userxattr{more}");
    let options = option([b"lowerdir=", lowers, rest.as_bytes()].concat())?;
    Ok(mount("overlay", at, "overlay", MountFlags::empty(), options.as_c_str())?)
}

fn option(bytes: Vec<u8>) -> io::Result<CString> {
    CString::new(bytes).map_err(|_| io::Error::other("a path with a zero in it"))
}

fn remove(path: &Path) -> io::Result<()> {
    let removed = match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        // Gone with the folder it was in, or never there.
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(())
        }
        removed => removed,
    }
}
