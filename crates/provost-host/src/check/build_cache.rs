//! Keeps build caches that only checks write.
//!
//! The agent's code runs inside checks, so checks cannot simply share one cache. Each check writes to its
//! own layer over the cache that was kept for exactly the tree it begins from. provost then keeps that
//! layer for exactly the tree that was checked, if the check held or if no agent's code took part in it.
//! The layer of a failed attempt is removed. Within one plan, a step's cache builds on the caches of the
//! steps before, whose work is in its tree too. A tree that a person approved reuses only caches of
//! approved trees.
//!
//! ```text
//! trees/<id>.approved    the layers that form a tree's cache, newest first
//! trees/<id>.passed
//! layers/<name>          the overlay layer that one check wrote; never written again
//! running/               layers of running checks
//! lock                   shared by every user; the sweep needs it exclusively
//! ```
//!
//! Build tools compare modification times. A tree's own cache was built from the same files, so the times
//! are right. The cache of another tree is offered only to a base whose files are all younger than it: the
//! build tool then rebuilds everything built from them, and reuses what it fetched.
//!
//! **Invariant:** a layer that is kept is never written again. No layer of a failed check is kept, unless
//! the check ran on approved files alone.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use provost_core::model::hash::Hash;
use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use crate::check::judge;
use crate::check::provision::View;
use crate::files::{bounded_lock, folder};
use crate::process::{Enclosure, How, Spawn};
use crate::sandbox::{
    CACHES, CheckFence, CheckMount, CheckTree, MountWrites, Network, Processes, SandboxFeatures, UPPER, What,
};
use crate::{process, sandbox};

/// Largest layer that is kept, in bytes; without the layer, the next check builds again.
const LAYER_BYTES: u64 = 4 << 30;
const LAYER_FILES: u64 = 200_000;
/// Most layers in one cache.
const LAYERS: usize = 16;
/// Most layers that a new approved base reuses; if the old cache has more, the new one starts empty.
const LAYERS_TAKEN_OVER: usize = 8;
/// Most bytes of all layers together.
const ALL_BYTES: u64 = 16 << 30;
const TREES: usize = 64;
const UNUSED_MAX: Duration = Duration::from_secs(14 * 24 * 3600);

/// The origin of a tree's code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodeOrigin {
    /// A person approved every file of the tree.
    Approved,
    /// Steps that passed have changed the tree.
    Passed,
}

impl CodeOrigin {
    fn word(self) -> &'static str {
        match self {
            CodeOrigin::Approved => "approved",
            CodeOrigin::Passed => "passed",
        }
    }
}

/// A build tool with a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cache {
    Cargo,
    Go,
}

impl Cache {
    const ALL: [Self; 2] = [Self::Cargo, Self::Go];

    fn name(self) -> &'static str {
        match self {
            Cache::Cargo => "cargo",
            Cache::Go => "go",
        }
    }

    fn is_for(self, view: &View<'_>) -> bool {
        match self {
            Cache::Cargo => view.read("Cargo.toml").is_some() && !contains(view, "target"),
            Cache::Go => view.read("go.mod").is_some(),
        }
    }

    /// Returns the path of the cache: in the tree if contracts look there for build results, outside
    /// otherwise.
    fn at(self) -> PathBuf {
        match self {
            Cache::Cargo => PathBuf::from("target"),
            Cache::Go => Path::new(CACHES).join("go-build"),
        }
    }

    fn environment(self) -> Option<(OsString, OsString)> {
        match self {
            Cache::Cargo => None,
            Cache::Go => Some(("GOCACHE".into(), self.at().into())),
        }
    }
}

/// Returns whether the tree contains this folder, in its base or in the work of agents. A cache would hide it.
fn contains(view: &View<'_>, folder: &str) -> bool {
    let parts = [Some(view.base), view.over, Some(view.layer)];
    parts.into_iter().flatten().any(|part| part.join(folder).symlink_metadata().is_ok())
}

