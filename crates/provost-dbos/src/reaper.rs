//! The reaper: finds dead workers and their work.
//!
//! Every worker sends a heartbeat, timed by the clock of the database, and looks for workers that did not;
//! one worker at a time does the latter (`schema.sql`). A worker that returns after it was removed registers
//! again and continues with the work that no other worker has taken.

use sqlx::postgres::PgListener;

use crate::Error;
use crate::error::ErrorContext as _;
use crate::worker_context::Crew;

/// Registration data of a worker.
#[derive(Clone, Debug)]
pub(crate) struct Badge {
    pub id: String,
    pub host: String,
    pub pid: u32,
    pub roles: Option<Vec<String>>,
    pub jobs: usize,
    pub labels: Vec<String>,
    pub ttl_ms: i64,
}

/// Sends a heartbeat, reaps dead workers, and asks whether anything waits, in one call. Returns the items
/// this worker still holds, and whether something waits.
pub(crate) async fn beat(
    crew: &Crew,
    line: &mut PgListener,
    badge: &Badge,
    drains: bool,
) -> Result<(Vec<String>, bool), Error> {
    let (ours, lost, gone, stirs): (Vec<String>, i64, i64, bool) = crew
        .project()
        .query_as(
            "SELECT ours, lost, gone, stirs \
         FROM provost_cluster.beat($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)",
        )
        .bind(&badge.id)
        .bind(&badge.host)
        .bind(i64::from(badge.pid))
        .bind(&badge.roles)
        .bind(i32::try_from(badge.jobs).unwrap_or(i32::MAX))
        .bind(&badge.labels)
        .bind(env!("CARGO_PKG_VERSION"))
        .bind(badge.ttl_ms)
        .bind(drains)
        .bind(&crew.listens)
        .bind(crew.begun_rows())
        .bind(crew.is_full())
        .fetch_one(line)
        .await
        .attempted("register this worker")?;
    if lost + gone > 0 {
        (crew.told)(&format!("workers gone: {gone}; items scheduled again: {lost}"));
    }
    Ok((ours, stirs))
}

/// Unregisters a worker that leaves, so that others need not wait until it counts as dead.
pub(crate) async fn leave(crew: &Crew) -> Result<(), Error> {
    crew.project()
        .query("DELETE FROM provost_cluster.worker WHERE id = $1")
        .bind(&crew.id)
        .execute(&crew.pool)
        .await
        .attempted("unregister this worker")?;
    crew.project()
        .query("SELECT provost_cluster.sweep()")
        .execute(&crew.pool)
        .await
        .attempted("put its work in order")?;
    Ok(())
}
