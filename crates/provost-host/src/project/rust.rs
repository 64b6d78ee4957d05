//! Rust: cargo, for one package or a workspace.

use super::listing::FileListing;
use super::{CheckCandidates, Project, TEST};

pub(super) fn project(files: &FileListing) -> Project {
    let manifest = files.top("Cargo.toml");
    let is_workspace = manifest.contains("[workspace]");
    let all = if is_workspace { " --workspace" } else { "" };
    let mut checks = vec![
        CheckCandidates::new(TEST, [format!("cargo test{all}")]),
        CheckCandidates::one("format", "cargo fmt --all --check"),
    ];
    // clippy compiles everything again, so it is tried only if the project uses it.
    if files.has("clippy.toml") || manifest.contains("lints.clippy]") || files.ci_runs("cargo clippy") {
        let command = format!("cargo clippy{all} --all-targets -- --deny warnings");
        checks.push(CheckCandidates::new("lint", [command]));
    }
    let lock = files.has("Cargo.lock").then(|| "Cargo.lock".to_owned());
    let package = package(files, &manifest);
    let mut sources = files.folder_globs(&["src", "crates"]);
    if sources.is_empty() {
        sources.extend(package.iter().map(|folder| format!("{folder}src/**")));
    }
    Project {
        manager: Some("cargo"),
        manifest: Some("Cargo.toml".to_owned()),
        manifests: std::iter::once("Cargo.toml".to_owned()).chain(lock).collect(),
        checks,
        build: Some("cargo build --release".to_owned()),
        sources,
        tests: package.iter().map(|folder| format!("{folder}tests/**")).collect(),
        has_tests: files.any_contains(|path| path.ends_with(".rs"), "#[test]"),
        first_test: package.and_then(|folder| files.free(|word| format!("{folder}tests/{word}.rs"))),
        ..Project::default()
    }
}

/// Returns the folder of a package: the top, or the first member that is a library.
fn package(files: &FileListing, manifest: &str) -> Option<String> {
    if manifest.contains("[package]") {
        return Some(String::new());
    }
    let libraries = files.paths.iter().filter_map(|path| path.strip_suffix("src/lib.rs"));
    let mut members = libraries.filter(|folder| files.has(&format!("{folder}Cargo.toml")));
    members.next().map(str::to_owned)
}
