//! The caller of a route that needs no authentication: a browser that opens the link.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;

use super::{Ends, outside, unknown};
use crate::problem::Problem;
use crate::state::SharedState;

/// A caller that is not authenticated.
pub(crate) struct UnknownCaller {
    ends: Ends,
}

impl UnknownCaller {
    /// Refuses and records a caller from inside an attempt.
    pub(crate) async fn only_people(&self, app: &SharedState) -> Result<(), Problem> {
        outside(app, &self.ends).await
    }

    /// Returns the refusal of a caller whose link is not valid.
    pub(crate) async fn refuse(&self, app: &SharedState) -> Problem {
        unknown(app, &self.ends).await
    }
}

impl FromRequestParts<SharedState> for UnknownCaller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _app: &SharedState) -> Result<Self, Problem> {
        Ok(Self { ends: Ends::of(parts)? })
    }
}
