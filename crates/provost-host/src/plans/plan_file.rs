//! Finds a plan's file, reads it, and writes it back without overwriting a concurrent edit.
//!
//! A command names its plan explicitly: by an argument, else by the marker of this worktree, else
//! `PLAN.md`. [`resolve`] chooses the file; [`read`] and [`replace`] access it.
//!
//! **Invariant:** a marker that cannot be followed is an error; provost never falls back to another plan.
//! **Invariant:** [`replace`] writes new text only over the text that it was derived from.

mod listing;
pub(crate) mod name;
mod swap;
#[cfg(test)]
mod tests;

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::Read as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use provost_core::model::chain::PlanId;
use provost_core::model::hash::Hash;

use crate::git;
use crate::plans::trust::{self, UntrustedFile};
pub use listing::{ConflictCopy, PlanListing, list_in};
pub use name::is_slug;
use name::{UNNAMED, as_file_name, named_slug, progress_of, slug_of};
pub use swap::{create, replace};

/// Folder of plans in a repository, unless the configuration names another one.
pub const FOLDER: &str = ".harness";
const MARKER: &str = "active-plan";
/// Largest plan file, in bytes; a larger one is an error.
const SIZE_MAX: u64 = 16 << 20;
const MARKER_MAX: u64 = 4096;

/// A plan's file, and the names derived from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanPlace {
    /// Canonical path, with links resolved.
    pub path: PathBuf,
    /// `fix-auth` for `PLAN-fix-auth.md`; `plan` for `PLAN.md`.
    pub slug: String,
    /// Name for people: the slug of a named plan, else the file's name.
    pub name: String,
    /// Top of the checkout, or the working folder if there is none; canonical.
    pub workspace: PathBuf,
    /// The folder that contains the plan.
    pub dir: PathBuf,
    pub progress: PathBuf,
    pub why: PlanChoice,
}

/// How a plan was chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlanChoice {
    /// The argument is its path.
    Path,
    /// The argument is its name.
    Name,
    /// The marker of this worktree names it.
    Marker(PathBuf),
    /// Without argument and marker: the only `PLAN.md`.
    Unnamed,
}

