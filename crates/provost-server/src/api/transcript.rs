//! Answers what an agent said and did in an attempt, while it runs and afterwards.

use axum::Json;
use axum::extract::State;
use provost_core::model::plan::StepNumber;
use provost_core::model::transcript::TranscriptEntry;
use provost_engine::observe::overview::{AttemptTranscript, Overview};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::log::step;
use super::look::find;
use crate::principal::Viewer;
use crate::problem::{Answer, Problem, ReadRefusals};
use crate::request::{Segment, UrlQuery};
use crate::state::{SharedState, ask};

/// Which attempt at a step.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct WhichAttempt {
    /// Number of the attempt [default: the last one].
    #[param(minimum = 1, maximum = 1000000)]
    #[serde(default, deserialize_with = "step")]
    pub attempt: Option<u32>,
}

/// What an agent said and did in an attempt.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct TranscriptView {
    pub plan: String,
    pub step: u32,
    pub attempt: u32,
    /// The attempt has not ended, so more may come.
    pub running: bool,
    /// Why there is no transcript, or that it was changed.
    pub note: Option<String>,
    /// Entries as `provost log --transcript --json` prints them: `kind` is text, tool_call, tool_result, usage
    /// or omitted.
    #[schema(value_type = Vec<Object>)]
    pub entries: Vec<TranscriptEntry>,
}

pub(crate) fn transcript_of(
    overview: &Overview,
    plan: &str,
    number: u32,
    attempt: Option<u32>,
) -> Answer<AttemptTranscript> {
    let seen = find(overview, plan)?;
    let found = overview.transcript(&seen.id, StepNumber(number), attempt)?;
    found.ok_or_else(|| Problem::unknown(format!("step {number} has no such attempt")))
}

/// Show the transcript of an attempt: what the agent said and did
#[utoipa::path(
    get, path = "/api/plans/{plan}/steps/{step}/transcript", tag = "plans",
    params(
        ("plan" = String, Path, description = "Its id."),
        ("step" = u32, Path, description = "The step's number.", minimum = 1, maximum = 1000000),
        WhichAttempt,
    ),
    responses(
        (status = 200, description = "The transcript.", body = TranscriptView),
        ReadRefusals,
    )
)]
pub(super) async fn transcript(
    State(app): State<SharedState>,
    _viewer: Viewer,
    Segment((plan, number)): Segment<(String, u32)>,
    UrlQuery(which): UrlQuery<WhichAttempt>,
) -> Answer<Json<TranscriptView>> {
    ask(&app, move |app| {
        let found = transcript_of(&app.overview, &plan, number, which.attempt)?;
        Ok(Json(TranscriptView {
            plan,
            step: number,
            attempt: found.attempt.number,
            running: found.attempt.ended.is_none(),
            note: found.note.map(str::to_owned),
            entries: found.entries,
        }))
    })
    .await
}

/// The last lines of a running attempt.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct LiveLines {
    pub plan: String,
    pub step: u32,
    /// Null if no attempt runs on this machine, or it has said nothing yet.
    pub output: Option<String>,
}

/// Show the last lines of what the agent of a running attempt says and does
#[utoipa::path(
    get, path = "/api/plans/{plan}/steps/{step}/output", tag = "plans",
    params(
        ("plan" = String, Path, description = "Its id."),
        ("step" = u32, Path, description = "The step's number.", minimum = 1, maximum = 1000000),
    ),
    responses(
        (status = 200, description = "The lines.", body = LiveLines),
        ReadRefusals,
    )
)]
pub(super) async fn output(
    State(app): State<SharedState>,
    _viewer: Viewer,
    Segment((plan, number)): Segment<(String, u32)>,
) -> Answer<Json<LiveLines>> {
    ask(&app, move |app| {
        let seen = find(&app.overview, &plan)?;
        if seen.run.step(StepNumber(number)).is_none() {
            return Err(Problem::unknown(format!("the plan has no step {number}")));
        }
        let output = app.overview.output(&seen.id, StepNumber(number));
        Ok(Json(LiveLines { plan, step: number, output }))
    })
    .await
}
