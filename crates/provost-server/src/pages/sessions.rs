//! Lists sessions, links and tokens, and ends them: a person their own, an admin all.

use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, html};
use provost_core::rules::quorum;
use provost_engine::manage::tokens::Token;
use provost_engine::plan::plan_registry::repository_name;

use super::enter::EmptyForm;
use super::frame::{self, HtmlPage, Section};
use super::sign_in::left;
use super::text::T;
use super::times;
use crate::principal::{Principal, Viewer};
use crate::problem::{Answer, Problem};
use crate::request::{OwnForm, Segment};
use crate::state::{AppState, SharedState, ask};

/// Returns what the principal may see and end, oldest first. A person is known by their name.
fn visible(app: &AppState, by: &Principal) -> Vec<Token> {
    let may_see =
        |token: &Token| by.token.scope.may_administer() || quorum::is_same(&token.name, &by.token.name);
    app.tokens.all().into_iter().filter(may_see).collect()
}

pub(super) async fn show(State(app): State<SharedState>, Viewer(principal): Viewer) -> Answer<Response> {
    ask(&app, move |app| {
        let all = visible(app, &principal);
        let body = html! {
            h1 { "Sessions" }
            p {
                @if principal.token.scope.may_administer() { "Sessions, links and tokens of all people. " }
                @else { "Your sessions, links and tokens. An admin sees those of all people. " }
                "A session or a token that you end is refused from then on."
            }
            (table(&all, &principal))
        };
        let body = body.into();
        let page = HtmlPage { title: "Sessions".to_owned(), room: Section::Elsewhere, live: None, body };
        Ok(page.shown(app, &principal, 0))
    })
    .await
}

fn table(all: &[Token], principal: &Principal) -> Markup {
    html! {
        div class="scroll" tabindex="0" role="region" aria-label="Sessions, links and tokens" {
            table class="sessions" {
                thead {
                    tr {
                        @for name in ["Name", "End it", "Kind", "May", "Last used", "Made", "Ends", "Browser", "Repositories"] {
                            th scope="col" { (name) }
                        }
                    }
                }
                tbody { @for token in all { (row(token, principal)) } }
            }
        }
    }
}

fn row(token: &Token, principal: &Principal) -> Markup {
    let is_own = token.id == principal.token.id;
    let what = format!("End the {} {} of {}", token.kind.word(), token.id, token.name);
    html! {
        tr {
            td { (T(&token.name)) @if is_own { " " small { "(this session)" } } }
            td {
                form class="inline" method="post" action={ "/sessions/" (token.id) } {
                    (frame::form_key(principal))
                    button aria-label=(what) { "End" }
                }
            }
            td { (token.kind.word()) " " code { (token.id) } }
            td { (token.scope.word()) }
            td { @if let Some(used) = token.used { (times::instant(used)) } @else { "never" } }
            td { (times::instant(token.made)) }
            td { @if let Some(until) = token.until { (times::instant(until)) } @else { "when it is ended" } }
            td {
                @if let Some(browser) = &token.browser { span title=(T(browser)) { (T(&short(browser))) } }
            }
            td {
                @if token.repositories.is_empty() { "all" }
                @for repository in &token.repositories { div { (T(&repository_name(repository))) } }
            }
        }
    }
}

/// Returns the name and the version of a browser, from how it named itself.
fn short(browser: &str) -> String {
    // Most browsers also name those that they resemble, so the order matters.
    let known = ["Firefox/", "Edg/", "OPR/", "HeadlessChrome/", "Chrome/", "Version/"];
    let found = known.iter().find_map(|name| Some((name, browser.split_once(name)?.1)));
    match found {
        Some((name, rest)) => {
            let name = if *name == "Version/" { "Safari" } else { name.trim_end_matches('/') };
            let version = rest.split(['.', ' ', ';']).next().unwrap_or_default();
            format!("{name} {version}")
        }
        None => browser.chars().take(40).collect(),
    }
}

pub(super) async fn end(
    State(app): State<SharedState>,
    Segment(id): Segment<String>,
    OwnForm { by, said: EmptyForm {} }: OwnForm<EmptyForm>,
) -> Answer<Response> {
    let is_own = id == by.token.id;
    ask(&app, move |app| {
        // Another person's looks as if it did not exist.
        let found = visible(app, &by).iter().any(|token| token.id == id) && app.tokens.revoke(&id);
        let gone = || {
            Problem::unknown(format!("there is no session or token `{id}`"))
                .hint("`/sessions` lists the valid ones.")
        };
        found.then_some(()).ok_or_else(gone)
    })
    .await?;
    Ok(if is_own { left(&app) } else { Redirect::to("/sessions").into_response() })
}
