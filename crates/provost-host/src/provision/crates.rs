//! Crates out of the user's own cache, for a machine without a network and because it is quicker.
//!
//! The user's home is open to agents, so nothing there is believed: a crate counts by the checksum in the
//! approved `Cargo.lock`, and of the index nothing is used. The crates become a directory source, which
//! says about each what its own manifest says.
//!
//! **Invariant:** files are copied, never linked, and only those whose bytes have the locked checksum.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use provost_core::model::hash::Hash;
use serde::Deserialize;

/// No crate is larger than its registry lets it be.
const CRATE_MAX: u64 = 256 << 20;

/// In the fence: makes `vendor` in the home of cargo out of the crates, and lets cargo have its say.
pub const UNPACK: &str = r#"
set -e
mkdir "$CARGO_HOME/vendor"
for crate in "$PROVISION_CRATES"/*.crate; do
    name=${crate##*/}
    tar --no-same-owner -xzf "$crate" -C "$CARGO_HOME/vendor"
    rm -rf "$CARGO_HOME/vendor/${name%.crate}/.cargo-checksum.json"
    cp "${crate%.crate}.json" "$CARGO_HOME/vendor/${name%.crate}/.cargo-checksum.json"
done
exec cargo fetch --locked --offline
"#;

#[derive(Deserialize)]
struct Lock {
    #[serde(default)]
    package: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    version: String,
    source: Option<String>,
    checksum: Option<String>,
}

/// Copies all that the lock file asks for into `to`; false if the cache does not have it all. `home` is
/// what the home of cargo will be called, and gets the configuration that names the crates.
pub fn gather(lock: &[u8], to: &Path, home: &Path) -> io::Result<bool> {
    let Some(cache) = users_cache() else { return Ok(false) };
    let Ok(lock) = toml::from_slice::<Lock>(lock) else { return Ok(false) };
    fs::create_dir(to)?;
    let mut registries = BTreeSet::new();
    for package in &lock.package {
        let Some(source) = &package.source else { continue };
        let (Some(registry), Some(checksum)) =
            (source.strip_prefix("registry+").or_else(|| source.strip_prefix("sparse+")), &package.checksum)
        else {
            return Ok(false);
        };
        registries.insert((source.starts_with("sparse+"), registry));
        let Some(bytes) = find(&cache, package, checksum) else { return Ok(false) };
        let name = format!("{}-{}", package.name, package.version);
        fs::write(to.join(format!("{name}.crate")), bytes)?;
        let known = serde_json::json!({ "files": {}, "package": checksum });
        fs::write(to.join(format!("{name}.json")), known.to_string())?;
    }
    let mut text = String::new();
    for (number, (is_sparse, registry)) in registries.into_iter().enumerate() {
        let _ = match registry {
            "https://github.com/rust-lang/crates.io-index" => writeln!(text, "[source.crates-io]"),
            _ => {
                let address = format!("{}{registry}", if is_sparse { "sparse+" } else { "" });
                writeln!(text, "[source.locked-{number}]\nregistry = {}", toml::Value::from(address))
            }
        };
        let _ = writeln!(text, "replace-with = \"provisioned\"");
    }
    // A path in a configuration counts from the folder around the one it lies in.
    let folder = home.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let _ =
        writeln!(text, "[source.provisioned]\ndirectory = {}", toml::Value::from(format!("{folder}/vendor")));
    fs::write(home.join("config.toml"), text)?;
    Ok(true)
}

fn users_cache() -> Option<PathBuf> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")))?;
    Some(home.join("registry/cache"))
}

/// The bytes of a crate, if some registry's cache has them as they are locked.
fn find(cache: &Path, package: &Package, checksum: &str) -> Option<Vec<u8>> {
    let is_plain = |text: &str| {
        !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.+".contains(&byte))
    };
    if !is_plain(&package.name) || !is_plain(&package.version) {
        return None;
    }
    let name = format!("{}-{}.crate", package.name, package.version);
    fs::read_dir(cache).ok()?.flatten().find_map(|registry| {
        let path = registry.path().join(&name);
        let found = fs::symlink_metadata(&path).ok().filter(|found| found.is_file())?;
        let bytes = (found.len() <= CRATE_MAX).then(|| fs::read(&path).ok())??;
        (Hash::of(&bytes).to_string() == checksum.to_ascii_lowercase()).then_some(bytes)
    })
}