impl fmt::Display for PlanChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PlanChoice::Path => f.write_str("its path was given"),
            PlanChoice::Name => f.write_str("its name was given"),
            PlanChoice::Marker(path) => write!(f, "the marker {} names it", path.display()),
            PlanChoice::Unnamed => f.write_str("no plan was named and there is no marker"),
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(
        "{argument:?} is neither a file nor the name of a plan; names look like `fix-auth`: a-z, 0-9, \
         `.`, `_`, `-`"
    )]
    BadName { argument: String },
    #[error("there is no plan {name}; looked for {}", listed(looked))]
    Absent { name: String, looked: Vec<PathBuf> },
    #[error("{name} could be {}; give the path of the one you mean", listed(candidates))]
    Ambiguous { name: String, candidates: Vec<PathBuf> },
    #[error("the marker {} {problem}; correct it, delete it, or name the plan", path.display())]
    Marker { path: PathBuf, problem: String },
    #[error("there is no plan here: no argument, no marker, no PLAN.md in {}{}", listed(looked), also(named))]
    NoPlan { looked: Vec<PathBuf>, named: Vec<String> },
    #[error(transparent)]
    Untrusted(#[from] UntrustedFile),
    #[error("{} is empty; write the plan, or name another", path.display())]
    Empty { path: PathBuf },
    #[error("the folder for plans does not exist: {}", path.display())]
    NoFolder { path: PathBuf },
    #[error("{} already exists; provost did not change it", path.display())]
    Exists { path: PathBuf },
    #[error("{} is not a regular file", path.display())]
    NotAFile { path: PathBuf },
    #[error("{} has {bytes} bytes; a plan has at most {SIZE_MAX}", path.display())]
    TooLarge { path: PathBuf, bytes: u64 },
    #[error("{} was changed meanwhile, so provost did not write \
         it; read it again{}", path.display(), kept_at(kept))]
    Changed {
        path: PathBuf,
        /// The file in which an edit was saved that two others would have overwritten.
        kept: Option<PathBuf>,
    },
    #[error("cannot {attempted} {}", path.display())]
    Io { path: PathBuf, attempted: &'static str, source: std::io::Error },
}

fn listed(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
}

fn also(named: &[String]) -> String {
    if named.is_empty() { String::new() } else { format!("; plans here: {}", named.join(", ")) }
}

fn kept_at(kept: &Option<PathBuf>) -> String {
    kept.as_ref()
        .map_or_else(String::new, |path| format!("; an edit in between was kept in {}", path.display()))
}

impl Error {
    fn io(path: &Path, attempted: &'static str) -> impl FnOnce(std::io::Error) -> Error {
        let path = path.to_owned();
        move |source| Error::Io { path, attempted, source }
    }
}

/// Returns the path of this worktree's marker; the file may not exist.
pub fn marker(workspace: &Path) -> PathBuf {
    workspace.join(FOLDER).join(MARKER)
}

/// Returns the plan that `argument` means in `cwd`, with plans in [`FOLDER`].
pub fn resolve(argument: Option<&str>, cwd: &Path) -> Result<PlanPlace, Error> {
    resolve_in(argument, cwd, Path::new(FOLDER))
}

/// Returns the plan that `argument` means in `cwd`, with plans in `folder`: absolute, or relative to the
/// top of the repository.
pub fn resolve_in(argument: Option<&str>, cwd: &Path, folder: &Path) -> Result<PlanPlace, Error> {
    let search = Search::new(cwd, folder)?;
    match argument {
        Some(argument) => search.argument(argument),
        None => match search.marker()? {
            Some(place) => Ok(place),
            None => search.unnamed(),
        },
    }
}

/// Resolves a plan for programs, which give names and no paths. An unsafe name is refused before any
/// search, and a folder of plans must exist.
pub fn resolve_named(name: Option<&str>, cwd: &Path, folder: &Path) -> Result<PlanPlace, Error> {
    let is_unsafe = |name: &&str| name.contains('/') || as_file_name(name).is_none();
    if let Some(name) = name.filter(is_unsafe) {
        return Err(Error::BadName { argument: name.to_owned() });
    }
    let search = Search::new(cwd, folder)?;
    if !search.has_a_folder() {
        return Err(Error::NoFolder { path: search.folder });
    }
    resolve_in(name, cwd, folder)
}

/// Returns the place of a new plan with this name, if no file exists there yet. Creates its folder.
pub fn upcoming(name: &str, cwd: &Path, folder: &Path) -> Result<PlanPlace, Error> {
    let search = Search::new(cwd, folder)?;
    let file_name = as_file_name(name).filter(|_| !name.contains('/'));
    let file_name = file_name.ok_or_else(|| Error::BadName { argument: name.to_owned() })?;
    if let Some(path) = search.looked(&file_name).into_iter().find(|path| path.symlink_metadata().is_ok()) {
        return Err(Error::Exists { path });
    }
    let folder = search.home();
    std::fs::create_dir_all(folder).map_err(Error::io(folder, "make"))?;
    let folder = folder.canonicalize().map_err(Error::io(folder, "find"))?;
    Ok(search.named_place(folder.join(file_name), PlanChoice::Name))
}

/// Returns the plan with this name in the same folder as another, in the same workspace.
pub fn beside(place: &PlanPlace, slug: &str) -> Result<PlanPlace, Error> {
    let file_name = as_file_name(slug).filter(|_| is_slug(slug));
    let file_name = file_name.ok_or_else(|| Error::BadName { argument: slug.to_owned() })?;
    let path = place.dir.join(file_name);
    let search = Search {
        cwd: place.workspace.clone(),
        workspace: place.workspace.clone(),
        folder: place.dir.clone(),
        shared: None,
        is_spawned: false,
    };
    if !path.exists() {
        return Err(Error::Absent { name: slug.to_owned(), looked: vec![path] });
    }
    let found = search.place(&path, PlanChoice::Name)?;
    // A link could lead to another plan that was approved.
    if found.path == path { Ok(found) } else { Err(Error::NotAFile { path }) }
}

/// Returns the folder of the user's own templates.
pub fn templates(cwd: &Path) -> PathBuf {
    git::top(cwd).unwrap_or_else(|| cwd.to_owned()).join(FOLDER).join("templates")
}

struct Search {
    cwd: PathBuf,
    workspace: PathBuf,
    folder: PathBuf,
    /// In a worktree: the same folder of the main checkout.
    shared: Option<PathBuf>,
    /// The worktree was made for a plan of the main checkout; copies of plans in it are ordinary files.
    is_spawned: bool,
}

impl Search {
    fn new(cwd: &Path, folder: &Path) -> Result<Self, Error> {
        let cwd = cwd.canonicalize().map_err(Error::io(cwd, "enter"))?;
        let workspace = git::top(&cwd).unwrap_or_else(|| cwd.clone());
        let main = git::main_checkout(&workspace).filter(|_| folder.is_relative());
        let is_spawned = main.is_some() && git::is_spawned(&workspace);
        Ok(Self {
            folder: workspace.join(folder),
            shared: main.map(|main| main.join(folder)),
            is_spawned,
            cwd,
            workspace,
        })
    }

    /// Returns the folder in which new plans are created.
    fn home(&self) -> &Path {
        match &self.shared {
            Some(shared) if self.is_spawned => shared,
            _ => &self.folder,
        }
    }

    fn has_a_folder(&self) -> bool {
        self.folders().iter().any(|folder| {
            let is_home = *folder == self.folder || Some(folder) == self.shared.as_ref();
            is_home && folder.is_dir() || folder.join(UNNAMED).is_file()
        }) || !self.named().is_empty()
    }

    fn argument(&self, argument: &str) -> Result<PlanPlace, Error> {
        let path = self.cwd.join(argument);
        let is_path = argument.contains('/') || (path.is_file() && !argument.is_empty());
        let file_name = as_file_name(argument);
        match file_name {
            Some(file_name) if !argument.contains('/') => {
                let mut candidates = self.candidates(&file_name);
                // A file with the name of a named plan: both are candidates, and the user has to choose.
                if is_path {
                    push_new(&mut candidates, &path);
                }
                let why =
                    if argument.ends_with(".md") || is_path { PlanChoice::Path } else { PlanChoice::Name };
                self.only_one(argument, candidates, &file_name, why)
            }
            _ if is_path || argument.ends_with(".md") => {
                if !path.exists() {
                    return Err(Error::Absent { name: argument.to_owned(), looked: vec![path] });
                }
                self.place(&path, PlanChoice::Path)
            }
            _ => Err(Error::BadName { argument: argument.to_owned() }),
        }
    }

    fn only_one(
        &self,
        name: &str,
        candidates: Vec<PathBuf>,
        file_name: &str,
        why: PlanChoice,
    ) -> Result<PlanPlace, Error> {
        match candidates.as_slice() {
            [] => Err(Error::Absent { name: name.to_owned(), looked: self.looked(file_name) }),
            [path] if why == PlanChoice::Name && is_blank(path)? => Err(Error::Empty { path: path.clone() }),
            [path] => self.place(path, why),
            _ => Err(Error::Ambiguous { name: name.to_owned(), candidates }),
        }
    }

    /// Returns the existing files of that name, each once.
    fn candidates(&self, file_name: &str) -> Vec<PathBuf> {
        let mut found = Vec::new();
        for path in self.looked(file_name) {
            // A worktree's own file takes precedence over the shared one.
            let is_shared = path.parent() == self.shared.as_deref();
            if !is_shared || found.is_empty() {
                push_new(&mut found, &path);
            }
        }
        found
    }

    fn looked(&self, file_name: &str) -> Vec<PathBuf> {
        self.folders().into_iter().map(|folder| folder.join(file_name)).collect()
    }

    /// Returns the plan that the marker names; `None` only if there is no marker.
    fn marker(&self) -> Result<Option<PlanPlace>, Error> {
        // The marker of this worktree, even if the plans are in a shared folder.
        let path = marker(&self.workspace);
        if path.symlink_metadata().is_err() {
            return Ok(None);
        }
        trust::check(&path)?;
        let wrong = |problem: &str| Error::Marker { path: path.clone(), problem: problem.to_owned() };
        let text = marker_text(&path).ok_or_else(|| wrong("cannot be read as a line of text"))?;
        let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        let name = match (lines.next(), lines.next()) {
            (None, _) => return Err(wrong("is blank")),
            (Some(_), Some(_)) => return Err(wrong("has more than one line")),
            (Some(name), None) => name,
        };
        let file_name = as_file_name(name)
            .ok_or_else(|| wrong(&format!("says {name:?}, which is not the name of a plan")))?;
        let candidates = self.candidates(&file_name);
        let plan = match candidates.as_slice() {
            [] => return Err(wrong(&format!("names {name}, but there is no {file_name}"))),
            [plan] => plan,
            _ => return Err(wrong(&format!("names {name}, which could be {}", listed(&candidates)))),
        };
        if !self.holds(plan) {
            return Err(wrong(&format!("names {name}, whose file is a link out of its folder")));
        }
        if is_blank(plan)? {
            return Err(wrong(&format!("names {name}, but {} is empty", plan.display())));
        }
        self.place(plan, PlanChoice::Marker(path.clone())).map(Some)
    }

    /// Returns whether the file, with links resolved, is in a folder of plans.
    fn holds(&self, plan: &Path) -> bool {
        let Ok(plan) = plan.canonicalize() else { return false };
        let inside = |folder: &Path| folder.canonicalize().is_ok_and(|folder| plan.starts_with(folder));
        inside(&self.folder) || inside(&self.workspace) || self.shared.as_deref().is_some_and(inside)
    }

    fn unnamed(&self) -> Result<PlanPlace, Error> {
        let candidates = self.candidates(UNNAMED);
        match candidates.as_slice() {
            [] => Err(Error::NoPlan { looked: self.folders(), named: self.named() }),
            _ => self.only_one(UNNAMED, candidates, UNNAMED, PlanChoice::Unnamed),
        }
    }

    fn folders(&self) -> Vec<PathBuf> {
        let own = [&self.folder, &self.workspace, &self.cwd];
        let own = own.into_iter().filter(|_| !self.is_spawned);
        let mut folders: Vec<PathBuf> = own.chain(&self.shared).cloned().collect();
        folders.dedup();
        folders
    }

    /// Returns the named plans nearby, for the error message.
    fn named(&self) -> Vec<String> {
        let entries =
            self.folders().into_iter().filter_map(|folder| folder.read_dir().ok()).flatten().flatten();
        let names = entries.filter_map(|entry| named_slug(entry.file_name().to_str()?).map(str::to_owned));
        names.take(50).collect::<std::collections::BTreeSet<_>>().into_iter().collect()
    }

    fn place(&self, path: &Path, why: PlanChoice) -> Result<PlanPlace, Error> {
        let path = path.canonicalize().map_err(Error::io(path, "find"))?;
        if !path.is_file() {
            return Err(Error::NotAFile { path });
        }
        Ok(self.named_place(path, why))
    }

    /// Derives all names from a file, which may not exist.
    fn named_place(&self, path: PathBuf, why: PlanChoice) -> PlanPlace {
        let file_name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let dir = path.parent().unwrap_or(Path::new("/")).to_owned();
        let slug = slug_of(&file_name);
        let progress = progress_of(&file_name);
        let name = if named_slug(&file_name).is_some() { slug.clone() } else { file_name };
        PlanPlace {
            slug,
            name,
            workspace: self.workspace.clone(),
            progress: dir.join(progress),
            dir,
            why,
            path,
        }
    }
}

/// Adds a file that exists and is not yet in the list under another name.
fn push_new(found: &mut Vec<PathBuf>, path: &Path) {
    if let Ok(canonical) = path.canonicalize()
        && canonical.is_file()
        && !found.contains(&canonical)
    {
        found.push(canonical);
    }
}

fn marker_text(path: &Path) -> Option<String> {
    let mut text = String::new();
    let file = open(path).ok()?;
    file.take(MARKER_MAX + 1).read_to_string(&mut text).ok()?;
    (text.len() as u64 <= MARKER_MAX && !text.contains('\0')).then_some(text)
}

fn is_blank(path: &Path) -> Result<bool, Error> {
    Ok(read(path)?.bytes.iter().all(u8::is_ascii_whitespace))
}

/// Returns the plan's id in the log: `<slug>-<8 digits of the path's digest>`.
pub fn id(place: &PlanPlace) -> PlanId {
    let digest = Hash::of(place.path.as_os_str().as_encoded_bytes()).to_string();
    PlanId(format!("{}-{}", place.slug, &digest[..8]))
}

/// The content of a file, and its attributes at the time of reading.
#[derive(Clone, PartialEq, Eq)]
pub struct Text {
    pub bytes: Vec<u8>,
    pub hash: Hash,
    /// Taken before the first byte was read, so that a later change is detected.
    pub stamp: PlanFileStamp,
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Text").field("bytes", &self.bytes.len()).field("hash", &self.hash).finish()
    }
}

