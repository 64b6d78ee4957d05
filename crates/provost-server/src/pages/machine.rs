//! The machine page: the attested isolation level, the machine's features, and the result of each sandbox
//! probe.

use axum::extract::State;
use axum::response::Response;
use maud::html;

use super::frame::{HtmlPage, Section, word};
use super::text::T;
use crate::principal::Viewer;
use crate::problem::Answer;
use crate::state::{SharedState, ask};

pub async fn show(State(app): State<SharedState>, Viewer(principal): Viewer) -> Answer<Response> {
    ask(&app, move |app| {
        let machine = app.machine.look(app.overview.settings())?;
        let body = html! {
            h1 { "Machine" }
            p {
                "Verdicts found here are worth " (word(&machine.level)) ": it is the strongest level this machine attests. "
                span class="quiet" { "provost " (machine.version) "; looked at no longer than five minutes ago." }
            }
            h2 { "What it has" }
            div class="scroll" tabindex="0" role="region" aria-label="What it has" {
                table {
                    thead { tr { th { "What" } th { "Is it here" } th { "Found" } } }
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
            h2 { "What was tried at the fences" }
            @if machine.probes.is_empty() { p { "There is no fence here to try." } }
            @else {
                div class="scroll" tabindex="0" role="region" aria-label="What was tried at the fences" {
                    table {
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
