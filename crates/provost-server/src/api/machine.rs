//! Answers with the isolation that this machine attests.

use axum::Json;
use axum::extract::State;

use crate::machine::Machine;
use crate::principal::Viewer;
use crate::problem::{Answer, ReadRefusals};
use crate::state::{SharedState, ask};

/// Show the isolation that this machine attests, and the features it lacks
#[utoipa::path(
    get, path = "/api/machine", tag = "machine",
    responses(
        (status = 200, description = "The machine.", body = Machine),
        ReadRefusals,
    )
)]
pub(super) async fn machine(State(app): State<SharedState>, _viewer: Viewer) -> Answer<Json<Machine>> {
    ask(&app, |app| Ok(Json(app.machine.look(app.overview.settings())?))).await
}
