//! Takes crates from the user's own cache, because that is faster and works without a network.
//!
//! Agents can write the user's home, so nothing there is trusted: a crate is used only if it has the
//! checksum of the approved `Cargo.lock`, and the index is not used. The crates become a directory source,
//! which takes all metadata from each crate's own manifest.
//!
//! **Invariant:** files are copied, never linked, and only those whose bytes have the locked checksum.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use provost_core::model::hash::Hash;
use serde::Deserialize;

/// Largest crate file that is read, in bytes.
const CRATE_MAX: u64 = 256 << 20;

/// Script for the sandbox: unpacks the crates to `vendor` in cargo's home, and lets cargo verify the
/// result.
pub(super) const UNPACK: &str = r#"
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

/// Copies all crates of the lock file into `to`; returns `false` if the cache lacks one. `home` becomes
/// cargo's home and gets the configuration that names the crates.
pub(super) fn gather(lock: &[u8], to: &Path, home: &Path) -> io::Result<bool> {
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
    // A path in a configuration is relative to the parent of the folder that contains the file.
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

/// Returns the bytes of a crate, if a registry's cache has them with the locked checksum.
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
