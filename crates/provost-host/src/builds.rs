//! Build caches of the harness's own, which only checks write.
//!
//! Agents' code runs inside checks, so a cache is not simply shared. Each check writes to a layer of its
//! own over what was kept for exactly the tree it begins from; afterwards that layer is kept, for exactly
//! the tree that was checked, if no agent's code had a part in it or the check held. Whatever a failed
//! attempt left is gone. Within one plan a step's cache grows on that of the steps before, which are in
//! its tree too; a tree that a person approved takes over only from trees that were approved.
//!
//! ```text
//! trees/<id>.approved    which layers the cache of a tree is made of, the newest first
//! trees/<id>.passed
//! layers/<name>          what one check wrote, as an overlay keeps it; nobody writes it again
//! running/               under way
//! lock                   held by whoever uses any of this; who has it alone may sweep
//! ```
//!
//! Build tools compare times. A tree's own cache was built from the very same files, so whatever their
//! times say is true. Another tree's is offered only to a base whose files are all younger than it: what is
//! built of them is built anew, and what was fetched is not.
//!
//! **Invariant:** a layer that is kept is never written again, and nothing of a check that did not hold is
//! kept, unless it ran on approved files alone.

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

use crate::process::{How, Spawn};
use crate::provision::View;
use crate::sandbox::{CACHES, CheckFence, CheckTree, Kept, Network, Offer, Processes, UPPER, What, Writes};
use crate::{folder, judge, process, sandbox};

/// A layer of more is not kept: the next check does without.
const LAYER_BYTES: u64 = 4 << 30;
const LAYER_FILES: u64 = 200_000;
/// So many lie on each other.
const LAYERS: usize = 16;
/// A new approved base begins anew where the old one has more.
const LAYERS_TAKEN_OVER: usize = 8;
/// What all that is kept may take together.
const ALL_BYTES: u64 = 16 << 30;
const TREES: usize = 64;
const UNUSED_MAX: Duration = Duration::from_secs(14 * 24 * 3600);

/// Whose code had a part in a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A person approved every file of it.
    Approved,
    /// Steps that passed had a part.
    Passed,
}

impl Origin {
    fn word(self) -> &'static str {
        match self {
            Origin::Approved => "approved",
            Origin::Passed => "passed",
        }
    }
}

/// What a build tool keeps.
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
            // A tree that has files there needs the place itself.
            Cache::Cargo => view.read("Cargo.toml").is_some() && !view.base.join("target").exists(),
            Cache::Go => view.read("go.mod").is_some(),
        }
    }

    /// In the tree, where contracts look for what was built; elsewhere where nobody does.
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

/// The caches of one workspace.
#[derive(Debug)]
pub struct Builds {
    place: PathBuf,
    // Declared for its lock.
    _in_use: File,
}

/// What is known of the cache of one tree.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Entry {
    /// Nothing is synced, so nothing is believed after the machine went down.
    boot: String,
    kept_at_ms: u64,
    layers: BTreeMap<String, Vec<Layer>>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Layer {
    name: String,
    bytes: u64,
}

/// What one check is lent. Dropped without being kept, it is gone.
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
    pub fn kept(&self) -> impl Iterator<Item = Kept<'_>> {
        self.lent.iter().map(|lent| Kept {
            at: &lent.at,
            what: What::Layered { lowers: &lent.lowers, folder: &lent.folder, writes: Writes::Remembered },
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
        lock.lock_shared()?;
        Ok(Self { place, _in_use: lock })
    }

    /// Not every file system can hold what is written to a layer; a container's own, for one, cannot.
    /// Tried once after each boot, with a check that does nothing.
    pub fn work(&self, offer: &Offer, scratch: &Path) -> bool {
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

    fn is_worth_trying(&self, offer: &Offer, scratch: &Path) -> io::Result<bool> {
        let room = tempfile::tempdir_in(self.place.join("running"))?;
        let [base, layer, folder] = ["base", "layer", "folder"].map(|name| room.path().join(name));
        [&base, &layer, &folder].into_iter().try_for_each(fs::create_dir)?;
        let what = What::Layered { lowers: &[], folder: &folder, writes: Writes::Remembered };
        let fence = CheckFence {
            tree: CheckTree::Overlay { lower: &base, over: None, layer: &layer, deleted: &[] },
            at: Path::new("/mnt/tree"),
            size: 1 << 20,
            network: Network::Off,
            processes: Processes::Traceable,
            toolchains: &[],
            keep: &[Kept { at: Path::new("kept"), what }],
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
            keep: process::Keep { head: 1024, tail: 0 },
            tag: &format!("builds/{}", std::process::id()),
            stop: None,
            tee: None,
            bounds: None,
        });
        let works = ended.is_ok_and(|ended| matches!(wrapped.how(&ended), Ok(How::Exited(0))));
        let is_there = folder.join(UPPER).join("c").exists();
        folder::remove(room.path());
        Ok(works && is_there)
    }

    /// Would a check on this tree use any cache?
    pub fn are_for(view: &View<'_>) -> bool {
        Cache::ALL.into_iter().any(|cache| cache.is_for(view))
    }

    /// What a check that begins from tree `base` may use.
    pub fn lend(&self, view: &View<'_>, base: &str, origin: Origin) -> io::Result<Loan> {
        let entry = self.entry(base, Origin::Approved).or_else(|| match origin {
            Origin::Approved => self.older_than(view.base),
            Origin::Passed => self.entry(base, Origin::Passed),
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

    /// Keeps what the check left, for the tree that it ran on. What is there already stays.
    pub fn keep(&self, loan: &Loan, tree: &str, origin: Origin) -> io::Result<()> {
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
                // A rename takes the place of an empty folder.
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

    fn path(&self, tree: &str, origin: Origin) -> PathBuf {
        self.place.join("trees").join(format!("{tree}.{}", origin.word()))
    }

    fn entry(&self, tree: &str, origin: Origin) -> Option<Entry> {
        let path = self.path(tree, origin);
        let entry = read(&path)?;
        if let Ok(file) = File::options().write(true).open(&path) {
            let _ = file.set_modified(SystemTime::now());
        }
        Some(entry)
    }

    /// The newest cache of an approved tree that is older than every file of a base.
    fn older_than(&self, base: &Path) -> Option<Entry> {
        let paths = fs::read_dir(self.place.join("trees")).ok()?.flatten().map(|entry| entry.path());
        let mut entries: Vec<Entry> = paths
            .filter(|path| path.extension().is_some_and(|word| word == Origin::Approved.word()))
            .filter_map(|path| read(&path))
            .filter(|entry| entry.layers.values().all(|layers| layers.len() <= LAYERS_TAKEN_OVER))
            .collect();
        if entries.is_empty() {
            return None;
        }
        // A second, for clocks that file systems round.
        let limit = milliseconds(oldest(base)?).saturating_sub(1000);
        entries.retain(|entry| entry.kept_at_ms < limit);
        entries.into_iter().max_by_key(|entry| entry.kept_at_ms)
    }
}

/// When the file was written that was written first. Looked at once for each approved tree.
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

/// Nobody uses anything: what is old, too much or belongs to nothing goes.
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
