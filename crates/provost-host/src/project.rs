//! Finds out what kind of project a repository holds: language, package manager, commands, tests and CI.
//!
//! **Invariant:** nothing of the repository is run here; its files are only read.

mod go;
mod listing;
mod node;
pub mod proposals;
mod python;
mod rust;

use std::collections::BTreeMap;
use std::path::Path;

use listing::{FileListing, split};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    Rust,
    Go,
    Python,
    Node,
}

impl Language {
    /// All of them; the first one with a manifest is the language of a project.
    pub const ALL: [Language; 4] = [Language::Rust, Language::Go, Language::Python, Language::Node];

    pub fn word(self) -> &'static str {
        match self {
            Language::Rust => "rust",
            Language::Go => "go",
            Language::Python => "python",
            Language::Node => "node",
        }
    }

    /// The name for people.
    pub fn title(self) -> &'static str {
        match self {
            Language::Rust => "Rust",
            Language::Go => "Go",
            Language::Python => "Python",
            Language::Node => "Node",
        }
    }

    pub fn named(word: &str) -> Option<Language> {
        Self::ALL.into_iter().find(|language| language.word() == word)
    }

    fn manifests(self) -> &'static [&'static str] {
        match self {
            Language::Rust => &["Cargo.toml"],
            Language::Go => &["go.mod"],
            Language::Python => &python::MANIFESTS,
            Language::Node => &["package.json"],
        }
    }

    fn is_in(self, files: &FileListing) -> bool {
        let has_manifest = |language: Language| language.manifests().iter().any(|name| files.has(name));
        // Many Python projects have no manifest.
        let is_plain_python = || {
            !files.top_files(".py").is_empty()
                || python::has_tests(files) && !Language::ALL.into_iter().any(has_manifest)
        };
        has_manifest(self) || self == Language::Python && is_plain_python()
    }
}

/// A check that a project may have, with the commands that may run it, the usual one first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckCandidates {
    pub name: &'static str,
    pub commands: Vec<String>,
}

impl CheckCandidates {
    fn new(name: &'static str, commands: impl IntoIterator<Item = String>) -> Self {
        Self { name, commands: commands.into_iter().collect() }
    }

    fn one(name: &'static str, command: &str) -> Self {
        Self::new(name, [command.to_owned()])
    }
}

/// Name of the check that runs the tests.
pub const TEST: &str = "test";

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Project {
    pub language: Option<Language>,
    /// Folder of the project in its repository, with a slash at the end; empty for the top. All other paths
    /// are relative to the repository, and commands start there.
    pub folder: String,
    /// Other languages with a manifest here.
    pub others: Vec<Language>,
    /// Folders with other projects.
    pub elsewhere: Vec<String>,
    pub manager: Option<&'static str>,
    /// The file that names the version.
    pub manifest: Option<String>,
    /// The manifest and its lock files.
    pub manifests: Vec<String>,
    pub ci: Vec<String>,
    pub checks: Vec<CheckCandidates>,
    pub build: Option<String>,
    /// Globs of the code.
    pub sources: Vec<String>,
    /// Globs of the tests.
    pub tests: Vec<String>,
    pub has_tests: bool,
    /// Path of a test file that does not exist yet and that the test command would run.
    pub first_test: Option<String>,
}

impl Project {
    /// Returns the usual command of the tests.
    pub fn test(&self) -> Option<&str> {
        let tests = self.checks.iter().find(|check| check.name == TEST)?;
        tests.commands.first().map(String::as_str)
    }

    /// Returns the same project for a repository that has it in this folder.
    fn moved_to(mut self, folder: &str) -> Self {
        let inside = |path: &mut String| path.insert_str(0, folder);
        let started_there = |command: &mut String| {
            *command = format!("(cd {} && {command})", folder.trim_end_matches('/'));
        };
        self.checks.iter_mut().flat_map(|check| &mut check.commands).for_each(started_there);
        self.build.iter_mut().for_each(started_there);
        self.manifest.iter_mut().chain(&mut self.first_test).for_each(inside);
        [&mut self.manifests, &mut self.sources, &mut self.tests].into_iter().flatten().for_each(inside);
        self.folder = folder.to_owned();
        self
    }

