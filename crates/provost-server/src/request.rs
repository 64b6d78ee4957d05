//! Reads the parts of a request: JSON, forms, query parameters and path segments.
//!
//! **Invariant:** a write authenticated by a cookie has a key that only provost's own pages have.

use axum::body::{Body, to_bytes};
use axum::extract::rejection::{JsonRejection, PathRejection};
use axum::extract::{FromRequest, FromRequestParts, Path, Request};
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use serde::de::DeserializeOwned;

use crate::principal::{Decider, Owner, Principal, header_text};
use crate::problem::Problem;
use crate::state::SharedState;

/// Maximum body size; no plan or text of a person is longer.
pub(crate) const BODY_MAX: usize = 4 << 20;
/// Header with the form key, for writes by a script.
const FORM_HEADER: &str = "x-provost-form";

fn no_key() -> Problem {
    Problem::forbidden(
        "form",
        "the form key is missing or wrong: the request was not sent by a page of this server",
    )
    .hint("Reload the page, and send the form again.")
}

/// JSON body sent by a program or by provost's own script.
pub(crate) struct JsonBody<T> {
    pub by: Principal,
    pub said: T,
}

impl<T: DeserializeOwned> FromRequest<SharedState> for JsonBody<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &SharedState) -> Result<Self, Problem> {
        let (mut parts, body) = request.into_parts();
        let Decider(by) = Decider::from_parts(&mut parts, app).await?;
        if by.by_cookie && header_text(&parts.headers, FORM_HEADER) != Some(by.form_key.as_str()) {
            return Err(no_key());
        }
        let request = Request::from_parts(parts, body);
        let axum::Json(said) = axum::Json::<T>::from_request(request, app).await.map_err(unreadable)?;
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
    pub by: Principal,
    pub said: T,
}

impl<T: DeserializeOwned> FromRequest<SharedState> for PageForm<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &SharedState) -> Result<Self, Problem> {
        let (mut parts, body) = request.into_parts();
        let Decider(by) = Decider::from_parts(&mut parts, app).await?;
        let said = sent_form(&parts, body, &by).await?;
        Ok(Self { by, said })
    }
}

/// Form of a page about something that is the sender's own; a person who may only look can send it.
pub(crate) struct OwnForm<T> {
    pub by: Principal,
    pub said: T,
}

impl<T: DeserializeOwned> FromRequest<SharedState> for OwnForm<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &SharedState) -> Result<Self, Problem> {
        let (mut parts, body) = request.into_parts();
        let Owner(by) = Owner::from_parts(&mut parts, app).await?;
        let said = sent_form(&parts, body, &by).await?;
        Ok(Self { by, said })
    }
}

/// Reads a form and checks its key.
async fn sent_form<T: DeserializeOwned>(parts: &Parts, body: Body, by: &Principal) -> Result<T, Problem> {
    let form = header_text(&parts.headers, header::CONTENT_TYPE)
        .is_some_and(|kind| kind.starts_with("application/x-www-form-urlencoded"));
    if !form {
        return Err(Problem::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "body",
            "this route takes a form (`application/x-www-form-urlencoded`)",
        ));
    }
    let too_large =
        || Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too-large", "the form is larger than 4 MiB");
    let body = to_bytes(body, BODY_MAX).await.map_err(|_| too_large())?;
    let pairs: Vec<(String, String)> = from_form(&body)?;
    let key = pairs.iter().find(|(name, _)| name == "form_key").map(|(_, value)| value.as_str());
    if by.by_cookie && key != Some(by.form_key.as_str()) {
        return Err(no_key());
    }
    from_form(&body)
}

fn from_form<T: DeserializeOwned>(body: &[u8]) -> Result<T, Problem> {
    serde_urlencoded::from_bytes(body).map_err(|error| Problem::bad(format!("the form: {error}")))
}

/// Query parameters of the URL.
pub(crate) struct UrlQuery<T>(pub T);

impl<T: DeserializeOwned> FromRequestParts<SharedState> for UrlQuery<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _house: &SharedState) -> Result<Self, Problem> {
        match axum::extract::Query::<T>::try_from_uri(&parts.uri) {
            Ok(axum::extract::Query(asked)) => Ok(Self(asked)),
            Err(rejection) => Err(Problem::bad(rejection.body_text())),
        }
    }
}

/// Parameters in the path.
pub(crate) struct Segment<T>(pub T);

impl<T: DeserializeOwned + Send> FromRequestParts<SharedState> for Segment<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &SharedState) -> Result<Self, Problem> {
        match Path::<T>::from_request_parts(parts, app).await {
            Ok(Path(asked)) => Ok(Self(asked)),
            Err(rejection @ PathRejection::FailedToDeserializePathParams(_)) => {
                Err(Problem::bad(rejection.body_text()))
            }
            Err(rejection) => Err(Problem::broken(rejection.body_text())),
        }
    }
}
