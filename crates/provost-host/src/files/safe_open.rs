//! Opens files in folders that an agent may write, and copies from the open files.
//!
//! **Invariant:** no symbolic link is followed and no name is looked up twice: the file that is read is the
//! one that was opened and checked.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use provost_core::model::hash::Hash;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use sha2::{Digest as _, Sha256};

const CHUNK: usize = 128 << 10;

/// Metadata of a file at the time it was examined. Any later change to the file moves `changed` (the
/// ctime), which no program can set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FileStamp {
    pub device: u64,
    pub inode: u64,
    pub size: u64,
    pub mode: u32,
    pub links: u64,
    pub modified: (i64, i64),
    pub changed: (i64, i64),
}

impl FileStamp {
    // The widths of these fields differ between systems.
    #[allow(clippy::unnecessary_cast, clippy::useless_conversion)]
    pub(crate) fn of(stat: &Stat) -> Self {
        Self {
            device: stat.st_dev as u64,
            inode: stat.st_ino as u64,
            size: stat.st_size as u64,
            mode: stat.st_mode as u32,
            links: stat.st_nlink as u64,
            modified: (stat.st_mtime as i64, stat.st_mtime_nsec as i64),
            changed: (stat.st_ctime as i64, stat.st_ctime_nsec as i64),
        }
    }

    pub(crate) fn kind(&self) -> FileType {
        FileType::from_raw_mode(self.mode)
    }
}

pub(crate) fn stamp(file: impl AsFd) -> Result<FileStamp, Errno> {
    rustix::fs::fstat(file).map(|stat| FileStamp::of(&stat))
}

/// Returns the stamp of a name without following a symbolic link.
pub(crate) fn stamp_at(folder: impl AsFd, name: &[u8]) -> Result<FileStamp, Errno> {
    rustix::fs::statat(folder, OsStr::from_bytes(name), AtFlags::SYMLINK_NOFOLLOW)
        .map(|stat| FileStamp::of(&stat))
}

pub(crate) fn top(path: &Path) -> Result<OwnedFd, Errno> {
    rustix::fs::open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}

/// Opens a folder by name or by a path of several names.
pub(crate) fn folder(inside: impl AsFd, path: &[u8]) -> Result<OwnedFd, Errno> {
    open(inside, path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC, 0)
}

/// Opens a file for reading. Does not block on a pipe.
pub(crate) fn file(inside: impl AsFd, path: &[u8]) -> Result<File, Errno> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NOCTTY;
    open(inside, path, flags, 0).map(File::from)
}

/// Creates a file; fails if it already exists.
pub(crate) fn new_file(inside: impl AsFd, path: &[u8], mode: u32) -> Result<File, Errno> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = open(inside, path, flags, mode).map(File::from)?;
    // A check must see the mode that the tree records, whatever provost's umask is.
    if stamp(&file)?.mode & 0o7777 != mode {
        rustix::fs::fchmod(&file, Mode::from_raw_mode(mode))?;
    }
    Ok(file)
}

/// Opens a file for writing, with the mode that the umask leaves. `flags` say whether the file is created,
/// appended to, or must be new.
pub(crate) fn writable(inside: impl AsFd, path: &[u8], flags: OFlags) -> Result<File, Errno> {
    let flags =
        flags | OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NOCTTY;
    open(inside, path, flags, 0o666).map(File::from)
}

fn open(inside: impl AsFd, path: &[u8], flags: OFlags, mode: u32) -> Result<OwnedFd, Errno> {
    let path = OsStr::from_bytes(path);
    let mode = Mode::from_raw_mode(mode);
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::ResolveFlags;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        // EAGAIN: a folder on the path was renamed during the lookup.
        for _ in 0..8 {
            match rustix::fs::openat2(&inside, path, flags, mode, resolve) {
                Err(Errno::AGAIN | Errno::INTR) => {}
                // The kernel is too old, or a seccomp filter does not know the call.
                Err(Errno::NOSYS) => break,
                opened => return opened,
            }
        }
    }
    step_by_step(inside, Path::new(path), flags, mode)
}

/// Opens the path one name at a time, following no symbolic link.
fn step_by_step(inside: impl AsFd, path: &Path, flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
    let names: Vec<_> = path.components().collect();
    let (last, before) = names.split_last().ok_or(Errno::NOENT)?;
    if names.iter().any(|name| !matches!(name, std::path::Component::Normal(_))) {
        return Err(Errno::XDEV);
    }
    let mut here = rustix::io::dup(inside)?;
    for name in before {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        here = rustix::fs::openat(&here, name.as_os_str(), flags, Mode::empty())?;
    }
    rustix::fs::openat(&here, last.as_os_str(), flags | OFlags::NOFOLLOW, mode)
}

/// Returns the names in a folder in byte order, each with its file type. More than `most` names is an
/// error.
pub(crate) fn names(folder: impl AsFd, most: usize) -> Result<Vec<(Vec<u8>, FileType)>, Errno> {
    let mut names = Vec::new();
    for entry in Dir::read_from(&folder)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if matches!(name, b"." | b"..") {
            continue;
        }
        let kind = match entry.file_type() {
            FileType::Unknown => stamp_at(&folder, name)?.kind(),
            kind => kind,
        };
        if names.len() >= most {
            return Err(Errno::OVERFLOW);
        }
        names.push((name.to_vec(), kind));
    }
    names.sort_unstable_by(|one, other| one.0.cmp(&other.0));
    Ok(names)
}

/// Reads the target of a symbolic link.
pub(crate) fn target(folder: impl AsFd, name: &[u8]) -> Result<Vec<u8>, Errno> {
    rustix::fs::readlinkat(folder, OsStr::from_bytes(name), Vec::new()).map(|target| target.into_bytes())
}

/// Returns the digest of a whole file.
pub(crate) fn digest(file: &File) -> io::Result<Hash> {
    copy(file, &mut io::sink(), u64::MAX).map(|(digest, _)| digest)
}

/// Returns whether two open files have the same content.
pub(crate) fn has_same_bytes(one: &File, other: &File) -> io::Result<bool> {
    let size = one.metadata()?.len();
    if size != other.metadata()?.len() {
        return Ok(false);
    }
    let room = usize::try_from(size).unwrap_or(CHUNK).clamp(1, CHUNK);
    let (mut here, mut there) = (vec![0; room], vec![0; room]);
    let mut at = 0;
    while at < size {
        let most = usize::try_from(size - at).unwrap_or(room).min(room);
        let (here, there) = (&mut here[..most], &mut there[..most]);
        // A file that became shorter meanwhile is another one.
        if one.read_exact_at(here, at).is_err() {
            return Ok(false);
        }
        other.read_exact_at(there, at)?;
        if here != there {
            return Ok(false);
        }
        at += most as u64;
    }
    Ok(true)
}

/// Copies an open file from its beginning and returns the digest and the length of the copied bytes. More
/// than `most` bytes is an error: a file may grow while it is read.
pub(crate) fn copy(from: &File, to: &mut dyn Write, most: u64) -> io::Result<(Hash, u64)> {
    let mut hasher = Sha256::new();
    // One byte more than the file size, so that one read gets everything and the next one returns 0.
    let size = usize::try_from(from.metadata()?.len()).unwrap_or(CHUNK);
    let mut buffer = vec![0; size.saturating_add(1).min(CHUNK)];
    let mut total = 0;
    loop {
        let read = match from.read_at(&mut buffer, total) {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        total += read as u64;
        if total > most {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        hasher.update(&buffer[..read]);
        to.write_all(&buffer[..read])?;
    }
    Ok((Hash(hasher.finalize().into()), total))
}
