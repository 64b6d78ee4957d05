//! Answers what this machine attests.

use axum::Json;
use axum::extract::State;

use crate::machine::Machine;
use crate::principal::Viewer;
use crate::problem::{Answer, ReadRefusals};
use crate::state::{SharedState, ask};

/// Which isolation this machine attests, and what it lacks
#[utoipa::path(
    get, path = "/api/machine", tag = "machine",
    responses(
        (status = 200, description = "The machine.", body = Machine),
        ReadRefusals,
    )
)]
pub async fn machine(State(app): State<SharedState>, _viewer: Viewer) -> Answer<Json<Machine>> {
    ask(&app, |app| Ok(Json(app.machine.look(app.overview.settings())?))).await
}
