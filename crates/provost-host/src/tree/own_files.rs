//! Recognises provost's own files in a workspace: plans, progress, configuration and the marker.
//!
//! provost writes them while a plan runs. They are not part of an agent's work: every judged tree has them
//! as in the base, and a commit contains them only if a person asks for it.

use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use super::touches::{Touches, is_at_or_beneath};
use crate::plans::plan_file::{FOLDER, name};

/// The set of provost's own paths.
#[derive(Debug, Default)]
pub struct OwnFiles {
    /// The files of this plan, relative to the workspace.
    files: Vec<Vec<u8>>,
}

impl OwnFiles {
    pub fn of(workspace: &Path, files: &[PathBuf]) -> Self {
        let within =
            |path: &PathBuf| Some(path.strip_prefix(workspace).ok()?.as_os_str().as_bytes().to_vec());
        Self { files: files.iter().filter_map(within).filter(|path| !path.is_empty()).collect() }
    }

    /// Returns whether the path is one of this plan's files, or has a name like one.
    pub fn has(&self, path: &[u8]) -> bool {
        self.is_of_the_plan(path) || is_called_like_one(path)
    }

    /// Returns whether the path is left out of what a plan with these globs may change. A file of another
    /// plan is allowed by a glob that is exactly its path.
    pub fn leaves_out(&self, path: &[u8], touches: &Touches) -> bool {
        self.is_of_the_plan(path) || is_called_like_one(path) && !touches.spells_out(path)
    }

    fn is_of_the_plan(&self, path: &[u8]) -> bool {
        self.files.iter().any(|file| file == path)
    }
}

fn is_called_like_one(path: &[u8]) -> bool {
    if is_at_or_beneath(path, FOLDER.as_bytes()) {
        return true;
    }
    let Ok(path) = std::str::from_utf8(path) else { return false };
    let progress = || path.strip_prefix("progress-")?.strip_suffix(".md").filter(|slug| name::is_slug(slug));
    matches!(path, name::UNNAMED | "progress.md" | "provost.toml")
        || name::named_slug(path).is_some()
        || progress().is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_progress_configuration_and_the_marker_are_the_harnesss_own() {
        let own = OwnFiles::of(Path::new("/w"), &["/w/plans/mine.md".into(), "/elsewhere/x".into()]);
        for (path, is_own) in [
            ("PLAN.md", true),
            ("PLAN-auth.md", true),
            ("progress.md", true),
            ("progress-auth.md", true),
            ("provost.toml", true),
            (".harness", true),
            (".harness/active-plan", true),
            ("plans/mine.md", true),
            ("plans/other.md", false),
            ("docs/PLAN.md", false),
            ("docs/progress.md", false),
            ("PLAN-Of-The-House.md", false),
            (".harness2", false),
            ("x", false),
        ] {
            assert_eq!(own.has(path.as_bytes()), is_own, "{path}");
        }
    }

    #[test]
    fn a_glob_that_is_the_path_lets_another_plans_file_in() {
        let own = OwnFiles::of(Path::new("/w"), &["/w/PLAN.md".into()]);
        let touches = Touches::new(&["**", "PLAN-next.md", "PLAN.md", ".harness/PLAN-x.md"]).unwrap();
        for (path, is_out) in [
            ("PLAN.md", true),
            ("PLAN-next.md", false),
            ("PLAN-other.md", true),
            (".harness", false),
            (".harness/PLAN-x.md", false),
            (".harness/active-plan", true),
            ("provost.toml", true),
        ] {
            assert_eq!(own.leaves_out(path.as_bytes(), &touches), is_out, "{path}");
        }
    }
}
