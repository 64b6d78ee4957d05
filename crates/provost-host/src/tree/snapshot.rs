//! Copies from the workspace before any agent has run: all of it if there is no commit to begin from,
//! otherwise only the cache folders.
//!
//! Repositories (`.git`) are not copied. Pipes, sockets, devices, links that lead out and files above 1 GiB
//! are left out and named. In a cache folder a link may lead to the system, as in a virtual environment the
//! link to its interpreter does, but not back into the workspace.

use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rustix::fs::FileType;
use rustix::io::Errno;

use super::checkout::{TreeWriter, keep_time, lossy, stays_inside};
use super::index::{EntryKind, Leaf, joined};
use super::touches::is_at_or_beneath;
use super::{Error, ExcludedPath, ExclusionReason};
use crate::files::safe_open::{self, FileStamp};

const FILE_BYTES: u64 = 1 << 30;
const TOTAL_BYTES: u64 = 64 << 30;
const ENTRIES: usize = 4_000_000;
pub(super) const DEPTH: usize = 200;

/// Copies the whole workspace except `own`, the place of the copy itself.
pub(super) fn workspace(
    from: &Path,
    caches: &[Vec<u8>],
    own: Option<&[u8]>,
    checkout: &mut TreeWriter<'_>,
    left_out: &mut Vec<ExcludedPath>,
) -> Result<(), Error> {
    let top = safe_open::top(from).map_err(|errno| Error::io("open", from, errno))?;
    Copying { from, caches, own, checkout, left_out, bytes: 0, entries: 0 }.folder(&top, b"", 0)
}

/// Copies only the cache folders. A missing one is not an error.
pub(super) fn caches(
    from: &Path,
    caches: &[Vec<u8>],
    checkout: &mut TreeWriter<'_>,
    left_out: &mut Vec<ExcludedPath>,
) -> Result<(), Error> {
    let top = safe_open::top(from).map_err(|errno| Error::io("open", from, errno))?;
    let mut copying = Copying { from, caches, own: None, checkout, left_out, bytes: 0, entries: 0 };
    for (place, cache) in caches.iter().enumerate() {
        if caches[..place].iter().any(|other| is_at_or_beneath(cache, other)) {
            continue;
        }
        match safe_open::folder(&top, cache) {
            Ok(folder) => {
                copying.checkout.folder(cache)?;
                copying.folder(&folder, cache, 0)?;
            }
            Err(Errno::NOENT) => {}
            Err(Errno::LOOP) => copying.leave_out(cache, ExclusionReason::Link),
            Err(Errno::NOTDIR) => copying.leave_out(cache, ExclusionReason::NotAFolder),
            Err(errno) => copying.leave_out(cache, unreadable(errno)),
        }
    }
    Ok(())
}

struct Copying<'c, 't> {
    from: &'c Path,
    caches: &'c [Vec<u8>],
    own: Option<&'c [u8]>,
    checkout: &'c mut TreeWriter<'t>,
    left_out: &'c mut Vec<ExcludedPath>,
    bytes: u64,
    entries: usize,
}

impl Copying<'_, '_> {
    fn folder(&mut self, folder: &OwnedFd, path: &[u8], depth: usize) -> Result<(), Error> {
        let names = match safe_open::names(folder, ENTRIES - self.entries) {
            Ok(names) => names,
            Err(Errno::OVERFLOW) => return Err(Error::TooMuch { path: lossy(path) }),
            Err(errno) if path.is_empty() => return Err(Error::io("read", self.from, errno)),
            Err(errno) => {
                self.leave_out(path, unreadable(errno));
                return Ok(());
            }
        };
        self.entries += names.len();
        for (name, kind) in names {
            if name.eq_ignore_ascii_case(b".git") {
                continue;
            }
            let path = joined(path, &name);
            if self.own == Some(path.as_slice()) {
                continue;
            }
            match kind {
                FileType::RegularFile => self.file(folder, &path, &name)?,
                FileType::Symlink => self.link(folder, &path, &name)?,
                FileType::Directory if depth >= DEPTH => self.leave_out(&path, ExclusionReason::TooDeep),
                FileType::Directory => match safe_open::folder(folder, &name) {
                    Ok(inner) => {
                        self.checkout.folder(&path)?;
                        self.folder(&inner, &path, depth + 1)?;
                    }
                    Err(errno) => self.leave_out(&path, unreadable(errno)),
                },
                kind => self.leave_out(&path, special(kind)),
            }
        }
        Ok(())
    }

