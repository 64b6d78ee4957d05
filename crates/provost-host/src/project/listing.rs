//! The files of a repository, as far as a look at its kind needs them.

use std::path::{Path, PathBuf};

use super::{CheckCandidates, TEST};
use crate::files;

/// Folders that hold no code of the project.
const SKIPPED: [&str; 9] =
    ["node_modules", "target", "vendor", "venv", "dist", "build", "coverage", "__pycache__", "testdata"];
const DEPTH_MAX: usize = 5;
const FILES_MAX: usize = 5_000;
/// Most files that are read in search of a word.
const READ_MAX: usize = 300;
const TEXT_MAX: usize = 256 * 1024;

pub(super) struct FileListing {
    workspace: PathBuf,
    /// Relative paths with `/`, those at the top first, sorted.
    pub(super) paths: Vec<String>,
    /// CI files and their texts.
    pub(super) ci: Vec<(String, String)>,
}

impl FileListing {
    pub(super) fn of(workspace: &Path) -> Self {
        let mut listing = Self { workspace: workspace.to_owned(), paths: Vec::new(), ci: Vec::new() };
        let mut folders = vec![String::new()];
        for _ in 0..DEPTH_MAX {
            let mut below = Vec::new();
            for folder in folders {
                listing.add(&folder, &mut below);
            }
            folders = below;
        }
        listing.ci = listing.find_ci();
        listing
    }

    fn add(&mut self, folder: &str, below: &mut Vec<String>) {
        let Ok(entries) = std::fs::read_dir(self.workspace.join(folder)) else { return };
        let mut found: Vec<(String, bool)> = entries
            .flatten()
            .filter_map(|entry| {
                Some((entry.file_name().into_string().ok()?, entry.file_type().ok()?.is_dir()))
            })
            .collect();
        found.sort();
        for (name, is_folder) in found {
            let is_hidden = name.starts_with('.') && (is_folder || !folder.is_empty());
            if is_hidden || is_folder && SKIPPED.contains(&name.as_str()) || self.paths.len() >= FILES_MAX {
                continue;
            }
            let path = if folder.is_empty() { name } else { format!("{folder}/{name}") };
            if is_folder { below.push(path) } else { self.paths.push(path) }
        }
    }

    fn find_ci(&self) -> Vec<(String, String)> {
        let workflows = std::fs::read_dir(self.workspace.join(".github/workflows")).into_iter().flatten();
        let names = workflows.flatten().filter_map(|entry| entry.file_name().into_string().ok());
        let is_workflow = |name: &String| name.ends_with(".yml") || name.ends_with(".yaml");
        let mut paths: Vec<String> =
            names.filter(is_workflow).map(|name| format!(".github/workflows/{name}")).collect();
        paths.sort();
        let others =
            [".gitlab-ci.yml", ".circleci/config.yml", "azure-pipelines.yml", "Jenkinsfile", ".travis.yml"];
        paths.extend(others.map(str::to_owned));
        paths.into_iter().filter_map(|path| Some((path.clone(), self.text(&path)?))).collect()
    }

    pub(super) fn has(&self, path: &str) -> bool {
        self.paths.iter().any(|known| known == path)
    }

    /// Returns whether a file or folder exists, also one that is not listed.
    pub(super) fn is_there(&self, path: &str) -> bool {
        self.workspace.join(path).exists()
    }

    pub(super) fn text(&self, path: &str) -> Option<String> {
        files::beginning(&self.workspace, &self.workspace.join(path), TEXT_MAX).ok()
    }

    /// Returns the text of a file at the top, or an empty one.
    pub(super) fn top(&self, path: &str) -> String {
        if self.has(path) { self.text(path).unwrap_or_default() } else { String::new() }
    }

    /// Returns whether a file below this condition contains the word.
    pub(super) fn any_contains(&self, is_meant: impl Fn(&str) -> bool, word: &str) -> bool {
        let mut meant = self.paths.iter().filter(|path| is_meant(path)).take(READ_MAX);
        meant.any(|path| self.text(path).is_some_and(|text| text.contains(word)))
    }

    /// Returns whether CI runs a command that contains this.
    pub(super) fn ci_runs(&self, word: &str) -> bool {
        self.ci.iter().any(|(_, text)| text.contains(word))
    }

    /// Returns the folders of these that exist, as globs for a plan.
    pub(super) fn folder_globs(&self, names: &[&str]) -> Vec<String> {
        let exists = |name: &&&str| self.paths.iter().any(|path| path.starts_with(&format!("{name}/")));
        names.iter().filter(exists).map(|name| format!("{name}/**")).collect()
    }

    /// Returns files at the top with this ending whose names a plan can list.
    pub(super) fn top_files(&self, ending: &str) -> Vec<String> {
        let is_plain = |path: &&String| {
            path.ends_with(ending)
                && path.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
        };
        self.paths.iter().filter(is_plain).take(8).cloned().collect()
    }

    /// Returns the first of these paths that does not exist.
    pub(super) fn free(&self, name: impl Fn(&str) -> String) -> Option<String> {
        let words = ["first", "second", "third", "fourth", "fifth"];
        let is_plain = |path: &String| {
            path.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._/@+-".contains(&byte))
        };
        words.into_iter().map(name).find(|path| !self.is_there(path)).filter(is_plain)
    }

    /// Returns the target `test` of a Makefile or justfile.
    pub(super) fn make_test(&self) -> Option<CheckCandidates> {
        let has_target = |file: &str| self.top(file).lines().any(|line| line.starts_with("test:"));
        let known = [("Makefile", "make test"), ("makefile", "make test"), ("justfile", "just test")];
        let (_, command) = known.into_iter().find(|(file, _)| has_target(file))?;
        Some(CheckCandidates::one(TEST, command))
    }
}

/// Splits a path into its folder, with a slash at the end, and its name.
pub(super) fn split(path: &str) -> (&str, &str) {
    path.rfind('/').map_or(("", path), |at| path.split_at(at + 1))
}
