//! Reads `provost.toml`: roles of agents, rules for approvals, isolation of checks and all other settings.
//!
//! provost looks for the file from the working folder upwards; the first file found is the whole
//! configuration. Every key has a default. An unknown key is an error that suggests the key that was meant.
//! Each larger section has its own module.

mod builtin;
mod choices;
mod consult;
mod folders;
mod gate;
mod hook;
mod mcp_server;
mod metering;
mod model_server;
mod money;
pub(crate) mod notify;
mod mcp;
mod oidc;
mod provision;
mod reading;
mod redact;
mod recipes;
mod role;
mod serve;
mod server_address;
mod values;
mod verify;
mod worktrees;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use provost_core::model::named_check::NamedCheck;
use provost_core::redact::OwnSecrets;
use provost_core::rules::recover::recipe::Recipes;
use serde::de::{Deserialize, Deserializer, Error as _};

pub use builtin::BuiltinConfig;
pub use choices::{Client, MessageFormat, Permissions, SessionGate, SignInScope, Speaks};
pub use consult::{JudgeConfig, PlannerConfig};
pub use folders::Folders;
pub use gate::{GateConfig, check_digest, digest};
pub use hook::Hook;
pub use mcp::McpConfig;
pub use mcp_server::McpServerConfig;
pub use metering::MeteringConfig;
pub use model_server::{ModelAddress, ModelServer};
pub use money::DefaultBudgets;
pub use notify::{MailConfig, Notify, WebhookConfig};
pub use oidc::{OidcConfig, SignInMatch, SignInRule};
pub use provision::{KNOWN, Provision, Supply};
pub use reading::Wrong;
pub use role::{Driver, Role};
pub use serve::ServeConfig;
pub use verify::{Demand, Verify};
pub use worktrees::Worktrees;

use reading::Text;
use values::{WEEK, at_home, checked, integer, path, size, time};

use crate::egress::prices::ModelPrices;
use crate::git;
use crate::plans::plan_file;
use crate::plans::trust::{self, UntrustedFile};
use crate::process::Bounds;

pub const FILE_NAME: &str = "provost.toml";

/// Largest configuration file, in bytes.
const SIZE_MAX: u64 = 1 << 20;
/// Why a provider has one secret only.
const BOTH_SECRETS: &str = "use `client_secret_env` or `client_secret_file`, not both";
/// Smallest limit on disk or memory with which an agent can work, in bytes.
const LEAST: u64 = 1 << 20;

#[derive(Clone, Debug, Default, PartialEq, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The file that was read; `None` if no file was found.
    #[serde(skip)]
    pub path: Option<PathBuf>,
    #[serde(deserialize_with = "role::read")]
    pub agents: BTreeMap<String, Role>,
    pub gate: GateConfig,
    /// Named commands that plans may use as checks.
    #[serde(deserialize_with = "gate::catalogue")]
    pub checks: BTreeMap<String, NamedCheck>,
    pub verify: Verify,
    pub run: RunLimits,
    pub plans: PlansConfig,
    pub proof: Proof,
    /// Recovery rules for failures: those of the file and the built-in ones.
    #[serde(deserialize_with = "recipes::read")]
    pub recipes: Recipes,
    pub notify: Notify,
    pub serve: ServeConfig,
    pub budget: DefaultBudgets,
    /// Prices of tokens, which take precedence over the built-in list.
    #[serde(deserialize_with = "money::prices")]
    pub prices: ModelPrices,
    pub hook: Hook,
    pub mcp: McpConfig,
    pub store: Store,
    /// The role that drafts plans.
    pub plan: PlannerConfig,
    /// The role that judges contracts with a rubric.
    pub judge: JudgeConfig,
    /// Settings for worktrees of plans.
    pub worktrees: Worktrees,
    /// Secrets besides those that provost recognises.
    #[serde(deserialize_with = "redact::read")]
    pub redact: OwnSecrets,
}

