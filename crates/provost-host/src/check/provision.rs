//! Installs the dependencies that checks need, from the lock files of their tree.
//!
//! A *supply* is what one lock file asks for. Its command runs once, before any agent runs, on the approved
//! base and in the sandbox of a check with network. The result is kept in the state folder under the digest
//! of everything it depends on, and no check can write it. If a step may change a lock file and did,
//! provost installs again for that tree alone after the agent has ended.
//!
//! ```text
//! <key>/<name>/     what the command installed
//! <key>/used        its time is the last use; locked by every user
//! building/         running commands
//! running/          running checks
//! ```
//!
//! **Invariant:** nothing that an agent wrote takes part, except lock files and trees inside `touches`; the
//! results of those are used for no other tree.
//! **Invariant:** a result gets its final name only when it is complete and synced.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, SystemTime};

use provost_core::model::hash::Hash;

use crate::check::judge::CheckTools;
use crate::config;
use crate::files::folder;
use crate::plans::trust;
use crate::sandbox::{CACHES, Network, SandboxFeatures, SandboxedCommand, Unavailable};
use crate::tree::AssembledTree;

mod carry_out;
mod check_supplies;
mod crates;
mod known;

pub use check_supplies::CheckSupplies;

use known::PackageManager;

/// Largest lock file that is read, in bytes.
const LOCK_MAX: u64 = 64 << 20;
/// Name of the copy of an environment.
const COPY: &str = "copy";
/// Results that were unused for this long are removed.
const UNUSED_MAX: Duration = Duration::from_secs(30 * 24 * 3600);

/// The packages that one lock file asks for, and the command that installs them.
#[derive(Debug)]
struct Supply {
    name: String,
    /// It is installed if one of these files is in the tree.
    locks: Vec<String>,
    /// Other files that it depends on.
    also: &'static [&'static str],
    command: String,
    /// A folder of the tree; `None` means a separate folder.
    into: Option<PathBuf>,
    /// Variables for the command and for checks; `{into}` is replaced by the folder.
    env: Vec<(String, String)>,
    /// Variables for checks without a network.
    offline: &'static [(&'static str, &'static str)],
    /// `None` if the configuration has its own command.
    kind: Option<PackageManager>,
}

/// All supplies of one workspace.
pub struct Supplies {
    place: PathBuf,
    workspace: PathBuf,
    tools: CheckTools,
    timeout: Duration,
    supplies: Vec<Supply>,
    newer: Vec<String>,
}

/// A tree, as a check sees it.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    pub base: &'a Path,
    /// The changes of earlier steps.
    pub over: Option<&'a Path>,
    pub layer: &'a Path,
    pub deleted: &'a [PathBuf],
}

/// The environment in which commands are run.
#[derive(Clone, Copy)]
pub struct InstallEnvironment<'a> {
    pub ground: InstallSandbox<'a>,
    pub stop: Option<&'a AtomicBool>,
}

