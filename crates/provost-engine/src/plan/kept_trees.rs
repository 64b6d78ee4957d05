//! Trees of a plan that were kept when a contract held on them, and whether plans can use each other's copies.

use std::fs;
use std::path::Path;

use provost_core::model::verdict::Isolation;
use provost_core::state::run::Run;
use provost_host::tree::{Base, CopyTrust, Trees};

use crate::Error;
use crate::plan::harness::Harness;
use crate::plan::past_levels;
use crate::workplace::PlanFiles;

/// Returns a kept tree, from this machine or from where the plan's agents work.
pub(crate) fn find(harness: &Harness, run: &Run, trees: &Trees, id: &str) -> Result<Option<Base>, Error> {
    match trees.kept(id, caches(harness, run)).map_err(Error::Carry)? {
        Some(kept) => Ok(Some(kept)),
        None => harness.workplace.fetch(&files(harness, run), trees, id),
    }
}

/// Returns the text of a file, `None` if there is no such file, or why it is not read.
pub(crate) fn text(base: &Base, path: &Path, most_bytes: u64) -> Result<Option<String>, &'static str> {
    if !base.has(path) {
        return Ok(None);
    }
    let place = base.file(path);
    let found = fs::symlink_metadata(&place).map_err(|_| "it cannot be read")?;
    match () {
        () if !found.is_file() => Err("it is no file"),
        () if found.len() > most_bytes => Err("it is too long"),
        () => {
            let bytes = fs::read(&place).map_err(|_| "it cannot be read")?;
            String::from_utf8(bytes).map(Some).map_err(|_| "it is no text")
        }
    }
}

/// Returns the caches that are part of kept trees; none if agents worked elsewhere, because caches stay on
/// one machine.
pub(crate) fn caches<'h>(harness: &'h Harness, run: &Run) -> &'h [String] {
    if run.sends_trees() { &[] } else { harness.site().caches() }
}

/// Returns whether what other plans have kept can be used: only if no agent so far could write to the state folder.
pub(crate) fn copy_trust(harness: &Harness) -> CopyTrust {
    let log = harness.shared_log();
    // If the log cannot be read, for example because an archived file is missing, nothing is trusted.
    CopyTrust::new(move || past_levels::were_all(&*log, Isolation::has_fence).unwrap_or(false))
}

/// Offers what the plan was approved on to the machines that work on it.
pub fn offer_base(harness: &Harness, run: &Run) -> Result<(), Error> {
    harness.workplace.approved(&files(harness, run))
}

pub fn files<'a>(harness: &'a Harness, run: &'a Run) -> PlanFiles<'a> {
    PlanFiles {
        id: harness.id(),
        run,
        workspace: &harness.place().workspace,
        state: harness.state(),
        caches: harness.site().caches(),
    }
}