    /// Returns what the defaults of templates can name.
    pub fn facts(&self) -> BTreeMap<String, String> {
        let globs = |globs: &[String], usual: &str| match globs {
            [] => Some(format!("{}{usual}", self.folder)),
            globs => Some(globs.join(", ")),
        };
        let facts = [
            ("test", self.test().map(str::to_owned)),
            ("build", self.build.clone()),
            ("manifest", self.manifest.clone()),
            ("manifests", (!self.manifests.is_empty()).then(|| self.manifests.join(", "))),
            ("sources", globs(&self.sources, "src/**")),
            ("tests", globs(&self.tests, "tests/**")),
            ("first_test", self.first_test.clone()),
        ];
        facts.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
    }
}

/// Looks at the project that is nearest to `near`, a folder of the repository: the one that contains it, or
/// the one at the top, or the first one in a folder below. `wanted` chooses among several languages.
pub fn look(repository: &Path, near: &Path, wanted: Option<Language>) -> Project {
    let whole = FileListing::of(repository);
    let folders = project_folders(&whole, wanted);
    let folder = folder_of_project(repository, near, &whole, &folders, wanted);
    let mut project = match folder.as_str() {
        "" => in_folder(&whole, wanted),
        folder => in_folder(&FileListing::of(&repository.join(folder)), wanted).moved_to(folder),
    };
    project.ci = whole.ci.iter().map(|(path, _)| path.clone()).collect();
    project.elsewhere = folders.into_iter().filter(|other| *other != folder).collect();
    // A workspace or a package with examples is one project.
    project.elsewhere.retain(|other| !folder.is_empty() && !other.starts_with(&folder));
    project
}

/// Returns the folders below the top that have a manifest, the uppermost first.
fn project_folders(files: &FileListing, wanted: Option<Language>) -> Vec<String> {
    let languages =
        Language::ALL.into_iter().filter(|language| wanted.is_none_or(|wanted| wanted == *language));
    let manifests: Vec<&str> = languages.flat_map(Language::manifests).copied().collect();
    let is_plain =
        |folder: &&str| folder.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._/-".contains(&byte));
    let places = files.paths.iter().map(|path| split(path)).filter(|(_, name)| manifests.contains(name));
    let places = places.map(|(folder, _)| folder).filter(|folder| !folder.is_empty()).filter(is_plain);
    places.fold(Vec::new(), |mut folders, folder| {
        if !folders.iter().any(|known| known == folder) {
            folders.push(folder.to_owned());
        }
        folders
    })
}

fn folder_of_project(
    repository: &Path,
    near: &Path,
    files: &FileListing,
    folders: &[String],
    wanted: Option<Language>,
) -> String {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    let within = real(near).strip_prefix(real(repository)).map(|path| format!("{}/", path.display()));
    let within = within.unwrap_or_default();
    let around = folders.iter().filter(|folder| within.starts_with(folder.as_str()));
    if let Some(nearest) = around.max_by_key(|folder| folder.len()) {
        return nearest.clone();
    }
    let is_at_top = match wanted {
        Some(wanted) => wanted.is_in(files),
        None => Language::ALL.iter().any(|language| language.is_in(files)) || files.make_test().is_some(),
    };
    if is_at_top { String::new() } else { folders.first().cloned().unwrap_or_default() }
}

/// Looks at the project at the top of these files.
fn in_folder(files: &FileListing, wanted: Option<Language>) -> Project {
    let mut found: Vec<Language> =
        Language::ALL.into_iter().filter(|language| language.is_in(files)).collect();
    let language = wanted.or(found.first().copied());
    found.retain(|other| Some(*other) != language);
    let project = match language {
        Some(Language::Rust) => rust::project(files),
        Some(Language::Go) => go::project(files),
        Some(Language::Python) => python::project(files),
        Some(Language::Node) => node::project(files),
        None => Project { checks: files.make_test().into_iter().collect(), ..Project::default() },
    };
    Project { language, others: found, ..project }
}

#[cfg(test)]
mod tests;
