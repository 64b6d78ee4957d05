//! Changes the owner of a folder to another user for a while, and back.
//!
//! Only files of the folder's owner are changed, and no file with a second hard link, which may be outside.
//! Files that must stay keep their owner. The folders that lead to them also keep theirs; they become
//! group-writable and sticky: the other user can create files there and remove only its own. Everything it
//! created becomes the owner's afterwards.
//!
//! **Invariant:** no link is followed, and nothing outside the folder is changed.
//! **Invariant:** everything needed to restore the owners is on disk before the first file is changed.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Gid, Mode, Stat, Uid};
use serde::{Deserialize, Serialize};

use crate::files::safe_open;

/// A folder with a changed owner. It must be [ended](Handover::end), and can be found again after a crash.
#[derive(Debug)]
pub struct Handover {
    record: PathBuf,
    kept: Kept,
    /// While this is locked, a process exists that will restore the owners.
    _lock: File,
}

/// The data needed to restore the owners.
#[derive(Debug, Serialize, Deserialize)]
struct Kept {
    folder: PathBuf,
    owner: u32,
    group: u32,
    user: u32,
    ways: Vec<Way>,
}

/// A folder that leads to a file that stays.
#[derive(Debug, Serialize, Deserialize)]
struct Way {
    path: PathBuf,
    mode: u32,
    group: u32,
}

impl Handover {
    /// Changes the owners. `record` is a path in a folder that the user cannot access. `staying` are files
    /// in the folder that keep their owner.
    pub fn begin(record: &Path, folder: &Path, user: u32, staying: &[PathBuf]) -> io::Result<Self> {
        let found = fs::symlink_metadata(folder)?;
        let mut paths = BTreeSet::from([folder.to_path_buf()]);
        for file in staying.iter().filter(|file| file.starts_with(folder)) {
            let above = file.ancestors().skip(1).take_while(|way| way.starts_with(folder));
            paths.extend(above.map(Path::to_path_buf));
        }
        let mut ways = Vec::new();
        for path in paths {
            if let Ok(found) = fs::symlink_metadata(&path).map(|found| (found.is_dir(), found)) {
                let (true, found) = found else { continue };
                ways.push(Way { path, mode: found.mode() & 0o7777, group: found.gid() });
            }
        }
        let kept = Kept { folder: folder.to_path_buf(), owner: found.uid(), group: found.gid(), user, ways };
        let mut file = File::create(record)?;
        file.try_lock()?;
        file.write_all(&serde_json::to_vec(&kept)?)?;
        file.sync_all()?;
        let handover = Self { record: record.to_path_buf(), kept, _lock: file };
        let over = Over { kept: &handover.kept, staying, device: found.dev() };
        match over.folder(&safe_open::top(folder)?, folder) {
            Ok(()) => Ok(handover),
            Err(error) => {
                handover.end()?;
                Err(error)
            }
        }
    }

    /// Returns the handover that a dead provost process left behind, if there is one.
    pub fn left_over(record: &Path) -> io::Result<Option<Self>> {
        let mut file = match File::open(record) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        if file.try_lock().is_err() {
            return Ok(None);
        }
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        let kept = serde_json::from_slice(&bytes)?;
        Ok(Some(Self { record: record.to_path_buf(), kept, _lock: file }))
    }

    pub fn user(&self) -> u32 {
        self.kept.user
    }

    /// Restores the owners. No process of that user may be alive.
    pub fn end(self) -> io::Result<()> {
        let top = safe_open::top(&self.kept.folder)?;
        let device = rustix::fs::fstat(&top)?.st_dev;
        self.back(&top, device)?;
        for way in &self.kept.ways {
            // Only the owner could have moved these folders.
            let folder = safe_open::top(&way.path)?;
            rustix::fs::fchown(&folder, None, Some(Gid::from_raw(way.group)))?;
            rustix::fs::fchmod(&folder, Mode::from_raw_mode(way.mode))?;
        }
        fs::remove_file(&self.record)
    }

    fn back(&self, folder: &OwnedFd, device: u64) -> io::Result<()> {
        let Kept { owner, group, user, .. } = self.kept;
        for (name, _) in safe_open::names(folder, usize::MAX)? {
            let own = OsStr::from_bytes(&name);
            let found = rustix::fs::statat(folder, own, AtFlags::SYMLINK_NOFOLLOW)?;
            if is_folder(&found) && found.st_dev == device {
                self.back(&safe_open::folder(folder, &name)?, device)?;
            }
            let to = (found.st_uid == user).then(|| Uid::from_raw(owner));
            let of = (found.st_gid == user).then(|| Gid::from_raw(group));
            if to.is_some() || of.is_some() {
                rustix::fs::chownat(folder, own, to, of, AtFlags::SYMLINK_NOFOLLOW)?;
            }
        }
        Ok(())
    }
}

struct Over<'a> {
    kept: &'a Kept,
    staying: &'a [PathBuf],
    device: u64,
}

