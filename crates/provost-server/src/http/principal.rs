//! Authenticates the principal: by the cookie of a session, or by the token of a program.
//!
//! **Invariant:** a client inside an attempt of a running plan is refused, whatever token it has, and this is
//! recorded.
//! **Invariant:** a write authenticated by a cookie has an `Origin` and a key that only provost's own pages
//! have.

use std::time::Duration;

use axum::body::to_bytes;
use axum::extract::rejection::{JsonRejection, PathRejection};
use axum::extract::{FromRequest, FromRequestParts, Path, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use provost_core::model::hash::Hash;
use provost_engine::manage::tokens::{Token, TokenKind};
use provost_engine::plan::human_check::Who;
use serde::de::DeserializeOwned;

use super::accept::Ends;
use super::guard::text;
pub(crate) use super::limit::CallerKind;
use super::{AppState, BODY_MAX, Problem, Shared, ask};

/// Header with the form key, for writes by a script.
const FORM_HEADER: &str = "x-provost-form";
/// Header with the version of the page that the script has.
const PAGE_HEADER: &str = "x-provost-page";
/// Time limit for the log in metrics requests; after it the log counts as unreachable.
const LOG_IS_THERE: Duration = Duration::from_secs(2);

/// An authenticated principal.
#[derive(Clone, Debug)]
pub struct Visitor {
    pub token: Token,
    /// Key that provost's own pages send with every write.
    pub form_key: String,
    by_cookie: bool,
    ends: Ends,
    /// Version of the page that the browser shows.
    pub has: Option<String>,
}

impl Visitor {
    /// Returns the caller for the engine's checks. It inspects processes, so it must not run on async
    /// threads.
    pub fn who(&self, house: &AppState) -> Who {
        called(house, &self.ends)
    }

    /// Returns the name that its decisions have in the log.
    pub fn name(&self) -> String {
        self.token.name.clone()
    }
}

fn called(house: &AppState, ends: &Ends) -> Who {
    if house.origin.has_proxy { Who::behind_a_proxy() } else { Who::called(ends.ours, ends.theirs) }
}

fn word_of(headers: &HeaderMap, cookie: &str) -> Option<(String, bool)> {
    if let Some(sent) = text(headers, header::AUTHORIZATION) {
        let (scheme, word) = sent.split_once(' ')?;
        return scheme.eq_ignore_ascii_case("bearer").then(|| (word.trim().to_owned(), false));
    }
    let cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = cookies.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(name, _)| *name == cookie).map(|(_, word)| (word.to_owned(), true))
}

pub(crate) fn ends(parts: &Parts) -> Result<Ends, Problem> {
    parts.extensions.get::<Ends>().cloned().ok_or_else(|| Problem::broken("the connection is not known"))
}

/// Authenticates the client and checks that it is not inside an attempt.
pub(crate) async fn known(parts: &mut Parts, house: &Shared) -> Result<Visitor, Problem> {
    found(parts, house, look_outside).await
}

/// Authenticates the client only; does not check whether it is inside an attempt.
async fn named(parts: &mut Parts, house: &Shared) -> Result<Visitor, Problem> {
    found(parts, house, |_, _| Ok(())).await
}

/// Authenticates the client. `look` is called only for known clients: unknown ones are rate-limited first.
async fn found(
    parts: &mut Parts,
    house: &Shared,
    look: impl FnOnce(&AppState, &Ends) -> Result<(), Problem> + Send + 'static,
) -> Result<Visitor, Problem> {
    let ends = ends(parts)?;
    let sent = word_of(&parts.headers, house.origin.cookie());
    let Some((word, by_cookie)) = sent else { return Err(stranger(house, &ends).await) };
    let form_key = Hash::of(format!("form {word}").as_bytes()).to_string();
    let from = ends.clone();
    let found = ask(house, move |house| {
        let token = house.tokens.find(&word).filter(|token| match token.kind {
            TokenKind::Session => by_cookie,
            TokenKind::Token => !by_cookie,
            TokenKind::Link => false,
        });
        token.map(|token| look(house, &from).map(|()| token)).transpose()
    });
    let Some(token) = found.await? else { return Err(stranger(house, &ends).await) };
    let has = text(&parts.headers, PAGE_HEADER).map(str::to_owned);
    Ok(Visitor { token, form_key, by_cookie, ends, has })
}

