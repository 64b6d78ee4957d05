//! The environment of a check: nothing the agent could have prepared.
//!
//! Set: `PATH` (what the harness was started with, less relative entries and the workspace), `HOME` and
//! `TMPDIR` (empty, and emptied afterwards), `LC_CTYPE=C.UTF-8`, `SHELL`, `TERM=dumb`, `CI=true` (tools ask
//! nobody, open nothing and rewrite no snapshots), and where installed toolchains live, for tools on `PATH` that
//! find themselves through `HOME`; also what the caller provisioned. Everything else is absent: no `LD_*`, `BASH_ENV`, `PYTHON*`, `GIT_*`.

use std::collections::HashMap;
use std::env;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::rooms::Room;
use crate::sandbox;

/// Where version managers keep what their entries on `PATH` start, relative to the user's home. Places
/// of programs only, never of configuration.
const TOOLCHAINS: [(&str, &str); 6] = [
    ("RUSTUP_HOME", ".rustup"),
    ("PYENV_ROOT", ".pyenv"),
    ("RBENV_ROOT", ".rbenv"),
    ("VOLTA_HOME", ".volta"),
    ("ASDF_DATA_DIR", ".asdf"),
    ("MISE_DATA_DIR", ".local/share/mise"),
];

/// Every check sees these.
const SYSTEM: [&str; 6] = ["/usr", "/bin", "/sbin", "/lib", "/lib64", "/opt"];

pub struct Surroundings {
    environment: Vec<(OsString, OsString)>,
    // Declared for its drop.
    _room: Room,
}

impl Surroundings {
    pub fn make(workspace: &Path, more: &[(OsString, OsString)]) -> io::Result<Self> {
        let room = Room::enter()?;
        let mut environment = fixed_part(workspace).as_ref().clone();
        environment.push(("HOME".into(), room.home().into()));
        environment.push(("TMPDIR".into(), room.tmp().into()));
        environment.extend_from_slice(more);
        Ok(Self { environment, _room: room })
    }

    pub fn environment(&self) -> &[(OsString, OsString)] {
        &self.environment
    }

    /// The same behind a fence, where home and temporary folder are the fence's own.
    pub fn inside_a_fence(&self) -> Vec<(OsString, OsString)> {
        let mut environment = self.environment.clone();
        for (name, value) in &mut environment {
            match name.to_str() {
                Some("HOME") => *value = sandbox::HOME.into(),
                Some("TMPDIR") => *value = sandbox::TMP.into(),
                _ => {}
            }
        }
        environment
    }
}

/// What finds programs: `PATH`, and where toolchains live.
pub fn programs(workspace: &Path) -> Vec<(OsString, OsString)> {
    fixed_part(workspace).as_ref().clone()
}

/// Where programs live that `PATH` names and the system's folders do not hold. Known from the first
/// call on, so that it is asked before any agent runs.
pub fn toolchains(workspace: &Path) -> Vec<PathBuf> {
    let environment = fixed_part(workspace);
    let named = |name: &str| environment.iter().find(|(known, _)| known == name).map(|(_, value)| value);
    let on_path = named("PATH").map(env::split_paths).into_iter().flatten();
    let homes = TOOLCHAINS.iter().filter_map(|(name, _)| named(name)).map(PathBuf::from);
    let mut places: Vec<PathBuf> = homes
        .chain(on_path)
        .filter(|place| place.is_dir() && !SYSTEM.iter().any(|system| place.starts_with(system)))
        .collect();
    places.sort();
    // What is inside another is seen with it.
    places.dedup_by(|inner, outer| inner.starts_with(outer));
    places
}

/// The system's own, before any that `PATH` might hold.
pub fn bash() -> &'static OsStr {
    static BASH: OnceLock<&OsStr> = OnceLock::new();
    BASH.get_or_init(|| {
        let usual = ["/usr/bin/bash", "/bin/bash"].into_iter().find(|path| Path::new(path).is_file());
        OsStr::new(usual.unwrap_or("bash"))
    })
}

type Variables = Arc<Vec<(OsString, OsString)>>;

/// Worked out once for each workspace: what an agent changes later has no part in it.
fn fixed_part(workspace: &Path) -> Variables {
    static KNOWN: Mutex<Option<HashMap<PathBuf, Variables>>> = Mutex::new(None);
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let known = known.get_or_insert_default();
    if let Some(variables) = known.get(workspace) {
        return variables.clone();
    }
    let variables = Arc::new(work_out(workspace));
    known.insert(workspace.to_path_buf(), variables.clone());
    variables
}

fn work_out(workspace: &Path) -> Vec<(OsString, OsString)> {
    let workspace = workspace.canonicalize().unwrap_or_else(|_| workspace.to_path_buf());
    let is_outside = |path: &Path| {
        path.is_absolute()
            && !path.canonicalize().unwrap_or_else(|_| path.to_path_buf()).starts_with(&workspace)
    };
    let path = env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
    // What does not exist yet, an agent could make.
    let kept = env::split_paths(&path).filter(|folder| is_outside(folder) && folder.is_dir());
    let mut variables: Vec<(OsString, OsString)> = vec![
        ("PATH".into(), env::join_paths(kept).unwrap_or_else(|_| "/usr/bin:/bin".into())),
        // UTF-8 and otherwise the C locale, as `LANG=C.UTF-8` is, without a dozen files to open each time.
        ("LC_CTYPE".into(), "C.UTF-8".into()),
        // Bash would ask the user database for it.
        ("SHELL".into(), bash().into()),
        ("TERM".into(), "dumb".into()),
        ("CI".into(), "true".into()),
    ];
    let home = env::var_os("HOME").map(PathBuf::from);
    for (name, usual) in TOOLCHAINS {
        let place = env::var_os(name).map(PathBuf::from).or_else(|| Some(home.as_ref()?.join(usual)));
        if let Some(place) = place.filter(|place| place.is_dir() && is_outside(place)) {
            variables.push((name.into(), place.into()));
        }
    }
    variables
}