#[derive(Clone, Copy)]
pub enum InstallSandbox<'a> {
    /// In bubblewrap; `state` is hidden, `scratch` is for the sandbox's own files.
    Fenced { offer: &'a SandboxFeatures, state: &'a Path, scratch: &'a Path },
    /// In a folder; the function writes the tree when a command needs it.
    Folder(&'a dyn Fn() -> Result<AssembledTree, String>),
    /// In a folder, in a sandbox without namespaces.
    Confined { write: &'a dyn Fn() -> Result<AssembledTree, String>, around: &'a Around<'a> },
}

/// Wraps a program in a sandbox, given the folders it writes, its network, its path and arguments.
pub type Around<'a> =
    dyn Fn(&[&Path], Network, &OsStr, &[OsString]) -> Result<SandboxedCommand, Unavailable> + 'a;

/// An installed supply.
#[derive(Debug)]
pub struct InstalledSupply {
    /// The installed files, in the state folder; read-only.
    pub folder: PathBuf,
    name: String,
    into: Option<PathBuf>,
    env: Vec<(String, String)>,
    offline: &'static [(&'static str, &'static str)],
    // Holds the lock, so that the sweep does not remove it.
    _used: File,
}

impl InstalledSupply {
    /// Returns its path inside a sandbox: in the tree, or in a separate folder.
    pub fn at(&self) -> PathBuf {
        self.into.clone().unwrap_or_else(|| Path::new(CACHES).join(&self.name))
    }

    pub fn in_tree(&self) -> Option<&Path> {
        self.into.as_deref()
    }

    /// Returns the variables that lead tools to it, if it is at `place`.
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

/// Why a supply is not installed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum MissingSupply {
    #[error("provisioning {name} failed: {why}; {}", known::what_to_do(.name))]
    Failed { name: String, why: String },
    #[error("provost could not put the installed dependencies in place: {why}")]
    NotPlaced { why: String },
    #[error("provisioning was interrupted")]
    Interrupted,
}

impl MissingSupply {
    pub fn not_placed(error: io::Error) -> Self {
        Self::NotPlaced { why: error.to_string() }
    }
}

/// `None` if the supply is not needed.
type Provided = Result<Option<Arc<InstalledSupply>>, MissingSupply>;

/// The supplies of the approved base.
#[derive(Debug)]
pub struct PreparedSupplies {
    /// In the order of the supplies.
    each: Vec<(Hash, Provided)>,
    /// Copies of environments that the person made or changed after the approval.
    copies: Vec<Provided>,
}

impl Supplies {
    /// `newer` are environments of the workspace that replace those of the base.
    pub fn new(state: &Path, tools: &CheckTools, wanted: &config::Provision, newer: Vec<String>) -> Self {
        let mut supplies = Vec::new();
        for kind in PackageManager::ALL {
            let own = wanted.supplies.get(kind.name());
            if wanted.auto || own.is_some() {
                supplies.push(kind.supply(own));
            }
        }
        let own = wanted.supplies.iter().filter(|(name, _)| !config::KNOWN.contains(&name.as_str()));
        supplies.extend(own.map(|(name, own)| Supply::of_ones_own(name, own)));
        let workspace = tools.workspace();
        let workspace = std::path::absolute(workspace).unwrap_or_else(|_| workspace.to_owned());
        let tools = tools.clone();
        Self { place: state.join("provision"), workspace, tools, timeout: wanted.timeout, supplies, newer }
    }

    pub fn workspace(&self) -> &Path {
        &self.workspace
    }

    /// Returns the lock files of all supplies.
    pub fn locks(&self) -> impl Iterator<Item = &str> {
        self.supplies.iter().flat_map(|supply| &supply.locks).map(String::as_str)
    }

    /// Installs the supplies of the approved base. Errors are reported by the checks, not here.
    pub fn prepare(&self, approved: &View<'_>, means: &InstallEnvironment<'_>) -> PreparedSupplies {
        self.sweep();
        let each = self.supplies.iter().map(|supply| {
            let locks = supply.locks_in(approved);
            let is_newer = |into: &Path| self.newer.iter().any(|name| Path::new(name) == into);
            let is_there = supply.into.as_ref().is_some_and(|into| approved.has(into) || is_newer(into));
            let ready = match self.is_due(supply, &locks, approved) && !is_there {
                true => self.ready(supply, &locks, approved, "", means).map(Some),
                false => Ok(None),
            };
            (digest(&locks), ready)
        });
        let copies = self.newer.iter().map(|name| self.copied(name).map(Some));
        PreparedSupplies { each: each.collect(), copies: copies.collect() }
    }

    /// Returns the supplies for a check on this tree: those of the approved base if the lock files are the
    /// same, otherwise installed for this tree. `scope` is the id of the tree with the changed lock files.
    pub fn given(
        &self,
        prepared: &PreparedSupplies,
        view: &View<'_>,
        scope: &str,
        means: &InstallEnvironment<'_>,
    ) -> Result<CheckSupplies, MissingSupply> {
        let mut given = CheckSupplies::default();
        for copy in &prepared.copies {
            given.ready.extend(copy.clone()?);
        }
        for (supply, (approved, ready)) in self.supplies.iter().zip(&prepared.each) {
            let locks = supply.locks_in(view);
            if digest(&locks) == *approved {
                given.ready.extend(ready.clone()?);
            } else if self.is_due(supply, &locks, view) {
                let new = self.ready(supply, &locks, view, scope, means)?;
                given.replaced.push((new.clone(), ready.clone().ok().flatten()));
                given.ready.push(new);
                let names: Vec<&str> = locks.iter().map(|(name, _)| *name).collect();
                given.again.push(format!("{}, from {} as the step left it", supply.name, names.join(", ")));
            }
        }
        Ok(given)
    }

    /// Returns whether a supply is needed: there is a lock file, it names packages, and the tool is
    /// installed. Without the tool, no contract could use the packages.
    fn is_due(&self, supply: &Supply, locks: &[(&str, Vec<u8>)], view: &View<'_>) -> bool {
        let asks = |kind: PackageManager| {
            let is_uvs =
                kind == PackageManager::Pip && view.read("uv.lock").is_some() && self.which("uv").is_some();
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
        means: &InstallEnvironment<'_>,
    ) -> Result<Arc<InstalledSupply>, MissingSupply> {
        let key = self.key(supply, locks, view, scope, means);
        let place = self.place.join(&key[..32]);
        let failed =
            |error: io::Error| MissingSupply::Failed { name: supply.name.clone(), why: error.to_string() };
        if let Some(used) = used(&place) {
            return Ok(Arc::new(supply.ready_at(&place, used)));
        }
        let room = self.room().map_err(failed)?;
        carry_out::supply(supply, self, locks, view, means, room.path())?;
        let settled = settle(room.path(), &supply.name, &place);
        folder::remove(room.path());
        Ok(Arc::new(supply.ready_at(&place, settled.map_err(failed)?)))
    }

    /// Copies an environment of the workspace that the person made or changed after the approval.
    fn copied(&self, name: &str) -> Result<Arc<InstalledSupply>, MissingSupply> {
        let from = self.workspace.join(name);
        let stamps = trust::fingerprint(&from).unwrap_or_default();
        let key = digest_of(&[b"provost copy 1", from.as_os_str().as_encoded_bytes(), stamps.as_bytes()]);
        let place = self.place.join(&key.to_string()[..32]);
        let kept = match used(&place) {
            Some(kept) => kept,
            None => {
                let room = self.room().map_err(MissingSupply::not_placed)?;
                let copied = folder::copy(&from, &room.path().join(COPY));
                let settled = copied.and_then(|()| settle(room.path(), COPY, &place));
                folder::remove(room.path());
                settled.map_err(MissingSupply::not_placed)?
            }
        };
        Ok(Arc::new(InstalledSupply {
            folder: place.join(COPY),
            name: name.to_owned(),
            into: Some(PathBuf::from(name)),
            env: Vec::new(),
            offline: &[],
            _used: kept,
        }))
    }

    fn room(&self) -> io::Result<tempfile::TempDir> {
        let building = self.place.join("building");
        folder::make_private(&building)?;
        tempfile::tempdir_in(building)
    }

    /// Returns the digest of everything that a result depends on.
    fn key(
        &self,
        supply: &Supply,
        locks: &[(&str, Vec<u8>)],
        view: &View<'_>,
        scope: &str,
        means: &InstallEnvironment<'_>,
    ) -> String {
        let mut parts: Vec<Vec<u8>> = vec![b"provost provision 1".to_vec(), scope.into()];
        parts.push(self.workspace.as_os_str().as_encoded_bytes().to_vec());
        parts.push(vec![u8::from(matches!(means.ground, InstallSandbox::Fenced { .. }))]);
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

    /// Finds a program on the `PATH` of checks.
    fn which(&self, program: &str) -> Option<PathBuf> {
        let programs = self.tools.to_install();
        let path = programs.iter().find(|(name, _)| name == "PATH").map(|(_, path)| path.as_os_str());
        std::env::split_paths(path.unwrap_or(OsStr::new("/usr/bin:/bin")))
            .map(|folder| folder.join(program))
            .find(|path| path.is_file())
    }

    /// Removes results that were unused for long, and files of dead processes.
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

/// Gives a complete result its final name, and locks it.
fn settle(room: &Path, name: &str, place: &Path) -> io::Result<File> {
    for own in ["home", "tmp"] {
        folder::remove(&room.join(own));
    }
    let result = room.join("result");
    fs::create_dir(&result)?;
    fs::rename(room.join(name), result.join(name))?;
    File::create(result.join("used"))?;
    // A result with its final name is used without further checks, also after a power failure.
    rustix::fs::syncfs(File::open(&result)?)?;
    match fs::rename(&result, place) {
        // Another process was faster.
        Err(_) if place.join("used").exists() => {}
        renamed => renamed?,
    }
    used(place).ok_or_else(|| io::Error::other("a cleanup removed it at once"))
}

/// Locks a result, if it exists, and marks it as used.
fn used(place: &Path) -> Option<File> {
    let note = File::options().write(true).open(place.join("used")).ok()?;
    note.try_lock_shared().ok()?;
    // The sweep may have removed it between opening and locking.
    place.join("used").exists().then_some(())?;
    let _ = note.set_modified(SystemTime::now());
    Some(note)
}

impl View<'_> {
    /// Returns the content of a file of the tree, as a check sees it.
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

    fn ready_at(&self, place: &Path, used: File) -> InstalledSupply {
        InstalledSupply {
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

/// Returns a text that changes with the version of a program.
fn stamp(program: &Path) -> String {
    let real = program.canonicalize().unwrap_or_else(|_| program.to_owned());
    let found = fs::metadata(&real);
    let (size, at) = found.map_or((0, 0), |found| (found.len(), found.mtime()));
    format!("{} {size} {at}", real.display())
}
