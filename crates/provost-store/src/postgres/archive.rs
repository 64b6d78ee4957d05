//! Records which events are in cold files, and removes those from the database.
//!
//! One function of the database does both, and only its owner may call it. Who wrote an event is kept in the cold
//! file, so that a verdict counts later as it would in the log: by the keys that are trusted then.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::Duration;

use provost_core::model::chain::{PlanId, SealedEvent};
use provost_core::model::hash::Hash;
use provost_core::model::timestamp::Timestamp;
use sqlx::Row as _;
use sqlx::postgres::{PgArguments, PgRow};

use super::{Postgres, failure, rows, seals};
use crate::archive::cold_read::{ColdRead, Each};
use crate::archive::{ArchivableLog, ColdEvent, ColdPart, ColdSource};
use crate::{Cursor, Error, Query};

/// Events of a plan that are read at a time to be archived.
const PAGE: i64 = 2048;
/// Longest time of one call.
const LONGEST: Duration = Duration::from_secs(600);

/// Returns the plans of which no event is in the log.
pub(super) fn plans(log: &Postgres) -> Result<Vec<PlanId>, Error> {
    log.with("list the archived plans", async |connection| {
        let rows = log
            .project()
            .query("SELECT name FROM provost.plan WHERE is_archived ORDER BY id")
            .fetch_all(connection)
            .await?;
        rows.iter().map(|row| rows::plan(row.try_get(0)?)).collect()
    })
}

pub(super) fn count(log: &Postgres) -> Result<u64, Error> {
    number(log, "count the archived plans", "SELECT count(*) FROM provost.plan WHERE is_archived")
}

pub(super) fn archivings(log: &Postgres) -> Result<u64, Error> {
    number(log, "count the cold files", "SELECT coalesce(max(id), 0) FROM provost.archive_file")
}

fn number(log: &Postgres, attempted: &'static str, sql: &'static str) -> Result<u64, Error> {
    log.with(attempted, async |connection| {
        let row = log.project().query(sql).fetch_one(connection).await?;
        Ok(row.try_get::<i64, _>(0)?.cast_unsigned())
    })
}

pub(super) fn parts(log: &Postgres, plan: &PlanId) -> Result<Vec<ColdPart>, Error> {
    let read = |row: &PgRow| {
        let number = |column: usize| row.try_get::<i64, _>(column).map(i64::cast_unsigned);
        Ok(ColdPart {
            plan: plan.clone(),
            first_seq: number(0)?,
            prev: rows::hash(row, 1)?,
            last_seq: number(2)?,
            last_hash: rows::hash(row, 3)?,
            file: row.try_get(4)?,
            folder: PathBuf::from(row.try_get::<String, _>(5)?),
            offset: number(6)?,
            length: number(7)?,
            digest: rows::hash(row, 8)?,
        })
    };
    log.with("find the archived events of a plan", async |connection| {
        let sql = "SELECT a.first_seq, a.prev, a.last_seq, a.last_hash, f.name, f.folder, a.start, a.length, a.digest
                   FROM provost.plan p JOIN provost.archived a ON a.plan = p.id
                   JOIN provost.archive_file f ON f.id = a.file WHERE p.name = $1 ORDER BY a.last_seq";
        let rows = log.project().query(sql).bind(rows::quoted(&plan.0)).fetch_all(connection).await?;
        rows.iter().map(read).collect()
    })
}

