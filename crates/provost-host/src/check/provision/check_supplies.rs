//! The supplies of one check, and the programs that they put on its `PATH`.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::InstalledSupply;
use crate::check::judge::SuppliedTools;
use crate::check::project_tools;

/// The supplies of one check.
#[derive(Debug, Default)]
pub struct CheckSupplies {
    pub ready: Vec<Arc<InstalledSupply>>,
    /// Descriptions of the supplies that were installed because the agent changed a lock file.
    pub again: Vec<String>,
    /// The same supplies, each with the one of the approved base that it replaces.
    pub(super) replaced: Vec<(Arc<InstalledSupply>, Option<Arc<InstalledSupply>>)>,
}

impl CheckSupplies {
    /// Returns the installed environments with programs, for `PATH`. An environment that only a lock file of
    /// the agent asks for is in the tree, but not on `PATH`.
    pub fn supplied(&self) -> Vec<SuppliedTools> {
        let in_tree = self.ready.iter().filter_map(|ready| Some((ready.in_tree()?, &ready.folder)));
        let is_new =
            |folder: &Path| self.replaced.iter().any(|(new, old)| new.folder == folder && old.is_none());
        let found = in_tree.filter(|(_, folder)| project_tools::is_installed(folder) && !is_new(folder));
        let programs = |(into, folder): (&Path, &PathBuf)| SuppliedTools {
            is_python: !into.ends_with("node_modules"),
            programs: project_tools::programs_of(into),
            kept: folder.join(project_tools::programs_of(into).file_name().unwrap_or_default()),
        };
        found.map(programs).collect()
    }

    /// Returns the programs that a changed lock file brings and the approved one did not.
    pub fn new_programs(&self) -> Vec<OsString> {
        let names = |folder: &Path| -> Vec<OsString> {
            let places = [folder.join("bin"), folder.join(".bin")];
            let entries = places.iter().filter_map(|place| fs::read_dir(place).ok()).flatten().flatten();
            entries.map(|entry| entry.file_name()).collect()
        };
        let mut new = Vec::new();
        for (supply, approved) in &self.replaced {
            let known = approved.as_ref().map(|approved| names(&approved.folder)).unwrap_or_default();
            new.extend(names(&supply.folder).into_iter().filter(|name| !known.contains(name)));
        }
        new
    }
}
