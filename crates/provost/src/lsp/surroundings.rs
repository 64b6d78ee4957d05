//! Opens the plan of a document, to read: its configuration, its folder and its log.
//!
//! **Invariant:** nothing here writes, takes a lease or waits for one.

use std::path::{Path, PathBuf};

use provost_core::state::run::Run;
use provost_engine::plan::harness::Harness;
use provost_engine::plan::plan_registry::Here;
use provost_engine::settings::Access;

use super::documents::Document;
use crate::failure::Failure;
use crate::open_plan::Global;

#[derive(Clone)]
pub(super) struct Surroundings {
    pub global: Global,
    /// The folders that the editor has open.
    pub roots: Vec<PathBuf>,
}

impl Surroundings {
    /// Opens the plan of a document. `None` if the document is no file yet.
    pub(super) fn open(&self, document: &Document) -> Option<Result<Harness, Failure>> {
        let path = document.path.as_deref().filter(|path| path.is_file())?;
        Some(self.open_file(path))
    }

    fn open_file(&self, path: &Path) -> Result<Harness, Failure> {
        let global = Global { dir: Some(self.folder(path)), ..self.global.clone() };
        let settings = global.settings_without_signals(Some(&path.to_string_lossy()))?;
        Ok(Harness::open(settings, Access::Read)?)
    }

    /// Returns the folder from which a person would name the plan: its own in a repository, else the one
    /// that the editor has open.
    pub(super) fn folder(&self, path: &Path) -> PathBuf {
        let own = path.parent().unwrap_or(Path::new("/"));
        if Here::of(own).is_repository() {
            return own.to_owned();
        }
        let open = self.roots.iter().filter(|root| path.starts_with(root));
        open.max_by_key(|root| root.as_os_str().len()).cloned().unwrap_or_else(|| own.to_owned())
    }

    /// Returns the state of the plan by its log. `None` if the log has nothing of it, or cannot be read.
    pub(super) fn run(&self, document: &Document) -> Option<Run> {
        let run = self.open(document)?.ok()?.run().ok()?;
        (run.exists() && run.forged_from.is_none()).then_some(run)
    }
}
