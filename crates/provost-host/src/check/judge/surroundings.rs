//! Builds the environment of a check from values that no agent can influence.
//!
//! Set are: `PATH` (the one provost was started with, without relative entries and the workspace), `HOME`
//! and `TMPDIR` (empty folders), `LC_CTYPE=C.UTF-8`, `SHELL`, `TERM=dumb`, `CI=true` (so tools do not
//! prompt, open nothing and rewrite no snapshots), the folders of installed toolchains, for tools on `PATH`
//! that find themselves through `HOME`, and the caller's variables for provisioned dependencies. Everything
//! else is absent: no `LD_*`, `BASH_ENV`, `GIT_*`.
//!
//! If a virtual environment of the workspace is on `PATH`, it stays there in a sandbox; the tree has a copy
//! of it from before any agent ran.

use std::collections::HashMap;
use std::env;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use provost_core::model::hash::Hash;
use provost_core::model::verdict::CheckEnvironment;

use super::temp_folders::TempFolders;
use super::toolchains::{self, ForbiddenPaths};
use crate::sandbox;

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

pub(super) struct Surroundings {
    environment: Vec<(OsString, OsString)>,
    /// `PATH` in a sandbox, where the tree is mounted at the workspace's path.
    fenced_path: OsString,
    plain_path: OsString,
    // Returns the folders to the pool on drop.
    _room: TempFolders,
}

impl Surroundings {
    pub(super) fn make(workspace: &Path, more: &[(OsString, OsString)]) -> io::Result<Self> {
        let room = TempFolders::enter()?;
        let fixed = fixed_part(workspace);
        let mut environment = fixed.variables.clone();
        environment.push(("HOME".into(), room.home().into()));
        environment.push(("TMPDIR".into(), room.tmp().into()));
        environment.extend_from_slice(more);
        let plain = fixed.variables.iter().find(|(name, _)| name == "PATH");
        let plain_path = plain.map(|(_, path)| path.clone()).unwrap_or_default();
        Ok(Self { environment, fenced_path: fixed.fenced_path.clone(), plain_path, _room: room })
    }

    pub(super) fn environment(&self) -> &[(OsString, OsString)] {
        &self.environment
    }

    /// Returns the environment in a sandbox, which has its own home and temporary folder.
    pub(super) fn inside_a_fence(&self) -> Vec<(OsString, OsString)> {
        let mut environment = self.environment.clone();
        for (name, value) in &mut environment {
            match name.to_str() {
                Some("HOME") => *value = sandbox::HOME.into(),
                Some("TMPDIR") => *value = sandbox::TMP.into(),
                // Entries may have been added before it.
                Some("PATH") => {
                    let plain = self.plain_path.as_encoded_bytes();
                    let before = value.as_encoded_bytes().strip_suffix(plain).map(<[u8]>::to_vec);
                    if let Some(before) = before {
                        let path = [before.as_slice(), self.fenced_path.as_encoded_bytes()].concat();
                        *value = OsString::from_vec(path);
                    }
                }
                _ => {}
            }
        }
        environment
    }
}

/// Returns the variables by which programs are found: `PATH` and the folders of toolchains.
pub fn programs(workspace: &Path) -> Vec<(OsString, OsString)> {
    fixed_part(workspace).variables.clone()
}

/// Returns the folders of programs on `PATH` outside of the system's folders, with what these programs
/// need. The first call fixes the result, so call it before any agent runs.
pub fn toolchains(workspace: &Path) -> Vec<PathBuf> {
    fixed_part(workspace).folders.clone()
}

/// Returns the folders of the workspace, relative to it, whose programs are on `PATH`. Checks get a copy of
/// them from before any agent ran.
pub fn kept_in_workspace(workspace: &Path) -> Vec<String> {
    let kept = path_of_the_person().into_iter();
    let kept = kept.filter_map(|folder| toolchains::kept_in_workspace(&folder, workspace));
    let mut names: Vec<String> = kept.filter_map(|within| within.to_str().map(str::to_owned)).collect();
    names.sort();
    names.dedup();
    names
}

/// Returns how the programs of a check are found, for its verdict.
pub(super) fn environment(workspace: &Path) -> CheckEnvironment {
    let fixed = fixed_part(workspace);
    fixed.recorded.get_or_init(|| fixed.record()).clone()
}

/// Returns the system's bash, in preference to another one on `PATH`.
pub fn bash() -> &'static OsStr {
    static BASH: OnceLock<&OsStr> = OnceLock::new();
    BASH.get_or_init(|| {
        let usual = ["/usr/bin/bash", "/bin/bash"].into_iter().find(|path| Path::new(path).is_file());
        OsStr::new(usual.unwrap_or("bash"))
    })
}

/// Computed once for each workspace, so that later changes by an agent have no effect.
struct Fixed {
    variables: Vec<(OsString, OsString)>,
    fenced_path: OsString,
    folders: Vec<PathBuf>,
    recorded: OnceLock<CheckEnvironment>,
}

