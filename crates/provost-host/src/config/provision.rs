//! Reads `[verify.provision]`: the dependencies that provost installs for checks from lock files, before
//! any agent runs.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, Visitor};

use super::folders::is_inside;
use super::reading::{at, missing};
use super::values::{WEEK, time};

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

/// The keys of `[verify.provision.NAME]`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a section beside `auto`, `timeout`")]
struct SupplyKeys {
    command: Option<String>,
    lock: Option<Vec<String>>,
    into: Option<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    scripts: Option<bool>,
}

/// Written by hand, because people's own sections are beside the keys, and serde's `flatten` would lose the
/// positions of errors.
impl<'de> Visitor<'de> for Provision {
    type Value = Provision;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a section")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<Provision, A::Error> {
        #[derive(Deserialize)]
        struct Timeout(#[serde(deserialize_with = "time::<_, _, WEEK>")] Duration);

        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "auto" => self.auto = map.next_value()?,
                "timeout" => Timeout(self.timeout) = map.next_value()?,
                name => {
                    let supply =
                        supply(name, map.next_value()?).map_err(|wrong| Error::custom(at(name, wrong)))?;
                    self.supplies.insert(key, supply);
                }
            }
        }
        Ok(self)
    }
}

impl<'de> Deserialize<'de> for Provision {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(Provision::default())
    }
}

fn supply(name: &str, keys: SupplyKeys) -> Result<Supply, String> {
    if !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte)) {
        return Err(format!("`{name}` is not a name; use letters, digits, `-` and `_`"));
    }
    if let Some(path) = keys.lock.iter().flatten().find(|path| !is_inside(path)) {
        return Err(at("lock", format!("`{path}` is not a file inside the workspace")));
    }
    if let Some(path) = keys.into.as_deref().filter(|path| !is_inside(path) || path.starts_with(".git")) {
        return Err(at("into", format!("`{path}` is not a folder inside the workspace")));
    }
    if keys.scripts.is_some() && (name != "npm" || keys.command.is_some()) {
        return Err(at("scripts", "`scripts` works only with the built-in command of `npm`"));
    }
    let is_known = KNOWN.contains(&name);
    if keys.command.as_ref().map_or(!is_known, String::is_empty) {
        return Err(missing("command"));
    }
    if !is_known && keys.lock.is_none() {
        return Err(missing("lock"));
    }
    Ok(Supply {
        command: keys.command,
        lock: keys.lock.unwrap_or_default(),
        into: keys.into,
        env: keys.env,
        scripts: keys.scripts.unwrap_or(false),
    })
}
