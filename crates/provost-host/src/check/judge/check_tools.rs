//! Works out how the programs of a check are found: `PATH`, the variables of toolchains, and the folders
//! that a sandbox has to show for them.
//!
//! The order of `PATH` is the one rule for every check:
//!
//! 1. the project's Python environment and its `node_modules/.bin`, then the versions of tools that its
//!    files name ([`ProjectTools`]); environments that provost installs from lock files have the same rank;
//! 2. the `PATH` provost was started with, without relative entries and without folders of the workspace;
//! 3. the usual folders of installed programs (`~/.cargo/bin`, …), if they are not on it.
//!
//! A Python environment that the person activated stays first: it is what the person's shell uses.
//!
//! **Invariant:** a folder of the tree is on `PATH` only as an environment that the approved base has, or
//! that provost installed from a lock file.

use std::collections::BTreeMap;
use std::env;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use provost_core::model::hash::Hash;
use provost_core::model::verdict::CheckEnvironment;

use super::libraries::{Libraries, joined, unique};
use super::surroundings;
use super::toolchains::{self, ForbiddenPaths};
use crate::check::project_tools::{Person, ProjectTools, ToolFolder};

/// Folders in which version managers keep the programs behind their entries on `PATH`, relative to the
/// user's home. Folders of programs only, never of configuration.
const TOOLCHAINS: [(&str, &str); 7] = [
    ("RUSTUP_HOME", ".rustup"),
    ("PYENV_ROOT", ".pyenv"),
    ("RBENV_ROOT", ".rbenv"),
    ("VOLTA_HOME", ".volta"),
    ("ASDF_DATA_DIR", ".asdf"),
    ("MISE_DATA_DIR", ".local/share/mise"),
    ("UV_PYTHON_INSTALL_DIR", ".local/share/uv/python"),
];

/// Variables that name the folder of one program; passed on if the person has set them.
const INSTALLED: [&str; 6] =
    ["VIRTUAL_ENV", "CONDA_PREFIX", "JAVA_HOME", "GOROOT", "DOTNET_ROOT", "GEM_HOME"];

/// Folders of installed programs that a login shell has on `PATH`, relative to the user's home.
const USUAL: [&str; 3] = [".cargo/bin", "go/bin", ".local/bin"];

/// How the programs of the checks of one run are found. Made before any agent runs.
#[derive(Clone)]
pub struct CheckTools(Arc<Inner>);

struct Inner {
    workspace: PathBuf,
    /// Entries of `PATH`, without the environments that provost installs.
    path: Vec<ToolFolder>,
    variables: Vec<(OsString, OsString)>,
    folders: Vec<PathBuf>,
    project: ProjectTools,
    stamps: OnceLock<Vec<Vec<u8>>>,
    libraries: OnceLock<Libraries>,
    /// The record that was made last, and for which folders: it digests thousands of names of programs.
    record: Mutex<Option<(Vec<SuppliedTools>, CheckEnvironment)>>,
}

/// A folder of programs that provost adds for one check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SuppliedTools {
    /// It belongs to a Python environment that provost installed into the tree.
    pub is_python: bool,
    /// The folder of programs, relative to the tree if it is in it.
    pub programs: PathBuf,
    /// The same folder where provost keeps it.
    pub kept: PathBuf,
}

impl CheckTools {
    /// Returns the tools of the person and of the project.
    pub fn new(workspace: &Path, project: ProjectTools) -> Self {
        let person = Person::of_process();
        let path = path_of_the_person();
        Self::with(workspace, project, path, &person)
    }

    /// Returns the tools of the person alone, for a workspace without an approved base. The first call of a
    /// process fixes the result.
    pub fn of_person(workspace: &Path) -> Self {
        static KNOWN: Mutex<BTreeMap<PathBuf, CheckTools>> = Mutex::new(BTreeMap::new());
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        let make = || Self::new(workspace, ProjectTools::default());
        known.entry(workspace.to_path_buf()).or_insert_with(make).clone()
    }

