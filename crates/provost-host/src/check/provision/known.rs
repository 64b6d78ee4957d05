//! The kinds of lock files that are provisioned by default.
//!
//! A lock file without external packages starts no command.

use std::path::PathBuf;

use crate::config;

use super::{Supply, View};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PackageManager {
    Cargo,
    Npm,
    Uv,
    Pip,
    Go,
}

const PIP: &str = "python3 -m venv --system-site-packages .venv && .venv/bin/python -m pip install \
                   --disable-pip-version-check --no-input --requirement requirements.txt";

impl PackageManager {
    pub(super) const ALL: [Self; 5] = [Self::Cargo, Self::Npm, Self::Uv, Self::Pip, Self::Go];

    pub(super) fn name(self) -> &'static str {
        match self {
            PackageManager::Cargo => "cargo",
            PackageManager::Npm => "npm",
            PackageManager::Uv => "uv",
            PackageManager::Pip => "pip",
            PackageManager::Go => "go",
        }
    }

    pub(super) fn program(self) -> &'static str {
        match self {
            PackageManager::Pip => "python3",
            kind => kind.name(),
        }
    }

    fn locks(self) -> &'static [&'static str] {
        match self {
            PackageManager::Cargo => &["Cargo.lock"],
            PackageManager::Npm => &["package-lock.json", "npm-shrinkwrap.json"],
            PackageManager::Uv => &["uv.lock"],
            PackageManager::Pip => &["requirements.txt"],
            PackageManager::Go => &["go.sum"],
        }
    }

    fn also(self) -> &'static [&'static str] {
        match self {
            PackageManager::Cargo => {
                &[".cargo/config.toml", ".cargo/config", "rust-toolchain.toml", "rust-toolchain"]
            }
            PackageManager::Npm => &["package.json", ".npmrc"],
            PackageManager::Uv => &["pyproject.toml", ".python-version"],
            PackageManager::Pip => &["constraints.txt", ".python-version"],
            PackageManager::Go => &["go.mod", "go.work", "go.work.sum"],
        }
    }

    fn command(self) -> &'static str {
        match self {
            PackageManager::Cargo => "cargo fetch --locked",
            // Packages' scripts are third-party code, so they run only if the configuration asks for them.
            PackageManager::Npm => "npm ci --ignore-scripts --no-audit --no-fund --prefer-offline",
            PackageManager::Uv => "uv sync --frozen",
            PackageManager::Pip => PIP,
            PackageManager::Go => "go mod download",
        }
    }

    fn into(self) -> Option<&'static str> {
        match self {
            PackageManager::Npm => Some("node_modules"),
            PackageManager::Uv | PackageManager::Pip => Some(".venv"),
            PackageManager::Cargo | PackageManager::Go => None,
        }
    }

    fn env(self) -> &'static [(&'static str, &'static str)] {
        match self {
            PackageManager::Cargo => &[("CARGO_HOME", "{into}")],
            PackageManager::Npm => &[],
            PackageManager::Uv => {
                &[("VIRTUAL_ENV", "{into}"), ("UV_LINK_MODE", "copy"), ("UV_PYTHON_DOWNLOADS", "never")]
            }
            PackageManager::Pip => &[("VIRTUAL_ENV", "{into}")],
            // Read-only folders could not be removed later.
            PackageManager::Go => {
                &[("GOMODCACHE", "{into}"), ("GOFLAGS", "-modcacherw"), ("GOTOOLCHAIN", "local")]
            }
        }
    }

    fn offline(self) -> &'static [(&'static str, &'static str)] {
        match self {
            PackageManager::Cargo => &[("CARGO_NET_OFFLINE", "true")],
            PackageManager::Npm => &[("npm_config_offline", "true")],
            PackageManager::Uv => &[("UV_OFFLINE", "1"), ("UV_NO_SYNC", "1"), ("UV_FROZEN", "1")],
            PackageManager::Pip => &[("PIP_NO_INDEX", "1")],
            PackageManager::Go => &[("GOPROXY", "off")],
        }
    }

    pub(super) fn supply(self, own: Option<&config::Supply>) -> Supply {
        let text = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
            pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
        };
        let mut supply = Supply {
            name: self.name().to_owned(),
            locks: self.locks().iter().map(|name| (*name).to_owned()).collect(),
            also: self.also(),
            command: self.command().to_owned(),
            into: self.into().map(PathBuf::from),
            env: text(self.env()),
            offline: self.offline(),
            kind: Some(self),
        };
        let Some(own) = own else { return supply };
        if let Some(command) = &own.command {
            // With its own command, the built-in rules of this kind do not apply.
            (supply.command, supply.kind) = (command.clone(), None);
        } else if own.scripts {
            supply.command = supply.command.replace(" --ignore-scripts", "");
        }
        if !own.lock.is_empty() {
            supply.locks = own.lock.clone();
        }
        if let Some(into) = &own.into {
            supply.into = Some(PathBuf::from(into));
        }
        for (name, value) in &own.env {
            supply.env.retain(|(known, _)| known != name);
            supply.env.push((name.clone(), value.clone()));
        }
        supply
    }

    /// Returns whether this lock file names anything outside of the tree; `true` if it cannot be parsed.
    pub(super) fn asks(self, lock: &[u8]) -> bool {
        let text = String::from_utf8_lossy(lock);
        let has_line = |is_asking: fn(&str) -> bool| text.lines().map(str::trim).any(is_asking);
        match self {
            PackageManager::Cargo => has_line(|line| line.starts_with("source = ")),
            PackageManager::Npm => match serde_json::from_slice::<serde_json::Value>(lock) {
                Ok(lock) => ["packages", "dependencies"].iter().any(|part| {
                    let part = lock.get(part).and_then(serde_json::Value::as_object);
                    part.is_some_and(|part| part.keys().any(|name| !name.is_empty()))
                }),
                Err(_) => true,
            },
            PackageManager::Uv => has_line(|line| line == "[[package]]"),
            PackageManager::Pip => has_line(|line| !line.is_empty() && !line.starts_with('#')),
            PackageManager::Go => has_line(|line| !line.is_empty()),
        }
    }

    /// Returns whether the tree contains the packages already.
    pub(super) fn is_served(self, view: &View<'_>) -> bool {
        let is_vendored = |name: &&str| {
            let text = view.read(name).unwrap_or_default();
            let text = String::from_utf8_lossy(&text);
            text.contains("replace-with") && text.contains("directory")
        };
        match self {
            PackageManager::Cargo => [".cargo/config.toml", ".cargo/config"].iter().any(is_vendored),
            PackageManager::Go => view.read("vendor/modules.txt").is_some(),
            PackageManager::Npm | PackageManager::Uv | PackageManager::Pip => false,
        }
    }
}

