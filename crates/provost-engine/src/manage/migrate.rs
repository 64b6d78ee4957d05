//! Moves the log of a state folder to Postgres and back.
//!
//! **Invariant:** the file with the log's address changes only after every event has arrived.

/// Direction in which a log is moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MoveDirection {
    /// From the state folder to the database, which is the log from then on.
    To(String),
    /// From the database to the state folder, which is the log from then on.
    From(String),
}

#[cfg(feature = "postgres")]
mod to_postgres;
#[cfg(feature = "postgres")]
pub use to_postgres::migrate;

/// Moves the log; this build has no Postgres.
#[cfg(not(feature = "postgres"))]
pub fn migrate(
    _settings: &crate::settings::EngineSettings,
    way: &MoveDirection,
    _told: &mut dyn FnMut(u64),
) -> Result<provost_store::TransferResult, crate::Error> {
    let (MoveDirection::To(url) | MoveDirection::From(url)) = way;
    Err(crate::Error::NoPostgres { url: url.clone() })
}
