//! The log of a state folder in Postgres.

use std::ffi::OsString;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use provost_store::postgres::DatabaseAddress;
use provost_store::{Log, Memory, Postgres};

use super::address;
use crate::Error;
use crate::settings::Access;

type Variables = Vec<(OsString, OsString)>;

static KEYS: Mutex<Option<Arc<Variables>>> = Mutex::new(None);

pub(super) fn know(keys: Variables) {
    *KEYS.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(keys));
}

/// Remembers the credentials of the log, unless some are known already.
pub(crate) fn know_first(keys: &Variables) {
    KEYS.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(|| Arc::new(keys.clone()));
}

/// Returns the database at an address, with the known credentials.
pub(crate) fn at(url: &str) -> Result<DatabaseAddress, Error> {
    let keys = KEYS.lock().unwrap_or_else(PoisonError::into_inner).clone();
    Ok(DatabaseAddress::new(url, keys.as_deref().map_or(&[], Vec::as_slice))?)
}

/// Returns the database that has the log of the state folder, if one has.
pub fn database(state: &Path) -> Result<Option<DatabaseAddress>, Error> {
    address(state)?.map(|url| at(&url)).transpose()
}

/// Returns whether both addresses name the same database and user.
pub(crate) fn same(here: &str, wanted: &str) -> bool {
    match (DatabaseAddress::new(here, &[]), DatabaseAddress::new(wanted, &[])) {
        (Ok(here), Ok(wanted)) => here.to_string() == wanted.to_string(),
        _ => false,
    }
}

pub(super) fn remote_log(url: &str, access: Access) -> Result<Box<dyn Log>, Error> {
    let address = at(url)?;
    Ok(match access {
        Access::Write => Box::new(Postgres::open(&address)?),
        Access::Read => match Postgres::open_existing(&address)? {
            Some(log) => Box::new(log),
            None => Box::new(Memory::default()),
        },
    })
}
