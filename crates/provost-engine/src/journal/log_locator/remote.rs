//! The log of a state folder in Postgres.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use provost_core::model::proof::ProofKey;
use provost_store::postgres::DatabaseAddress;
use provost_store::{ArchivableLog, Memory, Postgres, archive};

use super::address;
use crate::Error;
use crate::settings::Access;

type Variables = Vec<(OsString, OsString)>;

static KEYS: Mutex<Option<Arc<Variables>>> = Mutex::new(None);

pub(super) fn know(keys: Variables) {
    *KEYS.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(keys));
}

/// Returns a variable that was moved out of the environment of agents.
pub(super) fn known(name: &str) -> Option<OsString> {
    let keys = KEYS.lock().unwrap_or_else(PoisonError::into_inner).clone()?;
    keys.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone())
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

/// Logs that this process has opened, by state folder, address and access. A command about many plans uses one
/// connection for all of them.
static OPEN: Mutex<BTreeMap<(PathBuf, String, bool), Arc<Postgres>>> = Mutex::new(BTreeMap::new());

pub(super) fn remote_log(state: &Path, url: &str, access: Access) -> Result<Box<dyn ArchivableLog>, Error> {
    let open = || OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    let name = (state.to_owned(), url.to_owned(), access == Access::Write);
    if let Some(known) = open().get(&name) {
        return Ok(Box::new(known.clone()));
    }
    let address = at(url)?;
    let opened = match access {
        Access::Write => Some(signing(state, Postgres::open(&address)?)),
        Access::Read => Postgres::open_existing(&address)?,
    };
    let with_files = |log: Postgres| Arc::new(log.with_cold_folder(state.join(archive::FOLDER)));
    let Some(opened) = opened.map(with_files) else { return Ok(Box::new(Memory::default())) };
    open().insert(name, opened.clone());
    Ok(Box::new(opened))
}

/// Closes the logs that this process has opened and no longer uses.
pub(super) fn close_unused() {
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    open.retain(|_, log| Arc::strong_count(log) > 1);
}

/// Makes the log sign the verdicts that this process writes, if the state folder has a key.
fn signing(state: &Path, log: Postgres) -> Postgres {
    let seed = std::fs::read(state.join("key")).ok().and_then(|bytes| <[u8; 32]>::try_from(bytes).ok());
    match seed {
        Some(seed) => log.with_signer(ProofKey::new(&seed)),
        None => log,
    }
}
