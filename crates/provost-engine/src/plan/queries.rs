//! Read-only views of a plan.

use std::ops::ControlFlow;
use std::time::Duration;

use provost_core::model::approved_spec::{self, Law};
use provost_core::model::chain::{PlanId, SealedEvent};
use provost_core::model::event::Event;
use provost_core::model::proof::ProofStatement;
use provost_core::state::run::Run;
use provost_store::{Cursor, Query};

use crate::Error;
use crate::journal::log_locator;
use crate::plan::audit::{self, Audit};
use crate::plan::prove::Prover;
use crate::plan::reading::BoundPlan;
use crate::settings::EngineSettings;

use crate::plan::harness::Harness;

/// Calls `each` for every event that the query selects, until it breaks.
pub fn each(
    harness: &Harness,
    query: &Query,
    each: &mut dyn FnMut(SealedEvent) -> ControlFlow<()>,
) -> Result<(), Error> {
    Ok(harness.log().read(query, each)?)
}

/// Waits for events after `after`.
pub fn wait(harness: &Harness, after: Cursor, timeout: Duration) -> Result<Cursor, Error> {
    Ok(harness.log().wait(after, timeout)?)
}

/// Signs a statement with provost's key and returns the envelope as text.
pub fn seal(harness: &Harness, statement: &ProofStatement) -> Result<String, Error> {
    harness.prover().seal(statement)
}

/// Returns what the rewrite that led to this revision changed, for the person at the gate.
pub fn last_changes(harness: &Harness, run: &Run) -> Result<Vec<String>, Error> {
    let mut changes = Vec::new();
    let query = Query {
        names: vec!["PLAN_REWRITTEN".to_owned()],
        newest_first: true,
        limit: Some(1),
        ..Query::plan(harness.id())
    };
    each(harness, &query, &mut |sealed| {
        if let Ok(Event::PlanRewritten { changes: found, revision, .. }) = sealed.event()
            && revision == run.revision
        {
            changes = found;
        }
        ControlFlow::Break(())
    })?;
    Ok(changes)
}

/// Returns what changed in the plan file since the revision in the log.
pub fn changes(run: &Run, reading: &BoundPlan) -> Vec<String> {
    let old = Law { text: &run.text, plan: &run.plan, binding: Some(&run.binding) };
    approved_spec::diff(old, reading.law())
}

/// Checks the chain from its start, the verdict behind every passed step, and the proofs.
pub fn audit(harness: &Harness) -> Result<Audit, Error> {
    audit::plan(harness.log(), harness.id(), &harness.prover())
}

/// Checks a plan of the log by its identifier, if its file is gone. Returns `None` if the log has no such plan.
pub fn audit_by_id(settings: &EngineSettings, id: &PlanId) -> Result<Option<Audit>, Error> {
    let state = settings.state_folder();
    let log = log_locator::for_reading(&state)?;
    if log.head(id)?.seq == 0 {
        return Ok(None);
    }
    audit::plan(&*log, id, &Prover::new(&state, id, None)).map(Some)
}

/// Returns the envelopes of the plan's proofs, one per line, oldest first.
pub fn proofs(harness: &Harness) -> Result<Vec<String>, Error> {
    let path = harness.prover().file().to_owned();
    match std::fs::read_to_string(&path) {
        Ok(text) => Ok(text.lines().map(str::to_owned).collect()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(source) => Err(Error::Io { what: "read the proofs", path, source }),
    }
}
