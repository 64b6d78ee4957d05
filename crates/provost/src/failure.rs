//! What stops a command before it has an outcome.

use provost_engine::Error;

/// What stops a command.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    #[error(transparent)]
    Engine(#[from] Error),
    #[error("{message}")]
    Usage { message: String, hint: Option<String> },
    #[error("cannot {what}")]
    Io {
        what: String,
        #[source]
        source: std::io::Error,
    },
}

impl Failure {
    pub fn usage(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Failure::Usage { message: message.into(), hint: Some(hint.into()) }
    }
}
