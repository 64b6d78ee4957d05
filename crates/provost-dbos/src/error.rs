//! Errors that keep a worker from joining, or that a status query can meet.

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Engine(#[from] provost_engine::Error),
    #[error("the log of this state folder is in the folder, where no other machine reaches it")]
    NotShared,
    #[error(
        "this cluster speaks {found}, and this program {known}: it would not understand what it is given, and \
         takes nothing"
    )]
    OtherWire { found: String, known: &'static str },
    #[error("the database {at} has no cluster yet: no worker has ever joined")]
    NoCluster { at: String },
    #[error("there is no queue for `{role}` yet")]
    NoQueue { role: String },
    #[error("the database could not {attempted}")]
    Database {
        attempted: &'static str,
        #[source]
        source: sqlx::Error,
    },
    #[error("the queues could not be {attempted}: {why}")]
    Queues { attempted: &'static str, why: String },
    #[error("no runtime could be started")]
    Runtime(#[source] std::io::Error),
}

impl From<provost_store::Error> for Error {
    fn from(error: provost_store::Error) -> Self {
        Error::Engine(error.into())
    }
}

/// Adds what was attempted to an error.
pub(crate) trait ErrorContext<T> {
    fn attempted(self, what: &'static str) -> Result<T, Error>;
}

impl<T> ErrorContext<T> for Result<T, sqlx::Error> {
    fn attempted(self, attempted: &'static str) -> Result<T, Error> {
        self.map_err(|source| Error::Database { attempted, source })
    }
}

impl<T> ErrorContext<T> for Result<T, dbos::Error> {
    fn attempted(self, attempted: &'static str) -> Result<T, Error> {
        self.map_err(|error| Error::Queues { attempted, why: error.to_string() })
    }
}
