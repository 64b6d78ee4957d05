//! Reads `[gate]`: how many people approve, and which plans a policy may approve.
//!
//! **Invariant:** no configuration approves every plan. A policy limits where a plan may write, and at
//! least one other property.

use std::collections::BTreeMap;
use std::time::Duration;

use provost_core::language::globs::containment;
use provost_core::model::chain;
use provost_core::model::hash::Hash;
use provost_core::model::named_check::NamedCheck;
use provost_core::model::run_policy::Quorum;
use provost_core::rules::policy::Policy;
use serde::{Deserialize, Deserializer};

use super::reading::{at, missing};
use super::values::{YEAR, each, integer, micro_usd, named, time};

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(from = "GateKeys")]
pub struct GateConfig {
    /// Number of approvals needed, and who counts as an approver.
    pub quorum: Quorum,
    /// provost repeats a notification about an item that waits longer than this, and logs the item as
    /// overdue.
    pub remind_after: Option<Duration>,
    pub policies: BTreeMap<String, Policy>,
    /// `checks` of policies by name; empty after [`resolve`](Self::resolve).
    unresolved: BTreeMap<String, Vec<String>>,
}

impl Default for GateConfig {
    fn default() -> Self {
        GateKeys::default().into()
    }
}

/// The keys of `[gate]`.
#[derive(Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a section")]
struct GateKeys {
    #[serde(deserialize_with = "integer::<_, u32, _, 1, 100>")]
    approvals: u32,
    self_approval: bool,
    policies_count: bool,
    #[serde(deserialize_with = "time::<_, _, YEAR>")]
    remind_after: Option<Duration>,
    #[serde(deserialize_with = "named")]
    policies: BTreeMap<String, PolicyWithChecks>,
}

impl Default for GateKeys {
    fn default() -> Self {
        let Quorum { approvals, self_approval, policies_count } = Quorum::default();
        Self { approvals, self_approval, policies_count, remind_after: None, policies: BTreeMap::new() }
    }
}

impl From<GateKeys> for GateConfig {
    fn from(keys: GateKeys) -> Self {
        let GateKeys { approvals, self_approval, policies_count, remind_after, policies } = keys;
        let (mut all, mut checks) = (BTreeMap::new(), BTreeMap::new());
        for (name, policy) in policies {
            checks.insert(name.clone(), policy.checks);
            all.insert(name.clone(), Policy { name, ..policy.policy });
        }
        let quorum = Quorum { approvals, self_approval, policies_count };
        Self { quorum, remind_after, policies: all, unresolved: checks }
    }
}

impl GateConfig {
    /// Adds the commands of the `checks` that policies name.
    pub(super) fn resolve(&mut self, catalogue: &BTreeMap<String, NamedCheck>) -> Result<(), String> {
        for (name, checks) in std::mem::take(&mut self.unresolved) {
            for check in checks {
                let Some(known) = catalogue.get(&check) else {
                    let known: Vec<&str> = catalogue.keys().map(String::as_str).collect();
                    let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
                    let message = format!("no section [checks.{check}]; known checks: {known}");
                    return Err(at("gate", at("policies", at(&name, at("checks", message)))));
                };
                if let Some(policy) = self.policies.get_mut(&name) {
                    policy.commands.push(known.command.clone());
                }
            }
        }
        Ok(())
    }
}

/// Reads `[checks.NAME]`: commands that plans may use as checks after a person has trusted them.
pub(super) fn catalogue<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<BTreeMap<String, NamedCheck>, D::Error> {
    #[derive(Deserialize)]
    #[serde(try_from = "CheckKeys")]
    struct Read(NamedCheck);
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields, expecting = "a section")]
    struct CheckKeys {
        #[serde(alias = "command")]
        run: String,
        #[serde(default, deserialize_with = "touches")]
        touches: Vec<String>,
        #[serde(default)]
        needs: Vec<String>,
    }
    impl TryFrom<CheckKeys> for Read {
        type Error = String;
        fn try_from(CheckKeys { run, touches, needs }: CheckKeys) -> Result<Self, String> {
            match run.trim().is_empty() {
                true => Err(missing("run")),
                false => Ok(Self(NamedCheck { command: run, touches, needs })),
            }
        }
    }
    let checks: Vec<(String, Read)> = named(from)?;
    Ok(checks.into_iter().map(|(name, Read(check))| (name, check)).collect())
}

