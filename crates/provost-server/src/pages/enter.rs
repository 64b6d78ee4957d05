//! Signs people in by a link that is valid once, and leads them on to the page that they wanted. `sign_in.rs` signs
//! them in at an identity provider.
//!
//! **Invariant:** `next` leads only to a page of this server.

use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::Response;
use maud::{Markup, html};
use provost_core::model::timestamp::Timestamp;
use provost_engine::manage::tokens::NewToken;
use serde::Deserialize;

use super::frame;
use super::text::T;
use crate::principal::{UnknownCaller, header_text};
use crate::problem::{Answer, Problem};
use crate::request::UrlQuery;
use crate::state::{AppState, SharedState, ask};

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
    refuse_prefetch(&headers)?;
    caller.only_people(&app).await?;
    let next = local(next.as_deref());
    let Some(key) = key.map(|sent| key_in(&sent).to_owned()) else {
        return match caller.has_session(&app).await? {
            true => Ok(welcome(&next)),
            false => Ok(sign_in(&app, StatusCode::OK, None, &next, None)),
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
    let mut response = welcome(&next);
    response.headers_mut().append(header::SET_COOKIE, session_cookie(&app, &made)?);
    Ok(response)
}

/// Refuses a browser that only prefetches the page: it would use up the link, or begin a sign-in before the person
/// asked for one.
pub(super) fn refuse_prefetch(headers: &HeaderMap) -> Result<(), Problem> {
    let is_guess = |name: &str| header_text(headers, name).is_some_and(|value| value.contains("prefetch"));
    match is_guess("sec-purpose") || is_guess("purpose") {
        false => Ok(()),
        true => Err(Problem::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "too-early",
            "a prefetch cannot use the link: open it",
        )),
    }
}

/// Returns the cookie of a new session.
pub(super) fn session_cookie(app: &AppState, made: &NewToken) -> Result<HeaderValue, Problem> {
    let secure = if app.names.is_secure() { "; Secure" } else { "" };
    let lasts = made.token.until.map_or(0, |Timestamp(until)| until.saturating_sub(made.token.made.0) / 1000);
    let cookie = format!(
        "{}={}; Path=/; HttpOnly; SameSite=Strict; Max-Age={lasts}{secure}",
        app.names.cookie(),
        made.word
    );
    HeaderValue::from_str(&cookie).map_err(|error| Problem::broken(error.to_string()))
}

/// Renders a page instead of a redirect: a strict cookie is sent only with navigation from provost's own page.
pub(super) fn welcome(next: &str) -> Response {
    let name = if next == "/" { "To the agenda" } else { "To the page" };
    let body = html! { p { "Welcome. " a href=(next) { (name) } } };
    frame::bare(StatusCode::OK, "You are logged in", &body, Some(next))
}

/// Renders the page for a browser without a session, with the reason why it has none if there is one.
pub(super) fn sign_in(
    app: &AppState,
    status: StatusCode,
    reason: Option<&Markup>,
    next: &str,
    onward: Option<&str>,
) -> Response {
    let by_link = html! {
        form class="sign-in" method="get" action="/enter" {
            label for="key" { "Link or key" }
            input id="key" name="key" type="text" required autocomplete="off" spellcheck="false";
            input type="hidden" name="next" value=(next);
            button class=[app.oidc.is_none().then_some("first")] { "Sign in" }
        }
        p {
            "Run " code { "provost serve link" } " on the machine of the server for a link that works once, "
            "within 15 minutes. Open it, or enter it here."
        }
    };
    let body = html! {
        @if let Some(reason) = reason { (reason) }
        @match &app.oidc {
            Some(oidc) => {
                a class="button first whole" href={ "/sign-in?next=" (frame::segment(next)) } {
                    "Sign in with " (T(&oidc.name))
                }
                h2 { "With a link" }
                (by_link)
            }
            None => (by_link),
        }
    };
    frame::bare(status, "Sign in", &body, onward)
}

/// Renders a missing session as the page to sign in, which leads on to the wanted page.
///
/// A browser keeps a strict cookie back when a person follows a link from another site, such as a chat. The
/// page then asks for itself once more, and the cookie comes along.
pub(super) fn wanted(app: &AppState, place: &str, is_from_elsewhere: bool) -> Response {
    let next = local(Some(place));
    let onward = is_from_elsewhere.then_some(next.as_str());
    let reason = html! { p { "This browser has no valid session." } };
    let mut response = sign_in(app, StatusCode::UNAUTHORIZED, Some(&reason), &next, onward);
    response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    response
}

/// Returns the key of what a person entered: a key, or a link with one.
fn key_in(sent: &str) -> &str {
    let key = sent.rsplit_once("key=").map_or(sent, |(_, key)| key);
    key.split('&').next().unwrap_or(key).trim()
}

/// Returns `next` if it is the path of another page of this server; the agenda otherwise.
pub(super) fn local(next: Option<&str>) -> String {
    let is_safe = |next: &&str| {
        next.starts_with('/')
            && !next.starts_with("//")
            && !next.contains('\\')
            && !next.chars().any(char::is_control)
            && !["/enter", "/leave", "/sign-in", "/api/", "/mcp"].iter().any(|other| next.starts_with(other))
    };
    next.filter(is_safe).unwrap_or("/").to_owned()
}

#[derive(Deserialize)]
pub(super) struct EmptyForm {}

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
            "/sign-in/callback?code=x",
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
