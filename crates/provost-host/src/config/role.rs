//! Reads `[agents.NAME]`: the driver of the agents that carry out the steps of a target, and what they may
//! access.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use provost_core::fleet::labels::Label;
use provost_core::language::shell_word::quoted;
use provost_core::model::plan::{AgentNetwork, GitPolicy};
use provost_core::model::run_policy::{AgentAccess, HomeAccess};
use provost_core::model::usage::Amount;

use serde::Deserialize;
use serde::de::{Deserializer, Error};

use super::builtin::{self, BUILTIN_KEYS, BuiltinConfig, LEAST_CONTEXT};
use super::choices::{Client, Permissions, Speaks};
use super::folders::{Folders, paths};
use super::mcp_server::McpServerConfig;
use super::metering::MeteringConfig;
use super::model_server::ModelServer;
use super::reading::{at, meant, missing};
use super::server_address;
use super::values::{WEEK, amount, choice, command, each, integer, named, time};
use crate::egress::meter::MeteredApi;
use crate::egress::proxy::Address;

const DRIVERS: [&str; 8] = ["command", "claude", "codex", "gemini", "opencode", "acp", "scripted", "builtin"];

/// The agents that carry out the steps of one target.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "RoleKeys")]
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
    /// Its agents reach more than their model: the network, or addresses that the configuration names.
    pub reads_web: bool,
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
            Driver::Client { client, program, args, .. } => {
                let program = program.clone().unwrap_or_else(|| client.word().to_owned());
                let all: Vec<String> = std::iter::once(program).chain(args.iter().cloned()).collect();
                format!("`{}` (driver {})", words(&all), client.word())
            }
            Driver::Acp { command, permissions, mode } => {
                let mode = mode.as_ref().map(|mode| format!(", mode {mode}")).unwrap_or_default();
                format!("`{}` (driver acp, permissions {}{mode})", words(command), permissions.word())
            }
            Driver::Builtin(orders) => orders.to_string(),
        };
        if let (Some(model), false) = (&self.model, matches!(self.driver, Driver::Builtin(_))) {
            text.push_str(&format!(", model {model}"));
        }
        if let Driver::Client { server: Some(server), .. } = &self.driver {
            text.push_str(&server.to_string());
        }
        text
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Driver {
    /// Any headless program: the prompt on stdin, the report from stdout.
    Command { command: Vec<String> },
    /// Replays a written script. The path is absolute, or relative to the working folder if there is no
    /// configuration file.
    Scripted { script: PathBuf },
    /// A coding agent's command line, run headless.
    Client { client: Client, program: Option<String>, args: Vec<String>, server: Option<ModelServer> },
    /// A program that speaks the Agent Client Protocol over stdio.
    Acp { command: Vec<String>, permissions: Permissions, mode: Option<String> },
    /// provost's own agent, on a model's API.
    Builtin(BuiltinConfig),
}

