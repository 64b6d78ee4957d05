//! JSON over HTTP for everything a page does. `/api/openapi.json` is made of the types and handlers below.
//!
//! **Invariant:** whatever is wrong with a request is answered as `application/problem+json`.

mod decide;
mod log;
mod look;
mod machine;

use std::sync::LazyLock;

use axum::Router;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use utoipa::OpenApi;
use utoipa::openapi::security::{ApiKey, ApiKeyValue, HttpAuthScheme, HttpBuilder, SecurityScheme};

use crate::http::{Shared, Viewer};
use crate::sse;

pub(crate) use decide::{
    Amendment, Approval, Decision, InboxAnswerBody, Question, Rejection, answered, decide,
};
pub(crate) use log::{Filter as LogFilter, page as log_page, place, step};
pub(crate) use look::{PAGE, find, lives_of, proofs_of};
pub use machine::MachineCache as MachineKept;

/// The API of `provost serve`
///
/// Reads take scope `view`, writes scope `decide`: a token from `provost serve token`, sent as
/// `Authorization: Bearer TOKEN`, or the session of a browser. What happens is told at `/api/events`; what waits
/// for a person is also sent to webhooks, signed, as `[[notify.webhook]]` of `provost.toml` says.
#[derive(OpenApi)]
#[openapi(
    info(title = "provost"),
    paths(
        look::me,
        look::plans,
        look::plan,
        look::lives,
        look::gate,
        look::diff,
        look::changes,
        look::proofs,
        look::inbox,
        decide::approve,
        decide::ask_back,
        decide::reject,
        decide::amend,
        decide::answer,
        log::log,
        sse::events,
        machine::machine,
    ),
    security(("token" = []), ("session" = [])),
    modifiers(&Ways)
)]
struct Document;

struct Ways;

impl utoipa::Modify for Ways {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        let components = document.components.get_or_insert_with(Default::default);
        let token = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build();
        components.add_security_scheme("token", SecurityScheme::Http(token));
        let session = ApiKey::Cookie(ApiKeyValue::new("provost_PORT"));
        components.add_security_scheme("session", SecurityScheme::ApiKey(session));
    }
}

/// What the API has, as OpenAPI 3.1.
fn document() -> &'static str {
    static TEXT: LazyLock<String> =
        LazyLock::new(|| Document::openapi().to_pretty_json().unwrap_or_default());
    &TEXT
}

pub fn routes() -> Router<Shared> {
    Router::new()
        .route("/api/openapi.json", get(openapi))
        .route("/api/me", get(look::me))
        .route("/api/plans", get(look::plans))
        .route("/api/plans/{plan}", get(look::plan))
        .route("/api/plans/{plan}/lives", get(look::lives))
        .route("/api/plans/{plan}/gate", get(look::gate))
        .route("/api/plans/{plan}/gate/approve", post(decide::approve))
        .route("/api/plans/{plan}/gate/ask", post(decide::ask_back))
        .route("/api/plans/{plan}/gate/reject", post(decide::reject))
        .route("/api/plans/{plan}/gate/amend", post(decide::amend))
        .route("/api/plans/{plan}/diff", get(look::diff))
        .route("/api/plans/{plan}/steps/{step}/changes", get(look::changes))
        .route("/api/plans/{plan}/proofs", get(look::proofs))
        .route("/api/inbox", get(look::inbox))
        .route("/api/inbox/{item}/answer", post(decide::answer))
        .route("/api/log", get(log::log))
        .route("/api/events", get(sse::events))
        .route("/api/machine", get(machine::machine))
}

async fn openapi(State(_house): State<Shared>, _viewer: Viewer) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], document()).into_response()
}
