//! The room of a check, as `check.sh` builds it, by the harness's own program: five programs less to be
//! started for each check. It makes itself root of a user and mount namespace of its own first; nothing
//! it mounts is seen outside.
//!
//! **Invariant:** what the script does, this does: the tests of the fence hold for both. Besides, it puts the
//! library of [`untraced`](super::untraced) where every program of the check loads it.

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

/// The word that says that a room is to be built.
pub const ORDER: &str = "room";
/// The word that says that there is a tree already, and only a report to be opened.
pub const ONLY_REPORT: &str = "report";
/// Stands for this very program among the words of the next one, which may not see its file.
pub const SELF: &str = "@self";
/// In the room: the system's configuration, with the library in it.
pub const ETC: &str = "etc";
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

/// Status, and the program with its arguments.
pub fn only_report(words: &[OsString]) -> io::Result<Infallible> {
    let [status, program, arguments @ ..] = words else {
        return Err(io::Error::other("words are missing"));
    };
    rustix::process::umask(Mode::from_raw_mode(0o022));
    become_fence(program, arguments.to_vec(), &report(status)?)
}

/// More than one process writes to it, each at its end.
fn report(status: &OsStr) -> io::Result<File> {
    let status = OpenOptions::new().append(true).create(true).open(status)?;
    rustix::io::fcntl_setfd(&status, FdFlags::empty())?;
    Ok(status)
}

/// Becomes bubblewrap, which starts this program again where that was asked for.
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
        // Bubblewrap closes the one it reports on.
        let again = rustix::io::dup(status)?;
        // Only the first: what follows are words of the contract.
        if let Some(word) = arguments.iter_mut().find(|word| *word == inside::STATUS) {
            *word = again.as_raw_fd().to_string().into();
        }
        own = Some([opened, again]);
        // Until it is said that the contract was reached, it was not.
        let mut status = status;
        status.write_all(b"{\"inside\":false}\n")?;
    }
    let error = Command::new(program).args(arguments).exec();
    drop(own);
    Err(io::Error::new(error.kind(), format!("{}: {error}", program.display())))
}

/// Where this program stands among the words of bubblewrap: as the program it starts, or nowhere.
fn own_place(arguments: &[OsString]) -> Option<usize> {
    let place = arguments.iter().position(|word| word == "--")? + 1;
    (arguments.get(place)? == SELF).then_some(place)
}

/// Lays the library over the system's configuration, where the loader of every program looks for it. Where
/// that cannot be done, the configuration is as it is: nothing that was promised for certain rests on it.
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

/// Libraries that every program loads first.
const PRELOAD: &str = "ld.so.preload";

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
