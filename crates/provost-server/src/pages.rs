//! Pages for people: one module per page, rendered on the server, complete without a script.
//!
//! A page is a function that takes the app state and the principal and returns [`frame::HtmlPage`]; it is
//! listed in [`routes`]. `view.rs` provides what it shows of a plan. `parts.rs`, `difference.rs` and `markdown.rs`
//! have what several pages show, `status.rs` has the look of each state, and all foreign text goes through
//! [`text::T`]. `assets/live.js` requests the page again when an event matches its
//! filter, and receives the changed parts (`partial.rs`).
//!
//! **Invariant:** text of a plan, an agent or a check reaches a page only through [`text::T`].

mod agenda;
mod ansi;
mod cluster;
mod compare;
mod difference;
mod drawing;
mod enter;
mod frame;
mod gate;
mod graph;
mod highlight;
mod inbox;
mod insight;
mod log;
mod machine;
mod markdown;
mod new_plan;
mod parts;
mod plan;
mod proofs;
mod sessions;
mod sign_in;
mod status;
mod step;
mod text;
mod times;
mod transcript;

use axum::Router;
use axum::response::Response;
use axum::routing::{get, post};

use crate::oidc::CALLBACK;
use crate::problem::Problem;
use crate::state::{AppState, SharedState};

pub(crate) fn routes() -> Router<SharedState> {
    Router::new()
        .route("/", get(agenda::show))
        .route("/new", get(new_plan::show).post(new_plan::make))
        .route("/enter", get(enter::show))
        .route("/leave", post(sign_in::leave))
        .route("/sign-in", get(sign_in::begin))
        .route(CALLBACK, get(sign_in::finish))
        .route("/plans/{plan}", get(plan::show).post(plan::act_on))
        .route("/plans/{plan}/busy", get(plan::busy))
        .route("/plans/{plan}/steps", get(plan::steps))
        .route("/plans/{plan}/changes", get(plan::changes))
        .route("/plans/{plan}/timeline", get(plan::timeline))
        .route("/plans/{plan}/text", get(plan::text))
        .route("/plans/{plan}/gate", get(gate::show).post(gate::decide))
        .route("/plans/{plan}/proofs", get(proofs::show))
        .route("/plans/{plan}/steps/{step}", get(step::show))
        .route("/plans/{plan}/steps/{step}/transcript", get(transcript::show))
        .route("/plans/{plan}/steps/{step}/output", get(transcript::output))
        .route("/inbox", get(inbox::show))
        .route("/inbox/{item}", get(inbox::show_item).post(inbox::answer))
        .route("/log", get(log::show))
        .route("/compare", get(compare::show))
        .route("/insight", get(insight::show))
        .route("/insight.csv", get(insight::csv))
        .route("/machine", get(machine::show))
        .route("/cluster", get(cluster::show))
        .route("/sessions", get(sessions::show))
        .route("/sessions/{id}", post(sessions::end))
}

/// Renders a problem for people.
pub(crate) fn problem(problem: &Problem) -> Response {
    frame::problem(problem)
}

/// Renders the page to sign in, for a browser that asked for `place` without a session.
pub(crate) fn sign_in(app: &AppState, place: &str, is_from_elsewhere: bool) -> Response {
    enter::wanted(app, place, is_from_elsewhere)
}
