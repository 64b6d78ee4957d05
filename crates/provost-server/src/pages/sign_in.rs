//! Signs people in at an identity provider, and signs them out.
//!
//! The browser goes to `/sign-in`, gets a cookie, goes on to the provider, and comes back to
//! `/sign-in/callback` with a code. `oidc.rs` has the rest.
//!
//! **Invariant:** a sign-in ends in the browser in which it began: the cookie is sent with it.

use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};
use maud::html;
use provost_engine::plan::plan_context;
use serde::Deserialize;

use super::enter::{self, EmptyForm};
use super::frame;
use super::text::T;
use crate::oidc::{BINDING_LASTS, Begun, Callback, Fault, Finished, Oidc};
use crate::principal::{UnknownCaller, cookie_named, header_text};
use crate::problem::{Answer, Problem};
use crate::request::{OwnForm, UrlQuery};
use crate::state::{AppState, SharedState, ask};

#[derive(Deserialize)]
pub(super) struct SignInQuery {
    /// The page to show then.
    next: Option<String>,
    /// The browser was led to the public address of the server.
    moved: Option<String>,
}

/// Leads the browser to the provider.
pub(super) async fn begin(
    State(app): State<SharedState>,
    caller: UnknownCaller,
    UrlQuery(SignInQuery { next, moved }): UrlQuery<SignInQuery>,
    headers: HeaderMap,
) -> Answer<Response> {
    let oidc = offered(&app)?;
    enter::refuse_prefetch(&headers)?;
    caller.within_limit(&app)?;
    caller.only_people(&app).await?;
    let next = enter::local(next.as_deref());
    // The provider knows one address of this server, and only that one gets the cookie back.
    let host = oidc.host();
    if !header_text(&headers, header::HOST).is_some_and(|asked| asked.eq_ignore_ascii_case(host)) {
        return match moved {
            None => {
                Ok(Redirect::to(&format!("{}/sign-in?moved=1&next={}", oidc.base, frame::segment(&next).0))
                    .into_response())
            }
            Some(_) => {
                Err(Problem::bad(format!("the server does not answer under its address {}", oidc.base))
                    .hint("Correct `url` under [serve] in provost.toml, or `--behind-proxy`."))
            }
        };
    }
    let _turn = oidc.turn().ok_or_else(busy)?;
    let wanted = next.clone();
    let begun = ask(&app, move |app| Ok(offered(app)?.begin(&wanted, plan_context::now()))).await?;
    let Begun { location, binding } = match begun {
        Ok(begun) => begun,
        Err(fault) => return Ok(refused(&app, &fault, &next)),
    };
    let mut response = Redirect::to(&location).into_response();
    let cookie = binding_cookie(&app, &binding, BINDING_LASTS.as_secs())?;
    response.headers_mut().append(header::SET_COOKIE, cookie);
    Ok(response)
}

/// Takes the browser back from the provider, and opens a session.
pub(super) async fn finish(
    State(app): State<SharedState>,
    caller: UnknownCaller,
    UrlQuery(sent): UrlQuery<Callback>,
    headers: HeaderMap,
) -> Answer<Response> {
    let _turn = offered(&app)?.turn().ok_or_else(busy)?;
    caller.within_limit(&app)?;
    caller.only_people(&app).await?;
    let binding = cookie_named(&headers, &app.names.sign_in_cookie()).map(str::to_owned);
    let browser = header_text(&headers, header::USER_AGENT).map(str::to_owned);
    let made = ask(&app, move |app| {
        let oidc = offered(app)?;
        let Finished { next, person } = oidc.finish(&sent, binding.as_deref(), plan_context::now());
        let made = match person {
            Ok(grant) => Ok(app.tokens.session(&grant, oidc.lasts, browser.as_deref())?),
            Err(fault) => Err(fault),
        };
        Ok((next, made))
    });
    let mut response = match made.await? {
        (next, Ok(made)) => {
            let mut response = enter::welcome(&next);
            response.headers_mut().append(header::SET_COOKIE, enter::session_cookie(&app, &made)?);
            response
        }
        // A person who reloads the page is signed in already.
        (next, Err(Fault::NotBegun)) if caller.has_session(&app).await? => enter::welcome(&next),
        (next, Err(fault)) => refused(&app, &fault, &next),
    };
    response.headers_mut().append(header::SET_COOKIE, binding_cookie(&app, "", 0)?);
    Ok(response)
}

