//! The names that a plan can use: roles, checks, topics, other plans, secrets and files.

use std::path::{Component, Path, PathBuf};

use provost_core::model::plan::Subscription;

use super::documents::Document;
use super::surroundings::Surroundings;

/// Most entries of a folder that are offered.
const MOST: usize = 200;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Names {
    /// `[agents.X]` of the configuration.
    pub roles: Vec<String>,
    /// `[checks.X]` with their commands.
    pub checks: Vec<(String, String)>,
    pub topics: Vec<String>,
    /// Slugs of the other plans in the same folder.
    pub plans: Vec<String>,
    /// Secrets that the configuration gives to checks.
    pub secrets: Vec<String>,
    /// The folder that paths start from.
    pub workspace: Option<PathBuf>,
}

impl Names {
    pub(super) fn find(surroundings: &Surroundings, document: &Document) -> Self {
        let mut names = Self { topics: topics_of(document), ..Self::default() };
        if let Some(Ok(harness)) = surroundings.open(document) {
            let (config, place) = (harness.config(), harness.place());
            names.roles = config.agents.keys().cloned().collect();
            names.checks =
                config.checks.iter().map(|(name, check)| (name.clone(), check.command.clone())).collect();
            names.secrets = config.verify.secrets.to_vec();
            names.topics.extend(stems(&place.dir.join("topics"), ""));
            names.plans = stems(&place.dir, "PLAN-");
            names.plans.retain(|slug| *slug != place.slug);
            names.workspace = Some(place.workspace.clone());
        }
        names.topics.sort();
        names.topics.dedup();
        names
    }

    /// Returns the paths that continue what was typed, folders with a slash.
    pub(super) fn paths(&self, typed: &str) -> Vec<String> {
        let Some(workspace) = &self.workspace else { return Vec::new() };
        let (folder, start) = typed.rsplit_once('/').map_or(("", typed), |(folder, start)| (folder, start));
        let is_inside = !typed.starts_with('/')
            && Path::new(folder).components().all(|part| matches!(part, Component::Normal(_)));
        let found = workspace.join(folder).canonicalize().ok().filter(|found| found.starts_with(workspace));
        let Some(found) = found.filter(|_| is_inside) else { return Vec::new() };
        let entries = std::fs::read_dir(found).into_iter().flatten().flatten();
        let mut paths: Vec<String> = entries
            .filter_map(|entry| {
                let name = entry.file_name().into_string().ok()?;
                let is_shown = name.starts_with(start) && name != ".git";
                let is_shown = is_shown && (!name.starts_with('.') || start.starts_with('.'));
                let slash = if entry.path().is_dir() { "/" } else { "" };
                let before = if folder.is_empty() { String::new() } else { format!("{folder}/") };
                is_shown.then(|| format!("{before}{name}{slash}"))
            })
            .collect();
        paths.sort();
        paths.truncate(MOST);
        paths
    }
}

/// Returns the topics that the plan itself names.
fn topics_of(document: &Document) -> Vec<String> {
    let steps = &document.plan().steps;
    let read = steps.iter().flat_map(|step| &step.subscriptions).filter_map(|each| match &each.value {
        Subscription::Topic(name) => Some(name.clone()),
        Subscription::File(_) => None,
    });
    let written = steps.iter().flat_map(|step| &step.publishes).map(|each| each.value.clone());
    read.chain(written).collect()
}

/// Returns the names of the Markdown files of a folder, without this beginning and the ending.
fn stems(folder: &Path, beginning: &str) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut stems: Vec<String> = names
        .filter_map(|name| Some(name.strip_prefix(beginning)?.strip_suffix(".md")?.to_owned()))
        .collect();
    stems.sort();
    stems.truncate(MOST);
    stems
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_stay_inside_the_workspace() {
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path().canonicalize().unwrap();
        let workspace = top.join("work");
        for made in ["work/src/deep", "work/.git", "outside"] {
            std::fs::create_dir_all(top.join(made)).unwrap();
        }
        for made in ["work/src/ä.rs", "work/.env", "outside/x"] {
            std::fs::write(top.join(made), "").unwrap();
        }
        std::os::unix::fs::symlink(top.join("outside"), workspace.join("link")).unwrap();
        let names = Names { workspace: Some(workspace), ..Names::default() };
        assert_eq!(names.paths(""), ["link/", "src/"]);
        assert_eq!(names.paths("src/"), ["src/deep/", "src/ä.rs"]);
        assert_eq!(names.paths("src/d"), ["src/deep/"]);
        assert_eq!(names.paths("."), [".env"]);
        for outside in ["../", "../outside/", "/", "link/", "none/"] {
            assert!(names.paths(outside).is_empty(), "{outside}");
        }
    }
}
