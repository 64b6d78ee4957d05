//! The terms of a run: what is agreed beside the plan's own text.
//!
//! They come from the configuration, which lies where an agent may write. So they are shown at the
//! gate, an approval covers them, and other terms send the plan back there.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::verdict::Isolation;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Terms {
    /// The level that is demanded; without one, the strongest the machine attests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub isolation: Option<Isolation>,
    /// A contract that held before any work was done passes nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub require_red: bool,
    /// The roles of the plan and what their agents may reach.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub roles: BTreeMap<String, Reach>,
}

impl Terms {
    pub fn is_usual(&self) -> bool {
        *self == Terms::default()
    }

    /// What the agent of a role may reach.
    pub fn reach(&self, role: &str) -> Reach {
        self.roles.get(role).copied().unwrap_or_default()
    }

    /// A line each, for the gate and for the digest.
    pub fn lines(&self) -> Vec<String> {
        let level = self.isolation.map_or("auto".to_owned(), |level| level.to_string());
        let mut lines = vec![format!("isolation: {level}")];
        if self.require_red {
            lines.push("contracts must fail before the work".to_owned());
        }
        lines.extend(self.roles.iter().map(|(role, reach)| format!("{role}: {reach}")));
        lines
    }

    /// What is otherwise in `new`, a line each.
    pub fn changes(&self, new: &Terms) -> Vec<String> {
        let (old, new) = (self.lines(), new.lines());
        let gone = old.iter().filter(|line| !new.contains(line)).map(|line| format!("no longer: {line}"));
        let come = new.iter().filter(|line| !old.contains(line)).map(|line| format!("now: {line}"));
        gone.chain(come).collect()
    }
}

/// What an agent may reach behind its fence, beside its workspace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reach {
    pub network: AgentNetwork,
    pub git: GitPolicy,
    pub home: Home,
}

impl fmt::Display for Reach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "network {}, git {}, home {}", self.network.word(), self.git.word(), self.home.word())
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentNetwork {
    /// The model's API and nothing else, through the harness's proxy.
    #[default]
    Model,
    On,
    Off,
}

impl AgentNetwork {
    pub const ALL: [AgentNetwork; 3] = [AgentNetwork::Model, AgentNetwork::On, AgentNetwork::Off];

    /// As it is written in plans and in the configuration.
    pub fn word(self) -> &'static str {
        match self {
            AgentNetwork::Model => "model",
            AgentNetwork::On => "on",
            AgentNetwork::Off => "off",
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GitPolicy {
    /// A clone with the base's history alone; what is committed there goes with it.
    Clone,
    None,
    /// The repository itself, less what git would run from it.
    #[default]
    Shared,
}

impl GitPolicy {
    pub const ALL: [GitPolicy; 3] = [GitPolicy::Clone, GitPolicy::None, GitPolicy::Shared];

    pub fn word(self) -> &'static str {
        match self {
            GitPolicy::Clone => "clone",
            GitPolicy::None => "none",
            GitPolicy::Shared => "shared",
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Home {
    /// The user's as it is, and what the agent writes goes elsewhere.
    #[default]
    Private,
    /// The user's own, to read and write.
    Shared,
}

impl Home {
    pub const ALL: [Home; 2] = [Home::Private, Home::Shared];

    pub fn word(self) -> &'static str {
        match self {
            Home::Private => "private",
            Home::Shared => "shared",
        }
    }
}
