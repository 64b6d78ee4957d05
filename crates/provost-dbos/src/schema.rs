//! The tables beside the log: made once, by whoever comes first, and held against what this program speaks.

use std::time::Duration;

use sqlx::{Connection as _, PgConnection};

use crate::Error;
use crate::error::Attempted as _;
use crate::wire;

const LOOK: Duration = Duration::from_millis(50);
const SCHEMA: &str = include_str!("schema.sql");

/// Makes the tables where there are none, after those of the SDK, and refuses a cluster that speaks otherwise
/// before anything of ours is written there.
pub(crate) async fn make(
    connection: &mut PgConnection,
    sdk: impl AsyncFnOnce() -> Result<(), Error>,
) -> Result<(), Error> {
    // Asked again and again: whoever waits inside of a statement holds up the indexes that the SDK makes.
    while !sqlx::query_scalar("SELECT pg_try_advisory_lock(hashtext('provost_cluster.schema'))")
        .fetch_one(&mut *connection)
        .await
        .attempted("let this program make its tables")?
    {
        tokio::time::sleep(LOOK).await;
    }
    let made = match is_there(connection).await {
        Ok(false) => match sdk().await {
            Ok(()) => tables(connection).await,
            failed => failed,
        },
        looked => looked.map(|_| ()),
    };
    let _ = sqlx::query("SELECT pg_advisory_unlock(hashtext('provost_cluster.schema'))")
        .execute(&mut *connection)
        .await;
    made?;
    understood(connection).await
}

async fn tables(connection: &mut PgConnection) -> Result<(), Error> {
    let mut turn = connection.begin().await.attempted("begin")?;
    sqlx::raw_sql(SCHEMA).execute(&mut *turn).await.attempted("make the tables of the cluster")?;
    sqlx::query("INSERT INTO provost_cluster.wire VALUES ($1)")
        .bind(wire::VERSION)
        .execute(&mut *turn)
        .await
        .attempted("note what the cluster speaks")?;
    // What was decided before there was a cluster is taken up now.
    sqlx::query("SELECT provost_cluster.wake(name::json #>> '{}', NULL) FROM provost.plan")
        .execute(&mut *turn)
        .await
        .attempted("look at the plans that wait")?;
    sqlx::query("DELETE FROM provost.wake").execute(&mut *turn).await.attempted("look at the plans")?;
    turn.commit().await.attempted("make the tables of the cluster")
}

pub(crate) async fn is_there(connection: &mut PgConnection) -> Result<bool, Error> {
    sqlx::query_scalar("SELECT to_regclass('provost_cluster.wire') IS NOT NULL")
        .fetch_one(connection)
        .await
        .attempted("say whether there is a cluster")
}

/// Refuses a cluster that speaks otherwise.
pub(crate) async fn understood(connection: &mut PgConnection) -> Result<(), Error> {
    let found: String = sqlx::query_scalar("SELECT version FROM provost_cluster.wire")
        .fetch_one(connection)
        .await
        .attempted("say what the cluster speaks")?;
    if found == wire::VERSION { Ok(()) } else { Err(Error::OtherWire { found, known: wire::VERSION }) }
}
