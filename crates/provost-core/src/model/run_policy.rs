//! The run policy: configuration values that an approval covers.
//!
//! The configuration is in a place where an agent may write. So provost shows these values at the gate, the
//! approval covers them, and a change sends the plan back to the gate.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::model::named_check::NamedCheck;
use crate::model::plan::{AgentNetwork, GitPolicy, Step};
use crate::model::usage::Amount;
use crate::model::verdict::Isolation;

/// Explains `git = "shared"` to the person who approves it.
pub const SHARED_GIT: &str = "git shared: the agent can change your branches, refs and index, and your next git \
                              command obeys them; `git = \"clone\"` keeps it out";

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunPolicy {
    /// The required isolation level; `None` takes the strongest that the machine supports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub isolation: Option<Isolation>,
    /// A contract that held before any work cannot pass a step.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub require_red: bool,
    /// The checks of the configuration that the plan names (`check:unit`), with all that the configuration says of them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub checks: BTreeMap<String, NamedCheck>,
    /// Share of the changed code that the contract of a step has to prove, in percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_proved: Option<u8>,
    /// Processes of a check may trace each other.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub trace: bool,
    /// Size limit, as text, above which an agent's file is left out of checks; `None` for the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_file: Option<String>,
    /// The roles of the plan and what their agents may access.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub roles: BTreeMap<String, AgentAccess>,
    /// The command that provost starts for a role: its program with all arguments, and its model. Secrets are
    /// removed.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub programs: BTreeMap<String, String>,
    /// Folders outside of the workspace that the agents of a role may read, or read and write.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub folders: BTreeMap<String, OuterFolders>,
    /// The same for checks.
    #[serde(default, skip_serializing_if = "OuterFolders::is_empty")]
    pub check_folders: OuterFolders,
    /// Secrets that checks get, each with the steps that name it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub secrets: BTreeMap<String, Vec<u32>>,
    /// Addresses (`host:port`) that count as the model's besides the well-known ones, by role.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub api: BTreeMap<String, Vec<String>>,
    /// The role that takes over if the key role met the same failure twice.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub fallback: BTreeMap<String, String>,
    /// Default budget of a plan, and default budget of a step.
    #[serde(default, skip_serializing_if = "Amount::is_empty")]
    pub budget: Amount,
    #[serde(default, skip_serializing_if = "Amount::is_empty")]
    pub step_budget: Amount,
    /// The expected use of an attempt, by role.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub estimates: BTreeMap<String, Amount>,
    /// Token prices by model, as text.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub prices: BTreeMap<String, String>,
    /// For a metered role: the upstream that provost calls in place of the agent, and which key it uses.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub meter: BTreeMap<String, String>,
    /// Why a budget cannot end an attempt of a role while it works. It follows from the configuration, so the
    /// digest does not contain it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub unstoppable: BTreeMap<String, Unstoppable>,
    /// The file with the project's instructions that the agents of a role read, as text. A step may change
    /// it, so the digest does not contain it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub instructions: BTreeMap<String, String>,
    /// The judge of contracts that no command decides, as text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judge: Option<String>,
    /// The approvals the plan needs.
    #[serde(default, skip_serializing_if = "Quorum::is_usual")]
    pub quorum: Quorum,
}

impl RunPolicy {
    pub fn is_usual(&self) -> bool {
        *self == RunPolicy::default()
    }

    /// Returns what the agent of a role may access.
    pub fn reach(&self, role: &str) -> AgentAccess {
        self.roles.get(role).copied().unwrap_or_default()
    }

    /// Returns what the agent of a step may access: the values of its role, overridden by the step.
    pub fn for_step(&self, step: &Step) -> AgentAccess {
        self.for_step_by(step, step.target.as_ref().map_or("", |target| &target.value))
    }

    /// The same if `role` carries out the step.
    pub fn for_step_by(&self, step: &Step, role: &str) -> AgentAccess {
        let role = self.reach(role);
        AgentAccess {
            network: step.agent_network.as_ref().map_or(role.network, |network| network.value),
            git: step.git.as_ref().map_or(role.git, |git| git.value),
            home: role.home,
        }
    }

    /// Returns what the policy cannot enforce at this isolation level, or may not: only a sandbox confines an
    /// agent.
    pub fn caveat(&self) -> Option<String> {
        match self.isolation {
            Some(Isolation::Clean) => None,
            Some(Isolation::Landlock) => Some(
                "at landlock provost confines the network only if it is `off`, does not confine git, and \
                 makes a private home read-only"
                    .to_owned(),
            ),
            Some(level) => Some(format!("provost does not confine network, git and home at {level}")),
            None => Some("provost confines network, git and home only at `clean`".to_owned()),
        }
    }

