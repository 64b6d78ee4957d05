//! What tests have from package registries: installed once, beside what this test binary is built into.
//!
//! Where a registry cannot be reached, a test says so in one line and proves nothing.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Runs the installer once; `Err` says why there is nothing.
pub fn installed(name: &str, proof: &str, install: impl Fn(&Path) -> Command) -> Result<PathBuf, String> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    // Tests run side by side, and so do test binaries.
    let lock = File::create(folder.join("lock")).map_err(|error| error.to_string())?;
    lock.lock().map_err(|error| error.to_string())?;
    if folder.join(proof).exists() {
        return Ok(folder);
    }
    let output = install(&folder).output().map_err(|error| error.to_string())?;
    if output.status.success() && folder.join(proof).exists() {
        return Ok(folder);
    }
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    Err(words.lines().last().unwrap_or("it was not installed").to_owned())
}

/// Packages of the npm registry, by name and version.
pub fn npm(name: &str, proof: &str, packages: &[&str]) -> Option<PathBuf> {
    let found = installed(name, proof, |folder| {
        let mut npm = Command::new("npm");
        npm.args(["install", "--silent", "--no-audit", "--no-fund", "--prefix"]).arg(folder).args(packages);
        npm
    });
    match found {
        Ok(folder) => Some(folder),
        Err(why) => {
            let reached = Command::new("npm").args(["ping", "--silent"]).output();
            assert!(!reached.is_ok_and(|ping| ping.status.success()), "{packages:?}: {why}");
            skipped(&format!("npm's {}", packages.join(" and ")), &why);
            None
        }
    }
}

pub fn skipped(what: &str, why: &str) {
    eprintln!("skipped: {what} cannot be had from the registry here: {why}");
}