/// Returns the part of an error message that says what the user can do.
pub(super) fn what_to_do(name: &str) -> String {
    let way = match name {
        "cargo" => "vendor the crates (`cargo vendor`), or run `cargo fetch` once with a network",
        "npm" => "install the packages into node_modules before the plan is approved",
        "uv" | "pip" => "install the packages into .venv before the plan is approved",
        "go" => "vendor the modules (`go mod vendor`)",
        _ => "try its command by hand",
    };
    format!(
        "{way}, or write `[verify.provision.{name}] command`, or turn it off: `[verify.provision] auto = false`"
    )
}

#[cfg(test)]
mod tests {
    use super::PackageManager;

    #[test]
    fn a_lock_file_asks_for_something_or_for_nothing() {
        for (kind, lock, asks) in [
            (PackageManager::Cargo, "[[package]]\nname = \"own\"\n", false),
            (PackageManager::Cargo, "[[package]]\nname = \"x\"\nsource = \"registry+x\"\n", true),
            (PackageManager::Npm, r#"{"packages":{"":{"name":"own"}}}"#, false),
            (PackageManager::Npm, r#"{"packages":{"":{},"node_modules/x":{}}}"#, true),
            (PackageManager::Npm, r#"{"lockfileVersion":1,"dependencies":{"x":{}}}"#, true),
            (PackageManager::Npm, "no json", true),
            (PackageManager::Uv, "version = 1\n", false),
            (PackageManager::Uv, "version = 1\n[[package]]\nname = \"x\"\n", true),
            (PackageManager::Pip, "# nothing\n\n", false),
            (PackageManager::Pip, "-r others.txt\n", true),
            (PackageManager::Go, "", false),
            (PackageManager::Go, "example.com/x v1.0.0 h1:x=\n", true),
        ] {
            assert_eq!(kind.asks(lock.as_bytes()), asks, "{kind:?} {lock}");
        }
    }
}
