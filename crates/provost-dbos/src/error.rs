//! Errors that keep a worker from joining, or that a status query can meet.

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Engine(#[from] provost_engine::Error),
    #[error(
        "this state folder uses the local SQLite log, which other machines cannot \
         reach; a cluster needs Postgres"
    )]
    NotShared,
    #[error(
        "the cluster speaks {found}, but this program speaks {known}, so it takes no work; use one \
         version of provost everywhere"
    )]
    OtherWire { found: String, known: &'static str },
    #[error("the database {at} has no cluster yet; start one with `provost worker`")]
    NoCluster { at: String },
    #[error(
        "the login {login} may report checks only with a key that a person trusts: run `provost cluster trust \
         {key}` with a person's login, or start the worker with --no-checks"
    )]
    KeyNotTrusted { login: String, key: String },
    #[error(
        "the login {login} may not report checks: start the worker with --no-checks, or use another login"
    )]
    MayNotJudge { login: String },
    #[error("the lease `{name}` is free; there is nothing to break")]
    LeaseNotHeld { name: String },
    #[error("{key} is not a key: expected the 64 hexadecimal digits that the worker printed")]
    NotAKey { key: String },
    #[error("the key {key} was not trusted")]
    NotTrusted { key: String },
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
    #[error("the async runtime could not be started")]
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

/// Returns the error with its causes.
pub(crate) fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(&format!(": {cause}"));
        source = cause.source();
    }
    text
}
