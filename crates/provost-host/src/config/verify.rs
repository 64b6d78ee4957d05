//! Reads `[verify]`: the isolation of checks, and what takes part in them.

use std::path::PathBuf;
use std::time::Duration;

use provost_core::model::verdict::Isolation;
use serde::de::{Deserialize, Deserializer, Error};

use super::folders::{Folders, is_inside, paths};
use super::provision::Provision;
use super::reading::meant;
use super::values::{WEEK, each, size, time};

#[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(from = "VerifyKeys")]
pub struct Verify {
    pub isolation: Demand,
    /// A contract has to fail before the work is done.
    pub require_red: bool,
    /// Processes of a check may trace each other.
    pub trace: bool,
    /// Untracked folders that take part in checks with the content from before any agent ran; relative to
    /// the workspace.
    pub caches: Vec<String>,
    /// provost keeps the build results of a check for the next check.
    pub build_caches: bool,
    pub provision: Provision,
    pub contract_timeout: Duration,
    /// Share of the changed code that the contract of a step has to prove, in percent.
    pub min_proved: Option<u8>,
    /// Longest time for finding that share.
    pub proved_time_limit: Duration,
    /// Largest file that takes part in a check, in bytes.
    pub max_file: u64,
    /// Paths outside of the workspace that checks may use.
    pub folders: Folders,
    /// Names of secrets that a step may request for its checks.
    pub secrets: Vec<String>,
}

/// The isolation that checks need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Demand {
    /// The strongest level that this machine attests.
    Auto,
    /// This level, or provost runs nothing.
    Exactly(Isolation),
}

impl Default for Verify {
    fn default() -> Self {
        VerifyKeys::default().into()
    }
}

/// The keys of `[verify]`.
#[derive(serde::Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a section")]
struct VerifyKeys {
    #[serde(deserialize_with = "isolation")]
    isolation: Demand,
    require_red: bool,
    #[serde(deserialize_with = "caches")]
    caches: Vec<String>,
    build_caches: bool,
    provision: Provision,
    #[serde(deserialize_with = "time::<_, _, WEEK>")]
    contract_timeout: Duration,
    #[serde(deserialize_with = "share")]
    min_proved: Option<u8>,
    #[serde(deserialize_with = "time::<_, _, WEEK>")]
    proved_time_limit: Duration,
    #[serde(deserialize_with = "size::<_, _, 1>")]
    max_file: u64,
    trace: bool,
    #[serde(deserialize_with = "paths")]
    read: Vec<PathBuf>,
    #[serde(deserialize_with = "paths")]
    write: Vec<PathBuf>,
    #[serde(deserialize_with = "secrets")]
    secrets: Vec<String>,
}

impl Default for VerifyKeys {
    fn default() -> Self {
        Self {
            isolation: Demand::Auto,
            require_red: false,
            // Not `target`: it is rebuilt from the sources, and a copy would cost gigabytes.
            caches: ["node_modules", ".venv"].map(str::to_owned).to_vec(),
            build_caches: true,
            provision: Provision::default(),
            contract_timeout: Duration::from_secs(60),
            min_proved: None,
            proved_time_limit: Duration::from_secs(600),
            max_file: 1 << 30,
            trace: false,
            read: Vec::new(),
            write: Vec::new(),
            secrets: Vec::new(),
        }
    }
}

impl From<VerifyKeys> for Verify {
    fn from(keys: VerifyKeys) -> Self {
        Self {
            isolation: keys.isolation,
            require_red: keys.require_red,
            trace: keys.trace,
            caches: keys.caches,
            build_caches: keys.build_caches,
            provision: keys.provision,
            contract_timeout: keys.contract_timeout,
            min_proved: keys.min_proved,
            proved_time_limit: keys.proved_time_limit,
            max_file: keys.max_file,
            folders: Folders { read: keys.read, write: keys.write },
            secrets: keys.secrets,
        }
    }
}

fn isolation<'de, D: Deserializer<'de>>(from: D) -> Result<Demand, D::Error> {
    let word = String::deserialize(from)?;
    let levels = [Isolation::Clean, Isolation::GuardClean, Isolation::Landlock, Isolation::InPlace];
    match (word.as_str(), levels.into_iter().find(|level| level.to_string() == word)) {
        (_, Some(level)) => Ok(Demand::Exactly(level)),
        ("auto", _) => Ok(Demand::Auto),
        ("none", _) => Err(D::Error::custom("`none` cannot be configured; it is a flag of a single run")),
        ("uid", _) => {
            Err(D::Error::custom("the level `uid` was removed; use `landlock`, or `clean` with bubblewrap"))
        }
        _ => {
            let known = ["auto", "clean", "guard+clean", "landlock", "in-place"];
            Err(D::Error::custom(format!("there is no isolation `{word}`{}", meant(&word, &known))))
        }
    }
}

/// Reads a share such as `"80%"`.
fn share<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u8>, D::Error> {
    let text = String::deserialize(from)?;
    let read = text.trim().strip_suffix('%').and_then(|number| number.trim_end().parse().ok());
    match read {
        Some(share @ 1..=100) => Ok(Some(share)),
        _ => Err(D::Error::custom("`{key}` must be a share from \"1%\" to \"100%\"")),
    }
}

fn secrets<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    each(from, |name: String| {
        let is_name = !name.is_empty()
            && !name.starts_with(|c: char| c.is_ascii_digit())
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        match is_name {
            true => Ok(name),
            // The message does not repeat the value, which may be the secret itself.
            false => Err("`{key}` lists names of environment variables such as \"GH_TOKEN\", never values"),
        }
    })
}

fn caches<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    each(from, |path: String| match is_inside(&path) {
        true => Ok(path),
        false => Err(format!("`{path}` is not a folder inside the workspace")),
    })
}
