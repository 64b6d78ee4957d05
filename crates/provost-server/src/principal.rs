//! Authenticates the principal: by the cookie of a session, or by the token of a program.
//!
//! **Invariant:** a client inside an attempt of a running plan is refused, whatever token it has, and this is
//! recorded.
//! **Invariant:** a write authenticated by a cookie has an `Origin`.
//! **Invariant:** the repositories of a principal are set before a route reads anything.

mod connection;
mod unknown_caller;

use std::time::Duration;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use provost_core::model::hash::Hash;
use provost_engine::manage::tokens::{Token, TokenKind};
use provost_engine::plan::human_check::Who;
use provost_engine::plan::sessions::ClientProcess;

use crate::problem::Problem;
use crate::state::{AppState, CallerKind, REPOSITORIES, SharedState, ask};
use provost_engine::plan::plan_registry::repository_key;

pub(crate) use connection::Ends;
pub(crate) use unknown_caller::UnknownCaller;

/// Header with the version of the page that the script has.
const PAGE_HEADER: &str = "x-provost-page";
/// Time limit for the log in metrics requests; after it the log counts as unreachable.
const LOG_IS_THERE: Duration = Duration::from_secs(2);

/// An authenticated principal.
#[derive(Clone, Debug)]
pub(crate) struct Principal {
    pub token: Token,
    /// Key that provost's own pages send with every write.
    pub form_key: String,
    pub by_cookie: bool,
    ends: Ends,
    /// Version of the page that the browser shows.
    pub has: Option<String>,
}

impl Principal {
    /// Returns the caller for the engine's checks. It inspects processes, so it must not run on async
    /// threads.
    pub(crate) fn who(&self, app: &AppState) -> Who {
        called(app, &self.ends)
    }

    /// Returns the process at the other end of its connection, if it is on this machine; looked up once.
    pub(crate) fn client(&self, app: &AppState) -> Option<ClientProcess> {
        *self.ends.client.get_or_init(|| self.who(app).client())
    }

    /// Returns the name that its decisions have in the log.
    pub(crate) fn name(&self) -> String {
        self.token.name.clone()
    }

    /// Refuses what is about all repositories to a client that is limited to some.
    pub(crate) fn must_see_all(&self, reason: &str) -> Result<(), Problem> {
        match self.token.repositories.is_empty() {
            true => Ok(()),
            false => Err(Problem::forbidden("repository", reason.to_owned()).hint(
                "`provost serve link` and `provost serve token` without `--repository` have no limit.",
            )),
        }
    }

    /// Refuses what happens in the folder of the server to a client that is limited to other repositories.
    pub(crate) fn must_see_folder(&self, app: &AppState) -> Result<(), Problem> {
        let only = &self.token.repositories;
        let folder = &app.overview.settings().cwd;
        match only.is_empty() || only.contains(&repository_key(folder)) {
            true => Ok(()),
            false => Err(Problem::forbidden(
                "repository",
                "you may not see the repository that the server was started in",
            )
            .hint("Ask its admin for `provost serve link --repository` with that folder.")),
        }
    }
}

/// Returns a header's value if it is text.
pub(crate) fn header_text(headers: &HeaderMap, name: impl header::AsHeaderName) -> Option<&str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

fn called(app: &AppState, ends: &Ends) -> Who {
    if app.names.has_proxy { Who::behind_a_proxy() } else { Who::called(ends.ours, ends.theirs) }
}

fn word_of(headers: &HeaderMap, cookie: &str) -> Option<(String, bool)> {
    if let Some(sent) = header_text(headers, header::AUTHORIZATION) {
        let (scheme, word) = sent.split_once(' ')?;
        return scheme.eq_ignore_ascii_case("bearer").then(|| (word.trim().to_owned(), false));
    }
    cookie_named(headers, cookie).map(|word| (word.to_owned(), true))
}

/// Returns the value of a cookie.
pub(crate) fn cookie_named<'h>(headers: &'h HeaderMap, cookie: &str) -> Option<&'h str> {
    let cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = cookies.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(name, _)| *name == cookie).map(|(_, word)| word)
}

/// Authenticates the client and checks that it is not inside an attempt.
pub(crate) async fn known(parts: &mut Parts, app: &SharedState) -> Result<Principal, Problem> {
    found(parts, app, look_outside).await
}

/// Authenticates the client only; does not check whether it is inside an attempt.
async fn named(parts: &mut Parts, app: &SharedState) -> Result<Principal, Problem> {
    found(parts, app, |_, _| Ok(())).await
}

/// Authenticates the client. `look` is called only for known clients: unknown ones are rate-limited first.
async fn found(
    parts: &mut Parts,
    app: &SharedState,
    look: impl FnOnce(&AppState, &Ends) -> Result<(), Problem> + Send + 'static,
) -> Result<Principal, Problem> {
    let ends = Ends::of(parts)?;
    let sent = word_of(&parts.headers, app.names.cookie());
    let Some((word, by_cookie)) = sent else { return Err(unknown(app, &ends).await) };
    let form_key = Hash::of(format!("form {word}").as_bytes()).to_string();
    let from = ends.clone();
    let found = ask(app, move |app| {
        let token = app.tokens.find(&word).filter(|token| match token.kind {
            TokenKind::Session => by_cookie,
            TokenKind::Token => !by_cookie,
            TokenKind::Link => false,
        });
        if let Some(token) = &token {
            app.tokens.record_use(token);
        }
        token.map(|token| look(app, &from).map(|()| token)).transpose()
    });
    let Some(token) = found.await? else { return Err(unknown(app, &ends).await) };
    // Outside of a request, as in a test, there is nobody to show less to.
    let _ = REPOSITORIES.try_with(|only| only.replace(token.repositories.clone()));
    let has = header_text(&parts.headers, PAGE_HEADER).map(str::to_owned);
    Ok(Principal { token, form_key, by_cookie, ends, has })
}

