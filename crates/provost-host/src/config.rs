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
mod metering;
mod money;
pub(crate) mod notify;
mod mcp;
mod provision;
mod reading;
mod recipes;
mod role;
mod verify;
mod worktrees;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use provost_core::model::run_policy::Quorum;
use provost_core::rules::recover::recipe::Recipes;

pub use builtin::BuiltinConfig;
pub use choices::{Client, Permissions, Speaks};
pub use consult::{JudgeConfig, PlannerConfig};
pub use folders::Folders;
pub use gate::{GateConfig, check_digest, digest};
pub use hook::Hook;
pub use mcp::{McpConfig, SessionGate};
pub use metering::MeteringConfig;
pub use money::DefaultBudgets;
pub use notify::{Notify, WebhookConfig};
pub use provision::{KNOWN, Provision, Supply};
pub use reading::Wrong;
pub use role::{Driver, Role};
pub use verify::{Demand, Verify};
pub use worktrees::Worktrees;

use reading::{Section, Text};

use crate::egress::prices::ModelPrices;
use crate::git;
use crate::plans::plan_file;
use crate::plans::trust::{self, UntrustedFile};
use crate::process::Bounds;

pub const FILE_NAME: &str = "provost.toml";

/// Largest configuration file, in bytes.
const SIZE_MAX: u64 = 1 << 20;
/// Smallest limit on disk or memory with which an agent can work, in bytes.
const LEAST: u64 = 1 << 20;
const WEEK: Duration = Duration::from_secs(7 * 24 * 3600);
const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);

#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The file that was read; `None` if no file was found.
    pub path: Option<PathBuf>,
    pub agents: BTreeMap<String, Role>,
    pub gate: GateConfig,
    /// Named commands that plans may use as checks.
    pub checks: BTreeMap<String, String>,
    pub verify: Verify,
    pub run: RunLimits,
    pub plans: PlansConfig,
    pub proof: Proof,
    /// Recovery rules for failures: those of the file and the built-in ones.
    pub recipes: Recipes,
    pub notify: Notify,
    pub budget: DefaultBudgets,
    /// Prices of tokens, which take precedence over the built-in list.
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
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunLimits {
    pub step_timeout: Duration,
    /// How long a run waits for another run that holds the workspace.
    pub lease_timeout: Duration,
    /// Number of attempts that may be lost to crashes before provost asks a person.
    pub max_lost_attempts: u32,
    /// Bytes that an attempt or a check may write.
    pub disk: u64,
    /// Bytes of memory; `None` means four fifths of the machine's memory.
    pub memory: Option<u64>,
    pub processes: u64,
}

impl RunLimits {
    pub fn bounds(&self) -> Bounds {
        let memory = self.memory.unwrap_or_else(Bounds::usual_memory);
        Bounds { disk: self.disk, memory, processes: self.processes, cgroup: false }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlansConfig {
    /// Folder of the plans: relative to the top of the repository, or an absolute path.
    pub folder: PathBuf,
    /// How long a lease on a plan of a shared folder lasts without renewal.
    pub lease: Duration,
}

impl PlansConfig {
    /// Returns whether other machines may work on the same plans.
    pub fn is_shared(&self) -> bool {
        self.folder.is_absolute() || self.folder.starts_with("..")
    }
}

/// How proofs are signed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proof {
    /// An OpenSSH key that signs in addition to provost's own key.
    pub ssh_key: Option<PathBuf>,
}

/// The backend of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Store {
    /// No backend is required.
    Sqlite,
    /// The log must be this one.
    Postgres { url: String },
}

