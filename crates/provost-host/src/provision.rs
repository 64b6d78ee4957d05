//! What checks need besides their tree: dependencies, put in place from the lock files of that tree.
//!
//! A *supply* is what one lock file asks for. It is carried out once, before any agent runs, on the
//! approved base and behind the fence of a check with a network; what it leaves is kept in the state
//! folder under the digest of everything it depends on, and no check can write it. A lock file that a
//! step may change and did change is provided for again when the agent has ended, for that tree alone.
//!
//! ```text
//! <key>/<name>/     what the command left
//! <key>/used        last use (its time); locked by whoever uses it
//! building/         commands under way
//! running/          checks under way
//! ```
//!
//! **Invariant:** nothing an agent wrote takes part, but for lock files and trees inside `touches`, and
//! what comes of these is used for no other tree.
//! **Invariant:** a result has its name only once it is whole and on the disk.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, SystemTime};

use provost_core::model::hash::Hash;

use crate::sandbox::{CACHES, Network, Offer, Unavailable, Wrapped};
use crate::tree::Assembled;
use crate::{config, folder, judge};

mod carry_out;
mod crates;
mod known;

use known::Kind;

/// A lock file of more than this is not read.
const LOCK_MAX: u64 = 64 << 20;
/// What nobody used for so long is removed.
const UNUSED_MAX: Duration = Duration::from_secs(30 * 24 * 3600);

/// What one lock file asks for.
#[derive(Debug)]
struct Supply {
    name: String,
    /// Any of these in the tree, and it is due.
    locks: Vec<String>,
    /// What it depends on besides.
    also: &'static [&'static str],
    command: String,
    /// A folder of the tree; none, and it has one of its own.
    into: Option<PathBuf>,
    /// For the command and for checks; `{into}` is the folder.
    env: Vec<(String, String)>,
    /// For checks without a network.
    offline: &'static [(&'static str, &'static str)],
    /// Unless somebody wrote a command of their own.
    kind: Option<Kind>,
}

/// All that is provided for in one workspace.
#[derive(Debug)]
pub struct Supplies {
    place: PathBuf,
    workspace: PathBuf,
    timeout: Duration,
    supplies: Vec<Supply>,
}

/// A tree, as a check sees it.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    pub base: &'a Path,
    /// What steps before changed.
    pub over: Option<&'a Path>,
    pub layer: &'a Path,
    pub deleted: &'a [PathBuf],
}

/// With what, and where, commands are run.
#[derive(Clone, Copy)]
pub struct Means<'a> {
    pub ground: Ground<'a>,
    pub stop: Option<&'a AtomicBool>,
}