    /// Returns the tools that a verdict names, as far as they are still there.
    pub fn recorded(workspace: &Path, record: &CheckEnvironment, project: ProjectTools) -> Self {
        let within = |path: &PathBuf| path.strip_prefix(workspace).map(Path::to_path_buf);
        let all = record.path.iter().map(PathBuf::from);
        let path = all.filter_map(|entry| match within(&entry) {
            // Environments that provost installs are added for each check.
            Ok(inside) => project.has_in_tree(&inside).then_some(ToolFolder::InTree(inside)),
            Err(_) => entry.is_dir().then_some(ToolFolder::Outside(entry)),
        });
        let path = path.collect();
        // Those of the tree are set again with its path.
        let is_there = |(_, value): &(&String, &String)| {
            Path::new(value).is_dir() && !Path::new(value).starts_with(workspace)
        };
        let variables = record.variables.iter().filter(is_there);
        let variables = variables.map(|(name, value)| (name.into(), value.into())).collect();
        Self::made(workspace, project, path, variables, &Person::of_process())
    }

    fn with(workspace: &Path, project: ProjectTools, person_path: Vec<PathBuf>, person: &Person) -> Self {
        let real = workspace.canonicalize().unwrap_or_else(|_| workspace.to_path_buf());
        let is_outside = |path: &Path| {
            path.is_absolute()
                && !path.canonicalize().unwrap_or_else(|_| path.to_path_buf()).starts_with(&real)
        };
        let mut path: Vec<ToolFolder> = project.first().cloned().collect();
        for folder in person_path {
            match toolchains::kept_in_workspace(&folder, workspace) {
                Some(_) => path.extend(
                    folder
                        .strip_prefix(workspace)
                        .ok()
                        .filter(|inside| project.has_in_tree(inside))
                        .map(|inside| ToolFolder::InTree(inside.to_path_buf())),
                ),
                None if is_outside(&folder) => path.push(ToolFolder::Outside(folder)),
                None => {}
            }
        }
        let usual = person.home.iter().flat_map(|home| USUAL.iter().map(|name| home.join(name)));
        let usual = usual.chain([PathBuf::from("/usr/local/go/bin")]);
        path.extend(usual.filter(|folder| folder.is_dir() && is_outside(folder)).map(ToolFolder::Outside));
        let path = unique(path);
        let mut variables: Vec<(OsString, OsString)> = Vec::new();
        let usual = TOOLCHAINS.iter().map(|(name, usual)| (*name, Some(*usual)));
        for (name, usual) in usual.chain(INSTALLED.map(|name| (name, None))) {
            let place = person.var(name).map(PathBuf::from);
            let place = place.or_else(|| Some(person.home.as_ref()?.join(usual?)));
            if let Some(place) = place.filter(|place| place.is_dir() && is_outside(place)) {
                variables.push((name.into(), place.into()));
            }
        }
        Self::made(workspace, project, path, variables, person)
    }

    fn made(
        workspace: &Path,
        project: ProjectTools,
        path: Vec<ToolFolder>,
        mut variables: Vec<(OsString, OsString)>,
        person: &Person,
    ) -> Self {
        let real = workspace.canonicalize().unwrap_or_else(|_| workspace.to_path_buf());
        let outside = |entry: &ToolFolder| match entry {
            ToolFolder::Outside(folder) => Some(folder.clone()),
            ToolFolder::InTree(_) => None,
        };
        let kept: Vec<PathBuf> = path.iter().filter_map(outside).collect();
        let mut places: Vec<PathBuf> = variables.iter().map(|(_, value)| PathBuf::from(value)).collect();
        if let Some((base, libraries)) =
            person.home.as_ref().and_then(|home| packages_of(home, &kept, person))
        {
            places.extend(libraries.into_iter().filter(|folder| !folder.starts_with(&real)));
            if !variables.iter().any(|(name, _)| name == "PYTHONUSERBASE") {
                variables.push(("PYTHONUSERBASE".into(), base.into()));
            }
        }
        let home = person.home.as_ref().map(|home| home.canonicalize().unwrap_or_else(|_| home.clone()));
        let forbidden = ForbiddenPaths { workspace: &real, home: home.as_deref() };
        places.retain(|place| !real.starts_with(place) && home.as_deref() != Some(place));
        let needed: Vec<PathBuf> = kept.iter().chain(project.interpreters()).cloned().collect();
        let folders = toolchains::folders(&needed, &places, forbidden);
        let workspace = workspace.to_path_buf();
        let (stamps, libraries, record) = (OnceLock::new(), OnceLock::new(), Mutex::default());
        Self(Arc::new(Inner { workspace, path, variables, folders, project, stamps, libraries, record }))
    }

