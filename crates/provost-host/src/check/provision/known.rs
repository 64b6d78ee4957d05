//! The kinds of lock files that are provisioned by default.
//!
//! A lock file without external packages starts no command.

use std::path::PathBuf;

use crate::config;

use super::{Supply, View};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Cargo,
    Npm,
    Uv,
    Pip,
    Go,
}

const PIP: &str = "python3 -m venv .venv && .venv/bin/python -m pip install \
                   --disable-pip-version-check --no-input --requirement requirements.txt";

impl Kind {
    pub const ALL: [Self; 5] = [Self::Cargo, Self::Npm, Self::Uv, Self::Pip, Self::Go];

    pub fn name(self) -> &'static str {
        match self {
            Kind::Cargo => "cargo",
            Kind::Npm => "npm",
            Kind::Uv => "uv",
            Kind::Pip => "pip",
            Kind::Go => "go",
        }
    }

    pub fn program(self) -> &'static str {
        match self {
            Kind::Pip => "python3",
            kind => kind.name(),
        }
    }

    fn locks(self) -> &'static [&'static str] {
        match self {
            Kind::Cargo => &["Cargo.lock"],
            Kind::Npm => &["package-lock.json", "npm-shrinkwrap.json"],
            Kind::Uv => &["uv.lock"],
            Kind::Pip => &["requirements.txt"],
            Kind::Go => &["go.sum"],
        }
    }

    fn also(self) -> &'static [&'static str] {
        match self {
            Kind::Cargo => &[".cargo/config.toml", ".cargo/config", "rust-toolchain.toml", "rust-toolchain"],
            Kind::Npm => &["package.json", ".npmrc"],
            Kind::Uv => &["pyproject.toml", ".python-version"],
            Kind::Pip => &["constraints.txt", ".python-version"],
            Kind::Go => &["go.mod", "go.work", "go.work.sum"],
        }
    }

    fn command(self) -> &'static str {
        match self {
            Kind::Cargo => "cargo fetch --locked",
            // Packages' scripts are third-party code, so they run only if the configuration asks for them.
            Kind::Npm => "npm ci --ignore-scripts --no-audit --no-fund --prefer-offline",
            Kind::Uv => "uv sync --frozen",
            Kind::Pip => PIP,
            Kind::Go => "go mod download",
        }
    }

    fn into(self) -> Option<&'static str> {
        match self {
            Kind::Npm => Some("node_modules"),
            Kind::Uv | Kind::Pip => Some(".venv"),
            Kind::Cargo | Kind::Go => None,
        }
    }

    fn env(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Kind::Cargo => &[("CARGO_HOME", "{into}")],
            Kind::Npm => &[],
            Kind::Uv => {
                &[("VIRTUAL_ENV", "{into}"), ("UV_LINK_MODE", "copy"), ("UV_PYTHON_DOWNLOADS", "never")]
            }
            Kind::Pip => &[("VIRTUAL_ENV", "{into}")],
            // Read-only folders could not be removed later.
            Kind::Go => &[("GOMODCACHE", "{into}"), ("GOFLAGS", "-modcacherw"), ("GOTOOLCHAIN", "local")],
        }
    }

    fn offline(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Kind::Cargo => &[("CARGO_NET_OFFLINE", "true")],
            Kind::Npm => &[("npm_config_offline", "true")],
            Kind::Uv => &[("UV_OFFLINE", "1"), ("UV_NO_SYNC", "1"), ("UV_FROZEN", "1")],
            Kind::Pip => &[("PIP_NO_INDEX", "1")],
            Kind::Go => &[("GOPROXY", "off")],
        }
    }

    pub fn supply(self, own: Option<&config::Supply>) -> Supply {
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
    pub fn asks(self, lock: &[u8]) -> bool {
        let text = String::from_utf8_lossy(lock);
        let has_line = |is_asking: fn(&str) -> bool| text.lines().map(str::trim).any(is_asking);
        match self {
            Kind::Cargo => has_line(|line| line.starts_with("source = ")),
            Kind::Npm => match serde_json::from_slice::<serde_json::Value>(lock) {
                Ok(lock) => ["packages", "dependencies"].iter().any(|part| {
                    let part = lock.get(part).and_then(serde_json::Value::as_object);
                    part.is_some_and(|part| part.keys().any(|name| !name.is_empty()))
                }),
                Err(_) => true,
            },
            Kind::Uv => has_line(|line| line == "[[package]]"),
            Kind::Pip => has_line(|line| !line.is_empty() && !line.starts_with('#')),
            Kind::Go => has_line(|line| !line.is_empty()),
        }
    }

    /// Returns whether the tree contains the packages already.
    pub fn is_served(self, view: &View<'_>) -> bool {
        let is_vendored = |name: &&str| {
            let text = view.read(name).unwrap_or_default();
            let text = String::from_utf8_lossy(&text);
            text.contains("replace-with") && text.contains("directory")
        };
        match self {
            Kind::Cargo => [".cargo/config.toml", ".cargo/config"].iter().any(is_vendored),
            Kind::Go => view.read("vendor/modules.txt").is_some(),
            Kind::Npm | Kind::Uv | Kind::Pip => false,
        }
    }
}

/// Returns the part of an error message that says what the user can do.
pub fn what_to_do(name: &str) -> String {
    let way = match name {
        "cargo" => "vendor the crates (`cargo vendor`), or run `cargo fetch` once where there is a network",
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
    use super::Kind;

    #[test]
    fn a_lock_file_asks_for_something_or_for_nothing() {
        for (kind, lock, asks) in [
            (Kind::Cargo, "[[package]]\nname = \"own\"\n", false),
            (Kind::Cargo, "[[package]]\nname = \"x\"\nsource = \"registry+x\"\n", true),
            (Kind::Npm, r#"{"packages":{"":{"name":"own"}}}"#, false),
            (Kind::Npm, r#"{"packages":{"":{},"node_modules/x":{}}}"#, true),
            (Kind::Npm, r#"{"lockfileVersion":1,"dependencies":{"x":{}}}"#, true),
            (Kind::Npm, "no json", true),
            (Kind::Uv, "version = 1\n", false),
            (Kind::Uv, "version = 1\n[[package]]\nname = \"x\"\n", true),
            (Kind::Pip, "# nothing\n\n", false),
            (Kind::Pip, "-r others.txt\n", true),
            (Kind::Go, "", false),
            (Kind::Go, "example.com/x v1.0.0 h1:x=\n", true),
        ] {
            assert_eq!(kind.asks(lock.as_bytes()), asks, "{kind:?} {lock}");
        }
    }
}