#[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a section")]
pub struct RunLimits {
    #[serde(deserialize_with = "time::<_, _, WEEK>")]
    pub step_timeout: Duration,
    /// How long a run waits for another run that holds the workspace.
    #[serde(deserialize_with = "time::<_, _, WEEK>")]
    pub lease_timeout: Duration,
    /// Number of attempts that may be lost to crashes before provost asks a person.
    #[serde(deserialize_with = "integer::<_, u32, _, 1, 100>")]
    pub max_lost_attempts: u32,
    /// Bytes that an attempt or a check may write.
    #[serde(deserialize_with = "size::<_, _, LEAST>")]
    pub disk: u64,
    /// Bytes of memory; `None` means four fifths of the machine's memory.
    #[serde(deserialize_with = "size::<_, _, LEAST>")]
    pub memory: Option<u64>,
    #[serde(deserialize_with = "integer::<_, u64, _, 8, 4_194_304>")]
    pub processes: u64,
}

impl Default for RunLimits {
    fn default() -> Self {
        Self {
            step_timeout: Duration::from_secs(600),
            lease_timeout: Duration::ZERO,
            max_lost_attempts: 3,
            disk: 20 << 30,
            memory: None,
            processes: 4096,
        }
    }
}

impl RunLimits {
    pub fn bounds(&self) -> Bounds {
        let memory = self.memory.unwrap_or_else(Bounds::usual_memory);
        Bounds { disk: self.disk, memory, processes: self.processes }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a section")]
pub struct PlansConfig {
    /// Folder of the plans: relative to the top of the repository, or an absolute path.
    #[serde(deserialize_with = "plans_path")]
    pub folder: PathBuf,
    /// How long a lease on a plan of a shared folder lasts without renewal.
    #[serde(deserialize_with = "time::<_, _, WEEK>")]
    pub lease: Duration,
}

impl Default for PlansConfig {
    fn default() -> Self {
        Self { folder: PathBuf::from(plan_file::FOLDER), lease: Duration::from_secs(60) }
    }
}

impl PlansConfig {
    /// Returns whether other machines may work on the same plans.
    pub fn is_shared(&self) -> bool {
        self.folder.is_absolute() || self.folder.starts_with("..")
    }
}

/// How proofs are signed.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a section")]
pub struct Proof {
    /// An OpenSSH key that signs in addition to provost's own key.
    #[serde(deserialize_with = "path")]
    pub ssh_key: Option<PathBuf>,
}

/// The backend of the log.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(from = "StoreKeys")]
pub enum Store {
    /// No backend is required.
    #[default]
    Sqlite,
    /// The log must be this one.
    Postgres { url: String },
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot read {}", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    #[error("{} is larger than 1 MiB, the limit of a configuration", path.display())]
    TooLarge { path: PathBuf },
    #[error("{} is not UTF-8 text", path.display())]
    NotText { path: PathBuf },
    #[error("{0}")]
    Wrong(Box<Wrong>),
    #[error(transparent)]
    Untrusted(#[from] UntrustedFile),
}

/// Finds and reads the configuration that applies in `from`.
///
/// A worktree without its own file uses that of the main checkout.
pub fn find(from: &Path) -> Result<Config, Error> {
    located(from)?.map_or_else(|| Ok(Config::default()), |(path, text)| parse(&path, &text))
}

/// Returns the folder of the plans. Most configurations do not set it and are not parsed then, because stop
/// hooks call this at the end of every turn of a client.
pub fn plans_folder(from: &Path) -> Result<PathBuf, Error> {
    let speaks_of_it = |text: &str| text.contains("plans") || text.contains('\\');
    match located(from)? {
        Some((path, text)) if speaks_of_it(&text) => Ok(parse(&path, &text)?.plans.folder),
        _ => Ok(PathBuf::from(plan_file::FOLDER)),
    }
}

fn located(from: &Path) -> Result<Option<(PathBuf, String)>, Error> {
    let main = git::top(from).and_then(|top| git::main_checkout(&top)).unwrap_or_default();
    for folder in from.ancestors().chain(main.ancestors().filter(|folder| !folder.as_os_str().is_empty())) {
        let path = folder.join(FILE_NAME);
        match std::fs::File::open(&path) {
            Ok(file) => {
                trust::check(&path)?;
                return read(file, path).map(Some);
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            // A file in place of a folder.
            Err(error) if error.kind() == std::io::ErrorKind::NotADirectory => {}
            Err(source) => return Err(Error::Read { path, source }),
        }
    }
    Ok(None)
}

fn read(file: std::fs::File, path: PathBuf) -> Result<(PathBuf, String), Error> {
    let mut bytes = Vec::new();
    file.take(SIZE_MAX + 1)
        .read_to_end(&mut bytes)
        .map_err(|source| Error::Read { path: path.clone(), source })?;
    if bytes.len() as u64 > SIZE_MAX {
        return Err(Error::TooLarge { path });
    }
    match String::from_utf8(bytes) {
        Ok(text) => Ok((path, text)),
        Err(_) => Err(Error::NotText { path }),
    }
}

/// Parses the text of the configuration at `path`, without reading the file.
pub fn parse(path: &Path, text: &str) -> Result<Config, Error> {
    config(&Text { path, text }, path).map_err(|wrong| Error::Wrong(Box::new(wrong)))
}

fn config(text: &Text<'_>, path: &Path) -> Result<Config, Wrong> {
    let mut config: Config = text.read()?;
    config.gate.resolve(&config.checks).map_err(|wrong| text.reworded(0..0, &wrong))?;
    let folder = path.parent().unwrap_or(Path::new(""));
    for role in config.agents.values_mut() {
        if let Driver::Scripted { script } = &mut role.driver {
            *script = folder.join(&script);
        }
    }
    config.proof.ssh_key = config.proof.ssh_key.map(|key| folder.join(key));
    config.notify.page = config.serve.url.clone();
    if let Some(oidc) = &mut config.serve.oidc {
        if oidc.client_secret_env.is_some() && oidc.client_secret_file.is_some() {
            let message = reading::at("serve", reading::at("oidc", BOTH_SECRETS));
            return Err(text.reworded(0..0, &message));
        }
        oidc.resolve(folder);
    }
    config.path = Some(path.to_owned());
    Ok(config)
}

fn plans_path<'de, D: Deserializer<'de>>(from: D) -> Result<PathBuf, D::Error> {
    let folder = String::deserialize(from)?;
    match folder.trim().is_empty() {
        true => Err(D::Error::custom("the folder of the plans has no name")),
        false => Ok(at_home(&folder)),
    }
}

/// The keys of `[store]`.
#[derive(Default, serde::Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a section")]
struct StoreKeys {
    #[serde(deserialize_with = "store_url")]
    url: Option<String>,
}

impl From<StoreKeys> for Store {
    fn from(keys: StoreKeys) -> Self {
        keys.url.filter(|url| url != "sqlite").map_or(Store::Sqlite, |url| Store::Postgres { url })
    }
}

fn store_url<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    checked(from, |url| match url {
        "sqlite" => Ok(()),
        _ if !url.starts_with("postgres://") && !url.starts_with("postgresql://") => {
            Err("write \"sqlite\" or an address that begins with postgres://")
        }
        _ if has_password(url) => Err("this address contains a password: use PGPASSWORD or the file that \
                                       PGPASSFILE names instead"),
        _ => Ok(()),
    })
}

fn has_password(url: &str) -> bool {
    let (place, query) = url.split_once('?').unwrap_or((url, ""));
    let authority = place.split("://").nth(1).and_then(|rest| rest.split('/').next()).unwrap_or_default();
    authority.rsplit_once('@').is_some_and(|(user, _)| user.contains(':'))
        || query.split('&').any(|pair| pair.starts_with("password="))
}
