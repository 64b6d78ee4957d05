//! Python: pytest or unittest, and the linters that the project configures.

use super::listing::{FileListing, split};
use super::{CheckCandidates, Project, TEST};

pub(super) const MANIFESTS: [&str; 5] =
    ["pyproject.toml", "setup.py", "setup.cfg", "requirements.txt", "Pipfile"];
const TEST_FOLDERS: [&str; 2] = ["tests", "test"];

pub(super) fn project(files: &FileListing) -> Project {
    let test_files: Vec<&String> = files.paths.iter().filter(|path| is_test(path)).collect();
    let declared = declared(files);
    let lock =
        [("uv.lock", "uv"), ("poetry.lock", "poetry"), ("Pipfile.lock", "pipenv"), ("pdm.lock", "pdm")];
    let lock = lock.into_iter().find(|(name, _)| files.has(name));
    let mut checks = vec![tests(files, &declared, lock.map(|(_, manager)| manager))];
    if declared.contains("[tool.ruff") || files.has("ruff.toml") || files.ci_runs("ruff check") {
        checks.push(module("lint", "ruff", "check ."));
    }
    if declared.contains("[tool.mypy") || files.has("mypy.ini") || files.ci_runs("mypy") {
        checks.push(module("types", "mypy", "."));
    }
    let manifest = files.has("pyproject.toml").then(|| "pyproject.toml".to_owned());
    let manifests = manifest.iter().cloned().chain(lock.map(|(name, _)| name.to_owned())).collect();
    Project {
        manager: Some(lock.map_or("pip", |(_, manager)| manager)),
        manifest,
        manifests,
        checks,
        build: Some("python3 -m build".to_owned()),
        sources: sources(files),
        tests: files.folder_globs(&TEST_FOLDERS),
        has_tests: !test_files.is_empty(),
        first_test: first_test(files, test_files.first().map(|path| split(path).0)),
        ..Project::default()
    }
}

/// Returns whether a folder of tests at the top has tests in Python.
pub(super) fn has_tests(files: &FileListing) -> bool {
    let is_in_folder = |path: &str| TEST_FOLDERS.iter().any(|folder| path.split('/').next() == Some(folder));
    files.paths.iter().any(|path| is_test(path) && is_in_folder(path))
}

fn is_test(path: &str) -> bool {
    let name = split(path).1;
    name.ends_with(".py") && (name.starts_with("test_") || name.ends_with("_test.py"))
}

/// Returns the texts that name dependencies and settings of tools.
fn declared(files: &FileListing) -> String {
    let more = ["requirements-dev.txt", "dev-requirements.txt", "tox.ini", "pytest.ini"];
    MANIFESTS.iter().chain(&more).map(|name| files.top(name)).collect()
}

/// Runs a Python tool by its program or as a module of the project's Python.
fn module(name: &'static str, tool: &str, arguments: &str) -> CheckCandidates {
    CheckCandidates::new(name, [format!("{tool} {arguments}"), format!("python3 -m {tool} {arguments}")])
}

fn tests(files: &FileListing, declared: &str, manager: Option<&str>) -> CheckCandidates {
    let wants_pytest = declared.contains("pytest")
        || files.paths.iter().any(|path| split(path).1 == "conftest.py")
        || files.any_contains(is_test, "import pytest")
        || files.any_contains(is_test, "\ndef test_");
    let mut pytest: Vec<String> = match manager {
        Some("uv") => vec!["uv run pytest -q".to_owned()],
        Some(manager @ ("poetry" | "pipenv" | "pdm")) => vec![format!("{manager} run pytest -q")],
        _ => Vec::new(),
    };
    pytest.extend(["python3 -m pytest -q", "pytest -q"].map(str::to_owned));
    if files.is_there(".venv/bin/python") {
        pytest.push(".venv/bin/python -m pytest -q".to_owned());
    }
    let folder = TEST_FOLDERS
        .into_iter()
        .find(|name| files.paths.iter().any(|path| path.starts_with(&format!("{name}/"))));
    let unittest = match folder {
        Some(folder) if !files.has(&format!("{folder}/__init__.py")) => {
            format!("python3 -m unittest discover -s {folder}")
        }
        _ => "python3 -m unittest discover".to_owned(),
    };
    let has_tests = files.paths.iter().any(|path| is_test(path));
    match wants_pytest || !has_tests {
        true => CheckCandidates::new(TEST, pytest.into_iter().chain([unittest])),
        false => CheckCandidates::new(TEST, std::iter::once(unittest).chain(pytest)),
    }
}

fn sources(files: &FileListing) -> Vec<String> {
    let mut globs = files.folder_globs(&["src"]);
    let packages = files.paths.iter().filter_map(|path| path.strip_suffix("/__init__.py"));
    let is_package = |name: &&str| !name.contains('/') && !TEST_FOLDERS.contains(name) && *name != "src";
    let packages: Vec<&str> = packages.filter(is_package).collect();
    globs.extend(files.folder_globs(&packages));
    globs.extend(files.top_files(".py").into_iter().filter(|path| !is_test(path) && path != "setup.py"));
    globs
}

fn first_test(files: &FileListing, beside: Option<&str>) -> Option<String> {
    let folder = beside.unwrap_or("tests/");
    files.free(|word| format!("{folder}test_{word}.py"))
}
