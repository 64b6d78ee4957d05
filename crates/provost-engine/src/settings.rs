//! The settings of the engine: folders, the wanted plan, the environment, and what is secret in it.

use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use provost_core::redact;
use provost_core::redact::Redactor;
use provost_host::config::{self, Config};

use crate::Error;
use crate::workplace::Workplace;

/// Settings of a harness: folders, plan, environment.
#[derive(Clone, Debug)]
pub struct EngineSettings {
    pub cwd: PathBuf,
    pub state: PathBuf,
    /// A path, a name, or `None` for the active plan.
    pub plan: Option<String>,
    /// Command that starts this program's scripted agent.
    pub launcher: Vec<OsString>,
    /// Set when a person interrupts.
    pub stop: Arc<AtomicBool>,
    /// Environment for agents; its secret values must not be shown.
    pub environment: Vec<(OsString, OsString)>,
    /// Where agents work.
    pub workplace: Arc<dyn Workplace>,
}

impl EngineSettings {
    /// Returns the path of the state folder without links and `..`, so that it is the same for every command and
    /// can be compared with a workspace. The folder need not exist.
    pub fn state_folder(&self) -> PathBuf {
        let whole = std::path::absolute(&self.state).unwrap_or_else(|_| self.state.clone());
        let mut resolved = PathBuf::new();
        for part in whole.components() {
            match part {
                Component::ParentDir => {
                    resolved.pop();
                }
                part => resolved.push(part),
            }
            resolved = resolved.canonicalize().unwrap_or(resolved);
        }
        resolved
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reads only: creates nothing, syncs nothing.
    Read,
    Write,
}

/// Returns the user's state folder, which is outside every workspace.
pub fn state_folder(environment: &[(OsString, OsString)]) -> Result<PathBuf, Error> {
    let value = |name: &str| {
        environment.iter().find(|(key, value)| key == name && !value.is_empty()).map(|(_, value)| value)
    };
    if let Some(folder) = value("PROVOST_STATE") {
        return Ok(PathBuf::from(folder));
    }
    if let Some(folder) = value("XDG_STATE_HOME") {
        return Ok(Path::new(folder).join("provost"));
    }
    let home = value("HOME").ok_or(Error::NoStateFolder)?;
    Ok(Path::new(home).join(".local/state/provost"))
}

/// Returns a redactor that knows the secret values of the environment and the secrets of the configuration.
pub(crate) fn redactor(environment: &[(OsString, OsString)], config: &Config) -> Redactor {
    let text = environment.iter().filter_map(|(name, value)| Some((name.to_str()?, value.to_str()?)));
    let is_secret = |name: &str| {
        redact::looks_secret(name)
            || config.redact.has_name(name)
            || config.verify.secrets.iter().any(|secret| secret == name)
    };
    Redactor::new(text.filter(|(name, _)| is_secret(name))).with_own(config.redact.clone())
}

/// Returns a redactor that knows the configuration of this folder, and no values.
pub fn redactor_in(folder: &Path) -> Result<Redactor, Error> {
    Ok(Redactor::new(std::iter::empty::<(&str, &str)>()).with_own(config::find(folder)?.redact))
}