/// The keys of `[agents.NAME]`. Which of them a role may have depends on its driver; an enum tagged by
/// `driver` would lose the positions of errors.
#[derive(Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a section")]
struct RoleKeys {
    driver: String,
    #[serde(deserialize_with = "command")]
    command: Option<Vec<String>>,
    script: Option<String>,
    #[serde(deserialize_with = "choice::<_, Speaks, _>")]
    speaks: Option<Speaks>,
    program: Option<String>,
    args: Option<Vec<String>>,
    #[serde(deserialize_with = "choice::<_, Permissions, _>")]
    permissions: Option<Permissions>,
    mode: Option<String>,
    #[serde(deserialize_with = "amount")]
    estimate: Amount,
    #[serde(deserialize_with = "time::<_, _, WEEK>")]
    timeout: Option<Duration>,
    #[serde(deserialize_with = "choice::<_, AgentNetwork, _>")]
    network: AgentNetwork,
    #[serde(deserialize_with = "choice::<_, GitPolicy, _>")]
    git: GitPolicy,
    #[serde(deserialize_with = "choice::<_, HomeAccess, _>")]
    home: HomeAccess,
    #[serde(deserialize_with = "paths")]
    read: Vec<PathBuf>,
    #[serde(deserialize_with = "paths")]
    write: Vec<PathBuf>,
    #[serde(deserialize_with = "api")]
    api: Vec<String>,
    fallback: Option<String>,
    meter: Option<MeteringConfig>,
    tools: Option<bool>,
    #[serde(deserialize_with = "labels")]
    labels: Vec<Label>,
    model: Option<String>,
    #[serde(deserialize_with = "builtin::provider")]
    provider: Option<String>,
    #[serde(deserialize_with = "server_address::base_url")]
    base_url: Option<String>,
    #[serde(deserialize_with = "server_address::key_env")]
    key_env: Option<String>,
    key_command: Option<Vec<String>>,
    #[serde(deserialize_with = "integer::<_, u32, _, 1, 10_000>")]
    max_turns: Option<u32>,
    #[serde(deserialize_with = "integer::<_, u64, _, LEAST_CONTEXT, 100_000_000>")]
    context_tokens: Option<u64>,
    #[serde(deserialize_with = "integer::<_, u64, _, 0, 100_000>")]
    map_tokens: Option<u64>,
    mcp: Option<BTreeMap<String, McpServerConfig>>,
    #[serde(deserialize_with = "builtin::effort")]
    effort: Option<String>,
    #[serde(deserialize_with = "builtin::after_edit")]
    after_edit: Option<String>,
    #[serde(deserialize_with = "builtin::compaction")]
    compaction: Option<String>,
    #[serde(deserialize_with = "builtin::tool_calls")]
    tool_calls: Option<String>,
}

impl RoleKeys {
    /// Checks that the driver has each of the given keys that only some drivers have.
    fn check(&self) -> Result<(), String> {
        let driver = self.driver.as_str();
        let own: &[&str] = match driver {
            "command" => &["command", "model", "speaks"],
            "acp" => &["command", "model", "permissions", "mode", "tools"],
            "scripted" => &["script"],
            "builtin" => &BUILTIN_KEYS,
            "opencode" => &["model", "program", "args", "tools", "base_url", "key_env"],
            _ => &["model", "program", "args", "tools"],
        };
        macro_rules! given {
            ($($key:ident),*) => { [$((stringify!($key), self.$key.is_some())),*] };
        }
        let given = given!(
            command,
            script,
            speaks,
            program,
            args,
            permissions,
            mode,
            tools,
            model,
            provider,
            base_url,
            key_env,
            key_command,
            max_turns,
            context_tokens,
            map_tokens,
            mcp,
            effort,
            after_edit,
            compaction,
            tool_calls
        );
        if let Some((key, _)) = given.iter().find(|(key, is_given)| *is_given && !own.contains(key)) {
            return Err(at(key, format!("driver `{driver}` has no `{key}`")));
        }
        if self.meter.is_some() && driver == "scripted" {
            let message = format!("driver `{driver}` calls no model, so there is nothing to meter");
            return Err(at("meter", message));
        }
        Ok(())
    }

    fn driver(&self) -> Result<Driver, String> {
        let command = || self.command.clone().ok_or_else(|| missing("command"));
        if let Some(client) = Client::ALL.into_iter().find(|client| client.word() == self.driver) {
            let program = self.program.clone().filter(|program| !program.is_empty());
            let args = self.args.clone().unwrap_or_default();
            let server = if client == Client::Opencode { self.server()? } else { None };
            return Ok(Driver::Client { client, program, args, server });
        }
        match self.driver.as_str() {
            "" => Err(missing("driver")),
            "command" => Ok(Driver::Command { command: command()? }),
            "acp" => Ok(Driver::Acp {
                command: command()?,
                permissions: self.permissions.unwrap_or_default(),
                mode: self.mode.clone(),
            }),
            "scripted" => match self.script.as_deref() {
                None | Some("") => Err(missing("script")),
                Some(script) => Ok(Driver::Scripted { script: script.into() }),
            },
            "builtin" => self.builtin().map(Driver::Builtin),
            "human" => Err(at(
                "driver",
                "there is no driver `human`; for a step that a person confirms, write `**contract:** human` in \
                 the plan",
            )),
            other => Err(at("driver", format!("there is no driver `{other}`{}", meant(other, &DRIVERS)))),
        }
    }

