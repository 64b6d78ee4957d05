//! Logs people in by a link that is valid once, and logs them out.

use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::Response;
use maud::html;
use provost_core::model::timestamp::Timestamp;
use serde::Deserialize;

use super::frame;
use crate::principal::UnknownCaller;
use crate::problem::{Answer, Problem};
use crate::request::{PageForm, UrlQuery};
use crate::state::{SharedState, ask};

#[derive(Deserialize)]
pub(super) struct EnterKey {
    key: String,
}

pub(super) async fn show(
    State(app): State<SharedState>,
    caller: UnknownCaller,
    UrlQuery(EnterKey { key }): UrlQuery<EnterKey>,
    headers: HeaderMap,
) -> Answer<Response> {
    let is_guess = |name: &str| {
        headers
            .get(name)
            .and_then(|value| value.to_str().ok())
            .is_some_and(|value| value.contains("prefetch"))
    };
    if is_guess("sec-purpose") || is_guess("purpose") {
        // A browser that prefetches would use up the link.
        return Err(Problem::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "too-early",
            "a prefetch cannot use the link: open it",
        ));
    }
    caller.only_people(&app).await?;
    let made = ask(&app, move |app| Ok(app.tokens.exchange(&key)?)).await?;
    let Some(made) = made else {
        // A person who reloads the page of the link is logged in already.
        return match caller.has_session(&app).await? {
            true => Ok(welcome()),
            false => Err(caller.refuse(&app).await),
        };
    };
    let secure = if app.names.is_secure() { "; Secure" } else { "" };
    let lasts = made.token.until.map_or(0, |Timestamp(until)| until.saturating_sub(made.token.made.0) / 1000);
    let cookie = format!(
        "{}={}; Path=/; HttpOnly; SameSite=Strict; Max-Age={lasts}{secure}",
        app.names.cookie(),
        made.word
    );
    let mut response = welcome();
    let cookie = HeaderValue::from_str(&cookie).map_err(|error| Problem::broken(error.to_string()))?;
    response.headers_mut().insert(header::SET_COOKIE, cookie);
    Ok(response)
}

/// Renders a page instead of a redirect: a strict cookie is sent only with navigation from provost's own page.
fn welcome() -> Response {
    let body = html! { p { "Welcome. " a href="/" { "To the agenda" } } };
    frame::bare(StatusCode::OK, "You are logged in", &body, Some("/"))
}

#[derive(Deserialize)]
pub(super) struct EmptyForm {}

pub(super) async fn leave(
    State(app): State<SharedState>,
    PageForm { by, said: EmptyForm {} }: PageForm<EmptyForm>,
) -> Answer<Response> {
    let id = by.token.id.clone();
    ask(&app, move |app| Ok(app.tokens.revoke(&id))).await?;
    let body = html! { p { "Run " code { "provost serve link" } " for a new link." } };
    Ok(frame::bare(StatusCode::OK, "You are logged out", &body, None))
}