    /// Lists the instructions that agents read, one line each, for the gate.
    pub fn instruction_lines(&self) -> impl Iterator<Item = String> {
        self.instructions.iter().map(|(role, file)| format!("{role}: reads the instructions in {file}"))
    }

    /// Lists the policy, one line each, for the gate and for the digest.
    pub fn lines(&self) -> Vec<String> {
        let level = self.isolation.map_or("auto".to_owned(), |level| level.to_string());
        let mut lines = vec![format!("isolation: {level}")];
        if self.require_red {
            lines.push("contracts must fail before the work".to_owned());
        }
        lines.extend(self.checks.iter().map(|(name, check)| format!("check:{name} {check}")));
        lines.extend(
            self.min_proved.iter().map(|share| format!("contracts must prove {share} % of the changed code")),
        );
        if self.trace {
            lines.push(
                "checks may trace processes: the program under test can then steer what judges it".to_owned(),
            );
        }
        lines.extend(
            self.max_file.iter().map(|size| format!("checks see an agent's files up to {size} each")),
        );
        lines.extend(self.programs.iter().map(|(role, program)| format!("{role}: runs {program}")));
        for (role, reach) in &self.roles {
            lines.push(format!("{role}: {reach}"));
            if reach.git == GitPolicy::Shared {
                lines.push(format!("{role}: {SHARED_GIT}"));
            }
        }
        lines.extend(self.folders.iter().flat_map(|(role, folders)| folders.lines(role)));
        lines.extend(self.check_folders.lines("checks"));
        lines.extend(self.secrets.iter().map(|(name, steps)| {
            let numbers: Vec<String> = steps.iter().map(u32::to_string).collect();
            let word = if steps.len() == 1 { "step" } else { "steps" };
            format!("checks of {word} {} are given {name}, and have a network", numbers.join(", "))
        }));
        let api = self.api.iter().filter(|(_, hosts)| !hosts.is_empty());
        lines
            .extend(api.map(|(role, hosts)| format!("{role}: the model's API is also {}", hosts.join(", "))));
        lines.extend(self.meter.iter().map(|(role, way)| format!("{role}: metered, {way}")));
        let fallback = self.fallback.iter();
        lines.extend(fallback.map(|(role, other)| format!("{role}: after the same failure twice, {other}")));
        for (whose, budget) in [("a plan", &self.budget), ("a step", &self.step_budget)] {
            if !budget.is_empty() {
                lines.push(format!("the budget of {whose} that names none: {budget}"));
            }
        }
        lines.extend(
            self.estimates.iter().map(|(role, each)| format!("{role}: an attempt is expected to use {each}")),
        );
        lines.extend(self.quorum.line());
        lines.extend(self.judge.iter().map(|judge| format!("what a model judges: by {judge}")));
        lines.extend(self.prices.iter().map(|(model, price)| format!("price of {model}: {price}")));
        lines
    }

    /// Lists the differences to `new`, one line each.
    pub fn changes(&self, new: &RunPolicy) -> Vec<String> {
        let (old, new) = (self.lines(), new.lines());
        let gone = old.iter().filter(|line| !new.contains(line)).map(|line| format!("no longer: {line}"));
        let come = new.iter().filter(|line| !old.contains(line)).map(|line| format!("now: {line}"));
        gone.chain(come).collect()
    }
}

/// Why a budget does not end a running attempt; each reason is a clause of a sentence.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unstoppable {
    /// Of a budget in tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<String>,
    /// Of a budget in dollars.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usd: Option<String>,
}

/// Folders outside of the workspace to read, or to read and write.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OuterFolders {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub read: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub write: Vec<String>,
}

impl OuterFolders {
    pub fn is_empty(&self) -> bool {
        self.read.is_empty() && self.write.is_empty()
    }

    fn lines(&self, who: &str) -> Vec<String> {
        let ways = [("read", &self.read), ("read and write", &self.write)];
        let said = ways.into_iter().filter(|(_, folders)| !folders.is_empty());
        said.map(|(way, folders)| format!("{who} may {way} {}", folders.join(", "))).collect()
    }
}

/// The approvals a plan needs, from the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Quorum {
    /// Number of people who must approve the same revision.
    pub approvals: u32,
    /// The author of the text may be one of them.
    pub self_approval: bool,
    /// A policy may be one of them.
    pub policies_count: bool,
}

impl Default for Quorum {
    fn default() -> Self {
        Self { approvals: 1, self_approval: true, policies_count: false }
    }
}

