//! Reads `[verify.provision]`: the dependencies that provost installs for checks from lock files, before
//! any agent runs.

use std::collections::BTreeMap;
use std::path::{Component, Path};
use std::time::Duration;

use super::WEEK;
use super::reading::{Section, Wrong};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Provision {
    /// Known kinds of lock files are provisioned without a section.
    pub auto: bool,
    pub timeout: Duration,
    pub supplies: BTreeMap<String, Supply>,
}

impl Default for Provision {
    fn default() -> Self {
        Self { auto: true, timeout: Duration::from_secs(600), supplies: BTreeMap::new() }
    }
}

/// One section: a known name changes its defaults, any other name defines a new command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Supply {
    pub command: Option<String>,
    /// The lock files; empty means the default.
    pub lock: Vec<String>,
    /// A folder of the tree; `None` means outside of the tree.
    pub into: Option<String>,
    pub env: BTreeMap<String, String>,
    pub scripts: bool,
}

/// The known names; see [`provision`](crate::check::provision).
pub const KNOWN: [&str; 5] = ["cargo", "npm", "uv", "pip", "go"];

const OWN_KEYS: [&str; 2] = ["auto", "timeout"];
const SUPPLY_KEYS: [&str; 5] = ["command", "lock", "into", "env", "scripts"];

pub(super) fn read(verify: &Section<'_, '_>) -> Result<Provision, Wrong> {
    let default = Provision::default();
    let Some(section) = verify.open_section("provision")? else { return Ok(default) };
    let mut supplies = BTreeMap::new();
    for (name, each) in section.tables(&OWN_KEYS)? {
        let supply = supply(&name, &each)?;
        supplies.insert(name, supply);
    }
    Ok(Provision {
        auto: section.boolean("auto")?.unwrap_or(default.auto),
        timeout: section.duration("timeout", WEEK)?.unwrap_or(default.timeout),
        supplies,
    })
}

fn supply(name: &str, section: &Section<'_, '_>) -> Result<Supply, Wrong> {
    section.only(&SUPPLY_KEYS)?;
    let is_plain = |path: &str| {
        !path.is_empty() && Path::new(path).components().all(|part| matches!(part, Component::Normal(_)))
    };
    let is_name = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
    if !is_name {
        return Err(section.wrong_here(format!("`{name}` is not a name; use letters, digits, `-` and `_`")));
    }
    let lock = section.strings("lock")?.unwrap_or_default();
    if let Some(path) = lock.iter().find(|path| !is_plain(path)) {
        return Err(section.wrong("lock", format!("`{path}` is not a file inside the workspace")));
    }
    let into = section.string("into")?;
    if let Some(path) = into.as_deref().filter(|path| !is_plain(path) || path.starts_with(".git")) {
        return Err(section.wrong("into", format!("`{path}` is not a folder inside the workspace")));
    }
    let scripts = section.boolean("scripts")?;
    if scripts.is_some() && (name != "npm" || section.has("command")) {
        return Err(
            section.wrong("scripts", "`scripts` works only with the built-in command of `npm`".to_owned())
        );
    }
    let is_known = KNOWN.contains(&name);
    if let Some(key) = ["command", "lock"].into_iter().find(|key| !is_known && !section.has(key)) {
        return Err(section.missing(key));
    }
    Ok(Supply {
        command: section.has("command").then(|| section.required("command")).transpose()?,
        lock,
        into,
        env: section.texts("env")?,
        scripts: scripts.unwrap_or(false),
    })
}
