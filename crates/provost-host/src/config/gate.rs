//! Reads `[gate]`: how many people approve, and which plans a policy may approve.
//!
//! **Invariant:** no configuration approves every plan. A policy limits where a plan may write, and at
//! least one other property.

use std::collections::BTreeMap;
use std::time::Duration;

use provost_core::model::chain;
use provost_core::model::hash::Hash;
use provost_core::model::run_policy::Quorum;
use provost_core::rules::policy::{self, Policy};

use super::reading::{Section, Wrong};
use super::{Config, YEAR};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GateConfig {
    /// Number of approvals needed, and who counts as an approver.
    pub quorum: Quorum,
    /// provost repeats a notification about an item that waits longer than this, and logs the item as
    /// overdue.
    pub remind_after: Option<Duration>,
    pub policies: BTreeMap<String, Policy>,
}

const GATE_KEYS: &[&str] = &["approvals", "self_approval", "policies_count", "remind_after", "policies"];

/// Reads `[checks.NAME]`: commands that plans may use as checks after a person has trusted them.
pub(super) fn catalogue(top: &Section<'_, '_>) -> Result<BTreeMap<String, String>, Wrong> {
    let mut checks = BTreeMap::new();
    for (name, section) in top.named("checks")? {
        section.only(&["command"])?;
        let command = section.string("command")?.filter(|command| !command.trim().is_empty());
        let command =
            command.ok_or_else(|| section.wrong_here(format!("[checks.{name}] has no `command`")))?;
        checks.insert(name, command);
    }
    Ok(checks)
}

/// Returns the digest under which the trust in a check is recorded.
pub fn check_digest(name: &str, command: &str) -> Hash {
    let canonical = chain::sorted(serde_json::json!({ "check": name, "command": command }));
    Hash::of(canonical.to_string().as_bytes())
}

pub(super) fn read(top: &Section<'_, '_>, catalogue: &BTreeMap<String, String>) -> Result<GateConfig, Wrong> {
    let default = Config::default().gate;
    let Some(section) = top.section("gate", GATE_KEYS)? else {
        return Ok(default);
    };
    let quorum = Quorum {
        approvals: section.integer("approvals", 1..=100)?.unwrap_or(1) as u32,
        self_approval: section.boolean("self_approval")?.unwrap_or(true),
        policies_count: section.boolean("policies_count")?.unwrap_or(false),
    };
    let policies =
        section.named("policies")?.map(|(name, each)| Ok((name.clone(), policy(name, &each, catalogue)?)));
    let remind_after = section.duration("remind_after", YEAR)?;
    Ok(GateConfig { quorum, remind_after, policies: policies.collect::<Result<_, _>>()? })
}

const POLICY_KEYS: &[&str] = &[
    "owner",
    "touches",
    "max_usd",
    "max_tokens",
    "max_minutes",
    "targets",
    "checks",
    "commands",
    "network",
    "secrets",
];

fn policy(
    name: String,
    section: &Section<'_, '_>,
    catalogue: &BTreeMap<String, String>,
) -> Result<Policy, Wrong> {
    section.only(POLICY_KEYS)?;
    let mut commands = section.strings("commands")?.unwrap_or_default();
    for check in section.strings("checks")?.unwrap_or_default() {
        match catalogue.get(&check) {
            Some(command) => commands.push(command.clone()),
            None => {
                let known: Vec<&str> = catalogue.keys().map(String::as_str).collect();
                let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
                let message = format!("no section [checks.{check}]; known checks: {known}");
                return Err(section.wrong("checks", message));
            }
        }
    }
    let policy = Policy {
        owner: section.strings("owner")?.unwrap_or_default(),
        touches: section.strings("touches")?.unwrap_or_default(),
        max_micro_usd: section.micro_usd("max_usd")?,
        max_tokens: section.integer("max_tokens", 1..=1_000_000_000_000)?,
        max_wall: section
            .integer("max_minutes", 1..=7 * 24 * 60)?
            .map(|minutes| Duration::from_secs(minutes * 60)),
        targets: section.strings("targets")?.unwrap_or_default(),
        commands,
        network: section.boolean("network")?.unwrap_or(false),
        secrets: section.boolean("secrets")?.unwrap_or(false),
        name,
    };
    if policy.touches.is_empty() {
        return Err(section.wrong_here(format!(
            "policy `{}` does not limit `touches`: name folders such as [\"docs/**\"]",
            policy.name
        )));
    }
    if let Some(glob) = policy.touches.iter().find(|glob| !policy::bounds(glob)) {
        let message = format!("`{glob}` limits nothing: name a folder of the workspace, such as \"docs/**\"");
        return Err(section.wrong("touches", message));
    }
    let limited = policy.max_micro_usd.is_some() || policy.max_tokens.is_some() || policy.max_wall.is_some();
    if policy.commands.is_empty() && policy.owner.is_empty() && policy.targets.is_empty() && !limited {
        let message = format!(
            "policy `{}` limits only `touches`: add the `commands` or `checks` that it allows",
            policy.name
        );
        return Err(section.wrong_here(message));
    }
    Ok(policy)
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
