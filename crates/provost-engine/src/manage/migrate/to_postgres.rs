//! Moves the log between the state folder and Postgres.

use std::fs;

use provost_store::{Postgres, Sqlite, TransferResult, transfer};

use super::MoveDirection;
use crate::Error;
use crate::journal::log_locator;
use crate::plan::human_check::{self, Who};
use crate::plan::plan_registry::Here;
use crate::plan::sessions::Sessions;
use crate::settings::{Access, EngineSettings};

/// Moves the log. Only a person may do this, because it decides which log is trusted from now on.
pub fn migrate(
    settings: &EngineSettings,
    way: &MoveDirection,
    told: &mut dyn FnMut(u64),
) -> Result<TransferResult, Error> {
    let state = settings.state_folder();
    let (MoveDirection::To(url) | MoveDirection::From(url)) = way;
    let elsewhere =
        || log_locator::address(&state).map(|found| found.filter(|found| !log_locator::same(found, url)));
    log_locator::know_first(&settings.environment);
    let remote = log_locator::at(url)?;
    if let Some(here) = elsewhere()? {
        return Err(Error::OtherLog { wanted: url.clone(), here });
    }
    let believed = log_locator::open(&state, Access::Write)?;
    let workspace = format!("workspace {}", Here::of(&settings.cwd).workspace().display());
    if let Some(why) = human_check::intruder(&*believed, &workspace, &Sessions::new(&state), &Who::Here)? {
        return Err(Error::NotAPerson { why });
    }
    drop(believed);
    let (embedded, database) = (Sqlite::open(&state)?, Postgres::open(&remote)?);
    Ok(match way {
        MoveDirection::To(url) => {
            let mut moved = transfer(&embedded, &database, told)?;
            moved.missing_roles = database.grant_roles()?.unwrap_or_default();
            log_locator::point_to(&state, url)?;
            moved
        }
        MoveDirection::From(_) => {
            let moved = transfer(&database, &embedded, told)?;
            match fs::remove_file(log_locator::file(&state)) {
                Err(source) if source.kind() != std::io::ErrorKind::NotFound => {
                    return Err(Error::Io {
                        what: "take away the address in",
                        path: log_locator::file(&state),
                        source,
                    });
                }
                _ => moved,
            }
        }
    })
}