/// Returns the refusal of an unknown client, within the rate limit; an agent is also recorded.
pub(crate) async fn stranger(house: &Shared, ends: &Ends) -> Problem {
    if let Err(problem) = within(house, CallerKind::Stranger, &ends.theirs.ip().to_string()) {
        return problem;
    }
    match outside(house, ends).await {
        Ok(()) => Problem::stranger(),
        Err(problem) => problem,
    }
}

/// Refuses a client from inside an attempt.
pub(crate) async fn outside(house: &Shared, ends: &Ends) -> Result<(), Problem> {
    let ends = ends.clone();
    ask(house, move |house| look_outside(house, &ends)).await
}

/// Checks each connection once, while a run is under way.
fn look_outside(house: &AppState, ends: &Ends) -> Result<(), Problem> {
    if ends.outside.get().is_none() && !house.overview.is_quiet()? {
        house.overview.only_people(&called(house, ends))?;
        let _ = ends.outside.set(());
    }
    Ok(())
}

pub(crate) fn within(house: &AppState, kind: CallerKind, asker: &str) -> Result<(), Problem> {
    house.limits.allow(kind, asker).map_err(|seconds| {
        Problem::new(StatusCode::TOO_MANY_REQUESTS, "too-often", "that was asked too often")
            .hint(format!("Ask again in {seconds} s."))
    })
}

/// A principal that may read.
pub(crate) struct Viewer(pub Visitor);

impl FromRequestParts<Shared> for Viewer {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, house: &Shared) -> Result<Self, Problem> {
        let visitor = known(parts, house).await?;
        within(house, CallerKind::View, &visitor.token.id)?;
        if !visitor.token.scope.may_view() {
            return Err(scope("view", &visitor));
        }
        Ok(Self(visitor))
    }
}

/// A program that may read metrics. While the log is unreachable, it cannot be checked where the program
/// runs, and it gets nothing from the log.
pub(crate) struct Scraper {
    pub is_looked_up: bool,
}

impl FromRequestParts<Shared> for Scraper {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, house: &Shared) -> Result<Self, Problem> {
        // Only the lookup of an unknown client needs the log here, so a timeout means an unknown client.
        let asked = tokio::time::timeout(LOG_IS_THERE, named(parts, house)).await;
        let visitor = asked.unwrap_or_else(|_| Err(Problem::stranger()))?;
        within(house, CallerKind::View, &visitor.token.id)?;
        if !visitor.token.scope.may_view() {
            return Err(scope("view", &visitor));
        }
        match tokio::time::timeout(LOG_IS_THERE, outside(house, &visitor.ends)).await {
            Ok(Err(problem)) if problem.status < 500 => Err(problem),
            looked => Ok(Self { is_looked_up: matches!(looked, Ok(Ok(()))) }),
        }
    }
}

/// A principal that may decide.
pub(crate) struct Decider(pub Visitor);

impl Decider {
    async fn at_the_door(parts: &mut Parts, house: &Shared) -> Result<Self, Problem> {
        let visitor = known(parts, house).await?;
        within(house, CallerKind::Write, &visitor.token.id)?;
        if !visitor.token.scope.may_decide() {
            return Err(scope("decide", &visitor));
        }
        // `guard` has checked the value; here the header must exist.
        if visitor.by_cookie && !parts.headers.contains_key(header::ORIGIN) {
            return Err(Problem::forbidden("origin", "a write of a browser says where it was made"));
        }
        Ok(Self(visitor))
    }
}