impl Fixed {
    /// Returns the folders of programs, and a digest over the names, sizes and times of their entries.
    fn record(&self) -> CheckEnvironment {
        let path: Vec<PathBuf> = env::split_paths(&self.fenced_path).collect();
        let mut parts: Vec<Vec<u8>> = Vec::new();
        for (name, value) in &self.variables {
            parts.push(name.as_encoded_bytes().to_vec());
            parts.push(value.as_encoded_bytes().to_vec());
        }
        for folder in path.iter().chain(&self.folders) {
            parts.push(folder.as_os_str().as_encoded_bytes().to_vec());
            parts.extend(stamps(folder));
        }
        let text = |path: &PathBuf| path.display().to_string();
        CheckEnvironment {
            sha256: Hash::of(&joined(&parts)).to_string(),
            path: path.iter().map(text).collect(),
            folders: self.folders.iter().map(text).collect(),
        }
    }
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

/// Joins the parts, each with its length before it, so that different lists give different bytes.
fn joined(parts: &[Vec<u8>]) -> Vec<u8> {
    parts.iter().flat_map(|part| [&(part.len() as u64).to_le_bytes(), part.as_slice()].concat()).collect()
}

fn fixed_part(workspace: &Path) -> Arc<Fixed> {
    static KNOWN: Mutex<Option<HashMap<PathBuf, Arc<Fixed>>>> = Mutex::new(None);
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let known = known.get_or_insert_default();
    if let Some(fixed) = known.get(workspace) {
        return fixed.clone();
    }
    let fixed = Arc::new(work_out(workspace));
    known.insert(workspace.to_path_buf(), fixed.clone());
    fixed
}

/// Returns the absolute entries of `PATH` that exist; an agent could create one that does not.
fn path_of_the_person() -> Vec<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
    env::split_paths(&path).filter(|folder| folder.is_absolute() && folder.is_dir()).collect()
}

fn work_out(given: &Path) -> Fixed {
    let workspace = given.canonicalize().unwrap_or_else(|_| given.to_path_buf());
    let is_outside = |path: &Path| {
        path.is_absolute()
            && !path.canonicalize().unwrap_or_else(|_| path.to_path_buf()).starts_with(&workspace)
    };
    let all = path_of_the_person();
    let kept: Vec<PathBuf> = all.iter().filter(|folder| is_outside(folder)).cloned().collect();
    let is_copied = |folder: &Path| toolchains::kept_in_workspace(folder, given).is_some();
    let fenced = all.iter().filter(|folder| is_outside(folder) || is_copied(folder));
    let join = |folders: Vec<&PathBuf>| env::join_paths(folders).unwrap_or_else(|_| "/usr/bin:/bin".into());
    let fenced_path = join(fenced.collect());
    let mut variables: Vec<(OsString, OsString)> = vec![
        ("PATH".into(), join(kept.iter().collect())),
        // UTF-8 and otherwise the C locale, as `LANG=C.UTF-8`, but without opening a dozen files each time.
        ("LC_CTYPE".into(), "C.UTF-8".into()),
        // Otherwise bash would look it up in the user database.
        ("SHELL".into(), bash().into()),
        ("TERM".into(), "dumb".into()),
        ("CI".into(), "true".into()),
    ];
    let home = env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
    let mut places = Vec::new();
    let usual = TOOLCHAINS.iter().map(|(name, usual)| (*name, Some(*usual)));
    for (name, usual) in usual.chain(INSTALLED.map(|name| (name, None))) {
        let place = env::var_os(name).map(PathBuf::from);
        let place = place.or_else(|| Some(home.as_ref()?.join(usual?)));
        if let Some(place) = place.filter(|place| place.is_dir() && is_outside(place)) {
            places.push(place.clone());
            variables.push((name.into(), place.into()));
        }
    }
    if let Some(place) = home.as_ref().and_then(|home| packages_of_the_person(home, &kept)) {
        places.extend(place.1.into_iter().filter(|folder| is_outside(folder)));
        variables.push(("PYTHONUSERBASE".into(), place.0.into()));
    }
    let home = home.as_ref().map(|home| home.canonicalize().unwrap_or_else(|_| home.clone()));
    let outside = ForbiddenPaths { workspace: &workspace, home: home.as_deref() };
    places.retain(|place| !workspace.starts_with(place) && home.as_deref() != Some(place));
    let folders = toolchains::folders(&kept, &places, outside);
    Fixed { variables, fenced_path, folders, recorded: OnceLock::new() }
}

/// Returns the folder of `pip install --user` and its library folders, if its programs are on `PATH`.
fn packages_of_the_person(home: &Path, path: &[PathBuf]) -> Option<(PathBuf, Vec<PathBuf>)> {
    let base = env::var_os("PYTHONUSERBASE").map(PathBuf::from).unwrap_or_else(|| home.join(".local"));
    if !path.contains(&base.join("bin")) {
        return None;
    }
    let libraries = std::fs::read_dir(base.join("lib")).ok()?.flatten().map(|entry| entry.path());
    let folders: Vec<PathBuf> = libraries.filter(|folder| folder.join("site-packages").is_dir()).collect();
    (!folders.is_empty()).then_some((base, folders))
}
