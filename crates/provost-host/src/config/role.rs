//! Reads `[agents.NAME]`: the driver of the agents that carry out the steps of a target, and what they may
//! access.

use std::path::{Path, PathBuf};
use std::time::Duration;

use provost_core::fleet::labels::{Label, NoLabel};
use provost_core::model::plan::{AgentNetwork, GitPolicy};
use provost_core::model::run_policy::{AgentAccess, HomeAccess};
use provost_core::model::usage::Amount;

use super::builtin::{self, BuiltinConfig};
use super::choices::{Client, Permissions, Speaks};
use super::folders::{self, Folders};
use super::metering::{self, MeteringConfig};
use super::reading::{Section, Wrong};
use super::{WEEK, money};
use crate::egress::proxy::Address;

/// The agents that carry out the steps of one target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Role {
    pub driver: Driver,
    /// Timeout of an attempt, if the step has none.
    pub timeout: Option<Duration>,
    /// Access of its agents besides the workspace: network, git, home.
    pub reach: AgentAccess,
    /// Paths outside of the workspace that its agents may use.
    pub folders: Folders,
    /// Addresses (`host:port`) that count as the model's, besides the well-known ones.
    pub api: Vec<String>,
    /// The role that tries after this one has failed twice in the same way.
    pub fallback: Option<String>,
    /// The format in which its client reports.
    pub speaks: Speaks,
    /// The model that it uses, if its client does not report one.
    pub model: Option<String>,
    /// Expected usage of an attempt.
    pub estimate: Amount,
    /// The metering proxy between its agents and their model.
    pub meter: Option<MeteringConfig>,
    /// Its client gets provost's MCP tools: to show the plan, to read and publish topics, to claim.
    pub tools: bool,
    /// Labels that a machine must have to run its agents, in a cluster.
    pub labels: Vec<Label>,
}

impl Role {
    /// Returns the model that it uses, as far as the configuration says.
    pub fn asks(&self) -> Option<&str> {
        match &self.driver {
            Driver::Builtin(orders) => Some(orders.model.as_str()),
            _ => self.model.as_deref(),
        }
    }
}

impl Role {
    /// Describes what provost starts for this role, for a person who approves: the driver, the program with
    /// all its arguments, the model. `folder` is the folder of the configuration.
    pub fn program(&self, folder: Option<&Path>) -> String {
        let words = |words: &[String]| words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ");
        let mut text = match &self.driver {
            Driver::Command { command } => format!("`{}`", words(command)),
            Driver::Scripted { script } => {
                let shown = folder.and_then(|folder| script.strip_prefix(folder).ok()).unwrap_or(script);
                format!("the script {}", shown.display())
            }
            Driver::Human => "nothing: a person".to_owned(),
            Driver::Client { client, program, args } => {
                let program = program.clone().unwrap_or_else(|| client.word().to_owned());
                let all: Vec<String> = std::iter::once(program).chain(args.iter().cloned()).collect();
                format!("`{}` (driver {})", words(&all), client.word())
            }
            Driver::Acp { command, permissions, mode } => {
                let mode = mode.as_ref().map(|mode| format!(", mode {mode}")).unwrap_or_default();
                format!("`{}` (driver acp, permissions {}{mode})", words(command), permissions.word())
            }
            Driver::Builtin(orders) => format!("the builtin agent, model {}", orders.model),
        };
        if let (Some(model), false) = (&self.model, matches!(self.driver, Driver::Builtin(_))) {
            text.push_str(&format!(", model {model}"));
        }
        text
    }
}

/// Quotes a word for a shell.
fn quoted(word: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+=:,@%".contains(&byte);
    if !word.is_empty() && word.bytes().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Driver {
    /// Any headless program: the prompt on stdin, the report from stdout.
    Command { command: Vec<String> },
    /// Replays a written script. The path is absolute, or relative to the working folder if there is no
    /// configuration file.
    Scripted { script: PathBuf },
    /// A person; not supported in this version.
    Human,
    /// A coding agent's command line, run headless.
    Client { client: Client, program: Option<String>, args: Vec<String> },
    /// A program that speaks the Agent Client Protocol over stdio.
    Acp { command: Vec<String>, permissions: Permissions, mode: Option<String> },
    /// provost's own agent, on a model's API.
    Builtin(BuiltinConfig),
}

impl Driver {
    /// Returns the word in the configuration.
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
    "read",
    "write",
    "api",
    "fallback",
    "meter",
    "tools",
    "labels",
];

/// Returns the keys that only this driver has.
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

pub(super) fn read(section: &Section<'_, '_>, folder: &Path) -> Result<Role, Wrong> {
    section.only(&[ROLE_KEYS, &builtin::KEYS].concat())?;
    let word = section.required("driver")?;
    let client = Client::ALL.into_iter().find(|client| client.word() == word);
    let driver = match (word.as_str(), client) {
        (_, Some(client)) => Driver::Client {
            client,
            program: section.string("program")?.filter(|program| !program.is_empty()),
            args: section.strings("args")?.unwrap_or_default(),
        },
        ("command", _) => Driver::Command { command: section.command()? },
        ("acp", _) => Driver::Acp {
            command: section.command()?,
            permissions: section.word("permissions", &Permissions::ALL, Permissions::word)?,
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
    if let Driver::Builtin(BuiltinConfig { base_url: Some(url), .. }) = &driver {
        api.extend(builtin::address(url).map(|address| address.to_string()));
    }
    let meter = metering::read(section, &word)?;
    Ok(Role {
        driver,
        timeout,
        reach: reach(section)?,
        folders: folders::read(section)?,
        api,
        fallback,
        speaks: section.word("speaks", &Speaks::ALL, Speaks::word)?,
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

fn reach(section: &Section<'_, '_>) -> Result<AgentAccess, Wrong> {
    Ok(AgentAccess {
        network: section.word("network", &AgentNetwork::ALL, AgentNetwork::word)?,
        git: section.word("git", &GitPolicy::ALL, GitPolicy::word)?,
        home: section.word("home", &HomeAccess::ALL, HomeAccess::word)?,
    })
}

fn api(section: &Section<'_, '_>) -> Result<Vec<String>, Wrong> {
    let hosts = section.strings("api")?.unwrap_or_default();
    match hosts.iter().find(|host| Address::parse(host).is_none()) {
        Some(host) => {
            let message =
                format!("`{host}` is not an address such as \"llm.example.org:443\" or \"127.0.0.1:8080\"");
            Err(section.wrong("api", message))
        }
        None => Ok(hosts),
    }
}
