//! Lists all plans of a repository, and other files in their folders with similar names.

use std::path::{Path, PathBuf};

use super::name::{UNNAMED, conflict_copy, named_slug};
use super::{Error, PlanChoice, PlanPlace, Search};

/// Most entries of a folder that are read.
const MOST: usize = 10_000;

#[derive(Debug, Default)]
pub struct PlanListing {
    /// `PLAN.md` first, then sorted by name. If two files have the same name, both are listed.
    pub plans: Vec<PlanPlace>,
    /// Files with names like a plan's that cannot be used as names: `PLAN-Fix.md`.
    pub unnameable: Vec<PathBuf>,
    pub copies: Vec<ConflictCopy>,
    /// The folder in which plans are created.
    pub folder: PathBuf,
    pub workspace: PathBuf,
}

/// A conflict copy, which a sync tool made of two simultaneous edits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConflictCopy {
    pub path: PathBuf,
    /// The file that it is a copy of.
    pub of: PathBuf,
    /// The tool that uses such names.
    pub by: &'static str,
}

/// Lists everything in the folders in which plans are searched.
pub fn list_in(cwd: &Path, folder: &Path) -> Result<PlanListing, Error> {
    let search = Search::new(cwd, folder)?;
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let mut listing = PlanListing {
        folder: search.home().to_owned(),
        workspace: search.workspace.clone(),
        ..PlanListing::default()
    };
    let mut folders = search.folders();
    // Plans in the current folder are found only by name, unless it is the workspace.
    folders.retain(|folder| *folder != search.cwd || search.cwd == search.workspace);
    for folder in folders {
        let is_shared = Some(&folder) == search.shared.as_ref();
        for name in names(&folder) {
            let path = folder.join(&name);
            let is_there = |name: &str| folder.join(name).is_file();
            if let Some((of, by)) = conflict_copy(&name, &host, is_there) {
                listing.copies.push(ConflictCopy { path, of: folder.join(of), by });
            } else if name == UNNAMED || named_slug(&name).is_some() {
                listing.add(&search, &path, is_shared);
            } else if name.starts_with("PLAN-") && name.ends_with(".md") {
                listing.unnameable.push(path);
            }
        }
    }
    listing
        .plans
        .sort_by(|a, b| (a.name != UNNAMED, &a.name, &a.path).cmp(&(b.name != UNNAMED, &b.name, &b.path)));
    Ok(listing)
}

impl PlanListing {
    fn add(&mut self, search: &Search, path: &Path, is_shared: bool) {
        let Ok(place) = search.place(path, PlanChoice::Name) else { return };
        let is_known = self.plans.iter().any(|other| other.path == place.path);
        // In a worktree, its own plan hides the shared one of the same name.
        let is_hidden = is_shared && self.plans.iter().any(|other| other.name == place.name);
        if !is_known && !is_hidden {
            self.plans.push(place);
        }
    }
}

/// Returns the UTF-8 names in a folder, sorted.
fn names(folder: &Path) -> Vec<String> {
    let entries = folder.read_dir().into_iter().flatten().flatten().take(MOST);
    let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}
