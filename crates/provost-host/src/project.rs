//! Finds out what kind of project a repository holds: language, package manager, commands, tests and CI.
//!
//! **Invariant:** nothing of the repository is run here; its files are only read.

mod go;
mod listing;
mod node;
mod python;
mod rust;

use std::collections::BTreeMap;
use std::path::Path;

use listing::FileListing;

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

    fn is_in(self, files: &FileListing) -> bool {
        match self {
            Language::Rust => files.has("Cargo.toml"),
            Language::Go => files.has("go.mod"),
            Language::Python => python::is_here(files),
            Language::Node => files.has("package.json"),
        }
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
    /// Other languages with a manifest here.
    pub others: Vec<Language>,
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

    /// Returns what the defaults of templates can name.
    pub fn facts(&self) -> BTreeMap<String, String> {
        let globs = |globs: &[String], usual: &str| match globs {
            [] => Some(usual.to_owned()),
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

/// Looks at the repository; `wanted` chooses among several languages.
pub fn look(workspace: &Path, wanted: Option<Language>) -> Project {
    let files = FileListing::of(workspace);
    let mut found: Vec<Language> =
        Language::ALL.into_iter().filter(|language| language.is_in(&files)).collect();
    let language = wanted.or(found.first().copied());
    found.retain(|other| Some(*other) != language);
    let project = match language {
        Some(Language::Rust) => rust::project(&files),
        Some(Language::Go) => go::project(&files),
        Some(Language::Python) => python::project(&files),
        Some(Language::Node) => node::project(&files),
        None => Project { checks: files.make_test().into_iter().collect(), ..Project::default() },
    };
    let ci = files.ci.iter().map(|(path, _)| path.clone()).collect();
    Project { language, others: found, ci, ..project }
}

#[cfg(test)]
mod tests;