/// Attributes of a file; if two stamps are equal, the file was not written in between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlanFileStamp {
    pub device: u64,
    pub inode: u64,
    pub size: u64,
    pub modified_ns: i128,
    pub changed_ns: i128,
}

impl PlanFileStamp {
    fn of(metadata: &std::fs::Metadata) -> Self {
        let ns = |seconds: i64, rest: i64| i128::from(seconds) * 1_000_000_000 + i128::from(rest);
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.size(),
            modified_ns: ns(metadata.mtime(), metadata.mtime_nsec()),
            changed_ns: ns(metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

/// Returns the attributes without reading the file.
pub fn stamp(path: &Path) -> Result<PlanFileStamp, Error> {
    path.metadata().map(|metadata| PlanFileStamp::of(&metadata)).map_err(Error::io(path, "look at"))
}

pub fn read(path: &Path) -> Result<Text, Error> {
    let file = open(path).map_err(Error::io(path, "open"))?;
    let metadata = file.metadata().map_err(Error::io(path, "look at"))?;
    if !metadata.is_file() {
        return Err(Error::NotAFile { path: path.to_owned() });
    }
    let mut bytes = Vec::with_capacity(metadata.len().min(SIZE_MAX) as usize + 1);
    file.take(SIZE_MAX + 1).read_to_end(&mut bytes).map_err(Error::io(path, "read"))?;
    if bytes.len() as u64 > SIZE_MAX {
        return Err(Error::TooLarge { path: path.to_owned(), bytes: metadata.len().max(SIZE_MAX + 1) });
    }
    Ok(Text { hash: Hash::of(&bytes), bytes, stamp: PlanFileStamp::of(&metadata) })
}

/// Opens a file without blocking: a pipe in place of a plan is opened at once and then refused.
fn open(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().read(true).custom_flags(rustix::fs::OFlags::NONBLOCK.bits() as i32).open(path)
}
