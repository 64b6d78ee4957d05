//! Builds the environment of a check from values that no agent can influence.
//!
//! Set are: what [`super::CheckTools`] says (`PATH` and the variables of toolchains), `HOME` and `TMPDIR`
//! (empty folders), `LC_CTYPE=C.UTF-8`, `SHELL`, `TERM=dumb`, `CI=true` (so tools do not prompt, open
//! nothing and rewrite no snapshots), and the caller's variables for provisioned dependencies. Everything
//! else is absent: no `LD_*`, `BASH_ENV`, `GIT_*`.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;
use std::sync::OnceLock;

use super::temp_folders::TempFolders;
use crate::sandbox;

pub(super) struct Surroundings {
    environment: Vec<(OsString, OsString)>,
    // Returns the folders to the pool on drop.
    _room: TempFolders,
}

impl Surroundings {
    /// `more` has `PATH` and whatever else the check is given.
    pub(super) fn make(more: &[(OsString, OsString)]) -> io::Result<Self> {
        let room = TempFolders::enter()?;
        let mut environment = usual();
        environment.push(("HOME".into(), room.home().into()));
        environment.push(("TMPDIR".into(), room.tmp().into()));
        environment.extend_from_slice(more);
        Ok(Self { environment, _room: room })
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
                _ => {}
            }
        }
        environment
    }
}

/// Returns the variables that every check has.
pub(super) fn usual() -> Vec<(OsString, OsString)> {
    vec![
        // UTF-8 and otherwise the C locale, as `LANG=C.UTF-8`, but without opening a dozen files each time.
        ("LC_CTYPE".into(), "C.UTF-8".into()),
        // Otherwise bash would look it up in the user database.
        ("SHELL".into(), bash().into()),
        ("TERM".into(), "dumb".into()),
        ("CI".into(), "true".into()),
    ]
}

/// Returns the system's bash, in preference to another one on `PATH`.
pub fn bash() -> &'static OsStr {
    static BASH: OnceLock<&OsStr> = OnceLock::new();
    BASH.get_or_init(|| {
        let usual = ["/usr/bin/bash", "/bin/bash"].into_iter().find(|path| Path::new(path).is_file());
        OsStr::new(usual.unwrap_or("bash"))
    })
}