    /// Returns the folders that a sandbox has to show for these programs.
    pub fn folders(&self) -> &[PathBuf] {
        &self.0.folders
    }

    pub fn workspace(&self) -> &Path {
        &self.0.workspace
    }

    pub fn project(&self) -> &ProjectTools {
        &self.0.project
    }

    /// Returns the entries of `PATH`, for a tree at `root`.
    pub fn path(&self, root: &Path, supplied: &[SuppliedTools]) -> Vec<PathBuf> {
        self.entries(supplied, |entry| root.join(entry), |supplied| root.join(&supplied.programs))
    }

    /// Returns the same folders where provost can read them before the check has a tree.
    pub fn places(&self, base: Option<&Path>, supplied: &[SuppliedTools]) -> Vec<PathBuf> {
        let base = base.unwrap_or(&self.0.workspace);
        self.entries(supplied, |entry| base.join(entry), |supplied| supplied.kept.clone())
    }

    fn entries(
        &self,
        supplied: &[SuppliedTools],
        in_tree: impl Fn(&Path) -> PathBuf,
        place: impl Fn(&SuppliedTools) -> PathBuf,
    ) -> Vec<PathBuf> {
        let project = &self.0.project;
        let is_used = |supplied: &&SuppliedTools| !(supplied.is_python && project.is_python_activated());
        let mut path: Vec<PathBuf> = supplied.iter().filter(is_used).map(place).collect();
        // An installed environment replaces the one outside of the tree.
        let replaced = supplied.iter().any(|supplied| supplied.is_python && is_used(&supplied));
        for entry in &self.0.path {
            match entry {
                ToolFolder::InTree(inside) => path.push(in_tree(inside)),
                ToolFolder::Outside(folder) if replaced && project.is_python(folder) => {}
                ToolFolder::Outside(folder) => path.push(folder.clone()),
            }
        }
        unique(path)
    }

    /// Returns the variables by which programs are found in a tree at `root`.
    pub fn variables(&self, root: &Path, supplied: &[SuppliedTools]) -> Vec<(OsString, OsString)> {
        let mut variables = self.0.variables.clone();
        let path = env::join_paths(self.path(root, supplied)).unwrap_or_else(|_| "/usr/bin:/bin".into());
        variables.push(("PATH".into(), path));
        let project = &self.0.project;
        let python = supplied.iter().find(|each| each.is_python).filter(|_| !project.is_python_activated());
        match python {
            Some(supplied) => {
                let place = supplied.programs.parent().map(|prefix| root.join(prefix));
                variables.extend(place.map(|place| (OsString::from("VIRTUAL_ENV"), place.into())));
            }
            None => variables.extend(project.variables(root)),
        }
        variables
    }

    /// Returns the variables for a command that installs dependencies: with the usual ones, and without the
    /// project's environments.
    pub fn to_install(&self) -> Vec<(OsString, OsString)> {
        let outside = |entry: &ToolFolder| match entry {
            ToolFolder::Outside(folder) if !self.0.project.is_python(folder) => Some(folder.clone()),
            ToolFolder::Outside(_) | ToolFolder::InTree(_) => None,
        };
        let path = env::join_paths(self.0.path.iter().filter_map(outside));
        let path = path.unwrap_or_else(|_| "/usr/bin:/bin".into());
        let mut variables = surroundings::usual();
        variables.extend(self.0.variables.clone());
        variables.push(("PATH".into(), path));
        variables
    }

    /// Returns how the programs of a check are found, for its verdict.
    pub fn record(&self, supplied: &[SuppliedTools]) -> CheckEnvironment {
        let mut last = self.0.record.lock().unwrap_or_else(PoisonError::into_inner);
        match &*last {
            Some((known, record)) if known == supplied => record.clone(),
            _ => {
                let record = self.made_record(supplied);
                *last = Some((supplied.to_vec(), record.clone()));
                record
            }
        }
    }

