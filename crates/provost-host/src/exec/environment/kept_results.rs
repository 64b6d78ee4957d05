//! Keeps what checks said, so that the same check is not run twice on the same tree: verdicts of checks without
//! the work, for a later run or another plan, and the results of single tests, for comparisons.
//!
//! They are kept by everything that a check can see: its command, the tree, the repository, its programs, its
//! limits, the level and the version of provost. The libraries of its programs are compared when a result is read,
//! because it takes long to find them: no check waits for that if nothing is kept.
//!
//! **Invariant:** a result of an earlier process decides only if the check saw nothing else (no network, secrets
//! or other folders), and if no agent so far could write the state folder.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::PoisonError;
use std::time::{Duration, SystemTime};

use provost_core::model::hash::Hash;
use provost_core::model::test_results::TestResults;
use provost_core::model::verdict::{CheckOutcome, Verdict};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::check_request::{CheckSpec, Comparison};
use super::{ApprovedTree, ExecEnv};
use crate::check::negative_control::ControlRun;
use crate::tree::Layer;

/// How long a verdict counts: a person may edit an installed library in place, which nothing else shows.
const RECENT: Duration = Duration::from_secs(600);
/// Most files of one kind that are kept.
const FILES_MAX: usize = 200;

/// A result, and the libraries that the check could use.
#[derive(Serialize, Deserialize)]
struct Kept<T> {
    libraries: String,
    result: T,
}

impl ExecEnv {
    /// Returns the file with the verdict of the same check on the same tree, if it is one without the work whose
    /// verdict may be kept.
    pub(super) fn verdict_file(
        &self,
        approved: &ApprovedTree,
        case: &CheckSpec<'_>,
        layer: &Layer,
    ) -> Option<PathBuf> {
        let is_plain = matches!(case.compare, Comparison::Nothing) && !case.doubts.bite;
        let is_kept = !case.with_work && is_plain && self.believes_disk(approved) && sees_tree_only(case);
        is_kept.then(|| self.kept_file("checks", approved, case, layer))
    }

    /// Keeps the results of a check, for comparisons with later ones.
    pub(super) fn keep_results(
        &self,
        approved: &ApprovedTree,
        case: &CheckSpec<'_>,
        layer: &Layer,
        observed: &ControlRun,
        begun: SystemTime,
    ) {
        let Some(results) = &observed.report.results else { return };
        let path = self.kept_file("tests", approved, case, layer);
        self.test_results
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(path.clone(), results.clone());
        // A name may contain a secret that the check has.
        if case.given.secrets.is_empty() {
            self.keep(&path, results, begun);
        }
    }

    /// Returns a verdict that was kept a short time ago.
    pub(super) fn recent_verdict(&self, file: &Path) -> Option<Verdict> {
        let age = fs::metadata(file).ok()?.modified().ok()?.elapsed().ok()?;
        if age < RECENT { self.read_kept(file) } else { None }
    }

    /// Keeps the verdict of a check that came to an end. `begun` is the time at which it began.
    pub(super) fn keep_verdict(&self, file: &Path, verdict: &Verdict, begun: SystemTime) {
        if matches!(verdict.outcome, CheckOutcome::Held | CheckOutcome::Broke { .. }) {
            self.keep(file, verdict, begun);
        }
    }

    /// If this fails, the check is run again next time.
    fn keep(&self, path: &Path, result: &impl Serialize, begun: SystemTime) {
        let libraries = self.tools.libraries();
        // They are found while the check runs, so they may not be those that it saw.
        if libraries.may_have_changed_since(begun) {
            return;
        }
        let Some(folder) = path.parent() else { return };
        let libraries = libraries.digest.to_string();
        let Ok(text) = serde_json::to_vec(&Kept { libraries, result }) else { return };
        let next = path.with_extension(std::process::id().to_string());
        let _ = crate::files::make_private_folder(folder);
        if fs::write(&next, text).and_then(|()| fs::rename(&next, path)).is_err() {
            let _ = fs::remove_file(&next);
        }
        forget_oldest(folder);
    }

    /// Returns what was kept if the libraries are still the same.
    fn read_kept<T: DeserializeOwned>(&self, path: &Path) -> Option<T> {
        let kept: Kept<T> = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
        (kept.libraries == self.tools.libraries().digest.to_string()).then_some(kept.result)
    }

    /// Returns the results of a check on a tree, if they are known. Those of an earlier process may always be
    /// shown; they decide only if nothing else can have changed them.
    pub(super) fn kept_results(
        &self,
        approved: &ApprovedTree,
        case: &CheckSpec<'_>,
        layer: &Layer,
    ) -> Option<TestResults> {
        let path = self.kept_file("tests", approved, case, layer);
        let known = self.test_results.lock().unwrap_or_else(PoisonError::into_inner).get(&path).cloned();
        let decides = case.shell.expects_tests();
        let from_disk = match decides {
            true => self.believes_disk(approved) && sees_tree_only(case),
            false => self.level.has_fence(),
        };
        known.or_else(|| from_disk.then(|| self.read_kept(&path)).flatten())
    }

    /// Returns whether no agent can have written what earlier processes kept.
    fn believes_disk(&self, approved: &ApprovedTree) -> bool {
        self.level.has_fence() && approved.trees.has_trusted_copies()
    }

    fn kept_file(&self, kind: &str, approved: &ApprovedTree, case: &CheckSpec<'_>, layer: &Layer) -> PathBuf {
        let expectations: Vec<_> = case.shell.expectations.iter().map(|each| &each.value).collect();
        let seen = (
            env!("CARGO_PKG_VERSION"),
            self.level,
            &layer.id,
            approved.repository.as_ref().map(|repository| &repository.folder),
            self.tools.record(&[]).sha256,
            (case.processes, case.bounds),
            &case.shell.command,
            // Expectations about tests have every test run; the results do not depend on the others.
            (kind == "checks").then_some(expectations),
            case.shell.expects_tests(),
        );
        let key = Hash::of(format!("{seen:?}").as_bytes());
        self.state.join(kind).join(format!("{key}.json"))
    }
}

/// Returns whether a check sees its tree and the programs of the machine, and nothing else.
pub(super) fn sees_tree_only(case: &CheckSpec<'_>) -> bool {
    let folders = case.given.folders;
    let has_folders = folders.is_some_and(|folders| !folders.read.is_empty() || !folders.write.is_empty());
    !case.network && case.given.secrets.is_empty() && !has_folders
}

/// Removes the oldest files beyond the most that are kept.
fn forget_oldest(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    let mut files: Vec<_> = entries
        .flatten()
        .filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path())))
        .collect();
    if files.len() > FILES_MAX {
        files.sort();
        for (_, path) in &files[..files.len() - FILES_MAX] {
            let _ = fs::remove_file(path);
        }
    }
}