/// Returns the digest under which the trust in a check is recorded.
pub fn check_digest(name: &str, check: &NamedCheck) -> Hash {
    let mut text = serde_json::json!({ "check": name, "command": check.command });
    if !check.touches.is_empty() {
        text["touches"] = serde_json::json!(check.touches);
    }
    Hash::of(chain::sorted(text).to_string().as_bytes())
}

/// The keys of `[gate.policies.NAME]`.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a section")]
struct PolicyKeys {
    owner: Vec<String>,
    #[serde(deserialize_with = "touches")]
    touches: Vec<String>,
    #[serde(deserialize_with = "micro_usd")]
    max_usd: Option<u64>,
    #[serde(deserialize_with = "integer::<_, u64, _, 1, 1_000_000_000_000>")]
    max_tokens: Option<u64>,
    #[serde(deserialize_with = "integer::<_, u64, _, 1, { 7 * 24 * 60 }>")]
    max_minutes: Option<u64>,
    targets: Vec<String>,
    checks: Vec<String>,
    commands: Vec<String>,
    network: bool,
    secrets: bool,
}

fn touches<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    each(from, |glob: String| match containment::bounds(&glob) {
        true => Ok(glob),
        false => Err(format!("`{glob}` limits nothing: name a folder of the workspace, such as \"docs/**\"")),
    })
}

/// A policy whose `checks` are not yet resolved to commands.
#[derive(Deserialize)]
#[serde(try_from = "PolicyKeys")]
struct PolicyWithChecks {
    policy: Policy,
    checks: Vec<String>,
}

impl TryFrom<PolicyKeys> for PolicyWithChecks {
    type Error = &'static str;

    fn try_from(keys: PolicyKeys) -> Result<Self, Self::Error> {
        if keys.touches.is_empty() {
            return Err("policy `{key}` does not limit `touches`: name folders such as [\"docs/**\"]");
        }
        let lists = [&keys.commands, &keys.checks, &keys.owner, &keys.targets];
        let limits = [keys.max_usd, keys.max_tokens, keys.max_minutes];
        if lists.iter().all(|list| list.is_empty()) && limits.iter().all(Option::is_none) {
            return Err(
                "policy `{key}` limits only `touches`: add the `commands` or `checks` that it allows",
            );
        }
        let policy = Policy {
            name: String::new(),
            owner: keys.owner,
            touches: keys.touches,
            max_micro_usd: keys.max_usd,
            max_tokens: keys.max_tokens,
            max_wall: keys.max_minutes.map(|minutes| Duration::from_secs(minutes * 60)),
            targets: keys.targets,
            commands: keys.commands,
            network: keys.network,
            secrets: keys.secrets,
        };
        Ok(Self { policy, checks: keys.checks })
    }
}

/// Returns the digest under which an approval by this policy is recorded: SHA-256 of its canonical JSON.
pub fn digest(policy: &Policy) -> Hash {
    let canonical = chain::sorted(serde_json::json!({
        "name": policy.name,
        "owner": policy.owner,
        "touches": policy.touches,
        "max_micro_usd": policy.max_micro_usd,
        "max_tokens": policy.max_tokens,
        "max_wall_ms": policy.max_wall.map(|wall| u64::try_from(wall.as_millis()).unwrap_or(u64::MAX)),
        "targets": policy.targets,
        "commands": policy.commands,
        "network": policy.network,
        "secrets": policy.secrets,
    }));
    Hash::of(canonical.to_string().as_bytes())
}
