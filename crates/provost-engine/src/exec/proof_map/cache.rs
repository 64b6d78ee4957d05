//! Keeps the runs of proof maps in the state folder: one file for each judged tree, contract, level and
//! environment, with the runs of each hunk by its digest.
//!
//! **Invariant:** only runs with a result are kept.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use provost_core::model::hash::Hash;
use provost_core::model::plan::Shell;
use provost_core::model::proof_map::{VariantResult, VariantRun};
use provost_core::model::verdict::Isolation;
use provost_host::files;

use super::FOLDER;

/// Name of the file if the environment of the check is not known.
const NO_ENVIRONMENT: &str = "unknown";

/// Judged tree, contract and level.
pub(super) struct MapKey(String);

impl MapKey {
    pub(super) fn of(tree: &str, shell: &Shell, level: Isolation) -> Self {
        let expectations = shell.expectations.iter().map(|each| each.value.to_string());
        let mut parts = vec!["provost proof map 1".to_owned(), tree.to_owned(), level.to_string()];
        parts.push(shell.command.clone());
        parts.extend(expectations);
        let text: String = parts.iter().map(|part| format!("{} {part}\n", part.len())).collect();
        Self(Hash::of(text.as_bytes()).to_string())
    }
}

/// The known runs of one map.
#[derive(Debug)]
pub(super) struct MapCache {
    folder: PathBuf,
    file: PathBuf,
    hunks: BTreeMap<String, Vec<VariantRun>>,
}

impl MapCache {
    /// Opens the runs that were made in this environment.
    pub(super) fn open(state: &Path, key: &MapKey, environment: Option<&str>) -> Self {
        let folder = state.join(FOLDER).join(&key.0);
        let file = folder.join(format!("{}.json", environment.unwrap_or(NO_ENVIRONMENT)));
        let hunks = read(&file);
        Self { folder, file, hunks }
    }

    /// Opens them for reading; if there are none, those of the last other environment.
    pub(super) fn known(state: &Path, key: &MapKey, environment: Option<&str>) -> Self {
        let own = Self::open(state, key, environment);
        if !own.is_empty() {
            return own;
        }
        let files = fs::read_dir(&own.folder).into_iter().flatten().flatten();
        let newest = files.filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path())));
        match newest.max() {
            Some((_, file)) => Self { hunks: read(&file), file, ..own },
            None => own,
        }
    }

    /// Goes on with the runs of another environment.
    pub(super) fn moved(self, environment: Option<&str>) -> Self {
        let file = self.folder.join(format!("{}.json", environment.unwrap_or(NO_ENVIRONMENT)));
        Self { hunks: read(&file), file, ..self }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.hunks.is_empty()
    }

    pub(super) fn runs(&self, digest: &str) -> Vec<VariantRun> {
        self.hunks.get(digest).cloned().unwrap_or_default()
    }

    /// Keeps the runs of a hunk. A cache that cannot be written costs only time.
    pub(super) fn keep(&mut self, digest: &str, runs: &[VariantRun]) {
        let with_result = runs.iter().filter(|run| run.result != VariantResult::NoResult).cloned();
        // Another process may have added hunks meanwhile.
        let mut all = read(&self.file);
        all.append(&mut self.hunks);
        all.insert(digest.to_owned(), with_result.collect());
        self.hunks = all;
        let written = files::make_private_folder(&self.folder).is_ok();
        if let (true, Ok(text)) = (written, serde_json::to_vec(&self.hunks)) {
            let _ = files::write_whole(&self.file, &text);
        }
    }
}

fn read(file: &Path) -> BTreeMap<String, Vec<VariantRun>> {
    fs::read(file).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default()
}
