//! Converts events to rows and back.
//!
//! **Invariant:** the value stored in `details` is the text that was hashed.

use provost_core::model::chain::{Head, PlanId, SealedEvent};
use provost_core::model::hash::Hash;
use provost_core::model::plan::StepNumber;
use provost_core::model::proof::ProofKey;
use provost_core::model::timestamp::Timestamp;
use provost_core::model::usage::Amount;
use sqlx::postgres::{PgArguments, PgConnection, PgRow};
use sqlx::{Arguments as _, Row as _};

use super::project::DatabaseProject;
use super::seals::{self, EventSource};
use super::{Effects, Param, SqlStatement};
use crate::Cursor;

/// Returns the stored form: a JSON string.
pub(super) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

pub(super) fn unquoted(kept: &str) -> sqlx::Result<String> {
    serde_json::from_str(kept).map_err(|error| sqlx::Error::Decode(error.into()))
}

pub(super) fn plan(kept: &str) -> sqlx::Result<PlanId> {
    unquoted(kept).map(PlanId)
}

/// Returns an amount as the database can store it.
pub(super) fn bounded(amount: u64) -> i64 {
    i64::try_from(amount).unwrap_or(i64::MAX)
}

/// The row of a plan.
pub(super) struct PlanRow {
    pub id: i64,
    /// The end of its chain.
    pub head: Head,
    /// The last of its events that are in cold files; 0 if there are none.
    pub archived_seq: i64,
}

pub(super) async fn plan_row(
    project: &DatabaseProject,
    connection: &mut PgConnection,
    plan: &PlanId,
) -> sqlx::Result<Option<PlanRow>> {
    let found = project
        .query("SELECT id, seq, hash, archived_seq FROM provost.plan WHERE name = $1")
        .bind(quoted(&plan.0))
        .fetch_optional(connection)
        .await?;
    let read = |row: PgRow| {
        let head = Head { seq: row.try_get::<i64, _>(1)?.cast_unsigned(), hash: hash(&row, 2)? };
        Ok(PlanRow { id: row.try_get(0)?, head, archived_seq: row.try_get(3)? })
    };
    found.map(read).transpose()
}

/// Returns the end of the plan's chain.
pub(super) async fn head(
    project: &DatabaseProject,
    connection: &mut PgConnection,
    plan: &PlanId,
) -> sqlx::Result<Head> {
    Ok(plan_row(project, connection, plan).await?.map_or(Head::START, |row| row.head))
}

/// Returns whether these events were written, for a write whose answer was lost.
pub(super) async fn are_there(
    project: &DatabaseProject,
    connection: &mut PgConnection,
    written: &[SealedEvent],
) -> sqlx::Result<bool> {
    let Some(last) = written.last() else { return Ok(false) };
    let found = project.query(
        "SELECT e.hash FROM provost.plan p JOIN provost.event e ON e.plan = p.id WHERE p.name = $1 AND e.seq = $2",
    )
    .bind(quoted(&last.plan.0))
    .bind(last.seq.cast_signed())
    .fetch_optional(connection)
    .await?;
    Ok(match found {
        Some(row) => hash(&row, 0)? == last.hash,
        None => false,
    })
}

/// Writes the events. Without statements of effects, this is a single call, so the process cannot stop
/// between its turn and the commit.
pub(super) async fn write(
    project: &DatabaseProject,
    connection: &mut PgConnection,
    call: AppendCall<'_>,
    events: &[SealedEvent],
    effects: &Effects,
) -> sqlx::Result<()> {
    if effects.statements.is_empty() {
        return call.write(project, connection, events).await;
    }
    sqlx::raw_sql("BEGIN").execute(&mut *connection).await?;
    for statement in &effects.statements {
        execute(project, connection, statement).await?;
    }
    call.write(project, connection, events).await?;
    sqlx::raw_sql("COMMIT").execute(&mut *connection).await?;
    Ok(())
}

async fn execute(
    project: &DatabaseProject,
    connection: &mut PgConnection,
    statement: &SqlStatement,
) -> sqlx::Result<()> {
    let mut arguments = PgArguments::default();
    for param in &statement.params {
        let added = match param {
            Param::Text(text) => arguments.add(text.as_deref()),
            Param::Number(number) => arguments.add(*number),
        };
        added.map_err(sqlx::Error::Encode)?;
    }
    project.composed(statement.sql.clone(), arguments).execute(connection).await.map(drop)
}

