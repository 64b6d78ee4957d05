//! `provost.toml`: who works, who may approve, how checks are fenced.
//!
//! The file is looked for from the working folder upwards, and the first one found is the whole
//! configuration. Every key has a default; a key nobody knows is an error that says which was meant.
//!
//! **Invariant:** no configuration approves every plan. A policy bounds where a plan may write, and
//! something else besides.

mod builtin;
mod counsel;
mod hook;
mod metering;
mod money;
pub(crate) mod notify;
mod mcp;
mod provision;
mod reading;
mod recipes;
mod worktrees;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use provost_core::chain::{self, Hash};
use provost_core::labels::{Label, NoLabel};
use provost_core::policy::{self, Policy};
use provost_core::recover::recipe::Recipes;
use provost_core::terms::{AgentNetwork, GitPolicy, Home, Quorum, Reach};
use provost_core::usage::Amount;
use provost_core::verdict::Isolation;

pub use builtin::Builtin;
pub use counsel::{Judging, Planning};
pub use hook::Hook;
pub use mcp::{Mcp, SessionGate};
pub use metering::Metering;
pub use money::Budget;
pub use notify::{Notify, Webhook};
pub use provision::{KNOWN, Provision, Supply};
pub use reading::Wrong;
pub use worktrees::Worktrees;

use crate::proxy::Address;
use reading::{Section, Text};

use crate::agent::Speaks;
use crate::agent::acp::Permissions;
use crate::client::Client;
use crate::git;
use crate::plan_file;
use crate::prices::Own;
use crate::process::Bounds;

pub const FILE_NAME: &str = "provost.toml";

/// Nobody writes a configuration of a megabyte.
const SIZE_MAX: u64 = 1 << 20;
/// With less than this no agent gets anywhere.
const LEAST: u64 = 1 << 20;
const WEEK: Duration = Duration::from_secs(7 * 24 * 3600);
const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);

#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The file that was read; none was found otherwise.
    pub path: Option<PathBuf>,
    pub agents: BTreeMap<String, Role>,
    pub gate: Gate,
    pub verify: Verify,
    pub run: RunLimits,
    pub plans: Plans,
    pub proof: Proof,
    /// What follows from failures; those of the file, and those that are built in.
    pub recipes: Recipes,
    pub notify: Notify,
    pub budget: Budget,
    /// What tokens cost, before the list that is built in.
    pub prices: Own,
    pub hook: Hook,
    pub mcp: Mcp,
    pub store: Store,
    /// Who drafts plans.
    pub plan: Planning,
    /// Who judges what no command can.
    pub judge: Judging,
    /// Where plans are carried out beside each other.
    pub worktrees: Worktrees,
}

/// Who carries out the steps of one target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Role {
    pub driver: Driver,
    /// How long an attempt may take, where the step does not say.
    pub timeout: Option<Duration>,
    /// What its agents may reach beside the workspace.
    pub reach: Reach,
    /// Addresses (`host:port`) that count as the model's, beside the well-known ones.
    pub api: Vec<String>,
    /// The role that has a try when this one met the same failure twice.
    pub fallback: Option<String>,
    /// In which form its client reports.
    pub speaks: Speaks,
    /// The model it asks, where its client does not say.
    pub model: Option<String>,
    /// What an attempt is expected to use.
    pub estimate: Amount,
    /// The harness stands between its agents and their model.
    pub meter: Option<Metering>,
    /// Its client is given tools of ours: to show the plan, to read and publish topics, to claim.
    pub tools: bool,
    /// What the machine must have that its agents work on, where many machines share the work.
    pub labels: Vec<Label>,
}

