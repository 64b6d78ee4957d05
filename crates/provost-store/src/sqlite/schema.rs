//! Creates the tables, and upgrades those of an older provost.
//!
//! **Invariant:** a log that was only opened for reading is left as it is, whatever its version.

use rusqlite::Connection;

use super::{Access, Sqlite};
use crate::Error;

const SCHEMA: &str = include_str!("schema.sql");
/// What the second version added.
const ARCHIVE: &str = include_str!("archive.sql");
const SCHEMA_VERSION: i64 = 2;
/// "prvs", so that `file log.db` and provost can identify the database.
pub(super) const APPLICATION_ID: i64 = 0x7072_7673;

/// State of the database's schema.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Schema {
    Absent,
    /// Nothing was archived; everything else can be read.
    First,
    Ours,
}

impl Sqlite {
    pub(super) fn check_schema(&self, connection: &Connection) -> Result<Schema, Error> {
        // One snapshot for all that is read: another process may be creating the schema.
        let snapshot = connection.unchecked_transaction().map_err(self.failed("read the log's version"))?;
        let number = |query: &str| {
            let found = snapshot.query_row(query, [], |row| row.get::<_, i64>(0));
            found.map_err(self.failed("read the log's version"))
        };
        match (number("PRAGMA application_id")?, number("PRAGMA user_version")?) {
            (APPLICATION_ID, SCHEMA_VERSION) => Ok(Schema::Ours),
            (APPLICATION_ID, 1) => Ok(Schema::First),
            (APPLICATION_ID, found) => {
                Err(Error::NewerSchema { path: self.path.clone(), found, known: SCHEMA_VERSION })
            }
            (0, 0) if number("SELECT count(*) FROM sqlite_schema")? == 0 => Ok(Schema::Absent),
            _ => Err(Error::NotALog { path: self.path.clone() }),
        }
    }

    /// Creates what is missing of the schema.
    pub(super) fn create_schema(&self, connection: &Connection) -> Result<(), Error> {
        let _turn = self.turn()?;
        // Another process may have created it before our turn.
        let schema = match self.check_schema(connection)? {
            Schema::Ours => return Ok(()),
            Schema::First => "",
            Schema::Absent => SCHEMA,
        };
        connection
            .execute_batch(&format!(
                "PRAGMA journal_mode = WAL; BEGIN IMMEDIATE; {schema}; {ARCHIVE}; \
                 PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {SCHEMA_VERSION}; COMMIT;"
            ))
            .map_err(self.failed("create the log"))
    }

    /// Returns whether the log has records of archived events. A reader may find a log of the first version,
    /// also later.
    pub(super) fn has_archive(&self, connection: &Connection) -> Result<bool, Error> {
        if self.access == Access::Write {
            return Ok(true);
        }
        let version = connection.prepare_cached("PRAGMA user_version");
        let version = version.and_then(|mut version| version.query_row([], |row| row.get::<_, i64>(0)));
        version.map(|found| found >= SCHEMA_VERSION).map_err(self.failed("read the log's version"))
    }
}