impl Over<'_> {
    fn folder(&self, folder: &OwnedFd, path: &Path) -> io::Result<()> {
        for (name, _) in safe_open::names(folder, usize::MAX)? {
            let own = OsStr::from_bytes(&name);
            let path = path.join(own);
            let found = rustix::fs::statat(folder, own, AtFlags::SYMLINK_NOFOLLOW)?;
            if found.st_dev != self.device || self.staying.contains(&path) {
                continue;
            }
            if is_folder(&found) {
                self.folder(&safe_open::folder(folder, &name)?, &path)?;
            }
            // A setuid or setgid program would no longer run as its owner.
            let is_plain = found.st_nlink == 1 && found.st_mode & 0o6000 == 0;
            let is_theirs = found.st_uid == self.kept.owner && (is_folder(&found) || is_plain);
            if is_theirs && !self.kept.ways.iter().any(|way| way.path == path) {
                let user = Some(Uid::from_raw(self.kept.user));
                rustix::fs::chownat(folder, own, user, None, AtFlags::SYMLINK_NOFOLLOW)?;
            }
        }
        if let Some(way) = self.kept.ways.iter().find(|way| way.path == path) {
            rustix::fs::fchown(folder, None, Some(Gid::from_raw(self.kept.user)))?;
            rustix::fs::fchmod(folder, Mode::from_raw_mode(way.mode | 0o1070))?;
        }
        Ok(())
    }
}

/// Gives one of provost's own folders to a user, with all its content.
pub fn give(path: &Path, user: u32) -> io::Result<()> {
    let top = safe_open::top(path)?;
    give_all(&top, Uid::from_raw(user), Gid::from_raw(user))
}

fn give_all(folder: &OwnedFd, user: Uid, group: Gid) -> io::Result<()> {
    for (name, kind) in safe_open::names(folder, usize::MAX)? {
        match kind {
            FileType::Directory => give_all(&safe_open::folder(folder, &name)?, user, group)?,
            _ => {
                let own = OsStr::from_bytes(&name);
                rustix::fs::chownat(folder, own, Some(user), Some(group), AtFlags::SYMLINK_NOFOLLOW)?;
            }
        }
    }
    Ok(rustix::fs::fchown(folder, Some(user), Some(group))?)
}

fn is_folder(found: &Stat) -> bool {
    FileType::from_raw_mode(found.st_mode) == FileType::Directory
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    const USER: u32 = 2_100_000_001;

    fn owner(path: &Path) -> u32 {
        fs::symlink_metadata(path).unwrap().uid()
    }

    /// Returns `None` if this cannot be tested here.
    fn site() -> Option<(tempfile::TempDir, PathBuf)> {
        if !rustix::process::geteuid().is_root() {
            provost_rehearsal::skip::user(provost_rehearsal::skip::User::Root);
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let work = folder.path().join("work");
        for name in ["plans", "src/inner"] {
            fs::create_dir_all(work.join(name)).unwrap();
        }
        for name in ["plans/PLAN.md", "src/a", "src/inner/b"] {
            fs::write(work.join(name), name).unwrap();
        }
        fs::write(folder.path().join("outside"), "").unwrap();
        fs::hard_link(folder.path().join("outside"), work.join("src/twice")).unwrap();
        symlink(folder.path().join("outside"), work.join("src/link")).unwrap();
        fs::set_permissions(work.join("plans"), fs::Permissions::from_mode(0o750)).unwrap();
        Some((folder, work))
    }

    #[test]
    fn what_stays_and_what_has_another_name_is_not_handed_over() {
        let Some((folder, work)) = site() else { return };
        let record = folder.path().join("record");
        let handover = Handover::begin(&record, &work, USER, &[work.join("plans/PLAN.md")]).unwrap();
        let theirs = ["src", "src/a", "src/inner", "src/inner/b", "src/link"];
        assert!(theirs.iter().all(|name| owner(&work.join(name)) == USER));
        for name in ["", "plans", "plans/PLAN.md", "src/twice", "../outside", "../record"] {
            assert_eq!(owner(&work.join(name)), 0, "{name}");
        }
        let mode = |name: &str| fs::metadata(work.join(name)).unwrap().mode() & 0o7777;
        assert_eq!((mode(""), mode("plans")), (0o1775, 0o1770));
        // As the other user would do it.
        fs::write(work.join("plans/made"), "").unwrap();
        rustix::fs::chown(work.join("plans/made"), Some(Uid::from_raw(USER)), Some(Gid::from_raw(USER)))
            .unwrap();
        fs::set_permissions(work.join("plans/made"), fs::Permissions::from_mode(0o4755)).unwrap();
        handover.end().unwrap();
        for name in theirs.iter().chain(&["plans/made", "plans"]) {
            let found = fs::symlink_metadata(work.join(name)).unwrap();
            assert_eq!((found.uid(), found.gid()), (0, 0), "{name}");
        }
        assert_eq!((mode(""), mode("plans"), mode("plans/made")), (0o755, 0o750, 0o755));
        assert!(!record.exists());
    }

    #[test]
    fn what_a_harness_that_died_left_is_found_and_brought_back() {
        let Some((folder, work)) = site() else { return };
        let record = folder.path().join("record");
        let handover = Handover::begin(&record, &work, USER, &[]).unwrap();
        assert!(Handover::left_over(&record).unwrap().is_none(), "somebody is there to bring it back");
        drop(handover);
        let left = Handover::left_over(&record).unwrap().unwrap();
        assert_eq!((left.user(), owner(&work.join("src/a"))), (USER, USER));
        left.end().unwrap();
        assert_eq!(owner(&work.join("src/a")), 0);
        assert!(Handover::left_over(&record).unwrap().is_none());
    }
}
