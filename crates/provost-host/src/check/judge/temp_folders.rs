//! Provides each check with an empty, private home and temporary folder, and reuses them while they stay
//! so.
//!
//! On a busy disk, creating and removing folders costs more than starting the check. So a process keeps its
//! folders, verifies each before a check uses it, and reuses it only if the check left it empty. If a
//! process died without [`leave`], the next process removes its folders.
//!
//! **Invariant:** no check finds anything that was there before it.

use std::env;
use std::fs::{self, DirBuilder, File, Metadata};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use rustix::process::geteuid;

static HOUSE: Mutex<Option<House>> = Mutex::new(None);

/// The folders of one process.
struct House {
    path: PathBuf,
    /// The lock shows that the owner is alive.
    _door: File,
    built: u32,
    free: Vec<[Folder; 2]>,
}

/// Home and temporary folder of one check.
pub(super) struct TempFolders {
    folders: [Folder; 2],
}

struct Folder {
    path: PathBuf,
    identity: (u64, u64),
}

impl TempFolders {
    pub(super) fn enter() -> io::Result<Self> {
        let mut house = house();
        let house = match &mut *house {
            Some(house) => house,
            empty => empty.insert(House::build()?),
        };
        while let Some(folders) = house.free.pop() {
            if folders.iter().all(Folder::is_untouched) {
                return Ok(Self { folders });
            }
            folders.iter().for_each(|folder| remove(&folder.path));
        }
        house.built += 1;
        let number = house.built;
        let make = |name: &str| Folder::make(house.path.join(format!("{name}-{number}")));
        Ok(Self { folders: [make("home")?, make("tmp")?] })
    }

    pub(super) fn home(&self) -> &Path {
        &self.folders[0].path
    }

    pub(super) fn tmp(&self) -> &Path {
        &self.folders[1].path
    }
}

impl Drop for TempFolders {
    fn drop(&mut self) {
        let folders = std::mem::replace(&mut self.folders, [Folder::nowhere(), Folder::nowhere()]);
        if !folders.iter().all(Folder::is_untouched) {
            folders.iter().for_each(|folder| remove(&folder.path));
        } else if let Some(house) = house().as_mut() {
            house.free.push(folders);
        }
    }
}

/// Returns this process's own folder, for other files that checks need.
pub fn private_folder() -> io::Result<PathBuf> {
    let mut house = house();
    Ok(match &mut *house {
        Some(house) => house.path.clone(),
        empty => empty.insert(House::build()?).path.clone(),
    })
}

/// Removes all folders of this process. The binary calls it once, after the last check.
pub fn leave() {
    if let Some(house) = house().take() {
        remove(&house.path);
    }
}

fn house() -> MutexGuard<'static, Option<House>> {
    HOUSE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl House {
    fn build() -> io::Result<Self> {
        let street = street()?;
        remove_abandoned(&street);
        let path = tempfile::Builder::new().prefix("judge-").tempdir_in(street)?.keep();
        let door = File::open(&path)?;
        door.try_lock()?;
        Ok(Self { path, _door: door, built: 0, free: Vec::new() })
    }
}

/// Returns the user's folder, so that abandoned folders are found without searching all of `/tmp`.
fn street() -> io::Result<PathBuf> {
    let path = env::temp_dir().join(format!("provost-{}", geteuid().as_raw()));
    match DirBuilder::new().mode(0o700).create(&path) {
        Ok(()) => return Ok(path),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error),
    }
    if is_private(&fs::symlink_metadata(&path)?) {
        return Ok(path);
    }
    // Another user created this path first, perhaps with bad intent.
    Ok(tempfile::Builder::new().prefix("provost-").tempdir()?.keep())
}

fn remove_abandoned(street: &Path) {
    for entry in fs::read_dir(street).into_iter().flatten().flatten() {
        // The owner of a new folder may not have locked it yet.
        let is_old = entry.metadata().and_then(|found| found.modified()).is_ok_and(is_long_ago);
        let is_ours = entry.file_name().as_encoded_bytes().starts_with(b"judge-");
        if is_old && is_ours && File::open(entry.path()).is_ok_and(|door| door.try_lock().is_ok()) {
            remove(&entry.path());
        }
    }
}

fn is_long_ago(then: SystemTime) -> bool {
    then.elapsed().is_ok_and(|age| age > Duration::from_secs(60))
}

impl Folder {
    fn make(path: PathBuf) -> io::Result<Self> {
        DirBuilder::new().mode(0o700).create(&path)?;
        let made = fs::symlink_metadata(&path)?;
        Ok(Self { path, identity: (made.dev(), made.ino()) })
    }

    fn nowhere() -> Self {
        Self { path: PathBuf::new(), identity: (0, 0) }
    }

    /// Returns whether this is still the same folder, private and empty.
    fn is_untouched(&self) -> bool {
        let is_same = |found: Metadata| (found.dev(), found.ino()) == self.identity && is_private(&found);
        fs::symlink_metadata(&self.path).is_ok_and(is_same)
            && fs::read_dir(&self.path).is_ok_and(|mut entries| entries.next().is_none())
    }
}

fn is_private(found: &Metadata) -> bool {
    found.is_dir() && found.uid() == geteuid().as_raw() && found.mode() & 0o7777 == 0o700
}

/// Removes a path, as far as possible: a check may have created files that this user cannot remove.
fn remove(path: &Path) {
    if fs::remove_dir_all(path).is_err() {
        let _ = fs::remove_file(path);
    }
}