fn scope(needed: &str, visitor: &Visitor) -> Problem {
    let has = visitor.token.scope.word();
    Problem::forbidden("scope", format!("this takes scope `{needed}`, and the token has `{has}`"))
        .hint(format!("`provost serve token --scope {needed}` makes one."))
}

fn no_key() -> Problem {
    Problem::forbidden("form", "what was written does not come from a page of this server")
        .hint("Open the page again, and send it from there.")
}

/// JSON body sent by a program or by provost's own script.
pub(crate) struct JsonBody<T> {
    pub by: Visitor,
    pub said: T,
}

impl<T: DeserializeOwned> FromRequest<Shared> for JsonBody<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, house: &Shared) -> Result<Self, Problem> {
        let (mut parts, body) = request.into_parts();
        let Decider(by) = Decider::at_the_door(&mut parts, house).await?;
        if by.by_cookie && text(&parts.headers, FORM_HEADER) != Some(by.form_key.as_str()) {
            return Err(no_key());
        }
        let request = Request::from_parts(parts, body);
        let axum::Json(said) = axum::Json::<T>::from_request(request, house).await.map_err(unreadable)?;
        Ok(Self { by, said })
    }
}

fn unreadable(rejection: JsonRejection) -> Problem {
    let status = rejection.status();
    let kind = if status == StatusCode::PAYLOAD_TOO_LARGE { "too-large" } else { "body" };
    Problem::new(status, kind, rejection.body_text())
}

/// Form sent by provost's own pages.
pub(crate) struct PageForm<T> {
    pub by: Visitor,
    pub said: T,
}

impl<T: DeserializeOwned> FromRequest<Shared> for PageForm<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, house: &Shared) -> Result<Self, Problem> {
        let (mut parts, body) = request.into_parts();
        let Decider(by) = Decider::at_the_door(&mut parts, house).await?;
        let form = text(&parts.headers, header::CONTENT_TYPE)
            .is_some_and(|kind| kind.starts_with("application/x-www-form-urlencoded"));
        if !form {
            return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "body", "a form is sent here"));
        }
        let too_large = || Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too-large", "that is too much");
        let body = to_bytes(body, BODY_MAX).await.map_err(|_| too_large())?;
        let pairs: Vec<(String, String)> = from_form(&body)?;
        let key = pairs.iter().find(|(name, _)| name == "form_key").map(|(_, value)| value.as_str());
        if by.by_cookie && key != Some(by.form_key.as_str()) {
            return Err(no_key());
        }
        Ok(Self { by, said: from_form(&body)? })
    }
}

fn from_form<T: DeserializeOwned>(body: &[u8]) -> Result<T, Problem> {
    serde_urlencoded::from_bytes(body).map_err(|error| Problem::bad(format!("the form: {error}")))
}

/// Query parameters of the URL.
pub(crate) struct Query<T>(pub T);

impl<T: DeserializeOwned> FromRequestParts<Shared> for Query<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _house: &Shared) -> Result<Self, Problem> {
        match axum::extract::Query::<T>::try_from_uri(&parts.uri) {
            Ok(axum::extract::Query(asked)) => Ok(Self(asked)),
            Err(rejection) => Err(Problem::bad(rejection.body_text())),
        }
    }
}

/// Parameters in the path.
pub(crate) struct Segment<T>(pub T);

impl<T: DeserializeOwned + Send> FromRequestParts<Shared> for Segment<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, house: &Shared) -> Result<Self, Problem> {
        match Path::<T>::from_request_parts(parts, house).await {
            Ok(Path(asked)) => Ok(Self(asked)),
            Err(rejection @ PathRejection::FailedToDeserializePathParams(_)) => {
                Err(Problem::bad(rejection.body_text()))
            }
            Err(rejection) => Err(Problem::broken(rejection.body_text())),
        }
    }
}