/// The build caches of one workspace.
#[derive(Debug)]
pub struct Builds {
    place: PathBuf,
    // Keeps the shared lock.
    _in_use: File,
}

/// The cache of one tree.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Entry {
    /// Boot id of the machine. The files are not synced, so they are not trusted after a reboot.
    boot: String,
    kept_at_ms: u64,
    layers: BTreeMap<String, Vec<Layer>>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Layer {
    name: String,
    bytes: u64,
}

/// The caches that one check uses. They are removed on drop, unless the caller kept them.
#[derive(Debug)]
pub struct Loan {
    room: TempDir,
    lent: Vec<Lent>,
}

#[derive(Debug)]
struct Lent {
    cache: Cache,
    at: PathBuf,
    layers: Vec<Layer>,
    lowers: Vec<PathBuf>,
    folder: PathBuf,
}

impl Drop for Loan {
    fn drop(&mut self) {
        folder::remove(self.room.path());
    }
}

impl Loan {
    pub fn kept(&self) -> impl Iterator<Item = CheckMount<'_>> {
        self.lent.iter().map(|lent| CheckMount {
            at: &lent.at,
            what: What::Layered {
                lowers: &lent.lowers,
                folder: &lent.folder,
                writes: MountWrites::Remembered,
            },
        })
    }

    pub fn environment(&self) -> impl Iterator<Item = (OsString, OsString)> {
        self.lent.iter().filter_map(|lent| lent.cache.environment())
    }
}

impl Builds {
    pub fn open(state: &Path, workspace: &Path) -> io::Result<Self> {
        let key = Hash::of(workspace.as_os_str().as_encoded_bytes()).to_string();
        let place = state.join("builds").join(&key[..16]);
        for name in ["trees", "layers", "running"] {
            folder::make_private(&place.join(name))?;
        }
        let lock = File::options().create(true).truncate(false).write(true).open(place.join("lock"))?;
        if lock.try_lock().is_ok() {
            sweep(&place);
            lock.unlock()?;
        }
        if !bounded_lock::shared(&lock, bounded_lock::PATIENCE) {
            return Err(io::ErrorKind::ResourceBusy.into());
        }
        Ok(Self { place, _in_use: lock })
    }

    /// Returns whether overlay layers work on this file system. Some cannot store them, such as the file
    /// system of a container. Runs a trivial check once per boot to find out.
    pub fn work(&self, offer: &SandboxFeatures, scratch: &Path) -> bool {
        let note = self.place.join("tried");
        if let Some((boot, worked)) =
            fs::read_to_string(&note).ok().as_deref().and_then(|it| it.split_once(' '))
            && boot == folder::boot()
        {
            return worked == "works";
        }
        let works = self.is_worth_trying(offer, scratch).unwrap_or(false);
        let _ = fs::write(&note, format!("{} {}", folder::boot(), if works { "works" } else { "fails" }));
        works
    }

