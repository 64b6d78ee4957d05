//! What people see: a room for each page, made on the server, whole without a script.
//!
//! A page is a function that takes the house and who looks, and answers with [`layout::Page`]; it is named in
//! [`routes`]. What it shows of a plan comes from `view.rs`, what several show is in `parts.rs`; whatever is not ours goes through [`text::T`].
//! `assets/live.js` asks for the page again when an event came that its filter names, and is told what is new
//! (`news.rs`).
//!
//! **Invariant:** no text of a plan, an agent or a check reaches a page but through [`text::T`].

mod agenda;
mod compare;
mod drawing;
mod enter;
mod gate;
mod inbox;
mod layout;
mod log;
mod machine;
mod news;
mod parts;
mod plan;
mod proofs;
mod step;
mod text;

use axum::Router;
use axum::response::Response;
use axum::routing::{get, post};

use crate::http::{Problem, Shared};

pub(crate) use drawing::Drawings;
pub(crate) use news::News;

pub fn routes() -> Router<Shared> {
    Router::new()
        .route("/", get(agenda::show))
        .route("/enter", get(enter::show))
        .route("/leave", post(enter::leave))
        .route("/plans/{plan}", get(plan::show))
        .route("/plans/{plan}/gate", get(gate::show).post(gate::decide))
        .route("/plans/{plan}/proofs", get(proofs::show))
        .route("/plans/{plan}/steps/{step}", get(step::show))
        .route("/inbox", get(inbox::show))
        .route("/inbox/{item}", get(inbox::back).post(inbox::answer))
        .route("/log", get(log::show))
        .route("/compare", get(compare::show))
        .route("/machine", get(machine::show))
}

/// A problem, in words for people.
pub fn problem(problem: &Problem) -> Response {
    layout::problem(problem)
}
