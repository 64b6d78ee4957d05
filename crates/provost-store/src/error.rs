//! Errors of the log.
//!
//! `Conflict`, `Fenced` and `LeaseHeld` mean that another process was faster; the others are failures of
//! the environment.
//!
//! **Invariant:** every message names the file or the lease that it is about.

use std::io;
use std::path::{Path, PathBuf};

use provost_core::model::chain::{Break, PlanId};
use rusqlite::ErrorCode;

use crate::Holder;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("plan {plan} is at event {found}, not {expected}: another process wrote to it; read it again")]
    Conflict { plan: PlanId, expected: u64, found: u64 },
    #[error("another process took over `{name}` (epoch {held}, now {current}); this process wrote nothing")]
    Fenced { name: String, held: u64, current: u64 },
    #[error("`{name}` is held by {}", held_by(.holder))]
    LeaseHeld {
        name: String,
        /// `None` if the holder has not written its description yet.
        holder: Option<Holder>,
    },
    #[error("`{name}` is held, but {} does not say by whom: another program changed it", .path.display())]
    LeaseUnreadable { name: String, path: PathBuf },
    #[error("no space left for the log {}: make room and run the same command again", .path.display())]
    Full { path: PathBuf },
    #[error("the log {} cannot be written: its folder is read-only or \
         belongs to another user", .path.display())]
    ReadOnly { path: PathBuf },
    #[error("the log {} is damaged: move it away and restore it from a copy", .path.display())]
    Damaged { path: PathBuf, source: rusqlite::Error },
    #[error("{} is a database, but not a log of provost: choose another state folder", .path.display())]
    NotALog { path: PathBuf },
    #[error(
        "the log {} was written by a newer provost (schema {found}, this one knows {known}): upgrade provost",
        .path.display()
    )]
    NewerSchema { path: PathBuf, found: i64, known: i64 },
    #[error("the log {} is locked by a program that does not release it", .path.display())]
    Busy { path: PathBuf, source: rusqlite::Error },
    #[error("the target has other events of plan {plan}, at event {seq} or before; provost moved nothing")]
    OtherEvents { plan: PlanId, seq: u64 },
    #[error("event {seq} of plan {plan} was changed after it was sealed; provost wrote nothing")]
    BadSeal { plan: PlanId, seq: u64 },
    #[error("event {seq} of plan {plan} {why}; provost moved nothing after the events before it")]
    InDoubt { plan: PlanId, seq: u64, why: String },
    #[error("this is not an address of a log: {why}")]
    BadAddress { why: String },
    #[error("a project cannot have the name `{name}`: {why}")]
    BadProject { name: String, why: String },
    #[error(
        "the address of the log contains a password: remove it, and use PGPASSWORD or \
         the file that PGPASSFILE names"
    )]
    PasswordInAddress,
    #[error(
        "no Postgres answers at {at}; check that it runs there and that the network allows the connection"
    )]
    Unreachable { at: String, source: Box<dyn std::error::Error + Send + Sync> },
    #[error(
        "{at} refused the login ({said}); provost takes the password from PGPASSWORD or from the file \
         that PGPASSFILE names"
    )]
    NotLetIn { at: String, said: String },
    #[error(
        "no secure connection to {at}: name the certificate to trust with ?sslrootcert=FILE, \
         or choose a weaker ?sslmode="
    )]
    Untrusted { at: String, source: Box<dyn std::error::Error + Send + Sync> },
    #[error(
        "{at} is a pooler, and not a server: add the server behind it to the address, as ?direct=HOST:PORT \
         (docs/pooler.md)"
    )]
    PoolerNotNamed { at: String },
    #[error(
        "the pooler at {at} refused the connection ({said}): set ignore_startup_parameters = \
         extra_float_digits in pgbouncer.ini, and add the server behind it to the address, as \
         ?direct=HOST:PORT (docs/pooler.md)"
    )]
    PoolerRefuses { at: String, said: String },
    #[error(
        "the pooler at {at} does not keep prepared statements ({said}): use pgbouncer 1.21 or newer with \
         max_prepared_statements = 200 in pgbouncer.ini, or the address of the server"
    )]
    PoolerForgets { at: String, said: String },
    #[error(
        "behind the pooler at {at}, {name} is `{found}`: run ALTER DATABASE {database} SET {name} = \
         '{needed}', and RECONNECT in the console of the pooler"
    )]
    PoolerSetting { at: String, database: String, name: &'static str, found: String, needed: &'static str },
    #[error("{at} is Postgres {found}; the log needs {needed} or newer")]
    OldServer { at: String, found: String, needed: i32 },
    #[error("{at} is read-only, for example a replica; use the address of the primary server")]
    ServerReadOnly { at: String },
    #[error("could not {attempted} at {at}: {said}; see docs/postgres.md for the roles and their rights")]
    NotAllowed { at: String, attempted: &'static str, said: String },
    #[error(
        "the log {at} was made by an older provost (schema {found}, this one needs {known}): run `provost \
         migrate --to` to update it"
    )]
    OlderSchema { at: String, found: usize, known: usize },
    #[error(
        "the chain of plan {plan} does not verify ({found}), so it stays in the log; see `provost audit`"
    )]
    BrokenChain { plan: PlanId, found: Break },
    #[error(
        "events {first} to {last} of plan {plan} were archived in the file {file}, which is not in {}: put the \
         file back there, for example from a copy",
        folder_names(.folders)
    )]
    ColdFileMissing { plan: PlanId, first: u64, last: u64, file: String, folders: Vec<PathBuf> },
    #[error(
        "events {first} to {last} of plan {plan} cannot be read from the archive {}: {why}; restore the file from \
         a copy",
        .path.display()
    )]
    ColdFileChanged { plan: PlanId, first: u64, last: u64, path: PathBuf, why: &'static str },
    #[error("could not {attempted} ({})", .path.display())]
    Unavailable { path: PathBuf, attempted: &'static str, source: Box<dyn std::error::Error + Send + Sync> },
}

fn folder_names(folders: &[PathBuf]) -> String {
    folders.iter().map(|folder| folder.display().to_string()).collect::<Vec<_>>().join(" or in ")
}

fn held_by(holder: &Option<Holder>) -> String {
    match holder {
        Some(holder) => holder.to_string(),
        None => "another process".to_owned(),
    }
}

impl Error {
    /// Returns whether archived events are lost or were changed.
    pub fn is_of_cold_file(&self) -> bool {
        matches!(self, Error::ColdFileMissing { .. } | Error::ColdFileChanged { .. })
    }

    pub(crate) fn io(path: &Path, attempted: &'static str, source: io::Error) -> Self {
        let path = path.to_path_buf();
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Error::Full { path },
            io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => Error::ReadOnly { path },
            _ => Error::Unavailable { path, attempted, source: source.into() },
        }
    }

    pub(crate) fn sqlite(path: &Path, attempted: &'static str, source: rusqlite::Error) -> Self {
        let to = path.to_path_buf();
        match source.sqlite_error_code() {
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => Error::Damaged { path: to, source },
            Some(ErrorCode::DiskFull) => Error::Full { path: to },
            // SQLite loses the error code for a full disk if it fails to grow the shared memory file.
            Some(ErrorCode::SystemIoFailure) if is_full(path) => Error::Full { path: to },
            Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => Error::ReadOnly { path: to },
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Error::Busy { path: to, source },
            _ => Error::Unavailable { path: to, attempted, source: source.into() },
        }
    }
}

fn is_full(path: &Path) -> bool {
    let folder = path.parent().unwrap_or(path);
    rustix::fs::statvfs(folder).is_ok_and(|free| free.f_bavail == 0)
}
