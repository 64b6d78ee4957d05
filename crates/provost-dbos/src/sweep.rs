//! Who is alive, and what becomes of the work of the dead.
//!
//! Every worker says now and then that it is there, by the clock of the database, and every worker looks for
//! those who did not; one at a time does (`schema.sql`). Whoever comes back after that finds its name gone,
//! says it again, and goes on with what nobody took from it.

use sqlx::PgPool;

use crate::Error;
use crate::error::Attempted as _;
use crate::place::Crew;

/// How a worker presents itself.
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

/// Says that it is there, looks for those who are gone, and asks whether anything waits, all in one. What it has
/// taken and still holds comes back, and whether something waits.
pub(crate) async fn beat(
    crew: &Crew,
    pool: &PgPool,
    badge: &Badge,
    drains: bool,
) -> Result<(Vec<String>, bool), Error> {
    let (ours, lost, gone, stirs): (Vec<String>, i64, i64, bool) = sqlx::query_as(
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
    .fetch_one(pool)
    .await
    .attempted("note that this worker is there")?;
    if lost + gone > 0 {
        (crew.told)(&format!("{gone} workers were gone, and {lost} items of the dead are looked at again"));
    }
    Ok((ours, stirs))
}

/// Leaves in order: nobody has to wait until it is missed.
pub(crate) async fn leave(pool: &PgPool, id: &str) -> Result<(), Error> {
    sqlx::query("DELETE FROM provost_cluster.worker WHERE id = $1")
        .bind(id)
        .execute(pool)
        .await
        .attempted("let this worker go")?;
    sqlx::query("SELECT provost_cluster.sweep()").execute(pool).await.attempted("put its work in order")?;
    Ok(())
}
