//! Signs people in by a link that is valid once, leads them on to the page that they wanted, and logs them out.
//!
//! **Invariant:** `next` leads only to a page of this server.

use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::Response;
use maud::html;
use provost_core::model::timestamp::Timestamp;
use serde::Deserialize;

use super::frame;
use crate::principal::{UnknownCaller, header_text};
use crate::problem::{Answer, Problem};
use crate::request::{OwnForm, UrlQuery};
use crate::state::{SharedState, ask};

#[derive(Deserialize)]
pub(super) struct EnterKey {
    /// The key of a link, or the whole link.
    key: Option<String>,
    /// The page to show then.
    next: Option<String>,
}

pub(super) async fn show(
    State(app): State<SharedState>,
    caller: UnknownCaller,
    UrlQuery(EnterKey { key, next }): UrlQuery<EnterKey>,
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
    let next = local(next.as_deref());
    let Some(key) = key.map(|sent| key_in(&sent).to_owned()) else {
        return match caller.has_session(&app).await? {
            true => Ok(welcome(&next)),
            false => Ok(sign_in(StatusCode::OK, &next, None)),
        };
    };
    let browser = header_text(&headers, header::USER_AGENT).map(str::to_owned);
    let made = ask(&app, move |app| Ok(app.tokens.exchange(&key, browser.as_deref())?)).await?;
    let Some(made) = made else {
        // A person who reloads the page of the link is logged in already.
        return match caller.has_session(&app).await? {
            true => Ok(welcome(&next)),
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
    let mut response = welcome(&next);
    let cookie = HeaderValue::from_str(&cookie).map_err(|error| Problem::broken(error.to_string()))?;
    response.headers_mut().insert(header::SET_COOKIE, cookie);
    Ok(response)
}

/// Renders a page instead of a redirect: a strict cookie is sent only with navigation from provost's own page.
fn welcome(next: &str) -> Response {
    let name = if next == "/" { "To the agenda" } else { "To the page" };
    let body = html! { p { "Welcome. " a href=(next) { (name) } } };
    frame::bare(StatusCode::OK, "You are logged in", &body, Some(next))
}

/// Renders the page for a browser without a session.
fn sign_in(status: StatusCode, next: &str, onward: Option<&str>) -> Response {
    let is_refused = status == StatusCode::UNAUTHORIZED;
    let body = html! {
        @if is_refused { p { "This browser has no valid session. A link works once, within 15 minutes." } }
        form class="sign-in" method="get" action="/enter" {
            label for="key" { "Link or key" }
            input id="key" name="key" type="text" required autocomplete="off" spellcheck="false";
            input type="hidden" name="next" value=(next);
            button class="primary" { "Sign in" }
        }
        p {
            "Run " code { "provost serve link" } " on the machine of the server for a link that works once, "
            "and open it or enter it here."
        }
    };
    frame::bare(status, "Sign in", &body, onward)
}

/// Renders a missing session as the page to sign in, which leads on to the wanted page.
///
/// A browser keeps a strict cookie back when a person follows a link from another site, such as a chat. The
/// page then asks for itself once more, and the cookie comes along.
pub(super) fn wanted(place: &str, is_from_elsewhere: bool) -> Response {
    let next = local(Some(place));
    let onward = is_from_elsewhere.then_some(next.as_str());
    let mut response = sign_in(StatusCode::UNAUTHORIZED, &next, onward);
    response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    response
}

/// Returns the key of what a person entered: a key, or a link with one.
fn key_in(sent: &str) -> &str {
    let key = sent.rsplit_once("key=").map_or(sent, |(_, key)| key);
    key.split('&').next().unwrap_or(key).trim()
}

/// Returns `next` if it is the path of another page of this server; the agenda otherwise.
fn local(next: Option<&str>) -> String {
    let is_safe = |next: &&str| {
        next.starts_with('/')
            && !next.starts_with("//")
            && !next.contains('\\')
            && !next.chars().any(char::is_control)
            && !["/enter", "/leave", "/api/", "/mcp"].iter().any(|other| next.starts_with(other))
    };
    next.filter(is_safe).unwrap_or("/").to_owned()
}

#[derive(Deserialize)]
pub(super) struct EmptyForm {}

pub(super) async fn leave(
    State(app): State<SharedState>,
    OwnForm { by, said: EmptyForm {} }: OwnForm<EmptyForm>,
) -> Answer<Response> {
    let id = by.token.id.clone();
    ask(&app, move |app| Ok(app.tokens.revoke(&id))).await?;
    Ok(left())
}

/// Renders the page for a person whose session has ended.
pub(super) fn left() -> Response {
    let body = html! { p { "Run " code { "provost serve link" } " for a new link." } };
    frame::bare(StatusCode::OK, "You are logged out", &body, None)
}

#[cfg(test)]
mod tests {
    use super::{key_in, local};

    #[test]
    fn next_is_a_page_of_this_server_or_the_agenda() {
        for page in ["/inbox/fix:e20", "/plans/a?diff=split", "/"] {
            assert_eq!(local(Some(page)), page);
        }
        let elsewhere = [
            "https://evil.example/",
            "//evil.example",
            "/\\evil.example",
            "\\\\evil.example",
            "javascript:alert(1)",
            "/\t/evil.example",
            "/a\r\nb",
            "",
            "inbox",
            "/enter?key=x",
            "/leave",
        ];
        for page in elsewhere {
            assert_eq!(local(Some(page)), "/", "{page}");
        }
        assert_eq!(local(None), "/");
    }

    #[test]
    fn a_person_may_enter_the_key_or_the_whole_link() {
        for sent in ["pvt_ab_cd", " pvt_ab_cd ", "http://127.0.0.1:4180/enter?key=pvt_ab_cd&next=%2Finbox"] {
            assert_eq!(key_in(sent), "pvt_ab_cd");
        }
    }
}
