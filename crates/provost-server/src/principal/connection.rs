//! The two ends of the connection that a request came over.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

use axum::http::request::Parts;
use provost_engine::plan::sessions::ClientProcess;

use crate::problem::Problem;

/// The two ends of a connection, and what is known about the client.
#[derive(Clone, Debug)]
pub(crate) struct Ends {
    pub ours: SocketAddr,
    pub theirs: SocketAddr,
    /// Set once it is known that the client is not inside an attempt.
    pub outside: Arc<OnceLock<()>>,
    /// The client's process, once it was looked up; `None` inside if it is not on this machine.
    pub client: Arc<OnceLock<Option<ClientProcess>>>,
}

impl Ends {
    /// Returns the ends that `http/accept.rs` attached to the request.
    pub(crate) fn of(parts: &Parts) -> Result<Self, Problem> {
        parts.extensions.get::<Self>().cloned().ok_or_else(|| Problem::broken("the connection is not known"))
    }
}
