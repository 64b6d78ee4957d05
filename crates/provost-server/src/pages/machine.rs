//! The machine page: the attested isolation level, the machine's features, and the result of each sandbox
//! probe.

use axum::extract::State;
use axum::response::Response;
use maud::html;

use super::frame::{HtmlPage, Section};
use super::status::word;
use super::text::T;
use crate::principal::Viewer;
use crate::problem::Answer;
use crate::state::{SharedState, ask};

pub(super) async fn show(State(app): State<SharedState>, Viewer(principal): Viewer) -> Answer<Response> {
    ask(&app, move |app| {
        let machine = app.machine.look(app.overview.settings())?;
        let body = html! {
            h1 { "Machine" }
            p {
                "Verdicts on this machine have at most level " (word(&machine.level)) ", the strongest level that its self-test confirmed. "
                span class="quiet" { "provost " (machine.version) "; the self-test ran at most five minutes ago." }
            }
            h2 { "Features" }
            div class="scroll" tabindex="0" role="region" aria-label="Features" {
                table class="rows" {
                    thead { tr { th { "Feature" } th { "Available" } th { "Detail" } } }
                    tbody {
                        @for offer in &machine.offers {
                            tr {
                                td { (T(&offer.name)) }
                                td { (word(if offer.here { "here" } else { "missing" })) }
                                td {
                                    (T(&offer.words))
                                    @if let Some(hint) = &offer.hint { div class="quiet" { (T(hint)) } }
                                }
                            }
                        }
                    }
                }
            }
            h2 { "Self-test of the sandbox" }
            @if machine.probes.is_empty() { p { "This machine has no sandbox to test." } }
            @else {
                div class="scroll" tabindex="0" role="region" aria-label="Self-test of the sandbox" {
                    table class="rows" {
                        thead { tr { th { "Attempt" } th { "Outcome" } th { "Detail" } } }
                        tbody {
                            @for probe in &machine.probes {
                                tr {
                                    td { code { (T(&probe.name)) } }
                                    td { (word(if probe.held { "held" } else { "broke" })) }
                                    td { (T(&probe.detail)) }
                                }
                            }
                        }
                    }
                }
            }
        };
        let page = HtmlPage { title: "Machine".to_owned(), room: Section::Machine, live: None, body: body.into() };
        Ok(page.shown(app, &principal, 0))
    })
    .await
}
