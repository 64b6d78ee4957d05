//! Which policies may speak for a person.
//!
//! A policy is text in a workspace an agent can write, so it speaks only once a person has trusted its
//! exact words (`provost approve --policy NAME`). The list of trusted digests lies in the state folder.
//!
//! **Invariant:** a policy whose text changed is silent until a person has read it again.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use provost_core::event::Approver;
use provost_core::plan::Plan;
use provost_core::policy::{self, Policy};

use crate::Error;

/// What the policies of the configuration say about a plan.
#[derive(Debug, Default)]
pub struct Hearing {
    pub approver: Option<Approver>,
    /// Why each of the others did not approve, a line each.
    pub silent: Vec<String>,
}

pub fn hear(state: &Path, policies: &[(Policy, String)], plan: &Plan) -> Result<Hearing, Error> {
    let trusted = read(&list(state))?;
    let mut hearing = Hearing::default();
    for (policy, digest) in policies {
        if let Err(why) = policy::covers(policy, plan) {
            hearing.silent.push(format!("policy {} does not cover this plan: {why}", policy.name));
        } else if !trusted.lines().any(|line| line == digest) {
            hearing.silent.push(format!(
                "policy {} would cover this plan, but nobody has trusted its text yet: \
                 read it, then run `provost approve --policy {}`",
                policy.name, policy.name
            ));
        } else if hearing.approver.is_none() {
            hearing.approver = Some(Approver::Policy { name: policy.name.clone(), digest: digest.clone() });
        }
    }
    Ok(hearing)
}

/// A person has read this text.
pub fn trust(state: &Path, digest: &str) -> Result<(), Error> {
    let path = list(state);
    let io = |what| {
        let path = path.clone();
        move |source| Error::Io { what, path, source }
    };
    let mut file = fs::OpenOptions::new().create(true).append(true).open(&path).map_err(io("open"))?;
    writeln!(file, "{digest}").map_err(io("write"))?;
    file.sync_all().map_err(io("write"))
}

fn list(state: &Path) -> PathBuf {
    state.join("trusted-policies")
}

fn read(path: &Path) -> Result<String, Error> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(text),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(String::new()),
        Err(source) => Err(Error::Io { what: "read", path: path.to_owned(), source }),
    }
}
