//! Decides which bases are kept and for how long, and how processes share them.
//!
//! One lock covers building and removing. A process that uses a base holds a shared lock on its file
//! `used`, whose mtime is the last use; a base with such a lock is not removed.
//!
//! Nothing is synced to disk: a base that was written before the machine went down may be incomplete, so
//! after each boot its files are read once and compared with its index before they are used.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::advance;
use super::index::Index;
use super::{Answered, Base, Error, ExcludedPath, TREE, Trees};

/// Timeout. A large tree on a slow disk takes minutes; a process that takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(900);
const PAUSE: Duration = Duration::from_millis(20);
/// Unfinished work that is older than this is abandoned.
const UNDER_WAY_MAX: Duration = Duration::from_secs(2 * 24 * 3600);

/// A lock on a file, released when it is dropped, or when its process dies.
#[derive(Debug)]
pub(super) struct FileLock(File);

impl FileLock {
    /// Erases the boot in which the base was last found complete.
    pub(super) fn forget(&self) {
        let _ = self.0.write_all_at(&vec![b'-'; boot().len()], 0);
    }
}

impl Drop for FileLock {
    fn drop(&mut self) {
        // Closing is not enough: a child that another thread is starting may have the file open as well.
        let _ = flock(&self.0, FlockOperation::Unlock);
    }
}

/// The lock for building and removing.
pub(super) struct Lock {
    _held: FileLock,
}

impl Lock {
    pub(super) fn take(folder: &Path) -> Result<Self, Error> {
        let path = folder.join("lock");
        let file = lock_file(&path)?;
        let deadline = Instant::now() + PATIENCE;
        loop {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(Self { _held: FileLock(file) }),
                Err(Errno::WOULDBLOCK | Errno::INTR) if Instant::now() < deadline => {
                    std::thread::sleep(PAUSE)
                }
                Err(Errno::WOULDBLOCK) => return Err(Error::Busy { path }),
                Err(errno) => return Err(Error::io("lock", &path, errno)),
            }
        }
    }
}

/// Takes a lock without waiting. `None` if another process has it.
pub(super) fn try_lock(path: &Path) -> Result<Option<FileLock>, Error> {
    let file = lock_file(path)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(FileLock(file))),
        Err(Errno::WOULDBLOCK) => Ok(None),
        Err(errno) => Err(Error::io("lock", path, errno)),
    }
}

fn lock_file(path: &Path) -> Result<File, Error> {
    let options = OpenOptions::new().create(true).truncate(false).write(true).open(path);
    options.map_err(|error| Error::io("open", path, error))
}

/// Returns the boot id of the machine.
pub(super) fn boot() -> &'static str {
    static BOOT: OnceLock<String> = OnceLock::new();
    BOOT.get_or_init(|| {
        let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        id.trim().to_owned()
    })
}

/// Splits the content of `used`: the boot since which the base is complete, and the base below it.
fn parted(noted: &[u8]) -> (&[u8], &[u8]) {
    noted.split_at(noted.len().min(boot().len()))
}

/// The base below, if there is one, and the paths removed from it.
type Ground = (Option<Base>, Vec<PathBuf>);

impl Trees {
    /// Opens a base and locks it. `None` if it does not exist, or was found damaged and moved aside.
    pub(super) fn held(
        &self,
        id: &str,
        caches: &[Vec<u8>],
        left_out: Vec<ExcludedPath>,
    ) -> Result<Option<Base>, Error> {
        let place = self.folder.join("bases").join(id);
        let path = place.join("used");
        let hold = match OpenOptions::new().read(true).write(true).open(&path) {
            Ok(hold) => hold,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Error::io("open", &path, error)),
        };
        let hold = FileLock(hold);
        match flock(&hold.0, FlockOperation::NonBlockingLockShared) {
            // Removed between the opening and the lock, or just now.
            Ok(()) if !path.exists() => return Ok(None),
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Ok(None),
            Err(errno) => return Err(Error::io("lock", &path, errno)),
        }
        let mut noted = Vec::new();
        (&hold.0).read_to_end(&mut noted).map_err(|error| Error::io("read", &path, error))?;
        let (since, ground) = parted(&noted);
        let Some((under, gone)) = self.under(ground, caches)? else { return self.put_aside(&place) };
        let index = place.join("index");
        let index = match &under {
            None => Index::open(&index),
            Some(under) => Index::open_behind(&index, &under.ground().index),
        };
        let index = match index {
            Ok(index) if index.id() == id => index,
            Ok(_) | Err(_) => return self.put_aside(&place),
        };
        let (files, over) = match &under {
            None => (place.join(TREE), None),
            Some(under) => (under.path.clone(), Some(place.join(TREE))),
        };
        let base = Base {
            id: id.to_owned(),
            path: files,
            over,
            gone,
            left_out,
            caches: caches.to_vec(),
            index: Arc::new(index),
            _hold: Arc::new(hold),
            under: under.map(Box::new),
        };
        let hold = &*base._hold;
        if since != boot().as_bytes() {
            if !base.has_all_files() {
                return self.put_aside(&place);
            }
            let since = hold.0.write_all_at(boot().as_bytes(), 0);
            since.map_err(|error| Error::io("write", &path, error))?;
        }
        hold.0.set_modified(SystemTime::now()).map_err(|error| Error::io("write", &path, error))?;
        Ok(Some(base))
    }

    /// Returns the base below, if there is one, and the paths removed from it; `None` if that base no
    /// longer exists.
    fn under(&self, ground: &[u8], caches: &[Vec<u8>]) -> Result<Option<Ground>, Error> {
        match advance::read_ground(ground) {
            Some((id, gone)) => Ok(self.held(&id, caches, Vec::new())?.map(|ground| (Some(ground), gone))),
            None => Ok(Some((None, Vec::new()))),
        }
    }

    /// Moves a damaged base away, so that it is made again.
    pub(super) fn put_aside(&self, place: &Path) -> Result<Option<Base>, Error> {
        let aside = tempfile::Builder::new().prefix("damaged-").tempdir_in(self.folder.join("building"));
        let aside = aside.map_err(|error| Error::io("put aside", place, error))?.keep();
        fs::rename(place, aside.join("base")).map_err(|error| Error::io("put aside", place, error))?;
        Ok(None)
    }
}