impl Role {
    /// The model it asks, as far as the configuration says.
    pub fn asks(&self) -> Option<&str> {
        match &self.driver {
            Driver::Builtin(orders) => Some(orders.model.as_str()),
            _ => self.model.as_deref(),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Driver {
    /// Any headless program: the prompt on stdin, the report from stdout.
    Command { command: Vec<String> },
    /// Replays a written script. The path is absolute, or relative to the working folder when there is
    /// no configuration file.
    Scripted { script: PathBuf },
    /// Not in this version.
    Human,
    /// A coding agent with a command line of its own, run headless.
    Client { client: Client, program: Option<String>, args: Vec<String> },
    /// Whatever speaks the Agent Client Protocol over stdio.
    Acp { command: Vec<String>, permissions: Permissions, mode: Option<String> },
    /// The loop of our own, on a model's API.
    Builtin(Builtin),
}

impl Driver {
    /// As it is written in the configuration.
    pub fn word(&self) -> &'static str {
        match self {
            Driver::Command { .. } => "command",
            Driver::Scripted { .. } => "scripted",
            Driver::Human => "human",
            Driver::Client { client, .. } => client.word(),
            Driver::Acp { .. } => "acp",
            Driver::Builtin(_) => "builtin",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gate {
    /// How many people have to approve, and who counts as one.
    pub quorum: Quorum,
    /// What waits for a person for longer than this is told again, and stands in the log as overdue.
    pub remind_after: Option<Duration>,
    pub policies: BTreeMap<String, Policy>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verify {
    pub isolation: Demand,
    /// A contract has to fail before the work is done.
    pub require_red: bool,
    /// Untracked folders of the workspace that take part as they were before any agent, relative to it.
    pub caches: Vec<String>,
    /// What builds leave is kept for the next check, by the harness.
    pub build_caches: bool,
    pub provision: Provision,
    pub contract_timeout: Duration,
}

/// How a check has to be fenced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Demand {
    /// The strongest this machine attests.
    Auto,
    /// This one, or nothing runs.
    Exactly(Isolation),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunLimits {
    pub step_timeout: Duration,
    /// How long a run waits for another one that has the workspace.
    pub lease_timeout: Duration,
    /// How often an attempt may be lost to a crash before a person is asked.
    pub max_lost_attempts: u32,
    /// Bytes an attempt or a check may write.
    pub disk: u64,
    /// Bytes of memory; four fifths of the machine's, where nothing is said.
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
pub struct Plans {
    /// Where plans live: relative to the top of the repository, or an absolute path.
    pub folder: PathBuf,
    /// How long a claim on a plan of a shared folder is good for without being renewed.
    pub lease: Duration,
}

impl Plans {
    /// Other machines may work on the same plans.
    pub fn is_shared(&self) -> bool {
        self.folder.is_absolute() || self.folder.starts_with("..")
    }
}

/// How proofs are signed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proof {
    /// A key of OpenSSH that signs beside the harness's own.
    pub ssh_key: Option<PathBuf>,
}

/// Where the log is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Store {
    /// Nothing is asked for.
    Sqlite,
    /// The log must be this one.
    Postgres { url: String },
}

impl Default for Config {
    fn default() -> Self {
        Self {
            path: None,
            agents: BTreeMap::new(),
            gate: Gate { quorum: Quorum::default(), remind_after: None, policies: BTreeMap::new() },
            verify: Verify {
                isolation: Demand::Auto,
                require_red: false,
                // Not `target`: it is made anew from the sources, and copying it would cost gigabytes.
                caches: ["node_modules", ".venv"].map(str::to_owned).to_vec(),
                build_caches: true,
                provision: Provision::default(),
                contract_timeout: Duration::from_secs(60),
            },
            run: RunLimits {
                step_timeout: Duration::from_secs(600),
                lease_timeout: Duration::ZERO,
                max_lost_attempts: 3,
                disk: 20 << 30,
                memory: None,
                processes: 4096,
            },
            plans: Plans { folder: PathBuf::from(plan_file::FOLDER), lease: Duration::from_secs(60) },
            proof: Proof { ssh_key: None },
            recipes: Recipes::default(),
            notify: Notify::default(),
            budget: Budget::default(),
            prices: Own::new(),
            hook: Hook::default(),
            mcp: Mcp::default(),
            store: Store::Sqlite,
            plan: Planning::default(),
            judge: Judging::default(),
            worktrees: Worktrees::default(),
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot read {}", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    #[error("{} is larger than 1 MiB; a configuration is a page of text", path.display())]
    TooLarge { path: PathBuf },
    #[error("{} is not UTF-8 text", path.display())]
    NotText { path: PathBuf },
    #[error("{0}")]
    Wrong(Box<Wrong>),
}

/// The configuration that holds in `from`.
///
/// Worktrees lie beside their repository: one without a file of its own has that of the main checkout.
pub fn find(from: &Path) -> Result<Config, Error> {
    located(from)?.map_or_else(|| Ok(Config::default()), |(path, text)| parse(&path, &text))
}

/// Where plans are kept. Most configurations say nothing of it, and are not read any further: this is asked
/// at each end of a turn of somebody's client.
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
            Ok(file) => return read(file, path).map(Some),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            // A folder above us that we may not enter, or a file in place of a folder.
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

/// Reads the text of the configuration at `path`, which is not touched.
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
    Ok(Config {
        path: Some(path.to_owned()),
        agents: top
            .named("agents")?
            .map(|(name, role)| Ok((name, self::role(&role, folder)?)))
            .collect::<Result<_, _>>()?,
        gate: gate(&top)?,
        verify: verify(&top)?,
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
        plan: counsel::plan(&top)?,
        judge: counsel::judge(&top)?,
        worktrees: worktrees::read(&top)?,
    })
}

const ROLE_KEYS: &[&str] = &[
    "driver",
    "command",
    "script",
    "speaks",
    "program",
    "args",
    "permissions",
    "mode",
    "estimate",
    "timeout",
    "network",
    "git",
    "home",
    "api",
    "fallback",
    "meter",
    "tools",
    "labels",
];

/// Keys that only some drivers have.
fn keys_of(driver: &str) -> &'static [&'static str] {
    match driver {
        "command" => &["command", "model", "speaks"],
        "acp" => &["command", "model", "permissions", "mode", "tools"],
        "scripted" => &["script"],
        "builtin" => &builtin::KEYS,
        "human" => &[],
        _ => &["model", "program", "args", "tools"],
    }
}

fn role(section: &Section<'_, '_>, folder: &Path) -> Result<Role, Wrong> {
    section.only(&[ROLE_KEYS, &builtin::KEYS].concat())?;
    let word = section.required("driver")?;
    let client = Client::ALL.into_iter().find(|client| client.word() == word);
    let driver = match (word.as_str(), client) {
        (_, Some(client)) => Driver::Client {
            client,
            program: section.string("program")?.filter(|program| !program.is_empty()),
            args: section.strings("args")?.unwrap_or_default(),
        },
        ("command", _) => Driver::Command { command: command(section)? },
        ("acp", _) => Driver::Acp {
            command: command(section)?,
            permissions: self::word(section, "permissions", &Permissions::ALL, Permissions::word)?,
            mode: section.string("mode")?,
        },
        ("scripted", _) => Driver::Scripted { script: folder.join(section.required("script")?) },
        ("builtin", _) => Driver::Builtin(builtin::read(section)?),
        ("human", _) => Driver::Human,
        (other, _) => {
            let known =
                ["command", "claude", "codex", "gemini", "opencode", "acp", "scripted", "human", "builtin"];
            return Err(section.wrong_value("driver", &format!("there is no driver `{other}`"), &known));
        }
    };
    let some = ["command", "script", "speaks", "program", "args", "permissions", "mode", "tools"];
    for key in some.into_iter().chain(builtin::KEYS) {
        if section.has(key) && !keys_of(&word).contains(&key) {
            return Err(section.wrong(key, format!("driver `{word}` has no `{key}`")));
        }
    }
    let timeout = section.duration("timeout", WEEK)?;
    let fallback = section.string("fallback")?;
    let mut api = api(section)?;
    if let Driver::Builtin(Builtin { base_url: Some(url), .. }) = &driver {
        api.extend(builtin::address(url).map(|address| address.to_string()));
    }
    let meter = metering::read(section, &word)?;
    Ok(Role {
        driver,
        timeout,
        reach: reach(section)?,
        api,
        fallback,
        speaks: self::word(section, "speaks", &Speaks::ALL, Speaks::word)?,
        model: section.string("model")?,
        estimate: money::amount(section, "estimate")?,
        meter,
        tools: section.boolean("tools")?.unwrap_or_default(),
        labels: labels(section)?,
    })
}

fn labels(section: &Section<'_, '_>) -> Result<Vec<Label>, Wrong> {
    let words = section.strings("labels")?.unwrap_or_default();
    let label =
        |word: &String| word.parse().map_err(|wrong: NoLabel| section.wrong("labels", wrong.to_string()));
    words.iter().map(label).collect()
}

fn reach(section: &Section<'_, '_>) -> Result<Reach, Wrong> {
    Ok(Reach {
        network: word(section, "network", &AgentNetwork::ALL, AgentNetwork::word)?,
        git: word(section, "git", &GitPolicy::ALL, GitPolicy::word)?,
        home: word(section, "home", &Home::ALL, Home::word)?,
    })
}

/// One of a few words, or the default.
fn word<T: Copy + Default>(
    section: &Section<'_, '_>,
    key: &str,
    all: &[T],
    spelled: fn(T) -> &'static str,
) -> Result<T, Wrong> {
    let Some(given) = section.string(key)? else { return Ok(T::default()) };
    all.iter().copied().find(|each| spelled(*each) == given).ok_or_else(|| {
        let known: Vec<&str> = all.iter().map(|each| spelled(*each)).collect();
        section.wrong_value(key, &format!("`{key}` cannot be `{given}`"), &known)
    })
}

fn api(section: &Section<'_, '_>) -> Result<Vec<String>, Wrong> {
    let hosts = section.strings("api")?.unwrap_or_default();
    match hosts.iter().find(|host| Address::parse(host).is_none()) {
        Some(host) => {
            let message =
                format!("`{host}` is no address such as \"llm.example.org:443\" or \"127.0.0.1:8080\"");
            Err(section.wrong("api", message))
        }
        None => Ok(hosts),
    }
}

fn command(section: &Section<'_, '_>) -> Result<Vec<String>, Wrong> {
    let words = section.strings("command")?.ok_or_else(|| section.missing("command"))?;
    match words.first() {
        Some(program) if !program.is_empty() => Ok(words),
        _ => Err(section.wrong("command", "a command needs at least the name of a program".to_owned())),
    }
}

const GATE_KEYS: &[&str] = &["approvals", "self_approval", "policies_count", "remind_after", "policies"];

fn gate(top: &Section<'_, '_>) -> Result<Gate, Wrong> {
    let default = Config::default().gate;
    let Some(section) = top.section("gate", GATE_KEYS)? else {
        return Ok(default);
    };
    let quorum = Quorum {
        approvals: section.integer("approvals", 1..=100)?.unwrap_or(1) as u32,
        self_approval: section.boolean("self_approval")?.unwrap_or(true),
        policies_count: section.boolean("policies_count")?.unwrap_or(false),
    };
    let policies = section.named("policies")?.map(|(name, each)| Ok((name.clone(), policy(name, &each)?)));
    let remind_after = section.duration("remind_after", YEAR)?;
    Ok(Gate { quorum, remind_after, policies: policies.collect::<Result<_, _>>()? })
}

const POLICY_KEYS: &[&str] = &["owner", "touches", "max_usd", "max_tokens", "max_minutes", "targets"];

fn policy(name: String, section: &Section<'_, '_>) -> Result<Policy, Wrong> {
    section.only(POLICY_KEYS)?;
    let policy = Policy {
        owner: section.strings("owner")?.unwrap_or_default(),
        touches: section.strings("touches")?.unwrap_or_default(),
        max_micro_usd: section.micro_usd("max_usd")?,
        max_tokens: section.integer("max_tokens", 1..=1_000_000_000_000)?,
        max_wall: section
            .integer("max_minutes", 1..=7 * 24 * 60)?
            .map(|minutes| Duration::from_secs(minutes * 60)),
        targets: section.strings("targets")?.unwrap_or_default(),
        name,
    };
    if policy.touches.is_empty() {
        return Err(section.wrong_here(format!(
            "policy `{}` does not bound `touches`: name the folders, such as [\"docs/**\"]",
            policy.name
        )));
    }
    if let Some(glob) = policy.touches.iter().find(|glob| !policy::bounds(glob)) {
        let message =
            format!("`{glob}` bounds nothing: a policy names folders of the workspace, such as \"docs/**\"");
        return Err(section.wrong("touches", message));
    }
    let limited = policy.max_micro_usd.is_some() || policy.max_tokens.is_some() || policy.max_wall.is_some();
    if policy.owner.is_empty() && policy.targets.is_empty() && !limited {
        let message = format!(
            "policy `{}` bounds only `touches`: add `owner`, `targets` or a limit on the budget",
            policy.name
        );
        return Err(section.wrong_here(message));
    }
    Ok(policy)
}

/// What an approval by this policy is recorded with: SHA-256 of its canonical JSON.
pub fn digest(policy: &Policy) -> Hash {
    let canonical = chain::sorted(serde_json::json!({
        "name": policy.name,
        "owner": policy.owner,
        "touches": policy.touches,
        "max_micro_usd": policy.max_micro_usd,
        "max_tokens": policy.max_tokens,
        "max_wall_ms": policy.max_wall.map(|wall| u64::try_from(wall.as_millis()).unwrap_or(u64::MAX)),
        "targets": policy.targets,
    }));
    Hash::of(canonical.to_string().as_bytes())
}

fn verify(top: &Section<'_, '_>) -> Result<Verify, Wrong> {
    let default = Config::default().verify;
    let keys = &["isolation", "require_red", "caches", "build_caches", "provision", "contract_timeout"];
    let Some(section) = top.section("verify", keys)? else { return Ok(default) };
    Ok(Verify {
        isolation: isolation(&section)?,
        require_red: section.boolean("require_red")?.unwrap_or(default.require_red),
        caches: caches(&section)?.unwrap_or(default.caches),
        build_caches: section.boolean("build_caches")?.unwrap_or(default.build_caches),
        provision: provision::read(&section)?,
        contract_timeout: section.duration("contract_timeout", WEEK)?.unwrap_or(default.contract_timeout),
    })
}

fn isolation(section: &Section<'_, '_>) -> Result<Demand, Wrong> {
    let Some(word) = section.string("isolation")? else { return Ok(Demand::Auto) };
    let levels =
        [Isolation::Clean, Isolation::GuardClean, Isolation::Landlock, Isolation::Uid, Isolation::InPlace];
    if word == "auto" {
        return Ok(Demand::Auto);
    }
    if word == "none" {
        let message = "`none` is no level to configure; it is a flag of a single run".to_owned();
        return Err(section.wrong("isolation", message));
    }
    levels.into_iter().find(|level| level.to_string() == word).map(Demand::Exactly).ok_or_else(|| {
        let known = ["auto", "clean", "guard+clean", "landlock", "uid", "in-place"];
        section.wrong_value("isolation", &format!("there is no isolation `{word}`"), &known)
    })
}

fn caches(section: &Section<'_, '_>) -> Result<Option<Vec<String>>, Wrong> {
    let caches = section.strings("caches")?;
    let inside = |path: &String| {
        Path::new(path).components().all(|part| matches!(part, std::path::Component::Normal(_)))
            && !path.is_empty()
    };
    match caches.iter().flatten().find(|path| !inside(path)) {
        Some(path) => Err(section.wrong("caches", format!("`{path}` is not a folder inside the workspace"))),
        None => Ok(caches),
    }
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

fn plans(top: &Section<'_, '_>) -> Result<Plans, Wrong> {
    let default = Config::default().plans;
    let Some(section) = top.section("plans", &["folder", "lease"])? else { return Ok(default) };
    match section.string("folder")? {
        Some(folder) if folder.trim().is_empty() => {
            Err(section.wrong("folder", "the folder of the plans has no name".to_owned()))
        }
        folder => Ok(Plans {
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

/// `~/` is the user's own folder.
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
                let why =
                    "a password is in this address: give it in PGPASSWORD or in the file PGPASSFILE names";
                return Err(section.wrong("url", why.to_owned()));
            }
            Ok(Store::Postgres { url: url.to_owned() })
        }
        Some(_) => Err(section.wrong("url", "it is \"sqlite\" or begins with postgres://".to_owned())),
    }
}

fn has_password(url: &str) -> bool {
    let (place, query) = url.split_once('?').unwrap_or((url, ""));
    let authority = place.split("://").nth(1).and_then(|rest| rest.split('/').next()).unwrap_or_default();
    authority.rsplit_once('@').is_some_and(|(user, _)| user.contains(':'))
        || query.split('&').any(|pair| pair.starts_with("password="))
}
