//! The caller of a route that needs no authentication: a browser that opens the link or signs in.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use provost_engine::manage::tokens::TokenKind;

use super::{Ends, outside, unknown, within, word_of};
use crate::problem::Problem;
use crate::state::{AppState, CallerKind, SharedState, ask};

/// A caller that is not authenticated.
pub(crate) struct UnknownCaller {
    ends: Ends,
    /// The word of its cookie, if it sent one.
    cookie: Option<String>,
}

impl UnknownCaller {
    /// Refuses and records a caller from inside an attempt.
    pub(crate) async fn only_people(&self, app: &SharedState) -> Result<(), Problem> {
        outside(app, &self.ends).await
    }

    /// Returns whether it has a session already.
    pub(crate) async fn has_session(&self, app: &SharedState) -> Result<bool, Problem> {
        let Some(word) = self.cookie.clone() else { return Ok(false) };
        let find = move |app: &AppState| Ok(app.tokens.find(&word));
        Ok(ask(app, find).await?.is_some_and(|token| token.kind == TokenKind::Session))
    }

    /// Counts a request that costs something, and refuses too many.
    pub(crate) fn within_limit(&self, app: &SharedState) -> Result<(), Problem> {
        within(app, CallerKind::Unknown, &self.ends.theirs.ip().to_string())
    }

    /// Returns the refusal of a caller whose link is not valid.
    pub(crate) async fn refuse(&self, app: &SharedState) -> Problem {
        unknown(app, &self.ends).await
    }
}

impl FromRequestParts<SharedState> for UnknownCaller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &SharedState) -> Result<Self, Problem> {
        let sent = word_of(&parts.headers, app.names.cookie());
        let cookie = sent.filter(|(_, by_cookie)| *by_cookie).map(|(word, _)| word);
        Ok(Self { ends: Ends::of(parts)?, cookie })
    }
}