impl Quorum {
    /// Returns whether any single approval is enough.
    pub fn is_usual(&self) -> bool {
        self.approvals <= 1 && self.self_approval
    }

    /// Returns whether a policy may approve: always if a single approval is enough, else only if policies
    /// count.
    pub fn lets_policies(&self) -> bool {
        self.is_usual() || self.policies_count
    }

    /// Combines both requirements; the stricter one applies.
    pub fn and(self, other: Quorum) -> Quorum {
        Quorum {
            approvals: self.approvals.max(other.approvals),
            self_approval: self.self_approval && other.self_approval,
            policies_count: self.lets_policies() && other.lets_policies(),
        }
    }

    /// Describes the quorum for the gate and for the digest; `None` for the default.
    pub fn line(&self) -> Option<String> {
        let policies = if self.policies_count { "; a policy counts as one" } else { "" };
        let people = match (self.approvals, self.self_approval) {
            (0 | 1, true) => return None,
            (0 | 1, false) => "approved by somebody else than who wrote it".to_owned(),
            (needed, true) => format!("approved by {needed} people"),
            (needed, false) => format!("approved by {needed} people, none of whom wrote it"),
        };
        Some(format!("{people}{policies}"))
    }
}

/// Access rights of an agent in its sandbox, besides its workspace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentAccess {
    pub network: AgentNetwork,
    pub git: GitPolicy,
    pub home: HomeAccess,
}

impl AgentAccess {
    /// Lists the values that differ from the default.
    pub fn unusual(&self) -> Vec<String> {
        let usual = AgentAccess::default();
        let mut words = Vec::new();
        if self.network != usual.network {
            words.push(format!("network {}", self.network.word()));
        }
        if self.git != usual.git {
            words.push(format!("git {}", self.git.word()));
        }
        if self.home != usual.home {
            words.push(format!("home {}", self.home.word()));
        }
        words
    }
}

impl fmt::Display for AgentAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "network {}, git {}, home {}", self.network.word(), self.git.word(), self.home.word())
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HomeAccess {
    /// The user's home, readable; what the agent writes goes elsewhere.
    #[default]
    Private,
    /// The user's home, readable and writable.
    Shared,
}

impl HomeAccess {
    pub const ALL: [HomeAccess; 2] = [HomeAccess::Private, HomeAccess::Shared];

    pub fn word(self) -> &'static str {
        match self {
            HomeAccess::Private => "private",
            HomeAccess::Shared => "shared",
        }
    }

    pub fn named(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|each| each.word().eq_ignore_ascii_case(word))
    }
}

#[cfg(test)]
mod tests {
    use super::{AgentAccess, AgentNetwork, GitPolicy, HomeAccess, RunPolicy};
    use crate::language::parse;

    #[test]
    fn a_role_that_shares_the_repository_says_what_that_means() {
        let shared = AgentAccess { git: GitPolicy::Shared, ..AgentAccess::default() };
        let roles = [("coder".to_owned(), shared), ("tester".to_owned(), AgentAccess::default())];
        let lines = RunPolicy { roles: roles.into(), ..RunPolicy::default() }.lines();
        let said: Vec<&String> = lines.iter().filter(|line| line.contains(super::SHARED_GIT)).collect();
        assert_eq!(said, [&format!("coder: {}", super::SHARED_GIT)]);
    }

    #[test]
    fn a_step_has_the_last_word_on_network_and_git() {
        let text = "---\nstatus: draft\n---\n# T\n## Steps\n### 1. A\n**target:** coder\n**agent_network:** off\n\
                    ### 2. B\n**target:** coder\n**git:** shared\n### 3. C\n**target:** other\n";
        let plan = parse::plan(text).plan;
        let on = AgentAccess { network: AgentNetwork::On, git: GitPolicy::None, home: HomeAccess::Shared };
        let terms = RunPolicy { roles: [("coder".to_owned(), on)].into(), ..RunPolicy::default() };
        let reach: Vec<String> = plan.steps.iter().map(|step| terms.for_step(step).to_string()).collect();
        assert_eq!(
            reach,
            [
                "network off, git none, home shared",
                "network on, git shared, home shared",
                "network model, git clone, home private"
            ]
        );
        assert_eq!(terms.for_step(&plan.steps[0]).unusual(), ["network off", "git none", "home shared"]);
        assert_eq!(terms.for_step(&plan.steps[1]).unusual(), ["network on", "git shared", "home shared"]);
        assert!(terms.for_step(&plan.steps[2]).unusual().is_empty());
    }
}