/// Returns the refusal of an unknown client, within the rate limit; an agent is also recorded.
pub(crate) async fn unknown(app: &SharedState, ends: &Ends) -> Problem {
    if let Err(problem) = within(app, CallerKind::Unknown, &ends.theirs.ip().to_string()) {
        return problem;
    }
    match outside(app, ends).await {
        Ok(()) => Problem::unauthenticated(),
        // Why the log cannot be read is nothing for an unknown client.
        Err(problem) if problem.status >= 500 => Problem::unauthenticated(),
        Err(problem) => problem,
    }
}

/// Refuses a client from inside an attempt.
pub(crate) async fn outside(app: &SharedState, ends: &Ends) -> Result<(), Problem> {
    let ends = ends.clone();
    ask(app, move |app| look_outside(app, &ends)).await
}

/// Checks each connection once, while a run is under way.
fn look_outside(app: &AppState, ends: &Ends) -> Result<(), Problem> {
    if ends.outside.get().is_none() && !app.overview.is_quiet()? {
        app.overview.only_people(&called(app, ends))?;
        let _ = ends.outside.set(());
    }
    Ok(())
}

pub(crate) fn within(app: &AppState, kind: CallerKind, asker: &str) -> Result<(), Problem> {
    app.limits.allow(kind, asker).map_err(|seconds| {
        Problem::new(StatusCode::TOO_MANY_REQUESTS, "too-often", "too many requests")
            .hint(format!("Try again in {seconds} s."))
    })
}

/// A principal that may read.
pub(crate) struct Viewer(pub Principal);

impl FromRequestParts<SharedState> for Viewer {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &SharedState) -> Result<Self, Problem> {
        let principal = known(parts, app).await?;
        within(app, CallerKind::View, &principal.token.id)?;
        if !principal.token.scope.may_view() {
            return Err(scope("view", &principal));
        }
        Ok(Self(principal))
    }
}

/// A program that may read metrics. While the log is unreachable, it cannot be checked where the program
/// runs, and it gets nothing from the log.
pub(crate) struct Scraper {
    pub is_looked_up: bool,
}

impl FromRequestParts<SharedState> for Scraper {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &SharedState) -> Result<Self, Problem> {
        // Only the lookup of an unknown client needs the log here, so a timeout means an unknown client.
        let asked = tokio::time::timeout(LOG_IS_THERE, named(parts, app)).await;
        let principal = asked.unwrap_or_else(|_| Err(Problem::unauthenticated()))?;
        within(app, CallerKind::View, &principal.token.id)?;
        if !principal.token.scope.may_view() {
            return Err(scope("view", &principal));
        }
        principal.must_see_all("metrics count the plans of all repositories")?;
        match tokio::time::timeout(LOG_IS_THERE, outside(app, &principal.ends)).await {
            Ok(Err(problem)) if problem.status < 500 => Err(problem),
            looked => Ok(Self { is_looked_up: matches!(looked, Ok(Ok(()))) }),
        }
    }
}

/// A principal that may decide.
pub(crate) struct Decider(pub Principal);

impl Decider {
    pub(crate) async fn from_parts(parts: &mut Parts, app: &SharedState) -> Result<Self, Problem> {
        let principal = writer(parts, app).await?;
        if !principal.token.scope.may_decide() {
            return Err(scope("decide", &principal));
        }
        Ok(Self(principal))
    }
}

/// A person who changes only what is their own, such as a session.
pub(crate) struct Owner(pub Principal);

impl Owner {
    pub(crate) async fn from_parts(parts: &mut Parts, app: &SharedState) -> Result<Self, Problem> {
        let principal = writer(parts, app).await?;
        if !principal.token.scope.may_view() {
            return Err(scope("view", &principal));
        }
        Ok(Self(principal))
    }
}

/// Authenticates the sender of a write.
async fn writer(parts: &mut Parts, app: &SharedState) -> Result<Principal, Problem> {
    let principal = known(parts, app).await?;
    within(app, CallerKind::Write, &principal.token.id)?;
    // `guard` has checked the value; here the header must exist.
    if principal.by_cookie && !parts.headers.contains_key(header::ORIGIN) {
        return Err(Problem::forbidden("origin", "a write with a session needs an `Origin` header"));
    }
    Ok(principal)
}

fn scope(needed: &str, principal: &Principal) -> Problem {
    let has = principal.token.scope.word();
    Problem::forbidden("scope", format!("this needs scope `{needed}`; the token has scope `{has}`"))
        .hint(format!("`provost serve token --scope {needed}` makes one."))
}