/// One call of `provost.append`.
pub(super) struct AppendCall<'a> {
    pub plan: &'a str,
    pub expected: u64,
    pub fence: Option<(&'a str, u64)>,
    pub wakes: &'a [String],
    /// The secret of the lease, if this process has taken it.
    pub token: Option<[u8; 32]>,
    pub signer: Option<&'a ProofKey>,
    /// What counts of the plan after these events.
    pub used: Option<Amount>,
}

impl AppendCall<'_> {
    pub(super) async fn write(
        &self,
        project: &DatabaseProject,
        connection: &mut PgConnection,
        events: &[SealedEvent],
    ) -> sqlx::Result<()> {
        let (fence, epoch) = self.fence.unzip();
        let times: Vec<i64> = events.iter().map(|event| event.at.0.cast_signed()).collect();
        let names: Vec<&str> = events.iter().map(|event| event.name.as_str()).collect();
        let steps: Vec<Option<i64>> =
            events.iter().map(|event| event.step.map(|step| i64::from(step.0))).collect();
        let tasks: Vec<Option<String>> =
            events.iter().map(|event| event.task_name.as_deref().map(quoted)).collect();
        let details: Vec<&str> = events.iter().map(|event| event.details.as_str()).collect();
        let hashes: Vec<&[u8]> = events.iter().map(|event| event.hash.0.as_slice()).collect();
        let signed = self.signer.map(|key| (key.public().to_bytes(), seals::signed(key, events)));
        let (signer, seals) = signed.unzip();
        project
            .query("SELECT provost.append($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)")
            .bind(quoted(self.plan))
            .bind(self.expected.cast_signed())
            .bind(fence.map(quoted))
            .bind(epoch.map(u64::cast_signed))
            .bind(times)
            .bind(names)
            .bind(steps)
            .bind(tasks)
            .bind(details)
            .bind(hashes)
            .bind(self.wakes)
            .bind(self.token.as_ref().map(|token| token.as_slice()))
            .bind(signer.as_ref().map(|key| key.as_slice()))
            .bind(seals)
            .bind(self.used.and_then(|used| used.tokens).map(bounded))
            .bind(self.used.and_then(|used| used.micro_usd).map(bounded))
            .execute(connection)
            .await
            .map(drop)
    }
}

/// The columns of [`sealed`], with `event` as `e`.
pub(super) const COLUMNS: &str = "(SELECT p.name FROM provost.plan p WHERE p.id = e.plan), e.seq, e.at_ms, e.name, \
                           e.step, e.task_name, e.details, e.prev, e.hash, e.id, e.login, e.writer, e.signer, \
                           e.seal, e.signer IS NOT NULL AND EXISTS (SELECT FROM provost.checker c \
                           WHERE c.key = e.signer)";

pub(super) fn sealed(row: &PgRow) -> sqlx::Result<(Cursor, SealedEvent)> {
    let step: Option<i64> = row.try_get(4)?;
    let step = step.map(u32::try_from).transpose().map_err(|error| sqlx::Error::Decode(error.into()))?;
    let task_name: Option<&str> = row.try_get(5)?;
    let mut sealed = SealedEvent {
        plan: plan(row.try_get(0)?)?,
        seq: row.try_get::<i64, _>(1)?.cast_unsigned(),
        at: Timestamp(row.try_get::<i64, _>(2)?.cast_unsigned()),
        name: row.try_get(3)?,
        step: step.map(StepNumber),
        task_name: task_name.map(unquoted).transpose()?,
        details: row.try_get(6)?,
        prev: hash(row, 7)?,
        hash: hash(row, 8)?,
        doubt: None,
    };
    let writer = EventSource {
        login: row.try_get(10)?,
        rights: row.try_get(11)?,
        signer: row.try_get(12)?,
        seal: row.try_get(13)?,
        is_trusted: row.try_get(14)?,
    };
    sealed.doubt = writer.doubt(&sealed);
    Ok((Cursor(row.try_get::<i64, _>(9)?.cast_unsigned()), sealed))
}

pub(super) fn hash(row: &PgRow, column: usize) -> sqlx::Result<Hash> {
    let bytes: &[u8] = row.try_get(column)?;
    bytes.try_into().map(Hash).map_err(|_| sqlx::Error::Decode("a hash of another length".into()))
}
