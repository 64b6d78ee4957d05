//! Login by a link that is valid once, and logout.

use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::Response;
use maud::html;
use provost_core::model::timestamp::Timestamp;
use serde::Deserialize;

use super::layout;
use crate::http::{Answer, PageForm, Problem, Query, Shared, ask, door};

#[derive(Deserialize)]
pub struct EnterKey {
    key: String,
}

pub async fn show(
    State(house): State<Shared>,
    door: door::Door,
    Query(EnterKey { key }): Query<EnterKey>,
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
        return Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, "too-early", "open the link to use it"));
    }
    door.only_people(&house).await?;
    let made = ask(&house, move |house| Ok(house.tokens.exchange(&key)?)).await?;
    let Some(made) = made else { return Err(door.stranger(&house).await) };
    let secure = if house.origin.is_secure() { "; Secure" } else { "" };
    let lasts = made.token.until.map_or(0, |Timestamp(until)| until.saturating_sub(made.token.made.0) / 1000);
    let cookie = format!(
        "{}={}; Path=/; HttpOnly; SameSite=Strict; Max-Age={lasts}{secure}",
        house.origin.cookie(),
        made.word
    );
    // A page instead of a redirect: a strict cookie is sent only with navigation from provost's own page.
    let body = html! { p { "Welcome. " a href="/" { "To the agenda" } } };
    let mut response = layout::bare(StatusCode::OK, "You are in", &body, Some("/"));
    let cookie = HeaderValue::from_str(&cookie).map_err(|error| Problem::broken(error.to_string()))?;
    response.headers_mut().insert(header::SET_COOKIE, cookie);
    Ok(response)
}

#[derive(Deserialize)]
pub struct EmptyForm {}

pub async fn leave(
    State(house): State<Shared>,
    PageForm { by, said: EmptyForm {} }: PageForm<EmptyForm>,
) -> Answer<Response> {
    let id = by.token.id.clone();
    ask(&house, move |house| Ok(house.tokens.revoke(&id))).await?;
    let body = html! { p { "`provost serve link` prints a new way in." } };
    Ok(layout::bare(StatusCode::OK, "You are out", &body, None))
}