/// Calls `each` for the selected events of a plan, in cold files and in the log.
pub(super) fn each(
    log: &Postgres,
    plan: &PlanId,
    query: &Query,
    live: &mut dyn FnMut(&mut Each<'_>) -> Result<(), Error>,
    each: &mut Each<'_>,
) -> Result<(), Error> {
    let parts = parts(log, plan)?;
    let trusted: BTreeSet<Vec<u8>> = log.with("list the trusted keys", async |connection| {
        let rows = log.project().query("SELECT key FROM provost.checker").fetch_all(connection).await?;
        rows.iter().map(|row| row.try_get(0)).collect()
    })?;
    let doubt = |event: &ColdEvent| {
        let source = &event.source;
        let writer = seals::EventSource {
            login: source.login.as_deref(),
            rights: source.rights.as_deref(),
            signer: source.signer.as_deref(),
            seal: source.seal.as_deref(),
            is_trusted: source.signer.as_ref().is_some_and(|signer| trusted.contains(signer)),
        };
        writer.doubt(&event.sealed)
    };
    ColdRead { parts: &parts, folder: log.cold_folder.as_deref(), doubt: &doubt }.each(query, live, each)
}

impl ArchivableLog for Postgres {
    fn check_may_archive(&self) -> Result<(), Error> {
        let login = self.rights()?;
        if login.is_owner {
            return Ok(());
        }
        let said = format!("the login {} does not own the log, and only its owner archives", login.login);
        Err(Error::NotAllowed { at: self.shared.at.clone(), attempted: "archive events", said })
    }

    fn read_sources(
        &self,
        plan: &PlanId,
        after: u64,
        each: &mut dyn FnMut(ColdEvent) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        let mut after = after.cast_signed();
        let sql = format!(
            "SELECT {} FROM provost.event e WHERE e.plan = (SELECT p.id FROM provost.plan p WHERE p.name = $1) \
             AND e.seq > $2 ORDER BY e.seq LIMIT {PAGE}",
            rows::COLUMNS
        );
        loop {
            let page: Vec<ColdEvent> = self.with("read the log", async |connection| {
                let query = self.project().composed(sql.clone(), PgArguments::default());
                let query = query.bind(rows::quoted(&plan.0)).bind(after);
                query.fetch_all(connection).await?.iter().map(with_source).collect()
            })?;
            let is_last = (page.len() as i64) < PAGE;
            for event in page {
                after = event.sealed.seq.cast_signed();
                if each(event).is_break() {
                    return Ok(());
                }
            }
            if is_last {
                return Ok(());
            }
        }
    }

    fn remove_archived(&self, parts: &[ColdPart], _at: Timestamp) -> Result<(), Error> {
        self.record(parts, None)
    }

    fn keep_archived(&self, parts: &[ColdPart], _at: Timestamp, through: Cursor) -> Result<(), Error> {
        self.record(parts, Some(through))
    }
}

fn with_source(row: &PgRow) -> sqlx::Result<ColdEvent> {
    let (place, sealed) = rows::sealed(row)?;
    let source = ColdSource {
        login: row.try_get(10)?,
        rights: row.try_get(11)?,
        signer: row.try_get(12)?,
        seal: row.try_get(13)?,
    };
    Ok(ColdEvent { place, sealed: SealedEvent { doubt: None, ..sealed }, source })
}

impl Postgres {
    /// Calls the function of the database, once per file. With `through`, there are no events to remove.
    fn record(&self, parts: &[ColdPart], through: Option<Cursor>) -> Result<(), Error> {
        for parts in parts.chunk_by(|one, next| (&one.file, &one.folder) == (&next.file, &next.folder)) {
            let numbers = |of: fn(&ColdPart) -> u64| -> Vec<i64> {
                parts.iter().map(|part| of(part).cast_signed()).collect()
            };
            let hashes = |of: fn(&ColdPart) -> Hash| -> Vec<Vec<u8>> {
                parts.iter().map(|part| of(part).0.to_vec()).collect()
            };
            let plans: Vec<String> = parts.iter().map(|part| rows::quoted(&part.plan.0)).collect();
            let done = self.shared.with(LONGEST, async |connection| {
                let call = self
                    .project()
                    .query("SELECT provost.archive($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)")
                    .bind(&parts[0].file)
                    .bind(parts[0].folder.to_string_lossy().into_owned())
                    .bind(plans.clone())
                    .bind(numbers(|part| part.first_seq))
                    .bind(numbers(|part| part.last_seq))
                    .bind(hashes(|part| part.prev))
                    .bind(hashes(|part| part.last_hash))
                    .bind(numbers(|part| part.offset))
                    .bind(numbers(|part| part.length))
                    .bind(hashes(|part| part.digest))
                    .bind(through.map(|through| through.0.cast_signed()));
                call.execute(connection).await.map(drop)
            });
            done.map_err(|source| match failure::refusal(&source) {
                Some(failure::DatabaseRefusal::WentOn(plan)) => {
                    let part =
                        parts.iter().find(|part| rows::quoted(&part.plan.0) == plan).unwrap_or(&parts[0]);
                    Error::Conflict { plan: part.plan.clone(), expected: part.last_seq, found: 0 }
                }
                _ => failure::of(&self.shared.at, "archive events", source),
            })?;
        }
        Ok(())
    }
}
