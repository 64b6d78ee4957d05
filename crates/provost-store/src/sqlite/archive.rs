//! Records which events are in cold files, and removes those from the database.
//!
//! **Invariant:** a trigger refuses to remove an event that no record names, and a record is never changed. The
//! pages of removed events are used for the next ones; the file does not shrink.

use std::ffi::OsStr;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use provost_core::model::chain::{Head, PlanId};
use provost_core::model::hash::Hash;
use provost_core::model::timestamp::Timestamp;
use rusqlite::{Connection, OptionalExtension as _, params};

use super::{Sqlite, names, select};
use crate::archive::{ArchivableLog, ColdEvent, ColdPart, ColdSource, check_part};
use crate::{Cursor, Error, Query};

/// The last place that was used, by an event or an archiving.
pub(super) const LOG_END: &str =
    "max(ifnull((SELECT max(id) FROM event), 0), ifnull((SELECT max(place) FROM archive_file), 0))";

impl Sqlite {
    /// Returns where the archived events of a plan are.
    pub(super) fn parts(&self, connection: &Connection, plan: &PlanId) -> Result<Vec<ColdPart>, Error> {
        if !self.has_archive(connection)? {
            return Ok(Vec::new());
        }
        let sql = "SELECT first_seq, prev, last_seq, last_hash, archive_file.name, folder, start, length, digest
                   FROM plan JOIN archived ON archived.plan = plan.id JOIN archive_file ON archive_file.id = file
                   WHERE plan.name = ?1 ORDER BY last_seq";
        let read = |row: &rusqlite::Row<'_>| {
            let number = |column: usize| row.get::<_, i64>(column).map(i64::cast_unsigned);
            Ok(ColdPart {
                plan: plan.clone(),
                first_seq: number(0)?,
                prev: Hash(row.get(1)?),
                last_seq: number(2)?,
                last_hash: Hash(row.get(3)?),
                file: row.get(4)?,
                folder: PathBuf::from(OsStr::from_bytes(&row.get::<_, Vec<u8>>(5)?)),
                offset: number(6)?,
                length: number(7)?,
                digest: Hash(row.get(8)?),
            })
        };
        connection
            .prepare_cached(sql)
            .and_then(|mut parts| parts.query_map([&plan.0], read)?.collect())
            .map_err(self.failed("find the archived events of a plan"))
    }

    /// Returns the end of what was archived of a plan, by its row.
    pub(super) fn archived_end(&self, connection: &Connection, plan: i64) -> Result<Head, Error> {
        if !self.has_archive(connection)? {
            return Ok(Head::START);
        }
        let found = connection
            .prepare_cached(
                "SELECT last_seq, last_hash FROM archived WHERE plan = ?1 ORDER BY last_seq DESC LIMIT 1",
            )
            .and_then(|mut last| {
                last.query_row([plan], |row| {
                    Ok(Head { seq: row.get::<_, i64>(0)?.cast_unsigned(), hash: Hash(row.get(1)?) })
                })
                .optional()
            });
        Ok(found.map_err(self.failed("find the archived events of a plan"))?.unwrap_or(Head::START))
    }

    pub(super) fn all_archived(&self, connection: &Connection) -> Result<Vec<PlanId>, Error> {
        let sql = "SELECT name FROM plan WHERE NOT EXISTS (SELECT 1 FROM event WHERE event.plan = plan.id) ORDER BY id";
        names(connection, sql).map_err(self.failed("list the archived plans"))
    }

    pub(super) fn count_archivings(&self, connection: &Connection) -> Result<u64, Error> {
        if !self.has_archive(connection)? {
            return Ok(0);
        }
        let count = connection
            .prepare_cached("SELECT ifnull(max(id), 0) FROM archive_file")
            .and_then(|mut count| count.query_row([], |row| row.get::<_, i64>(0)));
        count.map(i64::cast_unsigned).map_err(self.failed("count the cold files"))
    }

    fn note_archiving(
        &self,
        transaction: &Connection,
        parts: &[ColdPart],
        (at, through): (Timestamp, Cursor),
        remove: impl Fn(&ColdPart, i64) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let failed = || self.failed("record archived events");
        let mut files: Vec<(&ColdPart, i64)> = Vec::new();
        for part in parts {
            let known = files.iter().find(|(of, _)| (&of.file, &of.folder) == (&part.file, &part.folder));
            let file = match known {
                Some((_, file)) => *file,
                None => {
                    let sql = format!(
                        "INSERT INTO archive_file (name, folder, at_ms, place) VALUES (?1, ?2, ?3, max({LOG_END}, ?4) + 1)
                         RETURNING id"
                    );
                    let folder = part.folder.as_os_str().as_bytes();
                    let file = transaction
                        .query_row(
                            &sql,
                            params![part.file, folder, at.0.cast_signed(), through.0.cast_signed()],
                            |row| row.get(0),
                        )
                        .map_err(failed())?;
                    files.push((part, file));
                    file
                }
            };
            let (row, end) = self.head_of(transaction, &part.plan)?;
            let row = self.plan_row(transaction, &part.plan, row)?;
            let archived = self.archived_end(transaction, row)?;
            // Without an event in the log there is nothing that the part could contradict.
            check_part(part, archived, if end == archived { part.end() } else { end })?;
            transaction
                .prepare_cached(
                    "INSERT INTO archived (plan, last_seq, first_seq, prev, last_hash, file, start, length, digest)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
                )
                .and_then(|mut insert| {
                    insert.execute(params![
                        row,
                        part.last_seq.cast_signed(),
                        part.first_seq.cast_signed(),
                        part.prev.0,
                        part.last_hash.0,
                        file,
                        part.offset.cast_signed(),
                        part.length.cast_signed(),
                        part.digest.0,
                    ])
                })
                .map_err(failed())?;
            remove(part, row)?;
        }
        Ok(())
    }
}

impl ArchivableLog for Sqlite {
    fn read_sources(
        &self,
        plan: &PlanId,
        after: u64,
        each: &mut dyn FnMut(ColdEvent) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        let query = Query { after_seq: Some(after), ..Query::plan(plan) };
        self.connected(|connection| {
            let each =
                &mut |place: Cursor, sealed| each(ColdEvent { place, sealed, source: ColdSource::default() });
            select::each(connection, &query, each).map_err(self.failed("read the log"))
        })
    }

    fn remove_archived(&self, parts: &[ColdPart], at: Timestamp) -> Result<(), Error> {
        self.writing(|transaction| {
            self.note_archiving(transaction, parts, (at, Cursor(0)), |part, row| {
                let removed = transaction
                    .prepare_cached("DELETE FROM event WHERE plan = ?1 AND seq <= ?2")
                    .and_then(|mut remove| remove.execute(params![row, part.last_seq.cast_signed()]))
                    .map_err(self.failed("remove archived events"))?;
                if removed as u64 == part.events() {
                    return Ok(());
                }
                let (plan, expected, found) = (part.plan.clone(), part.events(), removed as u64);
                Err(Error::Conflict { plan, expected, found })
            })
        })
    }

    fn keep_archived(&self, parts: &[ColdPart], at: Timestamp, through: Cursor) -> Result<(), Error> {
        self.writing(|transaction| self.note_archiving(transaction, parts, (at, through), |_, _| Ok(())))
    }
}