/// Returns the provider, if there is one.
fn offered(app: &AppState) -> Result<&Oidc, Problem> {
    app.oidc.as_deref().ok_or_else(|| {
        Problem::unknown("this server has no identity provider")
            .hint("Open a link of `provost serve link`, or add [serve.oidc] to provost.toml.")
    })
}

fn busy() -> Problem {
    let detail = "too many people wait for the identity provider";
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, "busy", detail).hint("Try again in a moment.")
}

/// Returns the cookie that binds a sign-in to this browser. It is sent when the provider leads the browser back,
/// which a strict one would not be.
fn binding_cookie(app: &AppState, value: &str, lasts: u64) -> Result<HeaderValue, Problem> {
    let secure = if app.names.is_secure() { "; Secure" } else { "" };
    let name = app.names.sign_in_cookie();
    let cookie = format!("{name}={value}; Path=/sign-in; HttpOnly; SameSite=Lax; Max-Age={lasts}{secure}");
    HeaderValue::from_str(&cookie).map_err(|error| Problem::broken(error.to_string()))
}

/// Renders the page to sign in, with the reason why the last sign-in failed.
fn refused(app: &AppState, fault: &Fault, next: &str) -> Response {
    let (status, hint) = match fault {
        Fault::Unreachable(_) | Fault::Provider(_) => {
            (StatusCode::BAD_GATEWAY, "Try again in a moment, or use a link.")
        }
        Fault::Token(_) => (StatusCode::FORBIDDEN, "Nobody was signed in. Tell the admin of this server."),
        Fault::NotBegun => (StatusCode::FORBIDDEN, "Begin again on this page."),
        Fault::Denied(_) => (StatusCode::FORBIDDEN, "Try again, or use another account."),
        Fault::NoRule { .. } => {
            (StatusCode::FORBIDDEN, "Ask the admin of this server, or sign in with another account.")
        }
    };
    let reason = html! {
        div class="note bad" role="alert" {
            p { strong { "You are not signed in." } }
            p { (T(&fault.to_string())) "." }
            p { (hint) }
        }
        @if let (Fault::NoRule { .. }, Some(oidc)) = (fault, &app.oidc) {
            @if let Some(place) = oidc.sign_out() {
                p { "For another account, first " a href=(place) { "sign out of " (T(&oidc.name)) } "." }
            }
        }
    };
    enter::sign_in(app, status, Some(&reason), next, None)
}

pub(super) async fn leave(
    State(app): State<SharedState>,
    OwnForm { by, said: EmptyForm {} }: OwnForm<EmptyForm>,
) -> Answer<Response> {
    let id = by.token.id.clone();
    ask(&app, move |app| Ok(app.tokens.revoke(&id))).await?;
    Ok(left(&app))
}

/// Renders the page for a person whose session has ended.
pub(super) fn left(app: &AppState) -> Response {
    let body = html! {
        @if let Some(oidc) = &app.oidc {
            a class="button first whole" href="/sign-in" { "Sign in with " (T(&oidc.name)) }
            @if let Some(place) = oidc.sign_out() {
                p { "You may still be signed in there. " a href=(place) { "Sign out of " (T(&oidc.name)) } }
            }
        }
        p { "Run " code { "provost serve link" } " for a new link." }
    };
    frame::bare(StatusCode::OK, "You are logged out", &body, None)
}
