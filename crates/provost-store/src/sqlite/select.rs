//! Turns a [`Query`] into SQL that reads little more than what it returns.
//!
//! One plan is read by its own index, the whole log by `id`; neither needs sorting. A time range is first
//! narrowed to a range of ids, and rare event names have their own index.
//!
//! **Invariant:** one row is in memory at a time.

use std::ops::ControlFlow;

use provost_core::model::chain::{PlanId, SealedEvent};
use provost_core::model::hash::Hash;
use provost_core::model::plan::StepNumber;
use provost_core::model::timestamp::Timestamp;
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension as _, Row, params_from_iter};

use crate::{Cursor, Query};

/// Exactly as in `schema.sql`: SQLite uses a partial index only if the query repeats its condition.
const USUAL: &str = "('TASK_STARTED', 'STEP_CLAIMED', 'ATTEMPT_ENDED', 'CONTRACT_JUDGED', 'TASK_COMPLETED')";

pub(super) fn each(
    connection: &Connection,
    query: &Query,
    each: &mut dyn FnMut(Cursor, SealedEvent) -> ControlFlow<()>,
) -> rusqlite::Result<()> {
    let Some(SelectStatement { sql, values }) = statement(connection, query)? else {
        return Ok(());
    };
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query(params_from_iter(values))?;
    while let Some(row) = rows.next()? {
        let place = Cursor(row.get::<_, i64>(9)?.cast_unsigned());
        if each(place, sealed(row)?).is_break() {
            break;
        }
    }
    Ok(())
}

pub(super) struct SelectStatement {
    pub sql: String,
    pub values: Vec<Value>,
}

/// Returns the statement; `None` if nothing can match.
pub(super) fn statement(connection: &Connection, query: &Query) -> rusqlite::Result<Option<SelectStatement>> {
    let mut conditions = Conditions::default();
    match &query.plan {
        Some(plan) => match plan_row(connection, plan)? {
            Some(row) => conditions.add("event.plan = ?", row),
            None => return Ok(None),
        },
        None if query.since.is_some() || query.until.is_some() => match time_as_ids(connection, query)? {
            Some((first, last)) => {
                conditions.add("event.id >= ?", first);
                conditions.add("event.id <= ?", last);
            }
            None => return Ok(None),
        },
        None => {}
    }
    narrow(&mut conditions, query);
    let index = narrow_names(&mut conditions, query);
    let order = if query.plan.is_some() { "event.seq" } else { "event.id" };
    let direction = if query.newest_first { "DESC" } else { "ASC" };
    let limit = query.limit.map_or(-1, |limit| i64::try_from(limit).unwrap_or(i64::MAX));
    conditions.values.push(Value::Integer(limit));
    // CROSS JOIN keeps SQLite from scanning the plans first.
    let sql = format!(
        "SELECT plan.name, seq, at_ms, event.name, step, task_name, details, prev, hash, event.id
         FROM event {index} CROSS JOIN plan ON plan.id = event.plan {} ORDER BY {order} {direction} LIMIT ?",
        conditions.text()
    );
    Ok(Some(SelectStatement { sql, values: conditions.values }))
}

fn narrow(conditions: &mut Conditions, query: &Query) {
    if let Some(step) = query.step {
        conditions.add("event.step = ?", i64::from(step.0));
    }
    if let Some(since) = query.since {
        conditions.add("event.at_ms >= ?", number(since.0));
    }
    if let Some(until) = query.until {
        conditions.add("event.at_ms < ?", number(until.0));
    }
    if let Some(seq) = query.after_seq {
        conditions.add("event.seq > ?", number(seq));
    }
    if let Some(cursor) = query.after {
        conditions.add("event.id > ?", number(cursor.0));
    }
    if let Some(cursor) = query.through {
        conditions.add("event.id <= ?", number(cursor.0));
    }
}

/// Adds the names, and returns the index to use, if it matters.
fn narrow_names(conditions: &mut Conditions, query: &Query) -> &'static str {
    if query.names.is_empty() {
        return "";
    }
    let places = vec!["?"; query.names.len()].join(", ");
    conditions.parts.push(format!("event.name IN ({places})"));
    conditions.values.extend(query.names.iter().map(|name| Value::Text(name.clone())));
    let is_usual = |name: &String| USUAL.contains(&format!("'{name}'"));
    if query.plan.is_some() || query.names.iter().any(is_usual) {
        return "";
    }
    conditions.parts.push(format!("event.name NOT IN {USUAL}"));
    "INDEXED BY event_unusual"
}

#[derive(Default)]
struct Conditions {
    parts: Vec<String>,
    values: Vec<Value>,
}

impl Conditions {
    fn add(&mut self, part: &str, value: i64) {
        self.parts.push(part.to_owned());
        self.values.push(Value::Integer(value));
    }

    fn text(&self) -> String {
        if self.parts.is_empty() { String::new() } else { format!("WHERE {}", self.parts.join(" AND ")) }
    }
}

fn plan_row(connection: &Connection, plan: &PlanId) -> rusqlite::Result<Option<i64>> {
    connection
        .prepare_cached("SELECT id FROM plan WHERE name = ?1")?
        .query_row([&plan.0], |row| row.get(0))
        .optional()
}

/// Returns the range of ids for a time range. Clocks jump, so other events may lie in between; but the
/// range contains all matches, and no event is read to find it.
fn time_as_ids(connection: &Connection, query: &Query) -> rusqlite::Result<Option<(i64, i64)>> {
    let since = query.since.map_or(i64::MIN, |since| number(since.0));
    let until = query.until.map_or(i64::MAX, |until| number(until.0));
    connection
        .prepare_cached("SELECT min(id), max(id) FROM event WHERE at_ms >= ?1 AND at_ms < ?2")?
        .query_row([since, until], |row| {
            let (first, last): (Option<i64>, Option<i64>) = (row.get(0)?, row.get(1)?);
            Ok(first.zip(last))
        })
}

fn sealed(row: &Row<'_>) -> rusqlite::Result<SealedEvent> {
    Ok(SealedEvent {
        doubt: None,
        plan: PlanId(row.get(0)?),
        seq: row.get::<_, i64>(1)?.cast_unsigned(),
        at: Timestamp(row.get::<_, i64>(2)?.cast_unsigned()),
        name: row.get(3)?,
        step: row.get::<_, Option<u32>>(4)?.map(StepNumber),
        task_name: row.get(5)?,
        details: row.get(6)?,
        prev: Hash(row.get(7)?),
        hash: Hash(row.get(8)?),
    })
}

/// Clamps a value to `i64`; no sequence, cursor or time beyond 2^63 exists.
fn number(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