#[derive(Clone, Copy)]
pub enum Ground<'a> {
    /// Nothing of `state` is seen; `scratch` is the fence's own.
    Fenced { offer: &'a Offer, state: &'a Path, scratch: &'a Path },
    /// Writes the view out, once something is to be run there.
    Folder(&'a dyn Fn() -> Result<Assembled, String>),
    /// The same, and what is run there is confined.
    Confined { write: &'a dyn Fn() -> Result<Assembled, String>, around: &'a Around<'a> },
}

/// Puts a program behind a fence: the folders it writes, its network, itself.
pub type Around<'a> = dyn Fn(&[&Path], Network, &OsStr, &[OsString]) -> Result<Wrapped, Unavailable> + 'a;

/// Something that is in place.
#[derive(Debug)]
pub struct Ready {
    /// What was put in place, in the state folder. Not to be written.
    pub folder: PathBuf,
    name: String,
    into: Option<PathBuf>,
    env: Vec<(String, String)>,
    offline: &'static [(&'static str, &'static str)],
    // Declared for its lock: what is in use is not swept.
    _used: File,
}

impl Ready {
    /// Where it is inside a fence: in the tree, or at a place of its own.
    pub fn at(&self) -> PathBuf {
        self.into.clone().unwrap_or_else(|| Path::new(CACHES).join(&self.name))
    }

    pub fn in_tree(&self) -> Option<&Path> {
        self.into.as_deref()
    }

    /// What tells tools about it, when it is at `place`.
    pub fn environment(&self, place: &Path, network: bool) -> Vec<(OsString, OsString)> {
        let offline =
            self.offline.iter().filter(|_| !network).map(|(name, value)| (name.into(), value.into()));
        named(&self.env, place).into_iter().chain(offline).collect()
    }
}

fn named(env: &[(String, String)], place: &Path) -> Vec<(OsString, OsString)> {
    let value = |value: &String| match value.split_once("{into}") {
        None => OsString::from(value),
        Some((before, after)) => {
            let mut whole = OsString::from(before);
            whole.push(place);
            whole.push(after);
            whole
        }
    };
    env.iter().map(|(name, text)| (name.into(), value(text))).collect()
}

/// Why something is not in place.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Missing {
    #[error("provisioning {name} failed: {why}; {}", known::what_to_do(.name))]
    Failed { name: String, why: String },
    #[error("what was provisioned could not be put in place: {why}")]
    NotPlaced { why: String },
    #[error("provisioning was interrupted")]
    Interrupted,
}

impl Missing {
    pub fn not_placed(error: io::Error) -> Self {
        Self::NotPlaced { why: error.to_string() }
    }
}

/// Nothing, where nothing was asked for.
type Provided = Result<Option<Arc<Ready>>, Missing>;

/// What the approved base was given.
#[derive(Debug)]
pub struct Prepared {
    /// In the order of the supplies.
    each: Vec<(Hash, Provided)>,
}

/// What one check is given.
#[derive(Debug, Default)]
pub struct Given {
    pub ready: Vec<Arc<Ready>>,
    /// What was put in place because of what the agent changed, in words.
    pub again: Vec<String>,
}

impl Supplies {
    pub fn new(state: &Path, workspace: &Path, wanted: &config::Provision) -> Self {
        let mut supplies = Vec::new();
        for kind in Kind::ALL {
            let own = wanted.supplies.get(kind.name());
            if wanted.auto || own.is_some() {
                supplies.push(kind.supply(own));
            }
        }
        let own = wanted.supplies.iter().filter(|(name, _)| !config::KNOWN.contains(&name.as_str()));
        supplies.extend(own.map(|(name, own)| Supply::of_ones_own(name, own)));
        let workspace = std::path::absolute(workspace).unwrap_or_else(|_| workspace.to_owned());
        Self { place: state.join("provision"), workspace, timeout: wanted.timeout, supplies }
    }

    pub fn workspace(&self) -> &Path {
        &self.workspace
    }

    /// The lock files that are looked for.
    pub fn locks(&self) -> impl Iterator<Item = &str> {
        self.supplies.iter().flat_map(|supply| &supply.locks).map(String::as_str)
    }

    /// Puts in place what the approved base asks for. What fails is told to the checks, not here.
    pub fn prepare(&self, approved: &View<'_>, means: &Means<'_>) -> Prepared {
        self.sweep();
        let each = self.supplies.iter().map(|supply| {
            let locks = supply.locks_in(approved);
            let is_there = supply.into.as_ref().is_some_and(|into| approved.has(into));
            let ready = match self.is_due(supply, &locks, approved) && !is_there {
                true => self.ready(supply, &locks, approved, "", means).map(Some),
                false => Ok(None),
            };
            (digest(&locks), ready)
        });
        Prepared { each: each.collect() }
    }

    /// What a check on this tree is given: as approved, where the lock files are, and else made for it.
    /// `scope` names the tree that has the other lock files.
    pub fn given(
        &self,
        prepared: &Prepared,
        view: &View<'_>,
        scope: &str,
        means: &Means<'_>,
    ) -> Result<Given, Missing> {
        let mut given = Given::default();
        for (supply, (approved, ready)) in self.supplies.iter().zip(&prepared.each) {
            let locks = supply.locks_in(view);
            if digest(&locks) == *approved {
                given.ready.extend(ready.clone()?);
            } else if self.is_due(supply, &locks, view) {
                given.ready.push(self.ready(supply, &locks, view, scope, means)?);
                let names: Vec<&str> = locks.iter().map(|(name, _)| *name).collect();
                given.again.push(format!("{}, from {} as the step left it", supply.name, names.join(", ")));
            }
        }
        Ok(given)
    }

    /// There is a lock file, it asks for something, and there is who could answer: a tool that is not
    /// installed no contract can use either.
    fn is_due(&self, supply: &Supply, locks: &[(&str, Vec<u8>)], view: &View<'_>) -> bool {
        let asks = |kind: Kind| {
            let is_uvs = kind == Kind::Pip && view.read("uv.lock").is_some() && self.which("uv").is_some();
            locks.iter().any(|(_, bytes)| kind.asks(bytes))
                && !kind.is_served(view)
                && !is_uvs
                && self.which(kind.program()).is_some()
        };
        !locks.is_empty() && supply.kind.is_none_or(asks)
    }

    fn ready(
        &self,
        supply: &Supply,
        locks: &[(&str, Vec<u8>)],
        view: &View<'_>,
        scope: &str,
        means: &Means<'_>,
    ) -> Result<Arc<Ready>, Missing> {
        let key = self.key(supply, locks, view, scope, means);
        let place = self.place.join(&key[..32]);
        let failed = |error: io::Error| Missing::Failed { name: supply.name.clone(), why: error.to_string() };
        if let Some(used) = used(&place) {
            return Ok(Arc::new(supply.ready_at(&place, used)));
        }
        let room = self.room().map_err(failed)?;
        carry_out::supply(supply, self, locks, view, means, room.path())?;
        let settle = || -> io::Result<File> {
            for own in ["home", "tmp"] {
                folder::remove(&room.path().join(own));
            }
            let result = room.path().join("result");
            fs::create_dir(&result)?;
            fs::rename(room.path().join(&supply.name), result.join(&supply.name))?;
            File::create(result.join("used"))?;
            // What has its name is used without being looked at again, after a power failure too.
            rustix::fs::syncfs(File::open(&result)?)?;
            match fs::rename(&result, &place) {
                // Somebody else was as quick.
                Err(_) if place.join("used").exists() => {}
                renamed => renamed?,
            }
            used(&place).ok_or_else(|| io::Error::other("it was swept away at once"))
        };
        let settled = settle();
        folder::remove(room.path());
        Ok(Arc::new(supply.ready_at(&place, settled.map_err(failed)?)))
    }

    fn room(&self) -> io::Result<tempfile::TempDir> {
        let building = self.place.join("building");
        folder::make_private(&building)?;
        tempfile::tempdir_in(building)
    }

    /// Everything that a result depends on.
    fn key(
        &self,
        supply: &Supply,
        locks: &[(&str, Vec<u8>)],
        view: &View<'_>,
        scope: &str,
        means: &Means<'_>,
    ) -> String {
        let mut parts: Vec<Vec<u8>> = vec![b"provost provision 1".to_vec(), scope.into()];
        parts.push(self.workspace.as_os_str().as_encoded_bytes().to_vec());
        parts.push(vec![u8::from(matches!(means.ground, Ground::Fenced { .. }))]);
        parts.extend([supply.name.as_str(), &supply.command].map(Into::into));
        parts
            .push(supply.into.iter().flat_map(|into| into.as_os_str().as_encoded_bytes().to_vec()).collect());
        for (name, value) in &supply.env {
            parts.extend([name.as_str(), value].map(Into::into));
        }
        parts.push(Vec::new());
        let also = supply.also.iter().filter_map(|name| Some((*name, view.read(name)?)));
        for (name, bytes) in locks.iter().cloned().chain(also) {
            parts.extend([name.into(), Hash::of(&bytes).to_string().into()]);
        }
        if let Some(program) = supply.kind.and_then(|kind| self.which(kind.program())) {
            parts.push(stamp(&program).into());
        }
        digest_of(&parts).to_string()
    }

    /// A program on the `PATH` of checks.
    fn which(&self, program: &str) -> Option<PathBuf> {
        let programs = judge::programs(&self.workspace);
        let path = programs.iter().find(|(name, _)| name == "PATH").map(|(_, path)| path.as_os_str());
        std::env::split_paths(path.unwrap_or(OsStr::new("/usr/bin:/bin")))
            .map(|folder| folder.join(program))
            .find(|path| path.is_file())
    }

    /// What nobody used for long, and what dead processes left.
    fn sweep(&self) {
        let is_old = |path: &Path, most| {
            let modified = fs::symlink_metadata(path).and_then(|found| found.modified());
            modified.is_ok_and(|at| SystemTime::now().duration_since(at).is_ok_and(|age| age > most))
        };
        for entry in fs::read_dir(&self.place).into_iter().flatten().flatten() {
            let note = entry.path().join("used");
            if is_old(&note, UNUSED_MAX) && File::open(&note).is_ok_and(|note| note.try_lock().is_ok()) {
                folder::remove(&entry.path());
            }
        }
        let under_way = ["building", "running"].map(|name| fs::read_dir(self.place.join(name)));
        for entry in under_way.into_iter().flatten().flatten().flatten() {
            if is_old(&entry.path(), Duration::from_secs(2 * 24 * 3600)) {
                folder::remove(&entry.path());
            }
        }
    }
}

/// Takes hold of a result, if it is there.
fn used(place: &Path) -> Option<File> {
    let note = File::options().write(true).open(place.join("used")).ok()?;
    note.try_lock_shared().ok()?;
    // Swept between the opening and the lock, perhaps.
    place.join("used").exists().then_some(())?;
    let _ = note.set_modified(SystemTime::now());
    Some(note)
}

impl View<'_> {
    /// What a check finds at a path of the tree, where that is a file.
    pub fn read(&self, path: &str) -> Option<Vec<u8>> {
        let of = |tree: &Path| {
            let found = fs::metadata(tree.join(path)).ok()?;
            (found.is_file() && found.len() <= LOCK_MAX).then(|| fs::read(tree.join(path)).ok())?
        };
        of(self.layer).or_else(|| match self.deleted.iter().any(|gone| Path::new(path).starts_with(gone)) {
            true => None,
            false => self.over.and_then(of).or_else(|| of(self.base)),
        })
    }

    fn has(&self, folder: &Path) -> bool {
        self.base.join(folder).is_dir()
    }
}

