//! Trees of a plan that were kept when a contract held on them.

use provost_core::state::run::Run;
use provost_host::tree::{Base, Trees};

use crate::Error;
use crate::plan::harness::Harness;
use crate::workplace::PlanFiles;

/// Returns a kept tree, from this machine or from where the plan's agents work.
pub(crate) fn find(harness: &Harness, run: &Run, trees: &Trees, id: &str) -> Result<Option<Base>, Error> {
    match trees.kept(id, caches(harness, run)).map_err(Error::Carry)? {
        Some(kept) => Ok(Some(kept)),
        None => harness.workplace.fetch(&files(harness, run), trees, id),
    }
}

/// Returns the caches that are part of kept trees; none if agents worked elsewhere, because caches stay on
/// one machine.
pub(crate) fn caches<'h>(harness: &'h Harness, run: &Run) -> &'h [String] {
    if run.work.is_some() { &[] } else { harness.site().caches() }
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
