//! Translates errors of the driver to errors of the log.
//!
//! **Invariant:** nothing here prints the connection options, because they contain the password.

use std::path::PathBuf;

use crate::Error;

/// A refusal by one of provost's database functions, by its SQLSTATE.
pub(super) enum DatabaseRefusal {
    Conflict(u64),
    Fenced(u64),
    /// A plan that was to be archived went on. The name as the database has it.
    WentOn(String),
}

pub(super) fn refusal(error: &sqlx::Error) -> Option<DatabaseRefusal> {
    let said = error.as_database_error()?.try_downcast_ref::<sqlx::postgres::PgDatabaseError>()?;
    let detail = || said.detail().and_then(|detail| detail.parse().ok()).unwrap_or(0);
    match said.code() {
        "PV001" => Some(DatabaseRefusal::Conflict(detail())),
        "PV002" => Some(DatabaseRefusal::Fenced(detail())),
        // PV004: it was written to in the middle of that.
        "PV004" | "PV005" => Some(DatabaseRefusal::WentOn(said.detail().unwrap_or_default().to_owned())),
        _ => None,
    }
}

pub(super) fn is_conflict(error: &sqlx::Error) -> bool {
    matches!(refusal(error), Some(DatabaseRefusal::Conflict(_)))
}

/// Returns whether the connection is lost or cannot be made, but a retry may help.
pub(super) fn is_a_lost_server(error: &sqlx::Error) -> bool {
    match error {
        error if is_untrusted(error) || is_refused_setting(error) => false,
        sqlx::Error::Io(_) | sqlx::Error::PoolTimedOut | sqlx::Error::WorkerCrashed => true,
        // 25P03: idle in a transaction; 57P01–03: shut down, crashed, starting; 08: connection errors;
        // 40001, 40P01: retry.
        sqlx::Error::Database(said) => said.code().is_some_and(|code| {
            matches!(&*code, "25P03" | "57P01" | "57P02" | "57P03" | "40001" | "40P01")
                || code.starts_with("08")
        }),
        _ => false,
    }
}

/// Returns whether a pooler refused a parameter with which the connection began; a retry would not help.
fn is_refused_setting(error: &sqlx::Error) -> bool {
    let said = error.as_database_error().map(|said| said.message()).unwrap_or_default();
    said.starts_with("unsupported startup parameter")
}

/// Returns whether TLS failed or the certificate is not trusted; a retry would not help.
fn is_untrusted(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Tls(_) => true,
        sqlx::Error::Io(error) => error.kind() == std::io::ErrorKind::InvalidData,
        _ => false,
    }
}

pub(super) fn of(at: &str, attempted: &'static str, source: sqlx::Error) -> Error {
    let at = at.to_owned();
    let code = source.as_database_error().and_then(|said| said.code()).map(|code| code.into_owned());
    let said = source.as_database_error().map(|said| said.message().to_owned());
    match (code.as_deref(), said) {
        (Some("28P01" | "28000"), Some(said)) => Error::NotLetIn { at, said },
        (Some("3D000"), Some(said)) => Error::NotLetIn { at, said },
        (Some("25006"), _) => Error::ServerReadOnly { at },
        (Some("42501"), Some(said)) => Error::NotAllowed { at, attempted, said },
        // A statement was prepared on another connection of a pooler, or is there from another program.
        (Some("26000" | "42P05"), Some(said)) => Error::PoolerForgets { at, said },
        (_, Some(said)) if is_refused_setting(&source) => Error::PoolerRefuses { at, said },
        (Some("53100"), _) => Error::Full { path: PathBuf::from(at) },
        _ if is_untrusted(&source) => Error::Untrusted { at, source: source.into() },
        _ if is_a_lost_server(&source) => Error::Unreachable { at, source: source.into() },
        _ => Error::Unavailable { path: PathBuf::from(at), attempted, source: source.into() },
    }
}
