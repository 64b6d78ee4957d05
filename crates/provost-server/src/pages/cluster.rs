//! The cluster page: workers, queues, leases, and what waits and why, if several machines share the log.

use axum::extract::State;
use axum::response::Response;
use maud::{Markup, html};

use super::frame::{HtmlPage, Section};
use super::text::T;
use crate::principal::Viewer;
use crate::problem::Answer;
use crate::state::{PageTable, SharedState, ask};

pub(super) async fn show(State(app): State<SharedState>, Viewer(principal): Viewer) -> Answer<Response> {
    principal.must_see_all("the cluster works on the plans of all repositories")?;
    ask(&app, move |app| {
        let tables = app.cluster.as_ref().map(|tables| tables());
        let body = html! {
            h1 { "Cluster" }
            @match tables {
                None => (alone()),
                Some(Err(why)) => p class="note bad" { "The database of the cluster does not answer: " (T(&why)) }
                Some(Ok(tables)) => @for each in &tables { (table(each)) }
            }
        };
        let page = HtmlPage {
            title: "Cluster".to_owned(),
            room: Section::Cluster,
            live: Some(String::new()),
            body: body.into(),
        };
        Ok(page.shown(app, &principal, app.overview.cursor()?.0))
    })
    .await
}

fn alone() -> Markup {
    html! {
        div class="empty" {
            strong { "This log is not shared." }
            "If several machines run plans on one Postgres log, this page shows the workers, their queues, the leases, and which work waits and why. The page docs/cluster.md of the manual has the setup."
        }
    }
}

fn table(table: &PageTable) -> Markup {
    html! {
        h2 { (table.title) }
        @if table.rows.is_empty() { p class="quiet" { (table.if_empty) } }
        @else {
            div class="scroll" tabindex="0" role="region" aria-label=(table.title) {
                table {
                    thead { tr { @for head in table.heads { th { (head) } } } }
                    tbody { @for row in &table.rows { tr { @for cell in row { td { (T(cell)) } } } } }
                }
            }
        }
    }
}
