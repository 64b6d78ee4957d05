//! Reads `[verify]`: the isolation of checks, and what takes part in them.

use std::path::Path;
use std::time::Duration;

use provost_core::model::verdict::Isolation;

use super::folders::{self, Folders};
use super::provision::{self, Provision};
use super::reading::{Section, Wrong};
use super::{Config, WEEK};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verify {
    pub isolation: Demand,
    /// A contract has to fail before the work is done.
    pub require_red: bool,
    /// Processes of a check may trace each other.
    pub trace: bool,
    /// Untracked folders that take part in checks with the content from before any agent ran; relative to
    /// the workspace.
    pub caches: Vec<String>,
    /// provost keeps the build results of a check for the next check.
    pub build_caches: bool,
    pub provision: Provision,
    pub contract_timeout: Duration,
    /// Largest file that takes part in a check, in bytes.
    pub max_file: u64,
    /// Paths outside of the workspace that checks may use.
    pub folders: Folders,
    /// Names of secrets that a step may request for its checks.
    pub secrets: Vec<String>,
}

/// The isolation that checks need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Demand {
    /// The strongest level that this machine attests.
    Auto,
    /// This level, or provost runs nothing.
    Exactly(Isolation),
}

pub(super) fn read(top: &Section<'_, '_>) -> Result<Verify, Wrong> {
    let default = Config::default().verify;
    let keys = &[
        "isolation",
        "require_red",
        "caches",
        "build_caches",
        "provision",
        "contract_timeout",
        "max_file",
        "trace",
        "read",
        "write",
        "secrets",
    ];
    let Some(section) = top.section("verify", keys)? else { return Ok(default) };
    Ok(Verify {
        isolation: isolation(&section)?,
        require_red: section.boolean("require_red")?.unwrap_or(default.require_red),
        trace: section.boolean("trace")?.unwrap_or(default.trace),
        caches: caches(&section)?.unwrap_or(default.caches),
        build_caches: section.boolean("build_caches")?.unwrap_or(default.build_caches),
        provision: provision::read(&section)?,
        contract_timeout: section.duration("contract_timeout", WEEK)?.unwrap_or(default.contract_timeout),
        max_file: section.bytes("max_file", 1)?.unwrap_or(default.max_file),
        folders: folders::read(&section)?,
        secrets: secrets(&section)?,
    })
}

fn isolation(section: &Section<'_, '_>) -> Result<Demand, Wrong> {
    let Some(word) = section.string("isolation")? else { return Ok(Demand::Auto) };
    let levels = [Isolation::Clean, Isolation::GuardClean, Isolation::Landlock, Isolation::InPlace];
    if word == "auto" {
        return Ok(Demand::Auto);
    }
    if word == "none" {
        let message = "`none` cannot be configured; it is a flag of a single run".to_owned();
        return Err(section.wrong("isolation", message));
    }
    if word == "uid" {
        let message = "the level `uid` was removed; use `landlock`, or `clean` with bubblewrap".to_owned();
        return Err(section.wrong("isolation", message));
    }
    levels.into_iter().find(|level| level.to_string() == word).map(Demand::Exactly).ok_or_else(|| {
        let known = ["auto", "clean", "guard+clean", "landlock", "in-place"];
        section.wrong_value("isolation", &format!("there is no isolation `{word}`"), &known)
    })
}

fn secrets(section: &Section<'_, '_>) -> Result<Vec<String>, Wrong> {
    let names = section.strings("secrets")?.unwrap_or_default();
    let is_name = |name: &String| {
        !name.is_empty()
            && !name.starts_with(|c: char| c.is_ascii_digit())
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    match names.iter().find(|name| !is_name(name)) {
        // The message does not repeat the value, which may be the secret itself.
        Some(_) => {
            let message = "`secrets` lists names of environment variables such \
                 as \"GH_TOKEN\", never values";
            Err(section.wrong("secrets", message.to_owned()))
        }
        None => Ok(names),
    }
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
