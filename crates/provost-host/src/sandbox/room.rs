//! Builds the tmpfs and mounts of a check, as `check.sh` does, inside provost's own program: each check
//! starts five programs fewer. It first makes itself root of a new user and mount namespace; its mounts are
//! not visible outside.
//!
//! **Invariant:** it does the same as the script: the tests of the sandbox cover both. In addition, it puts
//! the library of [`untraced`](super::untraced) where every program of the check loads it.

use std::convert::Infallible;
use std::ffi::{CString, OsStr, OsString};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use nix::sched::{CloneFlags, unshare};
use rustix::fs::{Mode, OFlags};
use rustix::io::FdFlags;
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_bind_recursive, mount_change};
use rustix::process::{getegid, geteuid};

use super::{inside, untraced};

/// The order to build the tmpfs and mounts.
pub(super) const ORDER: &str = "room";
/// The order to only open the status file, because the tree exists already.
pub(super) const ONLY_REPORT: &str = "report";
/// Placeholder for this program in the next program's arguments, because its file may not be visible there.
pub(super) const SELF: &str = "@self";
/// Folder in the tmpfs: the system's configuration, with the library in it.
pub(super) const ETC: &str = "etc";
/// The option of bubblewrap for its status descriptor; the number is filled in here.
const REPORT: &str = "--json-status-fd";

/// Builds everything and executes the program. Arguments: room, status, size, lower, layer, over, the
/// number of paths to remove, the number of layered folders, three words for each of these, the paths to
/// remove, and the program with its arguments.
pub(super) fn build(words: &[OsString]) -> io::Result<Infallible> {
    let mut words = words.iter();
    let mut next =
        || words.next().map(OsString::as_os_str).ok_or_else(|| io::Error::other("words are missing"));
    let (room, status, size) = (next()?, next()?, next()?);
    let (lower, layer, over) = (next()?, next()?, next()?);
    let (vanish, layered) = (count(next()?)?, count(next()?)?);
    step_aside()?;
    rustix::process::umask(Mode::from_raw_mode(0o022));
    let status = report(status)?;
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
    let arguments: Vec<OsString> = words.cloned().collect();
    if own_place(&arguments).is_some() {
        add_library()?;
    }
    become_fence(program, arguments, &status)
}

/// Only opens the status file. Arguments: status, and the program with its arguments.
pub(super) fn only_report(words: &[OsString]) -> io::Result<Infallible> {
    let [status, program, arguments @ ..] = words else {
        return Err(io::Error::other("words are missing"));
    };
    rustix::process::umask(Mode::from_raw_mode(0o022));
    become_fence(program, arguments.to_vec(), &report(status)?)
}

/// Opens the status file for appending, because several processes write to it.
fn report(status: &OsStr) -> io::Result<File> {
    let status = OpenOptions::new().append(true).create(true).open(status)?;
    rustix::io::fcntl_setfd(&status, FdFlags::empty())?;
    Ok(status)
}

/// Executes bubblewrap, which starts this program again if that was requested.
fn become_fence(program: &OsStr, arguments: Vec<OsString>, status: &File) -> io::Result<Infallible> {
    let mut arguments = arguments;
    let report = arguments.iter().position(|word| word == REPORT);
    if let Some(number) = report.and_then(|at| arguments.get_mut(at + 1)) {
        *number = status.as_raw_fd().to_string().into();
    }
    let mut own = None;
    if let Some(place) = own_place(&arguments) {
        let opened = rustix::fs::open("/proc/self/exe", OFlags::PATH, Mode::empty())?;
        arguments[place] = format!("/proc/self/fd/{}", opened.as_raw_fd()).into();
        // Bubblewrap closes the descriptor that it reports on.
        let again = rustix::io::dup(status)?;
        // Only the first one: those after it are the contract's own words.
        if let Some(word) = arguments.iter_mut().find(|word| *word == inside::STATUS) {
            *word = again.as_raw_fd().to_string().into();
        }
        own = Some([opened, again]);
        // Until a process reports that it reached the contract, the contract was not reached.
        let mut status = status;
        status.write_all(b"{\"inside\":false}\n")?;
    }
    let error = Command::new(program).args(arguments).exec();
    drop(own);
    Err(io::Error::new(error.kind(), format!("{}: {error}", program.display())))
}

/// Returns the position of this program in bubblewrap's arguments, if bubblewrap starts it.
fn own_place(arguments: &[OsString]) -> Option<usize> {
    let place = arguments.iter().position(|word| word == "--")? + 1;
    (arguments.get(place)? == SELF).then_some(place)
}

/// Adds the library to the system's configuration, where the loader of every program looks for it. If that
/// fails, the configuration stays as it is: no guarantee depends on the library.
fn add_library() -> io::Result<()> {
    let place = |name: &str| format!("{ETC}-{name}");
    make(ETC)?;
    let laid = || -> io::Result<()> {
        let library = untraced::library().ok_or(io::ErrorKind::Unsupported)?;
        for name in ["upper", "work"] {
            make(&place(name))?;
        }
        let upper = Path::new(&place("upper")).to_path_buf();
        let path = upper.join(untraced::LIBRARY);
        make(&path.parent().unwrap_or(&upper).to_string_lossy())?;
        fs::write(&path, library)?;
        let mut list = fs::read(Path::new("/etc").join(PRELOAD)).unwrap_or_default();
        list.extend(format!("\n/etc/{}\n", untraced::LIBRARY).bytes());
        fs::write(upper.join(PRELOAD), list)?;
        let options =
            format!("lowerdir=/etc,upperdir={},workdir={},userxattr", place("upper"), place("work"));
        let options = option(options.into_bytes())?;
        Ok(mount("overlay", ETC, "overlay", MountFlags::empty(), options.as_c_str())?)
    };
    match laid() {
        Ok(()) => Ok(()),
        Err(_) => Ok(mount_bind_recursive("/etc", ETC)?),
    }
}

/// The list of libraries that every program loads first.
const PRELOAD: &str = "ld.so.preload";

/// Enters a new user namespace, in which the user is root, and a new mount namespace.
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

/// Mounts an overlay of the folders named in `lowers`; writes go into `upper`.
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
        // It was removed with its folder, or never existed.
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(())
        }
        removed => removed,
    }
}