    fn file(&mut self, folder: &OwnedFd, path: &[u8], name: &[u8]) -> Result<(), Error> {
        let opened = safe_open::file(folder, name).and_then(|file| Ok((safe_open::stamp(&file)?, file)));
        let (stamp, from) = match opened {
            Ok(opened) => opened,
            Err(errno) => {
                self.leave_out(path, unreadable(errno));
                return Ok(());
            }
        };
        if stamp.kind() != FileType::RegularFile {
            self.leave_out(path, special(stamp.kind()));
            return Ok(());
        }
        if stamp.size > FILE_BYTES {
            self.leave_out(path, ExclusionReason::TooLarge { bytes: stamp.size });
            return Ok(());
        }
        self.bytes += stamp.size;
        if self.bytes > TOTAL_BYTES {
            return Err(Error::TooMuch { path: lossy(path) });
        }
        self.copy(&from, &stamp, path)
    }

    fn copy(&mut self, from: &std::fs::File, stamp: &FileStamp, path: &[u8]) -> Result<(), Error> {
        let kind = EntryKind::of_file(stamp.mode);
        let mut to = self.checkout.file(path, kind)?;
        let failed = |error: std::io::Error| Error::io("copy", Path::new(&lossy(path)), error);
        let (digest, size) = safe_open::copy(from, &mut to, FILE_BYTES).map_err(failed)?;
        keep_time(&to, stamp.modified).map_err(|errno| failed(errno.into()))?;
        self.checkout.holds(path, Leaf { kind, digest, size })
    }

    fn link(&mut self, folder: &OwnedFd, path: &[u8], name: &[u8]) -> Result<(), Error> {
        let is_cache = self.caches.iter().any(|cache| is_at_or_beneath(path, cache));
        match safe_open::target(folder, name) {
            Ok(target) if stays_inside(path, &target) => self.checkout.link(path, &target),
            Ok(target) if is_cache && self.leads_to_the_system(&target) => self.checkout.link(path, &target),
            Ok(_) => {
                self.leave_out(path, ExclusionReason::LeadsOut);
                Ok(())
            }
            Err(errno) => {
                self.leave_out(path, unreadable(errno));
                Ok(())
            }
        }
    }

    fn leads_to_the_system(&self, target: &[u8]) -> bool {
        let path = Path::new(std::ffi::OsStr::from_bytes(target));
        let plain = path.components().all(|part| part != std::path::Component::ParentDir);
        let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
        path.is_absolute()
            && plain
            && !path.starts_with(self.from)
            && !real(path).starts_with(real(self.from))
    }

    fn leave_out(&mut self, path: &[u8], why: ExclusionReason) {
        self.left_out.push(ExcludedPath { path: lossy(path), why });
    }
}

pub(super) fn unreadable(errno: Errno) -> ExclusionReason {
    ExclusionReason::Unreadable { reason: std::io::Error::from(errno).kind().to_string() }
}

pub(super) fn special(kind: FileType) -> ExclusionReason {
    match kind {
        FileType::Symlink => ExclusionReason::Link,
        FileType::Fifo => ExclusionReason::Pipe,
        FileType::Socket => ExclusionReason::Socket,
        FileType::Directory | FileType::RegularFile => ExclusionReason::Changing,
        _ => ExclusionReason::Device,
    }
}
