//! The inbox page: what waits for a person, what was tried, and the choices.

use axum::extract::State;
use axum::response::{IntoResponse as _, Redirect, Response};
use maud::{Markup, html};
use provost_core::rules::inbox::{DecisionKind, ItemContext};
use serde::Deserialize;

use super::frame::{HtmlPage, Section, form_key, segment};
use super::status::word;
use super::text::T;
use super::times::instant;
use crate::api;
use crate::api::InboxAnswerBody;
use crate::principal::{Principal, Viewer};
use crate::problem::Answer;
use crate::request::{PageForm, Segment};
use crate::state::{SharedState, ask};
use provost_engine::observe::view::InboxItemView;

pub(super) async fn show(State(app): State<SharedState>, Viewer(principal): Viewer) -> Answer<Response> {
    ask(&app, move |app| {
        let after = app.overview.cursor()?.0;
        let items: Vec<InboxItemView> = app.overview.inbox()?.iter().map(InboxItemView::from).collect();
        let body = html! {
            h1 { "Inbox" }
            @if items.is_empty() { p { "Nothing waits for a person." } }
            @for each in &items { (item(each, &principal)) }
        };
        let page = HtmlPage {
            title: "Inbox".to_owned(),
            room: Section::Inbox,
            live: Some(String::new()),
            body: body.into(),
        };
        Ok(page.shown(app, &principal, after))
    })
    .await
}

#[derive(Deserialize)]
pub(super) struct InboxForm {
    choice: String,
    #[serde(default)]
    note: String,
    #[serde(default)]
    budget: String,
}

pub(super) async fn answer(
    State(app): State<SharedState>,
    Segment(item): Segment<String>,
    PageForm { by, said }: PageForm<InboxForm>,
) -> Answer<Response> {
    let budget = Some(said.budget).filter(|text| !text.trim().is_empty());
    let answer = InboxAnswerBody { choice: said.choice, note: said.note, budget };
    ask(&app, move |app| api::answered(app, &by, &item, answer)).await?;
    Ok(Redirect::to("/inbox").into_response())
}

/// Redirects a GET of an answer's address to the inbox, because the item may be gone.
pub(super) async fn back(Viewer(_): Viewer) -> Redirect {
    Redirect::to("/inbox")
}

fn item(item: &InboxItemView, principal: &Principal) -> Markup {
    html! {
        section class="sheet" id=(item.id.to_string()) {
            header {
                h3 { a href={ "/plans/" (segment(&item.plan.0)) } { (T(&item.title)) } }
                (word(item.kind.word()))
                @if let (Some(step), Some(title)) = (item.step, &item.step_title) {
                    a href={ "/plans/" (segment(&item.plan.0)) "/steps/" (step) } { "step " (step) ": " (T(title)) }
                }
                span class="quiet" { "since " (instant(item.since)) }
            }
            p { (T(&item.reason)) }
            (context(&item.context))
            @if item.kind.is_at_gate() {
                p { a class="button" href={ "/plans/" (segment(&item.plan.0)) "/gate" } { "To the gate" } }
            } @else if principal.token.scope.may_decide() {
                (form(item, principal))
            }
        }
    }
}

fn context(context: &ItemContext) -> Markup {
    html! {
        @for tried in &context.tried {
            p {
                "Attempt " (tried.attempt) ": "
                (T(tried.failure.as_deref().or(tried.ended.as_deref()).unwrap_or_default()))
                @if let Some(said) = &tried.said { " · the agent said: " (T(said)) }
                @if let Some(followed) = &tried.followed { span class="quiet" { " · then: " (T(followed)) } }
            }
        }
        @for name in &context.configure {
            p { "Configure this outside of the run: " code { (T(name)) } }
        }
        @if let Some(claim) = &context.claim { p class="quiet" { "The agent claims:" } pre { (T(claim)) } }
        @if let Some(said) = &context.said { p class="quiet" { "Last words of the agent:" } pre { (T(said)) } }
        @if let Some(output) = &context.output { p class="quiet" { "Last output:" } pre { (T(output)) } }
        @if !context.changed.is_empty() {
            p class="quiet" { "Changed files:" }
            ul { @for file in &context.changed { li { code { (T(file)) } } } }
        }
        @if let Some(diff) = &context.diff { details open { summary { "The difference" } pre { (T(diff)) } } }
    }
}

fn form(item: &InboxItemView, principal: &Principal) -> Markup {
    let note = format!("note-{}", item.id);
    let budget = format!("budget-{}", item.id);
    html! {
        form method="post" action={ "/inbox/" (segment(&item.id.to_string())) } {
            (form_key(principal))
            // Enter in a field presses the first button of a form. This one is disabled, so Enter decides
            // nothing.
            button disabled hidden {}
            label for=(note) { "Reason (recorded in the log)" }
            textarea id=(note) name="note" rows="2" {}
            @if item.kind == DecisionKind::Budget {
                label for=(budget) { "With retry: new limits, such as max $3, 400k tokens" }
                input id=(budget) name="budget" autocomplete="off";
            }
            ul class="choices" {
                @for each in &item.choices {
                    li { button name="choice" value=(each.choice) { (each.choice) } " " (each.does) }
                }
            }
        }
    }
}
