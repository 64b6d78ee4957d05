//! Decides whether what other plans have kept can be used.
//!
//! An agent without a sandbox can write to the state folder: copies of commits there, the mirror, results of checks.
//! Such an agent may have worked on another plan. Its changes must not decide about this one.
//!
//! **Invariant:** if an agent can have changed a copy, provost makes a new one and compares them. It uses the kept
//! copy only if both are the same and each file has one name: through a second hard link, the agent could still
//! write to the file.

use std::ffi::OsString;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, BufReader, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use tempfile::TempDir;

use super::retention::boot;
use super::{Error, TREE, Trees};

/// Whether no agent can have changed what provost keeps. The question is asked once, when the answer is needed.
#[derive(Clone)]
pub struct CopyTrust {
    ask: Arc<dyn Fn() -> bool + Send + Sync>,
    answer: Arc<OnceLock<bool>>,
}

impl CopyTrust {
    pub fn new(ask: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self { ask: Arc::new(ask), answer: Arc::default() }
    }

    /// Trusts nothing.
    pub fn none() -> Self {
        Self::new(|| false)
    }

    pub(super) fn is_given(&self) -> bool {
        *self.answer.get_or_init(|| (self.ask)())
    }
}

impl fmt::Debug for CopyTrust {
    fn fmt(&self, into: &mut fmt::Formatter<'_>) -> fmt::Result {
        into.debug_tuple("CopyTrust").field(&self.answer.get()).finish()
    }
}

impl Trees {
    /// Uses what other plans have kept, if it can be trusted; otherwise each plan makes its own copies, and
    /// what is there is used only if it is the same.
    pub fn trust_copies(&mut self, copies: &CopyTrust) {
        self.copies = copies.clone();
    }

    pub(crate) fn has_trusted_copies(&self) -> bool {
        self.copies.is_given()
    }

    /// Gives a complete tree its final name.
    pub(super) fn settle(
        &self,
        room: TempDir,
        sealed: &[u8],
        ground: &[u8],
        id: String,
    ) -> Result<String, Error> {
        let write = |name: &str, bytes: &[u8]| {
            let path = room.path().join(name);
            fs::write(&path, bytes).map_err(|error| Error::io("write", &path, error))
        };
        write("index", sealed)?;
        write("used", &[boot().as_bytes(), ground].concat())?;
        let place = self.folder.join("bases").join(&id);
        if fs::rename(room.path(), &place).is_err() {
            // The same tree already exists, made in another way or for another plan.
            if place.join("used").exists() {
                if self.has_trusted_copies() || self.is_as_new(&id, room.path())? {
                    return Ok(id);
                }
                if place.exists() {
                    self.put_aside(&place)?;
                }
            }
            fs::rename(room.path(), &place).map_err(|error| Error::io("rename to", &place, error))?;
        }
        // The folder was renamed; there is nothing left to remove.
        drop(room.keep());
        Ok(id)
    }

    /// Returns whether a kept base is the same as one that was made just now.
    fn is_as_new(&self, id: &str, new: &Path) -> Result<bool, Error> {
        match self.held(id, &[], Vec::new())? {
            None => Ok(false),
            // The new one may be on top of another, and then it has only the files that differ.
            Some(kept) if kept.over.is_none() => Ok(kept.is_untouched()),
            Some(_) => Ok(is_same_base(new, &self.folder.join("bases").join(id))),
        }
    }

    /// Returns the folder of the mirror that a base is extracted from: the kept one, or one of its own if an
    /// agent can have changed that.
    pub(super) fn mirrors(&self) -> Result<Mirrors<'_>, Error> {
        if self.has_trusted_copies() {
            return Ok(Mirrors::Kept(&self.folder));
        }
        let building = self.folder.join("building");
        let own = tempfile::tempdir_in(&building);
        own.map(Mirrors::Own).map_err(|error| Error::io("make a folder in", &building, error))
    }
}

/// Where the mirror is that a base is extracted from.
pub(super) enum Mirrors<'a> {
    Kept(&'a Path),
    /// Removed again.
    Own(TempDir),
}

impl Mirrors<'_> {
    pub(super) fn path(&self) -> &Path {
        match self {
            Mirrors::Kept(path) => path,
            Mirrors::Own(folder) => folder.path(),
        }
    }
}

/// Compares two bases on top of the same one. A kept base that cannot be read is not the same.
pub(super) fn is_same_base(new: &Path, kept: &Path) -> bool {
    let is_same = || {
        let noted = |base: &Path| Ok::<_, io::Error>(fs::read(base.join("used"))?.split_off(boot().len()));
        Ok::<_, io::Error>(
            fs::symlink_metadata(kept)?.is_dir()
                && fs::read(new.join("index"))? == fs::read(kept.join("index"))?
                && noted(new)? == noted(kept)?
                && is_same(&new.join(TREE), &kept.join(TREE))?,
        )
    };
    is_same().unwrap_or(false)
}

/// Compares two files, links or folders with everything in them.
fn is_same(new: &Path, kept: &Path) -> io::Result<bool> {
    let (one, other) = (fs::symlink_metadata(new)?, fs::symlink_metadata(kept)?);
    if one.mode() != other.mode() {
        return Ok(false);
    }
    if one.is_symlink() {
        return Ok(fs::read_link(new)? == fs::read_link(kept)?);
    }
    if one.is_dir() {
        let names = names(new)?;
        if names != self::names(kept)? {
            return Ok(false);
        }
        for name in names {
            if !is_same(&new.join(&name), &kept.join(&name))? {
                return Ok(false);
            }
        }
        return Ok(true);
    }
    if (one.dev(), one.ino()) == (other.dev(), other.ino()) {
        return Ok(true);
    }
    Ok(one.is_file() && other.nlink() == 1 && one.len() == other.len() && has_same_content(new, kept)?)
}

fn names(folder: &Path) -> io::Result<Vec<OsString>> {
    let mut names: Vec<OsString> =
        folder.read_dir()?.map(|entry| entry.map(|entry| entry.file_name())).collect::<Result<_, _>>()?;
    names.sort();
    Ok(names)
}

fn has_same_content(new: &Path, kept: &Path) -> io::Result<bool> {
    let open = |path| Ok::<_, io::Error>(BufReader::new(File::open(path)?));
    let (mut one, mut other) = (open(new)?, open(kept)?);
    let (mut left, mut right) = (vec![0; 1 << 16], vec![0; 1 << 16]);
    loop {
        let read = one.read(&mut left)?;
        if read == 0 {
            return Ok(other.read(&mut right)? == 0);
        }
        match other.read_exact(&mut right[..read]) {
            Ok(()) if left[..read] == right[..read] => {}
            Ok(()) => return Ok(false),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(false),
            Err(error) => return Err(error),
        }
    }
}
