//! Decides which policies may approve instead of a person.
//!
//! A policy is text in a workspace that agents can write, so it counts only after a person has trusted its
//! exact words (`provost approve --policy NAME`). The list of trusted digests is in the state folder, each
//! signed with provost's key; an unsigned entry has no effect.
//!
//! **Invariant:** a policy whose text changed has no effect until a person has trusted it again.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use provost_core::language::named_checks;
use provost_core::model::approved_spec;
use provost_core::model::event::Approver;
use provost_core::model::named_check::NamedCheck;
use provost_core::model::plan::{Check, Expectation, Plan, Shell, Spanned};
use provost_core::model::proof::{Envelope, ProofKey, ProofStatement, ProofSubject, PublicKey};
use provost_core::rules::policy::{self, Policy};
use provost_host::config;
use serde_json::json;

use crate::Error;

/// Subject of a signed line of the list.
const POLICY: &str = "policy";

/// Result of asking the policies of the configuration about a plan.
#[derive(Debug, Default)]
pub struct PolicyResult {
    pub approver: Option<Approver>,
    /// Why each other policy did not approve, one line each.
    pub silent: Vec<String>,
}

pub fn hear(
    state: &Path,
    key: Option<&PublicKey>,
    policies: &[(Policy, String)],
    plan: &Plan,
) -> Result<PolicyResult, Error> {
    let text = read(&list(state))?;
    let digests: Vec<String> =
        key.into_iter().flat_map(|key| text.lines().filter_map(|line| trusted(line, key))).collect();
    let mut hearing = PolicyResult::default();
    for (policy, digest) in policies {
        if let Err(why) = policy::covers(policy, plan) {
            hearing.silent.push(format!("policy {} does not cover this plan: {why}", policy.name));
        } else if !digests.contains(digest) {
            hearing.silent.push(format!(
                "policy {} would cover this plan, but nobody has trusted its text yet: \
                 read it, then run `provost approve --policy {}`",
                policy.name, policy.name
            ));
        } else if hearing.approver.is_none() {
            hearing.approver = Some(Approver::Policy {
                name: policy.name.clone(),
                digest: digest.clone(),
                unread: policy.lets_any_command(),
                trusted: Vec::new(),
            });
        }
    }
    Ok(hearing)
}

/// Returns the digests of the plan's checks that a person has trusted by name (`[checks.NAME]`).
pub fn trusted_checks(
    state: &Path,
    key: Option<&PublicKey>,
    catalogue: &BTreeMap<String, NamedCheck>,
    plan: &Plan,
) -> Result<Vec<String>, Error> {
    let Some(key) = key.filter(|_| !catalogue.is_empty()) else { return Ok(Vec::new()) };
    let text = read(&list(state))?;
    let known: Vec<String> = text.lines().filter_map(|line| trusted(line, key)).collect();
    let is_trusted = |shell: &Shell, touches: Option<&[Spanned<String>]>| {
        // A check with other expectations than exit code 0 is not the one that the person trusted.
        let is_plain = shell.expectations.iter().all(|each| each.value == Expectation::ExitIs(0));
        is_plain
            && catalogue.iter().any(|(name, check)| {
                check.command.trim() == shell.command.trim()
                    && named_checks::covers(check, touches)
                    && known.contains(&config::check_digest(name, check).to_string())
            })
    };
    let of_plan = plan.touches.as_deref();
    let of_steps = plan.steps.iter().flat_map(|step| {
        let touches = step.touches.as_deref().or(of_plan);
        [(&step.precondition, touches), (&step.contract, touches)]
    });
    let all = of_steps.chain(plan.postconditions.iter().map(|post| (&post.contract, of_plan)));
    let mut trusted: BTreeMap<String, bool> = BTreeMap::new();
    for (contract, touches) in all {
        if let Some(Check::Shell(shell)) = contract.as_ref().map(|contract| &contract.check) {
            let is_trusted = is_trusted(shell, touches);
            // Two steps can have the same check and different `touches`.
            *trusted.entry(approved_spec::check_digest(shell).to_string()).or_insert(true) &= is_trusted;
        }
    }
    Ok(trusted.into_iter().filter(|(_, is_trusted)| *is_trusted).map(|(digest, _)| digest).collect())
}

/// Returns whether a person has trusted a text with this digest.
pub fn trusts(state: &Path, key: &PublicKey, digest: &str) -> Result<bool, Error> {
    Ok(read(&list(state))?.lines().filter_map(|line| trusted(line, key)).any(|known| known == digest))
}

/// Records that a person trusts the text with this digest.
pub fn trust(state: &Path, key: &ProofKey, digest: &str) -> Result<(), Error> {
    let path = list(state);
    let statement = ProofStatement::new(vec![ProofSubject::new(POLICY, digest)], json!({ POLICY: digest }));
    let line = serde_json::to_value(key.seal(&statement)).unwrap_or_default();
    let io = |what| {
        let path = path.clone();
        move |source| Error::Io { what, path, source }
    };
    let mut file = fs::OpenOptions::new().create(true).append(true).open(&path).map_err(io("open"))?;
    writeln!(file, "{line}").map_err(io("write"))?;
    file.sync_all().map_err(io("write"))
}

/// Returns the digest that a line of the list trusts, if this key signed it.
pub fn trusted(line: &str, key: &PublicKey) -> Option<String> {
    let statement = key.open(&Envelope::read(line).ok()?).ok()?;
    statement.predicate[POLICY].as_str().map(str::to_owned)
}

pub fn list(state: &Path) -> PathBuf {
    state.join("trusted-policies")
}

fn read(path: &Path) -> Result<String, Error> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(text),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(String::new()),
        Err(source) => Err(Error::Io { what: "read", path: path.to_owned(), source }),
    }
}
