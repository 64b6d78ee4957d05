//! The JSON API: everything that a page does, for programs. Its OpenAPI document is made from its handlers.
//!
//! **Invariant:** every error is answered as `application/problem+json`.

mod act;
mod decide;
mod log;
mod look;
mod machine;
mod transcript;

use utoipa::OpenApi;
use utoipa::openapi::security::{ApiKey, ApiKeyValue, HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::state::SharedState;

pub(crate) use act::{retry, start, stop};
pub(crate) use decide::{
    Amendment, Approval, Decision, InboxAnswerBody, Question, Rejection, answered, decide,
};
pub(crate) use log::{Filter as LogFilter, page as log_page, place, step};
pub(crate) use look::{PAGE, find, lives_of, proofs_of};
pub(crate) use transcript::{WhichAttempt, transcript_of};

/// The API of `provost serve`
///
/// Reads need scope `view`, writes scope `decide`: a token from `provost serve token`, sent as
/// `Authorization: Bearer TOKEN`, or the session of a browser. `/api/events` streams the events of the log.
/// Items that wait for a person are also sent to webhooks, signed, as `[[notify.webhook]]` of
/// `provost.toml` configures them.
#[derive(OpenApi)]
#[openapi(
    info(title = "provost"),
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

/// Returns the routes with their OpenAPI document. A handler is listed here only.
pub(crate) fn routes() -> OpenApiRouter<SharedState> {
    OpenApiRouter::with_openapi(Document::openapi())
        .routes(routes!(look::me))
        .routes(routes!(look::plans))
        .routes(routes!(look::plan))
        .routes(routes!(look::lives))
        .routes(routes!(look::gate))
        .routes(routes!(decide::approve))
        .routes(routes!(decide::ask_back))
        .routes(routes!(decide::reject))
        .routes(routes!(decide::amend))
        .routes(routes!(act::start_run))
        .routes(routes!(act::retry_plan))
        .routes(routes!(act::stop_run))
        .routes(routes!(look::diff))
        .routes(routes!(look::changes))
        .routes(routes!(transcript::transcript))
        .routes(routes!(transcript::output))
        .routes(routes!(look::proofs))
        .routes(routes!(look::inbox))
        .routes(routes!(decide::answer))
        .routes(routes!(log::log))
        .routes(routes!(machine::machine))
}
