//! The log of a state folder in Postgres, and migration to it and back.
//!
//! **Invariant:** the file with the log's address changes only after every event has arrived.

use std::ffi::OsString;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use provost_store::postgres::DatabaseAddress;
use provost_store::{Log, Memory, Postgres, Sqlite, TransferResult, transfer};

use super::{MoveDirection, address, file};
use crate::harness::{Access, EngineSettings};
use crate::human_check::Who;
use crate::plan_registry::Here;
use crate::sessions::Sessions;
use crate::{Error, human_check};

type Variables = Vec<(OsString, OsString)>;

static KEYS: Mutex<Option<Arc<Variables>>> = Mutex::new(None);

pub fn know(keys: Variables) {
    *KEYS.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(keys));
}

fn at(url: &str) -> Result<DatabaseAddress, Error> {
    let keys = KEYS.lock().unwrap_or_else(PoisonError::into_inner).clone();
    Ok(DatabaseAddress::new(url, keys.as_deref().map_or(&[], Vec::as_slice))?)
}

/// Returns the database that has the log of the state folder, if one has.
pub fn database(state: &Path) -> Result<Option<DatabaseAddress>, Error> {
    address(state)?.map(|url| at(&url)).transpose()
}

/// Returns whether both addresses name the same database and user.
pub fn same(here: &str, wanted: &str) -> bool {
    match (DatabaseAddress::new(here, &[]), DatabaseAddress::new(wanted, &[])) {
        (Ok(here), Ok(wanted)) => here.to_string() == wanted.to_string(),
        _ => false,
    }
}

pub fn remote_log(url: &str, access: Access) -> Result<Box<dyn Log>, Error> {
    let address = at(url)?;
    Ok(match access {
        Access::Write => Box::new(Postgres::open(&address)?),
        Access::Read => match Postgres::open_existing(&address)? {
            Some(log) => Box::new(log),
            None => Box::new(Memory::default()),
        },
    })
}

/// Moves the log. Only a person may do this, because it decides which log is trusted from now on.
pub fn migrate(
    settings: &EngineSettings,
    way: &MoveDirection,
    told: &mut dyn FnMut(u64),
) -> Result<TransferResult, Error> {
    let state = std::path::absolute(&settings.state).unwrap_or_else(|_| settings.state.clone());
    let (MoveDirection::To(url) | MoveDirection::From(url)) = way;
    let elsewhere = || address(&state).map(|found| found.filter(|found| !same(found, url)));
    if KEYS.lock().unwrap_or_else(PoisonError::into_inner).is_none() {
        know(settings.environment.clone());
    }
    let remote = at(url)?;
    if let Some(here) = elsewhere()? {
        return Err(Error::OtherLog { wanted: url.clone(), here });
    }
    let believed = super::open(&state, Access::Write)?;
    let workspace = format!("workspace {}", Here::of(&settings.cwd).workspace().display());
    if let Some(why) = human_check::intruder(&*believed, &workspace, &Sessions::new(&state), &Who::Here)? {
        return Err(Error::NotAPerson { why });
    }
    drop(believed);
    let (embedded, database) = (Sqlite::open(&state)?, Postgres::open(&remote)?);
    Ok(match way {
        MoveDirection::To(url) => {
            let moved = transfer(&embedded, &database, told)?;
            point_to(&state, url)?;
            moved
        }
        MoveDirection::From(_) => {
            let moved = transfer(&database, &embedded, told)?;
            match fs::remove_file(file(&state)) {
                Err(source) if source.kind() != std::io::ErrorKind::NotFound => {
                    return Err(Error::Io { what: "take away the address in", path: file(&state), source });
                }
                _ => moved,
            }
        }
    })
}

fn point_to(state: &Path, url: &str) -> Result<(), Error> {
    let path = file(state);
    let written = || {
        let new = path.with_extension("new");
        let mut file = fs::File::create(&new)?;
        writeln!(file, "{url}")?;
        file.sync_all()?;
        fs::rename(&new, &path)
    };
    written().map_err(|source| Error::Io { what: "write where the log is to", path: path.clone(), source })
}
