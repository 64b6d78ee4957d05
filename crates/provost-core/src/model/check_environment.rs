//! The environment of a check: how its programs were found, and which versions they have.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The environment that provides a check's programs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckEnvironment {
    /// Digest of the variables, and of the names, sizes and times of the files in these folders.
    pub sha256: String,
    /// The entries of `PATH`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub path: Vec<String>,
    /// Folders that a check sees besides the system's, for these programs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub folders: Vec<String>,
    /// Variables by which tools are found, such as `VIRTUAL_ENV`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub variables: BTreeMap<String, String>,
    /// The tools that the contract calls: where they are, and their versions.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tools: BTreeMap<String, ToolVersion>,
    /// Digests of the lock files in the tree of the check.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub locks: BTreeMap<String, String>,
}

/// A tool that a check called.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolVersion {
    pub path: String,
    /// First line of what it prints for `--version`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub version: String,
}

impl CheckEnvironment {
    /// Describes the difference to another environment; `None` if they are equal.
    pub fn difference(&self, other: &CheckEnvironment) -> Option<String> {
        if self.sha256 == other.sha256 {
            return None;
        }
        let versions = self.tools.iter().filter_map(|(name, then)| {
            let now = other.tools.get(name).filter(|now| *now != then)?;
            Some(match then.version == now.version {
                true => format!("{name} was {}, and is {}", then.path, now.path),
                false => format!("{name} was {}, and is {}", then.version, now.version),
            })
        });
        let locks = self.locks.iter().filter(|(name, then)| other.locks.get(*name) != Some(then));
        let locks = locks.map(|(name, _)| format!("{name} has other content"));
        let named: Vec<String> = versions.chain(locks).collect();
        let only = |these: &CheckEnvironment, those: &CheckEnvironment| {
            let folders = these.path.iter().filter(|folder| !those.path.contains(folder));
            folders.cloned().collect::<Vec<_>>().join(", ")
        };
        let path = match (only(self, other), only(other, self)) {
            (gone, come) if gone.is_empty() && come.is_empty() && !named.is_empty() => String::new(),
            (gone, come) if gone.is_empty() && come.is_empty() => {
                "programs on `PATH` were changed, or `PATH` has another order".to_owned()
            }
            (gone, come) if come.is_empty() => format!("`PATH` no longer has {gone}"),
            (gone, come) if gone.is_empty() => format!("`PATH` also has {come}"),
            (gone, come) => format!("`PATH` no longer has {gone}, and also has {come}"),
        };
        let all = Some(path).filter(|path| !path.is_empty()).into_iter().chain(named);
        Some(all.collect::<Vec<_>>().join("; "))
    }
}