impl Default for Config {
    fn default() -> Self {
        Self {
            path: None,
            agents: BTreeMap::new(),
            checks: BTreeMap::new(),
            gate: GateConfig { quorum: Quorum::default(), remind_after: None, policies: BTreeMap::new() },
            verify: Verify {
                isolation: Demand::Auto,
                require_red: false,
                trace: false,
                // Not `target`: it is rebuilt from the sources, and a copy would cost gigabytes.
                caches: ["node_modules", ".venv"].map(str::to_owned).to_vec(),
                build_caches: true,
                provision: Provision::default(),
                contract_timeout: Duration::from_secs(60),
                max_file: 1 << 30,
                folders: Folders::default(),
                secrets: Vec::new(),
            },
            run: RunLimits {
                step_timeout: Duration::from_secs(600),
                lease_timeout: Duration::ZERO,
                max_lost_attempts: 3,
                disk: 20 << 30,
                memory: None,
                processes: 4096,
            },
            plans: PlansConfig { folder: PathBuf::from(plan_file::FOLDER), lease: Duration::from_secs(60) },
            proof: Proof { ssh_key: None },
            recipes: Recipes::default(),
            notify: Notify::default(),
            budget: DefaultBudgets::default(),
            prices: ModelPrices::new(),
            hook: Hook::default(),
            mcp: McpConfig::default(),
            store: Store::Sqlite,
            plan: PlannerConfig::default(),
            judge: JudgeConfig::default(),
            worktrees: Worktrees::default(),
        }
    }
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
    let table = text.table()?;
    let top = Section::new(
        text,
        "",
        &table,
        &[
            "agents",
            "gate",
            "checks",
            "verify",
            "run",
            "plans",
            "proof",
            "recipes",
            "notify",
            "budget",
            "prices",
            "hook",
            "mcp",
            "store",
            "plan",
            "judge",
            "worktrees",
        ],
    )?;
    let folder = path.parent().unwrap_or(Path::new(""));
    recipes::fallbacks(&top)?;
    let checks = gate::catalogue(&top)?;
    Ok(Config {
        path: Some(path.to_owned()),
        agents: top
            .named("agents")?
            .map(|(name, role)| Ok((name, role::read(&role, folder)?)))
            .collect::<Result<_, _>>()?,
        gate: gate::read(&top, &checks)?,
        checks,
        verify: verify::read(&top)?,
        run: run(&top)?,
        plans: plans(&top)?,
        proof: proof(&top, folder)?,
        recipes: recipes::read(&top)?,
        notify: notify::read(&top)?,
        budget: money::budget(&top)?,
        prices: money::prices(&top)?,
        hook: hook::read(&top)?,
        mcp: mcp::read(&top)?,
        store: store(&top)?,
        plan: consult::plan(&top)?,
        judge: consult::judge(&top)?,
        worktrees: worktrees::read(&top)?,
    })
}

fn run(top: &Section<'_, '_>) -> Result<RunLimits, Wrong> {
    let default = Config::default().run;
    let keys = &["step_timeout", "lease_timeout", "max_lost_attempts", "disk", "memory", "processes"];
    let Some(section) = top.section("run", keys)? else { return Ok(default) };
    let lost = section.integer("max_lost_attempts", 1..=100)?;
    Ok(RunLimits {
        step_timeout: section.duration("step_timeout", WEEK)?.unwrap_or(default.step_timeout),
        lease_timeout: section.duration("lease_timeout", WEEK)?.unwrap_or(default.lease_timeout),
        max_lost_attempts: lost
            .and_then(|lost| u32::try_from(lost).ok())
            .unwrap_or(default.max_lost_attempts),
        disk: section.bytes("disk", LEAST)?.unwrap_or(default.disk),
        memory: section.bytes("memory", LEAST)?,
        processes: section.integer("processes", 8..=4_194_304)?.unwrap_or(default.processes),
    })
}

fn plans(top: &Section<'_, '_>) -> Result<PlansConfig, Wrong> {
    let default = Config::default().plans;
    let Some(section) = top.section("plans", &["folder", "lease"])? else { return Ok(default) };
    match section.string("folder")? {
        Some(folder) if folder.trim().is_empty() => {
            Err(section.wrong("folder", "the folder of the plans has no name".to_owned()))
        }
        folder => Ok(PlansConfig {
            folder: folder.map_or(default.folder, |folder| at_home(&folder)),
            lease: section.duration("lease", WEEK)?.unwrap_or(default.lease),
        }),
    }
}

fn proof(top: &Section<'_, '_>, folder: &Path) -> Result<Proof, Wrong> {
    let Some(section) = top.section("proof", &["ssh_key"])? else { return Ok(Config::default().proof) };
    let path = section.string("ssh_key")?.map(|path| folder.join(at_home(&path)));
    Ok(Proof { ssh_key: path })
}

/// Expands `~/` to the user's home folder.
fn at_home(path: &str) -> PathBuf {
    match path.strip_prefix("~/") {
        Some(rest) => std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default().join(rest),
        None => PathBuf::from(path),
    }
}

fn store(top: &Section<'_, '_>) -> Result<Store, Wrong> {
    let Some(section) = top.section("store", &["url"])? else { return Ok(Store::Sqlite) };
    match section.string("url")?.as_deref() {
        None | Some("sqlite") => Ok(Store::Sqlite),
        Some(url) if url.starts_with("postgres://") || url.starts_with("postgresql://") => {
            if has_password(url) {
                let why = "this address contains a password: use PGPASSWORD or the file \
                     that PGPASSFILE names instead";
                return Err(section.wrong("url", why.to_owned()));
            }
            Ok(Store::Postgres { url: url.to_owned() })
        }
        Some(_) => {
            Err(section
                .wrong("url", "write \"sqlite\" or an address that begins with postgres://".to_owned()))
        }
    }
}

fn has_password(url: &str) -> bool {
    let (place, query) = url.split_once('?').unwrap_or((url, ""));
    let authority = place.split("://").nth(1).and_then(|rest| rest.split('/').next()).unwrap_or_default();
    authority.rsplit_once('@').is_some_and(|(user, _)| user.contains(':'))
        || query.split('&').any(|pair| pair.starts_with("password="))
}
