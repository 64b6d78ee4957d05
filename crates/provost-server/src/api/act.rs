//! Starts and stops the run of an approved plan, and opens a failed plan again.
//!
//! **Invariant:** a caller needs the same rights as for a decision, and a start approves nothing.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use provost_core::model::event::Choice;
use provost_core::rules::command::HumanCommand;
use provost_core::rules::inbox::FailedPart;
use provost_engine::manage::start::{self, StartOutcome};
use provost_engine::manage::stop::{self, StopOutcome};
use provost_engine::plan::commands;
use provost_engine::plan::harness::Harness;
use provost_engine::settings::Access;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::look::find;
use crate::principal::Principal;
use crate::problem::{Answer, Problem, WriteRefusals};
use crate::request::{JsonBody, Segment};
use crate::state::{AppState, SharedState, ask};

/// Longest time that a run may take to end its agents and checks.
const PATIENCE: Duration = Duration::from_secs(30);

/// A request without parameters: `{}`.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RunRequest {}

/// What became of the run.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = RunChange)]
pub(crate) struct RunResult {
    pub plan: String,
    /// A run works on the plan now, or was just started.
    pub running: bool,
}

fn open(app: &AppState, by: &Principal, plan: &str) -> Answer<Harness> {
    let seen = find(&app.overview, plan)?;
    let harness = app.overview.harness(&seen, Access::Write, by.who(app))?.named(by.name());
    commands::only_people(&harness)?;
    Ok(harness)
}

fn conflict(detail: &str) -> Problem {
    Problem::new(StatusCode::CONFLICT, "run", detail.to_owned())
}

pub(crate) fn start(app: &AppState, by: &Principal, plan: &str) -> Answer<RunResult> {
    let harness = open(app, by, plan)?;
    match start::start(&harness)? {
        StartOutcome::Started => Ok(RunResult { plan: plan.to_owned(), running: true }),
        StartOutcome::Busy => Err(conflict("another run works in this workspace")
            .hint("Wait until it ends, or stop it with `provost stop`.")),
        StartOutcome::NotApproved(stage) => {
            Err(conflict(&format!("the plan is {}, not approved", stage.word()))
                .hint(format!("See /plans/{plan}/gate")))
        }
    }
}

pub(crate) fn stop(app: &AppState, by: &Principal, plan: &str) -> Answer<RunResult> {
    let harness = open(app, by, plan)?;
    match stop::stop(&harness, PATIENCE)? {
        StopOutcome::NoRun | StopOutcome::Ended(_) => Ok(RunResult { plan: plan.to_owned(), running: false }),
        StopOutcome::Ending(_) => Ok(RunResult { plan: plan.to_owned(), running: true }),
        StopOutcome::NotHere(holder, why) => Err(conflict(&format!("not stopped: {holder}: {why}"))),
    }
}

/// Continues a failed plan: its failed step, or its postconditions, are tried again. The plan then waits for a
/// run.
pub(crate) fn retry(app: &AppState, by: &Principal, plan: &str) -> Answer<RunResult> {
    let harness = open(app, by, plan)?;
    let run = harness.run()?;
    let Some(part) = FailedPart::of(&run) else {
        return Err(conflict(&format!("the plan is {}, not failed", run.stage.word())));
    };
    let note = String::new();
    let answer = HumanCommand::Answer { step: part.step(), choice: Choice::Retry, note, by: by.name() };
    commands::human(&harness, answer)?;
    Ok(RunResult { plan: plan.to_owned(), running: false })
}

/// Start the run of an approved plan
#[utoipa::path(
    post, path = "/api/plans/{plan}/start", tag = "plans", request_body = RunRequest, operation_id = "start",
    params(("plan" = String, Path, description = "Its id.")),
    responses(
        (status = 200, description = "Started.", body = RunResult),
        WriteRefusals,
    )
)]
pub(super) async fn start_run(
    State(app): State<SharedState>,
    Segment(plan): Segment<String>,
    JsonBody { by, said: RunRequest {} }: JsonBody<RunRequest>,
) -> Answer<Json<RunResult>> {
    ask(&app, move |app| start(app, &by, &plan).map(Json)).await
}

/// Stop the run of a plan; it can be continued
#[utoipa::path(
    post, path = "/api/plans/{plan}/stop", tag = "plans", request_body = RunRequest, operation_id = "stop",
    params(("plan" = String, Path, description = "Its id.")),
    responses(
        (status = 200, description = "Stopped, or no run worked on it.", body = RunResult),
        WriteRefusals,
    )
)]
pub(super) async fn stop_run(
    State(app): State<SharedState>,
    Segment(plan): Segment<String>,
    JsonBody { by, said: RunRequest {} }: JsonBody<RunRequest>,
) -> Answer<Json<RunResult>> {
    ask(&app, move |app| stop(app, &by, &plan).map(Json)).await
}

/// Try the failed step, or the postconditions, of a failed plan again
#[utoipa::path(
    post, path = "/api/plans/{plan}/retry", tag = "plans", request_body = RunRequest, operation_id = "retry",
    params(("plan" = String, Path, description = "Its id.")),
    responses(
        (status = 200, description = "The plan is open again, and can be started.", body = RunResult),
        WriteRefusals,
    )
)]
pub(super) async fn retry_plan(
    State(app): State<SharedState>,
    Segment(plan): Segment<String>,
    JsonBody { by, said: RunRequest {} }: JsonBody<RunRequest>,
) -> Answer<Json<RunResult>> {
    ask(&app, move |app| retry(app, &by, &plan).map(Json)).await
}
