//! Finds the log of a state folder: the SQLite log in it, or the Postgres log that it was moved to.
//!
//! The address is in a file of the state folder, written by a person's `provost migrate`, or in a new folder by
//! the environment (`log_locator/given.rs`). It is not in the configuration, which is in a workspace: an agent
//! that can write there could name a log it made itself. The configuration can only demand a certain log.
//!
//! **Invariant:** no file of provost contains a password, and no credential of the log is passed to an agent.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use provost_host::config::Store;
use provost_store::{ArchivableLog, Log, Memory, Sqlite};

use crate::Error;
use crate::settings::Access;

mod given;
#[cfg(feature = "postgres")]
mod remote;
#[cfg(feature = "postgres")]
pub(crate) use given::point_to;
#[cfg(feature = "postgres")]
pub use remote::database;
#[cfg(feature = "postgres")]
pub(crate) use remote::{at, know_first, same};

/// Returns whether a variable says how to connect to a Postgres server, as its own programs read it.
fn is_of_postgres(name: &OsString) -> bool {
    // PGP is another program.
    name.to_str().is_some_and(|name| name.starts_with("PG") && !name.starts_with("PGP_"))
}
const PASSWORD: &str = "PGPASSWORD";

/// Opens the log of the state folder.
pub fn open(state: &Path, access: Access) -> Result<Box<dyn Log>, Error> {
    Ok(open_archivable(state, access)?)
}

/// Opens the log of the state folder, also to archive events of it.
pub fn open_archivable(state: &Path, access: Access) -> Result<Box<dyn ArchivableLog>, Error> {
    if let Some(url) = address(state)? {
        return remote_log(state, &url, access);
    }
    Ok(match access {
        Access::Write => Box::new(Sqlite::open(state)?),
        Access::Read => match Sqlite::open_existing(state)? {
            Some(log) => Box::new(log),
            None => Box::new(Memory::default()),
        },
    })
}

/// Closes the connections of logs that this process has opened and no longer uses.
#[cfg(feature = "postgres")]
pub fn close_unused() {
    remote::close_unused();
}

/// Makes this process give up on a log that does not answer after a second or so.
pub fn answer_soon() {
    #[cfg(feature = "postgres")]
    provost_store::postgres::answer_soon();
}

/// Opens the log of the state folder for reading.
pub fn for_reading(state: &Path) -> Result<Box<dyn Log>, Error> {
    open(state, Access::Read)
}

/// Refuses if the configuration demands another log than the one of the state folder.
pub fn check(state: &Path, wanted: &Store) -> Result<(), Error> {
    let Store::Postgres { url } = wanted else { return Ok(()) };
    match address(state)? {
        Some(here) if same(&here, url) => Ok(()),
        here => {
            Err(Error::OtherLog { wanted: url.clone(), here: here.unwrap_or_else(|| "sqlite".to_owned()) })
        }
    }
}

/// Moves the address and the credentials of the log out of the agents' environment into this process, and the
/// address into a new state folder.
pub fn keep_the_keys(state: &Path, environment: &mut Vec<(OsString, OsString)>) -> Result<(), Error> {
    let given = given::take(environment)?;
    if let Some(address) = &given.address {
        given::settle(state, self::address(state)?.as_deref(), address)?;
    }
    if file(state).exists() || given.password.is_some() {
        let keys = environment.iter().filter(|(name, _)| is_of_postgres(name)).cloned();
        // The first of two counts.
        let password = given.password.map(|password| (OsString::from(PASSWORD), password));
        let keys = password.into_iter().chain(keys).chain(given.files).collect();
        environment.retain(|(name, _)| !is_of_postgres(name));
        know(keys);
    }
    Ok(())
}

/// Returns the files and folders on this machine that can have credentials of the log, if it is in Postgres.
pub fn credential_files(state: &Path, environment: &[(OsString, OsString)]) -> Vec<PathBuf> {
    let Ok(Some(url)) = address(state) else { return Vec::new() };
    let home = environment.iter().find(|(name, _)| name == "HOME").map(|(_, home)| PathBuf::from(home));
    let of_home = [".pgpass", ".pg_service.conf", ".postgresql"];
    let of_home = home.into_iter().flat_map(|home| of_home.map(|name| home.join(name)));
    let named = [
        "PGPASSFILE",
        "PGSERVICEFILE",
        "PGSYSCONFDIR",
        "PGSSLKEY",
        "PGSSLCERT",
        "PROVOST_DATABASE_URL_FILE",
        "PROVOST_DATABASE_PASSWORD_FILE",
    ];
    let named = named.into_iter().filter_map(known).map(PathBuf::from);
    let query = url.split_once('?').map_or("", |(_, query)| query);
    let of_url = query.split('&').filter_map(|pair| pair.split_once('='));
    let of_url =
        of_url.filter(|(name, _)| matches!(*name, "sslkey" | "ssl-key" | "passfile" | "servicefile"));
    let of_url = of_url.map(|(_, path)| PathBuf::from(path.replace("%2F", "/")));
    let mut found: Vec<PathBuf> =
        of_home.chain(named).chain(of_url).filter_map(|path| path.canonicalize().ok()).collect();
    found.sort();
    found.dedup();
    found
}

/// Returns the address of the log, if it is not in the state folder.
pub fn address(state: &Path) -> Result<Option<String>, Error> {
    let path = file(state);
    match fs::read_to_string(&path) {
        Ok(text) => Ok(Some(text.trim().to_owned())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(Error::Io { what: "read where the log is from", path, source }),
    }
}

pub(crate) fn file(state: &Path) -> PathBuf {
    state.join("log.url")
}

#[cfg(feature = "postgres")]
use remote::{know, known, remote_log};

#[cfg(not(feature = "postgres"))]
fn know(_keys: Vec<(OsString, OsString)>) {}

#[cfg(not(feature = "postgres"))]
fn known(_name: &str) -> Option<OsString> {
    None
}

#[cfg(not(feature = "postgres"))]
fn same(here: &str, wanted: &str) -> bool {
    here == wanted
}

#[cfg(not(feature = "postgres"))]
fn remote_log(_state: &Path, url: &str, _access: Access) -> Result<Box<dyn ArchivableLog>, Error> {
    Err(Error::NoPostgres { url: url.to_owned() })
}
