//! Describes errors to programs as `application/problem+json`; `router/guard.rs` renders them for people.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use provost_core::rules::command::Refusal;
use provost_engine::observe::view::DiagnosticView;
use provost_engine::{Error, PlanFileError};
use serde::Serialize;
use utoipa::{IntoResponses, ToSchema};

pub(crate) type Answer<T> = Result<T, Problem>;

/// An error: what happened, why, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct Problem {
    /// Kind of the problem; the same for the same cause.
    #[serde(rename = "type")]
    #[schema(example = "urn:provost:problem:stale")]
    pub kind: String,
    pub title: &'static str,
    pub status: u16,
    pub detail: String,
    /// What to do next.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub hint: Option<String>,
    /// Errors in the plan, if they are the problem.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub diagnostics: Vec<DiagnosticView>,
}

/// Refusals of read requests.
#[derive(IntoResponses)]
#[allow(dead_code, reason = "it is only for the document of the API")]
pub(crate) enum ReadRefusals {
    /// The request cannot be parsed.
    #[response(status = 400, content_type = "application/problem+json")]
    Bad(Problem),
    /// The token or the session is missing or not valid.
    #[response(status = 401, content_type = "application/problem+json")]
    Stranger(Problem),
    /// The token does not allow this, or the caller is inside an attempt.
    #[response(status = 403, content_type = "application/problem+json")]
    Forbidden(Problem),
    /// It does not exist.
    #[response(status = 404, content_type = "application/problem+json")]
    Unknown(Problem),
    /// The plan file does not exist.
    #[response(status = 409, content_type = "application/problem+json")]
    Gone(Problem),
    /// Too many requests.
    #[response(status = 429, content_type = "application/problem+json")]
    TooOften(Problem),
}

/// Refusals of decisions.
#[derive(IntoResponses)]
#[allow(dead_code, reason = "it is only for the document of the API")]
pub(crate) enum WriteRefusals {
    /// The request cannot be parsed.
    #[response(status = 400, content_type = "application/problem+json")]
    Bad(Problem),
    /// The token or the session is missing or not valid.
    #[response(status = 401, content_type = "application/problem+json")]
    Stranger(Problem),
    /// The token does not allow this, or the caller is not a person.
    #[response(status = 403, content_type = "application/problem+json")]
    Forbidden(Problem),
    /// It does not exist, or no longer waits.
    #[response(status = 404, content_type = "application/problem+json")]
    Unknown(Problem),
    /// Another person was faster, or the plan is in another stage.
    #[response(status = 409, content_type = "application/problem+json")]
    Refused(Problem),
    /// The body is too large.
    #[response(status = 413, content_type = "application/problem+json")]
    TooLarge(Problem),
    /// The body is not JSON.
    #[response(status = 415, content_type = "application/problem+json")]
    NotJson(Problem),
    /// The answer does not fit the item, or the plan has errors.
    #[response(status = 422, content_type = "application/problem+json")]
    NoAnswer(Problem),
    /// Too many requests.
    #[response(status = 429, content_type = "application/problem+json")]
    TooOften(Problem),
}

impl Problem {
    pub(crate) fn new(status: StatusCode, kind: &str, detail: impl Into<String>) -> Self {
        Self {
            kind: format!("urn:provost:problem:{kind}"),
            title: status.canonical_reason().unwrap_or("Problem"),
            status: status.as_u16(),
            detail: detail.into(),
            hint: None,
            diagnostics: Vec::new(),
        }
    }

    pub(crate) fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    pub(crate) fn bad(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad-request", detail)
    }

    pub(crate) fn unknown(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not-found", detail)
    }

    pub(crate) fn forbidden(kind: &str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, kind, detail)
    }

    pub(crate) fn unauthenticated() -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "who", "the request has no valid session or token").hint(
            "In a browser, open the link that `provost serve` printed, or get one with `provost serve link`; \
             a program sends `Authorization: Bearer TOKEN`, from `provost serve token --scope view`.",
        )
    }

    pub(crate) fn broken(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "broken", detail)
    }
}

/// Returns the error if the state folder has no plan with this id.
pub(crate) fn no_such_plan(id: &str) -> Problem {
    Problem::unknown(format!("there is no plan `{id}` in the log")).hint("`GET /api/plans` lists them.")
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        let (status, kind) = match &refusal {
            Refusal::NoPlan | Refusal::NoSuchStep { .. } | Refusal::NoSuchItem { .. } => {
                (StatusCode::NOT_FOUND, "not-found")
            }
            Refusal::Empty { .. } | Refusal::WrongChoice { .. } => {
                (StatusCode::UNPROCESSABLE_ENTITY, "not-an-answer")
            }
            Refusal::Stale { .. } => (StatusCode::CONFLICT, "stale"),
            Refusal::AlreadyApproved { .. } => (StatusCode::CONFLICT, "already-approved"),
            _ => (StatusCode::CONFLICT, "refused"),
        };
        Problem::new(status, kind, refusal.to_string())
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        match error {
            Error::Refused(refusal) => refusal.into(),
            Error::Uncommitted { ref files, ref branch } => {
                let ways_out = provost_engine::plan::uncommitted::ways_out(files, branch.as_deref());
                Problem::new(StatusCode::CONFLICT, "uncommitted", error.to_string()).hint(ways_out)
            }
            Error::NotAPerson { .. } => Problem::forbidden("not-a-person", error.to_string()),
            Error::NoTerminal { .. } => Problem::forbidden("not-here", error.to_string()).hint(
                "Decide at a terminal that was open before the first attempt, or run agents in a \
                 sandbox: `provost doctor` shows what this machine offers.",
            ),
            Error::Diagnosed { text, diagnostics, .. } => {
                let found = DiagnosticView::all(&text, &diagnostics);
                let problem = Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "plan", "the plan has errors");
                Problem { diagnostics: found, ..problem }
            }
            Error::PlanFile(PlanFileError::Changed { .. }) => {
                Problem::new(StatusCode::CONFLICT, "stale", error.to_string())
                    .hint("Read the plan again, and decide then.")
            }
            Error::NotThere { .. } | Error::PlanFile(_) => {
                Problem::new(StatusCode::CONFLICT, "no-file", told(&error)).hint(NO_FILE)
            }
            error => Problem::broken(told(&error)),
        }
    }
}

/// Hint if the plan file is missing.
const NO_FILE: &str = "Put the file back (`provost show PLAN --recorded` prints the text in the log). The plan's \
     page and its events stay available without it.";

/// Joins the messages of an error and its causes.
fn told(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let words = error.to_string();
        if !text.ends_with(&words) {
            text = format!("{text}: {words}");
        }
        cause = error.source();
    }
    text
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = (status, Json(&self)).into_response();
        let json = HeaderValue::from_static("application/problem+json");
        response.headers_mut().insert(header::CONTENT_TYPE, json);
        if status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        // `router/guard.rs` renders it as a page.
        response.extensions_mut().insert(self);
        response
    }
}