    fn is_worth_trying(&self, offer: &SandboxFeatures, scratch: &Path) -> io::Result<bool> {
        let room = tempfile::tempdir_in(self.place.join("running"))?;
        let [base, layer, folder] = ["base", "layer", "folder"].map(|name| room.path().join(name));
        [&base, &layer, &folder].into_iter().try_for_each(fs::create_dir)?;
        let what = What::Layered { lowers: &[], folder: &folder, writes: MountWrites::Remembered };
        let fence = CheckFence {
            tree: CheckTree::Overlay { lower: &base, over: None, layer: &layer, deleted: &[] },
            at: Path::new("/mnt/tree"),
            size: 1 << 20,
            network: Network::Off,
            processes: Processes::Traceable,
            toolchains: &[],
            keep: &[CheckMount { at: Path::new("kept"), what }],
            hidden: &[],
            scratch,
        };
        let script = ["-c", "mkdir kept/a && echo x > kept/a/b && rm -r kept/a && echo y > kept/c"];
        let wrapped = sandbox::check(offer, &fence, judge::bash(), &script.map(OsString::from));
        let Ok(wrapped) = wrapped else { return Ok(false) };
        let ended = process::run(Spawn {
            program: &wrapped.program,
            args: &wrapped.args,
            cwd: Path::new("/"),
            env: &[("PATH".into(), "/usr/bin:/bin".into())],
            stdin: b"",
            deadline: Duration::from_secs(10),
            grace: Duration::ZERO,
            keep: process::HeadAndTail { head: 1024, tail: 0 },
            tag: &format!("builds/{}", std::process::id()),
            stop: None,
            tee: None,
            bounds: None,
            enclosure: Enclosure::None,
        });
        let works = ended.is_ok_and(|ended| matches!(wrapped.how(&ended), Ok(How::Exited(0))));
        let is_there = folder.join(UPPER).join("c").exists();
        folder::remove(room.path());
        Ok(works && is_there)
    }

    /// Returns whether a check on this tree would use a cache.
    pub fn are_for(view: &View<'_>) -> bool {
        Cache::ALL.into_iter().any(|cache| cache.is_for(view))
    }

    /// Prepares the caches for a check that begins from tree `base`.
    pub fn lend(&self, view: &View<'_>, base: &str, origin: CodeOrigin) -> io::Result<Loan> {
        let entry = self.entry(base, CodeOrigin::Approved).or_else(|| match origin {
            CodeOrigin::Approved => self.older_than(view.base),
            CodeOrigin::Passed => self.entry(base, CodeOrigin::Passed),
        });
        let mut layers = entry.map(|entry| entry.layers).unwrap_or_default();
        let room = tempfile::tempdir_in(self.place.join("running"))?;
        let mut lent = Vec::new();
        for cache in Cache::ALL.into_iter().filter(|cache| cache.is_for(view)) {
            let layers = layers.remove(cache.name()).unwrap_or_default();
            let folder = room.path().join(cache.name());
            fs::create_dir(&folder)?;
            let lowers = layers.iter().map(|layer| self.place.join("layers").join(&layer.name)).collect();
            lent.push(Lent { cache, at: cache.at(), layers, lowers, folder });
        }
        Ok(Loan { room, lent })
    }

    /// Keeps the layers of a check for the tree that it ran on. An existing cache stays.
    pub fn keep(&self, loan: &Loan, tree: &str, origin: CodeOrigin) -> io::Result<()> {
        if self.entry(tree, origin).is_some() {
            return Ok(());
        }
        let mut layers = BTreeMap::new();
        for lent in &loan.lent {
            let upper = lent.folder.join(UPPER);
            let mut all = lent.layers.clone();
            let size = Size::of(&upper);
            if size.bytes > LAYER_BYTES || size.files > LAYER_FILES || all.len() >= LAYERS {
                return Ok(());
            }
            if size.files > 0 {
                let place = tempfile::tempdir_in(self.place.join("layers"))?.keep();
                // A rename replaces an empty folder.
                fs::rename(&upper, &place)?;
                let name = place.file_name().unwrap_or_default().to_string_lossy().into_owned();
                all.insert(0, Layer { name, bytes: size.bytes });
            }
            layers.insert(lent.cache.name().to_owned(), all);
        }
        let entry =
            Entry { boot: folder::boot().to_owned(), kept_at_ms: milliseconds(SystemTime::now()), layers };
        let mut file = tempfile::NamedTempFile::new_in(self.place.join("running"))?;
        serde_json::to_writer(&mut file, &entry)?;
        file.persist(self.path(tree, origin))?;
        Ok(())
    }

    fn path(&self, tree: &str, origin: CodeOrigin) -> PathBuf {
        self.place.join("trees").join(format!("{tree}.{}", origin.word()))
    }

