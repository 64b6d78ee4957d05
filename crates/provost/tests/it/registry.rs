//! Packages from registries for tests: installed once, next to this test binary.
//!
//! If a registry is not reachable, the test is counted as skipped. If it is reachable and the package is
//! missing, the test fails.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use provost_rehearsal::skip;

/// Runs the installer once; `Err` has the reason if it fails.
pub(crate) fn installed(
    name: &str,
    proof: &str,
    install: impl Fn(&Path) -> Command,
) -> Result<PathBuf, String> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    // Tests and test binaries run in parallel.
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

/// Installs packages of the npm registry, by name and version.
pub(crate) fn npm(name: &str, proof: &str, packages: &[&str]) -> Option<PathBuf> {
    let found = installed(name, proof, |folder| {
        let mut npm = Command::new("npm");
        npm.args(["install", "--silent", "--no-audit", "--no-fund", "--prefix"]).arg(folder).args(packages);
        npm
    });
    match found {
        Ok(folder) => Some(folder),
        Err(why) => {
            npm_package(&packages.join(" and "), &why);
            None
        }
    }
}

/// Handles a missing npm package: skips the test if the registry is not reachable, and fails otherwise.
#[track_caller]
pub(crate) fn npm_package(name: &str, why: &str) {
    match Command::new("npm").args(["ping", "--silent"]).output() {
        Err(_) => skip::tool("npm", "apt-get install nodejs npm"),
        Ok(ping) if ping.status.success() => panic!("npm's registry can be reached, but {name}: {why}"),
        Ok(_) => skip::registry(&format!("npm's {name}"), why),
    }
}

/// Handles a missing Python package in the same way.
#[track_caller]
pub(crate) fn python_package(name: &str, why: &str) {
    match reaches_pypi() {
        None => skip::tool("pip", "apt-get install python3-pip"),
        Some(true) => panic!("PyPI can be reached, but {name}: {why}"),
        Some(false) => skip::registry(&format!("Python's {name}"), why),
    }
}

/// Returns whether pip can fetch a small package; `None` without Python or pip.
pub(crate) fn reaches_pypi() -> Option<bool> {
    let folder = tempfile::tempdir().expect("a folder");
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--retries", "1"]);
    let fetched = pip.args(["--no-deps", "--dest"]).arg(folder.path()).arg("six").output().ok()?;
    let has_pip = !String::from_utf8_lossy(&fetched.stderr).contains("No module named pip");
    has_pip.then(|| fetched.status.success())
}