    fn made_record(&self, supplied: &[SuppliedTools]) -> CheckEnvironment {
        let path = self.path(&self.0.workspace, supplied);
        let mut parts: Vec<Vec<u8>> = Vec::new();
        let variables = self.variables(&self.0.workspace, supplied);
        for (name, value) in &variables {
            parts.push(name.as_encoded_bytes().to_vec());
            parts.push(value.as_encoded_bytes().to_vec());
        }
        parts.extend(self.0.stamps.get_or_init(|| self.stamps()).iter().cloned());
        let text = |path: &PathBuf| path.display().to_string();
        let named = variables.iter().filter(|(name, _)| name != "PATH");
        let named = named.map(|(name, value)| (lossy(name), lossy(value)));
        CheckEnvironment {
            sha256: Hash::of(&joined(&parts)).to_string(),
            path: path.iter().map(text).collect(),
            folders: self.0.folders.iter().map(text).collect(),
            variables: named.collect::<BTreeMap<_, _>>(),
            ..CheckEnvironment::default()
        }
    }

    /// Returns what is known of the libraries where the programs look for them, as they were when this was called
    /// first.
    pub(crate) fn libraries(&self) -> Libraries {
        let find = || {
            let prefix = |entry: &ToolFolder| {
                let ToolFolder::Outside(folder) = entry else { return None };
                // `/usr/bin` is often found by a link.
                let folder = folder.canonicalize().unwrap_or_else(|_| folder.clone());
                folder.parent().map(Path::to_path_buf)
            };
            // Several folders of programs have the same libraries.
            Libraries::find(&unique(self.0.path.iter().filter_map(prefix).collect()), &self.0.folders)
        };
        *self.0.libraries.get_or_init(find)
    }

    /// Returns names, sizes and times of the programs. Those of the tree are part of its id.
    fn stamps(&self) -> Vec<Vec<u8>> {
        let outside = |entry: &ToolFolder| match entry {
            ToolFolder::Outside(folder) => Some(folder.clone()),
            ToolFolder::InTree(_) => None,
        };
        let mut parts = Vec::new();
        for folder in self.0.path.iter().filter_map(outside).chain(self.0.folders.iter().cloned()) {
            parts.push(folder.as_os_str().as_encoded_bytes().to_vec());
            parts.extend(stamps(&folder));
        }
        parts
    }
}

fn lossy(text: &OsStr) -> String {
    text.to_string_lossy().into_owned()
}

/// Returns the folders of the workspace, relative to it, that hold programs of checks: environments on
/// `PATH`, and those that the project or a variable names. Checks get a copy of them from before any agent
/// ran.
pub fn kept_in_workspace(workspace: &Path) -> Vec<String> {
    let on_path = path_of_the_person().into_iter();
    let on_path = on_path.filter_map(|folder| toolchains::kept_in_workspace(&folder, workspace));
    let named = Person::of_process().environments_in(workspace).into_iter();
    let named = named.filter_map(|root| root.strip_prefix(workspace).map(Path::to_path_buf).ok());
    let kept = on_path.chain(named.filter(|within| toolchains::is_plain(within)));
    let mut names: Vec<String> = kept.filter_map(|within| within.to_str().map(str::to_owned)).collect();
    names.sort();
    names.dedup();
    names
}

/// Returns name, size and time of each entry of a folder, sorted.
fn stamps(folder: &Path) -> Vec<Vec<u8>> {
    use std::os::unix::fs::MetadataExt as _;
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let stamp = |entry: std::fs::DirEntry| {
        let found = entry.metadata().ok()?;
        let name = entry.file_name().as_encoded_bytes().to_vec();
        let numbers = format!(" {} {} {}", found.len(), found.mtime(), found.mtime_nsec());
        Some([name, numbers.into_bytes()].concat())
    };
    let mut stamps: Vec<Vec<u8>> = entries.filter_map(stamp).collect();
    stamps.sort_unstable();
    stamps
}

/// Returns the absolute entries of `PATH` that exist; an agent could create one that does not.
fn path_of_the_person() -> Vec<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
    env::split_paths(&path).filter(|folder| folder.is_absolute() && folder.is_dir()).collect()
}

/// Returns the folder of `pip install --user` and its library folders, if its programs are on `PATH`.
fn packages_of(home: &Path, path: &[PathBuf], person: &Person) -> Option<(PathBuf, Vec<PathBuf>)> {
    let base = person.var("PYTHONUSERBASE").map(PathBuf::from).unwrap_or_else(|| home.join(".local"));
    if !path.contains(&base.join("bin")) {
        return None;
    }
    let libraries = std::fs::read_dir(base.join("lib")).ok()?.flatten().map(|entry| entry.path());
    let folders: Vec<PathBuf> = libraries.filter(|folder| folder.join("site-packages").is_dir()).collect();
    (!folders.is_empty()).then_some((base, folders))
}