    fn entry(&self, tree: &str, origin: CodeOrigin) -> Option<Entry> {
        let path = self.path(tree, origin);
        let entry = read(&path)?;
        if let Ok(file) = File::options().write(true).open(&path) {
            let _ = file.set_modified(SystemTime::now());
        }
        Some(entry)
    }

    /// Returns the newest cache of an approved tree that is older than every file of `base`.
    fn older_than(&self, base: &Path) -> Option<Entry> {
        let paths = fs::read_dir(self.place.join("trees")).ok()?.flatten().map(|entry| entry.path());
        let mut entries: Vec<Entry> = paths
            .filter(|path| path.extension().is_some_and(|word| word == CodeOrigin::Approved.word()))
            .filter_map(|path| read(&path))
            .filter(|entry| entry.layers.values().all(|layers| layers.len() <= LAYERS_TAKEN_OVER))
            .collect();
        if entries.is_empty() {
            return None;
        }
        // One second of margin for file systems that round times.
        let limit = milliseconds(oldest(base)?).saturating_sub(1000);
        entries.retain(|entry| entry.kept_at_ms < limit);
        entries.into_iter().max_by_key(|entry| entry.kept_at_ms)
    }
}

/// Returns the modification time of the oldest file. Runs once per approved tree.
fn oldest(tree: &Path) -> Option<SystemTime> {
    let mut oldest = SystemTime::now();
    let mut folders = vec![tree.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).ok()? {
            let entry = entry.ok()?;
            let found = entry.metadata().ok()?;
            match found.is_dir() {
                true => folders.push(entry.path()),
                false => oldest = oldest.min(found.modified().ok()?),
            }
        }
    }
    Some(oldest)
}

fn read(path: &Path) -> Option<Entry> {
    let entry: Entry = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
    (entry.boot == folder::boot()).then_some(entry)
}

fn milliseconds(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Removes caches that are old, too large or unreferenced. The caller holds the exclusive lock.
fn sweep(place: &Path) {
    let paths = |name: &str| -> Vec<PathBuf> {
        let entries = fs::read_dir(place.join(name)).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect()
    };
    let last_use = |path: &PathBuf| fs::symlink_metadata(path).and_then(|found| found.modified()).ok();
    let mut trees: Vec<PathBuf> = paths("trees");
    trees.sort_by_key(|path| std::cmp::Reverse(last_use(path)));
    let mut used = BTreeSet::new();
    let mut bytes = 0;
    for (number, path) in trees.iter().enumerate() {
        let is_young = last_use(path).is_some_and(|at| at.elapsed().is_ok_and(|age| age < UNUSED_MAX));
        let layers: Vec<Layer> =
            read(path).into_iter().flat_map(|entry| entry.layers.into_values().flatten()).collect();
        let more: u64 =
            layers.iter().filter(|layer| !used.contains(&layer.name)).map(|layer| layer.bytes).sum();
        if is_young && number < TREES && !layers.is_empty() && bytes + more <= ALL_BYTES {
            bytes += more;
            used.extend(layers.into_iter().map(|layer| layer.name));
        } else {
            let _ = fs::remove_file(path);
        }
    }
    let is_unused = |path: &PathBuf| !used.contains(&*path.file_name().unwrap_or_default().to_string_lossy());
    for path in paths("layers").into_iter().filter(is_unused).chain(paths("running")) {
        folder::remove(&path);
        let _ = fs::remove_file(&path);
    }
}

#[derive(Default)]
struct Size {
    bytes: u64,
    files: u64,
}

impl Size {
    fn of(folder: &Path) -> Self {
        let mut size = Self::default();
        let mut folders = vec![folder.to_path_buf()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
                let Ok(found) = entry.metadata() else { continue };
                size.files += 1;
                size.bytes += found.blocks() * 512;
                if found.is_dir() {
                    folders.push(entry.path());
                }
            }
        }
        size
    }
}
