//! Requests without an authenticated principal: at the link, or with a token for agents.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;

use super::accept::Ends;
use super::principal::{self, outside, stranger};
use super::{Problem, Shared};

/// A connection without an authenticated principal.
pub(crate) struct Door {
    ends: Ends,
}

impl Door {
    /// Refuses and records a caller from inside an attempt.
    pub async fn only_people(&self, house: &Shared) -> Result<(), Problem> {
        outside(house, &self.ends).await
    }

    pub async fn stranger(&self, house: &Shared) -> Problem {
        stranger(house, &self.ends).await
    }
}

impl FromRequestParts<Shared> for Door {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _house: &Shared) -> Result<Self, Problem> {
        Ok(Self { ends: principal::ends(parts)? })
    }
}
