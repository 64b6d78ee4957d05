//! Turns a [`Query`] into SQL that reads little more than what it returns.
//!
//! One plan is read by its own index, the whole log by `id`, and rare event names by their own index, one
//! scan per name. A time range is first narrowed to a range of ids.
//!
//! **Invariant:** one page is in memory at a time, and no connection is held while `each` runs.
//! **Invariant:** events written during the read are not returned: the end is determined first.

use std::ops::ControlFlow;

use provost_core::model::chain::SealedEvent;
use sqlx::postgres::{PgArguments, PgConnection};
use sqlx::{Arguments as _, Row as _};

use super::project::DatabaseProject;
use super::{Postgres, archive, rows};
use crate::{Cursor, Error, Log as _, Query};

const PAGE: u64 = 512;

/// Exactly as in the schema: Postgres uses a partial index only if the query repeats its condition.
const USUAL: &str = "('TASK_STARTED', 'STEP_CLAIMED', 'ATTEMPT_ENDED', 'CONTRACT_JUDGED', 'TASK_COMPLETED')";

pub(super) fn each(
    log: &Postgres,
    query: &Query,
    each: &mut dyn FnMut(Cursor, SealedEvent) -> ControlFlow<()>,
) -> Result<(), Error> {
    let Some(plan) = &query.plan else {
        return match walk(log, query)? {
            Some(walk) => live(log, &walk, query, each),
            None => Ok(()),
        };
    };
    let (mut seen, mut is_over) = (None, false);
    while let Some(walk) = walk(log, query)? {
        let mut unseen = |place: Cursor, sealed: SealedEvent| {
            let is_new = seen.is_none_or(|seen| match query.newest_first {
                true => sealed.seq < seen,
                false => sealed.seq > seen,
            });
            if is_new {
                seen = Some(sealed.seq);
                is_over = each(place, sealed).is_break();
            }
            if is_over { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        match walk.archived {
            0 => live(log, &walk, query, &mut unseen)?,
            _ => archive::each(log, plan, query, &mut |each| live(log, &walk, query, each), &mut unseen)?,
        }
        let end = if query.newest_first { walk.first } else { walk.last };
        if is_over || walk.first > walk.last || seen == Some(end.cast_unsigned()) {
            break;
        }
        // Events that were archived during the read are in cold files now.
        let now = log
            .with("find a plan", async |connection| rows::plan_row(log.project(), connection, plan).await)?;
        if now.is_none_or(|row| row.archived_seq == walk.archived) {
            break;
        }
    }
    Ok(())
}

/// Calls `each` for the events that are in the log.
fn live(
    log: &Postgres,
    walk: &Walk,
    query: &Query,
    each: &mut dyn FnMut(Cursor, SealedEvent) -> ControlFlow<()>,
) -> Result<(), Error> {
    let mut walk = walk.clone();
    let mut left = query.limit.unwrap_or(u64::MAX);
    while left > 0 {
        let limit = left.min(PAGE);
        let page = log.with("read the log", async |connection| {
            walk.page(log.project(), connection, query, limit).await
        })?;
        let read = page.len() as u64;
        let last = page.last().map(|(place, sealed)| walk.key(*place, sealed));
        for (place, sealed) in page {
            if each(place, sealed).is_break() {
                return Ok(());
            }
        }
        match last {
            Some(last) if read == limit => walk.go_on_from(last, query.newest_first),
            _ => break,
        }
        left -= read;
    }
    Ok(())
}

/// The key of the scan, and its range, both ends inclusive.
#[derive(Clone)]
struct Walk {
    plan: Option<i64>,
    first: i64,
    last: i64,
    /// The last event of the plan that is in cold files; 0 if there is none.
    archived: i64,
}

/// Returns the scan; `None` if nothing can match.
fn walk(log: &Postgres, query: &Query) -> Result<Option<Walk>, Error> {
    if let Some(plan) = &query.plan {
        let found = log
            .with("find a plan", async |connection| rows::plan_row(log.project(), connection, plan).await)?;
        let first = query.after_seq.map_or(1, |seq| number(seq).saturating_add(1));
        return Ok(found.map(|row| Walk {
            plan: Some(row.id),
            first,
            last: row.head.seq.cast_signed(),
            archived: row.archived_seq,
        }));
    }
    let end = log.cursor()?;
    let mut walk = Walk {
        plan: None,
        first: query.after.map_or(1, |after| number(after.0).saturating_add(1)),
        last: number(query.through.unwrap_or(end).min(end).0),
        archived: 0,
    };
    if query.since.is_some() || query.until.is_some() {
        let range =
            log.with("read the log", async |connection| time_as_ids(log.project(), connection, query).await)?;
        let Some((first, last)) = range else { return Ok(None) };
        walk.first = walk.first.max(first);
        walk.last = walk.last.min(last);
    }
    Ok(Some(walk))
}

impl Walk {
    fn key(&self, place: Cursor, sealed: &SealedEvent) -> i64 {
        if self.plan.is_some() { sealed.seq.cast_signed() } else { place.0.cast_signed() }
    }

    fn go_on_from(&mut self, last: i64, newest_first: bool) {
        if newest_first {
            self.last = last - 1;
        } else {
            self.first = last + 1;
        }
    }

    async fn page(
        &self,
        project: &DatabaseProject,
        connection: &mut PgConnection,
        query: &Query,
        limit: u64,
    ) -> sqlx::Result<Vec<(Cursor, SealedEvent)>> {
        if self.first > self.last {
            return Ok(Vec::new());
        }
        let (sql, arguments) = self.statement(query, limit).map_err(sqlx::Error::Encode)?;
        let rows = project.composed(sql, arguments).fetch_all(connection).await?;
        rows.iter().map(rows::sealed).collect()
    }

    fn statement(
        &self,
        query: &Query,
        limit: u64,
    ) -> Result<(String, PgArguments), sqlx::error::BoxDynError> {
        let mut arguments = PgArguments::default();
        let mut parts = Vec::new();
        let mut add = |part: &str, value: i64| {
            arguments.add(value).map(|()| parts.push(format!("{part} ${}", arguments.len())))
        };
        let key = if self.plan.is_some() { "e.seq" } else { "e.id" };
        if let Some(plan) = self.plan {
            add("e.plan =", plan)?;
        }
        add(&format!("{key} >="), self.first)?;
        add(&format!("{key} <="), self.last)?;
        if let Some(step) = query.step {
            add("e.step =", i64::from(step.0))?;
        }
        if let Some(since) = query.since {
            add("e.at_ms >=", number(since.0))?;
        }
        if let Some(until) = query.until {
            add("e.at_ms <", number(until.0))?;
        }
        if let (Some(_), Some(after)) = (self.plan, query.after) {
            add("e.id >", number(after.0))?;
        }
        if let (Some(_), Some(through)) = (self.plan, query.through) {
            add("e.id <=", number(through.0))?;
        }
        if let (None, Some(seq)) = (self.plan, query.after_seq) {
            add("e.seq >", number(seq))?;
        }
        let direction = if query.newest_first { "DESC" } else { "ASC" };
        let end = format!("ORDER BY {key} {direction} LIMIT {limit}");
        let base = parts.join(" AND ");
        let columns = rows::COLUMNS;
        if query.names.is_empty() {
            return Ok((format!("SELECT {columns} FROM provost.event e WHERE {base} {end}"), arguments));
        }
        // No event has a NUL in its name, and Postgres cannot store one in a text.
        let names: Vec<&str> =
            query.names.iter().map(String::as_str).filter(|name| !name.contains('\0')).collect();
        let is_usual = |name: &&str| USUAL.contains(&format!("'{name}'"));
        if self.plan.is_some() || names.is_empty() || names.iter().any(is_usual) {
            arguments.add(names.iter().map(|&name| name.to_owned()).collect::<Vec<String>>())?;
            let names = format!("e.name = ANY(${})", arguments.len());
            let sql = format!("SELECT {columns} FROM provost.event e WHERE {base} AND {names} {end}");
            return Ok((sql, arguments));
        }
        let mut walks = Vec::new();
        for name in names {
            arguments.add(name.to_owned())?;
            walks.push(format!(
                "(SELECT e.id FROM provost.event e WHERE {base} AND e.name = ${} AND e.name NOT IN {USUAL} {end})",
                arguments.len()
            ));
        }
        let hits = walks.join(" UNION ");
        let sql =
            format!("SELECT {columns} FROM provost.event e WHERE e.id IN (SELECT id FROM ({hits}) h) {end}");
        Ok((sql, arguments))
    }
}

/// Returns the server's query plan for the first page.
#[cfg(test)]
pub(super) fn explained(log: &Postgres, query: &Query) -> String {
    let walk = walk(log, query).unwrap().unwrap();
    let lines = log.with("explain a query", async |connection| {
        let (sql, arguments) =
            walk.statement(query, query.limit.unwrap_or(PAGE)).map_err(sqlx::Error::Encode)?;
        let rows = log.project().composed(format!("EXPLAIN {sql}"), arguments).fetch_all(connection).await?;
        rows.iter().map(|row| row.try_get::<String, _>(0)).collect::<Result<Vec<_>, _>>()
    });
    lines.unwrap().join("\n")
}

/// Returns the range of ids for a time range. Clocks jump, so other events may lie in between; but the
/// range contains all matches, and only the index is read.
async fn time_as_ids(
    project: &DatabaseProject,
    connection: &mut PgConnection,
    query: &Query,
) -> sqlx::Result<Option<(i64, i64)>> {
    // `+ 0` makes Postgres scan the index on times and not the one on ids.
    let row = project
        .query("SELECT min(id + 0), max(id + 0) FROM provost.event WHERE at_ms >= $1 AND at_ms < $2")
        .bind(query.since.map_or(i64::MIN, |since| number(since.0)))
        .bind(query.until.map_or(i64::MAX, |until| number(until.0)))
        .fetch_one(connection)
        .await?;
    let (first, last): (Option<i64>, Option<i64>) = (row.try_get(0)?, row.try_get(1)?);
    Ok(first.zip(last))
}

/// Clamps a value to `i64`; no sequence, cursor or time beyond 2^63 exists.
fn number(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