/// Limits for a sweep.
#[derive(Clone, Copy, Debug)]
pub struct RetentionLimits {
    /// Time after the last use.
    pub unused: Duration,
    /// Number of bases, the most recently used first.
    pub bases: usize,
}

impl Default for RetentionLimits {
    fn default() -> Self {
        Self { unused: Duration::from_secs(14 * 24 * 3600), bases: 32 }
    }
}

/// Removes bases that were not used for long or are too many, and leftovers of dead processes. A base in
/// use stays. The mirror is removed with the last base. Returns the number of bases removed.
pub fn sweep(folder: &Path, keep: &RetentionLimits) -> Result<usize, Error> {
    if !folder.join("bases").is_dir() {
        return Ok(0);
    }
    let _lock = Lock::take(folder)?;
    let mut removed = 0;
    for path in expendable(folder, keep)? {
        removed += usize::from(remove(folder, &path)?);
    }
    for path in entries(&folder.join("requests"))? {
        let answer = fs::read(&path).ok().and_then(|text| serde_json::from_slice::<Answered>(&text).ok());
        if answer.is_none_or(|answer| !folder.join("bases").join(answer.id).exists()) {
            let _ = fs::remove_file(&path);
        }
    }
    for path in entries(&folder.join("building"))? {
        let _ = fs::remove_dir_all(&path);
    }
    for path in entries(&folder.join("layers"))? {
        if is_older(last_use(&path), UNDER_WAY_MAX) {
            let _ = fs::remove_dir_all(&path);
        }
    }
    if entries(&folder.join("bases"))?.is_empty() {
        for path in entries(folder)?.into_iter().filter(|path| path.extension() == Some(OsStr::new("git"))) {
            fs::remove_dir_all(&path).map_err(|error| Error::io("remove", &path, error))?;
        }
    }
    Ok(removed)
}

/// Returns the bases that a sweep removes, if no process uses them.
pub fn expendable(folder: &Path, keep: &RetentionLimits) -> Result<Vec<PathBuf>, Error> {
    if !folder.join("bases").is_dir() {
        return Ok(Vec::new());
    }
    let mut bases: Vec<(SystemTime, PathBuf)> = entries(&folder.join("bases"))?
        .into_iter()
        .map(|path| (last_use(&path.join("used")), path))
        .collect();
    bases.sort_by(|one, other| other.cmp(one));
    let stays = |place: usize, used: SystemTime| place < keep.bases && !is_older(used, keep.unused);
    // Keep the base below each kept base.
    let stood_on: Vec<String> = (bases.iter().enumerate())
        .filter(|(place, (used, _))| stays(*place, *used))
        .filter_map(|(_, (_, path))| advance::read_ground(parted(&fs::read(path.join("used")).ok()?).1))
        .map(|(id, _)| id)
        .collect();
    let is_ground = |path: &Path| stood_on.iter().any(|id| path.ends_with(id));
    let goes = |(place, (used, path)): (usize, (SystemTime, PathBuf))| {
        (!stays(place, used) && !is_ground(&path)).then_some(path)
    };
    Ok(bases.into_iter().enumerate().filter_map(goes).collect())
}

fn is_older(at: SystemTime, most: Duration) -> bool {
    SystemTime::now().duration_since(at).is_ok_and(|age| age > most)
}

/// Removes a base. Returns false if a process uses it.
fn remove(folder: &Path, base: &Path) -> Result<bool, Error> {
    let Some(_hold) = try_lock(&base.join("used"))? else { return Ok(false) };
    let away = folder.join("building").join(base.file_name().unwrap_or_default());
    fs::rename(base, &away).map_err(|error| Error::io("rename", base, error))?;
    fs::remove_dir_all(&away).map_err(|error| Error::io("remove", &away, error))?;
    Ok(true)
}

fn last_use(path: &Path) -> SystemTime {
    fs::symlink_metadata(path).and_then(|metadata| metadata.modified()).unwrap_or(SystemTime::UNIX_EPOCH)
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let listed = fs::read_dir(folder).map_err(|error| Error::io("read", folder, error))?;
    Ok(listed.flatten().map(|entry| entry.path()).collect())
}