    fn server(&self) -> Result<Option<ModelServer>, String> {
        let is_metered = self.meter.as_ref().is_some_and(|meter| meter.api == MeteredApi::Chat);
        let [model, base_url, key_env] = [&self.model, &self.base_url, &self.key_env].map(Option::as_deref);
        ModelServer::of(model, base_url, key_env, is_metered)
    }

    fn builtin(&self) -> Result<BuiltinConfig, String> {
        let model = self.model.clone().filter(|model| !model.is_empty()).ok_or_else(|| missing("model"))?;
        if model.trim().is_empty() {
            return Err(at("model", "the model has no name"));
        }
        if self.key_env.is_some() && self.key_command.is_some() {
            return Err(at("key_command", "use `key_env` or `key_command`, not both"));
        }
        Ok(BuiltinConfig {
            model,
            provider: self.provider.clone(),
            base_url: self.base_url.clone(),
            key_env: self.key_env.clone(),
            key_command: self.key_command.clone().unwrap_or_default(),
            max_turns: self.max_turns,
            context_tokens: self.context_tokens,
            map_tokens: self.map_tokens,
            effort: self.effort.clone(),
            mcp: self.mcp.clone().unwrap_or_default(),
            after_edit: self.after_edit.clone(),
            summarises: self.compaction.as_deref() == Some("summary"),
            text_tools: self.tool_calls.as_deref() == Some("text"),
        })
    }
}

impl TryFrom<RoleKeys> for Role {
    type Error = String;

    fn try_from(keys: RoleKeys) -> Result<Self, String> {
        let driver = keys.driver()?;
        keys.check()?;
        let reads_web = keys.network == AgentNetwork::On || !keys.api.is_empty();
        let mut api = keys.api;
        let address = match &driver {
            Driver::Builtin(BuiltinConfig { base_url: Some(url), .. }) => server_address::address(url),
            Driver::Client { server: Some(server), .. } => server.address(),
            _ => None,
        };
        api.extend(address.map(|address| address.to_string()));
        if let Driver::Builtin(BuiltinConfig { mcp, .. }) = &driver {
            api.extend(mcp.values().filter_map(McpServerConfig::address).map(|address| address.to_string()));
        }
        Ok(Self {
            driver,
            timeout: keys.timeout,
            reach: AgentAccess { network: keys.network, git: keys.git, home: keys.home },
            folders: Folders { read: keys.read, write: keys.write },
            api,
            reads_web,
            fallback: keys.fallback,
            speaks: keys.speaks.unwrap_or_default(),
            model: keys.model,
            estimate: keys.estimate,
            meter: keys.meter,
            tools: keys.tools.unwrap_or_default(),
            labels: keys.labels,
        })
    }
}

/// Reads all roles, and checks that each `fallback` names another role that exists.
pub(super) fn read<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<String, Role>, D::Error> {
    let roles: BTreeMap<String, Role> = named(from)?;
    for (name, role) in &roles {
        let Some(other) = &role.fallback else { continue };
        let message = match roles.contains_key(other) {
            true if other == name => format!("`{name}` cannot be its own fallback"),
            true => continue,
            false => {
                let others: Vec<&str> =
                    roles.keys().filter(|each| *each != name).map(String::as_str).collect();
                format!("there is no [agents.{other}]{}", meant(other, &others))
            }
        };
        return Err(D::Error::custom(at(name, at("fallback", message))));
    }
    Ok(roles)
}

fn labels<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Label>, D::Error> {
    each(from, |word: String| word.parse::<Label>())
}

fn api<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    each(from, |host: String| match Address::parse(&host) {
        Some(_) => Ok(host),
        None => {
            Err(format!("`{host}` is not an address such as \"llm.example.org:443\" or \"127.0.0.1:8080\""))
        }
    })
}