impl Supply {
    fn of_ones_own(name: &str, own: &config::Supply) -> Self {
        Self {
            name: name.to_owned(),
            locks: own.lock.clone(),
            also: &[],
            command: own.command.clone().unwrap_or_default(),
            into: own.into.as_ref().map(PathBuf::from),
            env: own.env.clone().into_iter().collect(),
            offline: &[],
            kind: None,
        }
    }

    fn locks_in(&self, view: &View<'_>) -> Vec<(&str, Vec<u8>)> {
        self.locks.iter().filter_map(|name| Some((name.as_str(), view.read(name)?))).collect()
    }

    fn ready_at(&self, place: &Path, used: File) -> Ready {
        Ready {
            folder: place.join(&self.name),
            name: self.name.clone(),
            into: self.into.clone(),
            env: self.env.clone(),
            offline: self.offline,
            _used: used,
        }
    }
}

fn digest(locks: &[(&str, Vec<u8>)]) -> Hash {
    digest_of(&locks.iter().flat_map(|(name, bytes)| [name.as_bytes(), bytes]).collect::<Vec<_>>())
}

fn digest_of(parts: &[impl AsRef<[u8]>]) -> Hash {
    let mut text = Vec::new();
    for part in parts {
        text.extend((part.as_ref().len() as u64).to_be_bytes());
        text.extend(part.as_ref());
    }
    Hash::of(&text)
}

/// Another version of a program is another file.
fn stamp(program: &Path) -> String {
    let real = program.canonicalize().unwrap_or_else(|_| program.to_owned());
    let found = fs::metadata(&real);
    let (size, at) = found.map_or((0, 0), |found| (found.len(), found.mtime()));
    format!("{} {size} {at}", real.display())
}
