//! What a person is shown at the gate: exactly what an approval would cover, and what speaks against it.

use provost_core::chain::Hash;
use provost_core::render;
use provost_core::run::Stage;
use provost_engine::harness::Access;
use provost_engine::overview::{Overview, Seen};
use provost_engine::people::Who;
use serde::Serialize;
use utoipa::ToSchema;

use crate::http::Problem;
use crate::http::problem::Found;

#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Gate {
    pub plan: String,
    pub name: String,
    pub title: String,
    #[schema(example = "verified")]
    pub stage: String,
    /// What an approval has to name.
    pub revision: String,
    /// It can be approved as it stands.
    pub open: bool,
    /// The plan file has changed since the log last saw it.
    pub changed: bool,
    pub question: Option<String>,
    pub rejected: Option<String>,
    /// What was approved last, and by whom; null if nothing was.
    pub approved: Option<String>,
    pub approved_by: Option<String>,
    /// What changed in the law since then, a line each.
    pub changes: Vec<String>,
    pub diagnostics: Vec<Found>,
    /// What will be run, with which network and files: the plan in words.
    pub shown: String,
    /// The plan file as it stands.
    pub text: String,
    /// Of that text; an amendment has to name it.
    pub digest: String,
}

impl Gate {
    pub fn of(overview: &Overview, seen: &Seen) -> Result<Self, Problem> {
        let harness = overview.harness(seen, Access::Read, Who::Here)?;
        let (run, changed) = harness.preview()?;
        let reading = harness.check()?;
        let since = overview.changes_since_approval(&seen.id, &run)?;
        let rejected = run.rejection.as_ref().filter(|(revision, _)| *revision == run.revision);
        let waits = matches!(run.stage, Stage::Draft | Stage::Verified);
        Ok(Self {
            plan: seen.id.0.clone(),
            name: seen.name().to_owned(),
            title: run.plan.title.clone(),
            stage: run.stage.word().to_owned(),
            revision: run.revision.0.clone(),
            open: waits && !reading.errors() && rejected.is_none() && run.forged_from.is_none(),
            changed,
            question: run.question.clone(),
            rejected: rejected.map(|(_, reason)| reason.clone()),
            approved: since.as_ref().map(|since| since.from.0.clone()),
            approved_by: since.as_ref().map(|since| since.by.to_string()),
            changes: since.map(|since| since.lines).unwrap_or_default(),
            diagnostics: Found::all(&reading.text, &reading.diagnostics),
            shown: render::plan(&run),
            digest: Hash::of(reading.text.as_bytes()).to_string(),
            text: reading.text,
        })
    }
}
