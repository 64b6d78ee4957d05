//! The cluster's tables beside the log: made by the first worker, updated by the first newer one, and checked
//! against this program's wire version.

use std::time::Duration;

use provost_store::postgres::DatabaseProject;
use sqlx::{Connection as _, PgConnection};

use crate::error::ErrorContext as _;
use crate::{Error, wire};

const LOOK: Duration = Duration::from_millis(50);
const SCHEMA: &str = include_str!("schema.sql");
/// Run at every join by the owner: roles can be made after the tables.
const RIGHTS: &str = include_str!("rights.sql");
/// Raised with every change of the schema, so that existing clusters are updated.
const REVISION: i32 = 5;

/// Wakes plans that were approved and have not ended since; unapproved plans have nothing to do.
const WAITING: &str = "
SELECT provost_cluster.wake(p.name::json #>> '{}', NULL)
FROM (SELECT plan, max(id) FILTER (WHERE name <> 'EXECUTION_COMPLETE') AS begun,
          coalesce(max(id) FILTER (WHERE name = 'EXECUTION_COMPLETE'), 0) AS over
      FROM provost.event
      WHERE name IN ('GATE_APPROVED', 'HUMAN_ANSWERED', 'EXECUTION_COMPLETE') GROUP BY plan) AS e
JOIN provost.plan p ON p.id = e.plan
WHERE e.begun > e.over";

/// Makes the missing tables, after those of the SDK. Refuses a cluster with another wire version before
/// writing to it.
pub(crate) async fn make(
    project: &DatabaseProject,
    connection: &mut PgConnection,
    sdk: impl AsyncFnOnce() -> Result<(), Error>,
) -> Result<(), Error> {
    // Poll for the lock: waiting inside a statement would block the indexes that the SDK makes.
    while !project
        .query_scalar("SELECT pg_try_advisory_lock(hashtext('provost_cluster.schema'))")
        .fetch_one(&mut *connection)
        .await
        .attempted("let this program make its tables")?
    {
        tokio::time::sleep(LOOK).await;
    }
    let made = match is_there(project, connection).await {
        Ok(false) => match sdk().await {
            Ok(()) => tables(project, connection).await,
            failed => failed,
        },
        Ok(true) => brought_up_to_date(project, connection).await,
        Err(error) => Err(error),
    };
    let made = match made {
        Ok(()) => give_rights(project, connection).await,
        failed => failed,
    };
    let _ = project
        .query("SELECT pg_advisory_unlock(hashtext('provost_cluster.schema'))")
        .execute(&mut *connection)
        .await;
    made?;
    understood(project, connection).await
}

/// Gives the roles their rights, if this login owns the tables.
async fn give_rights(project: &DatabaseProject, connection: &mut PgConnection) -> Result<(), Error> {
    let owns: bool = project.query_scalar(
        "SELECT pg_has_role(session_user, nspowner, 'USAGE') FROM pg_namespace WHERE nspname = 'provost_cluster'",
    )
    .fetch_one(&mut *connection)
    .await
    .attempted("check whether this login owns the cluster")?;
    if owns {
        project.raw(RIGHTS).execute(connection).await.attempted("give the roles their rights")?;
    }
    Ok(())
}

async fn tables(project: &DatabaseProject, connection: &mut PgConnection) -> Result<(), Error> {
    let mut turn = connection.begin().await.attempted("begin")?;
    project.raw(SCHEMA).execute(&mut *turn).await.attempted("make the tables of the cluster")?;
    project
        .query("INSERT INTO provost_cluster.wire VALUES ($1)")
        .bind(wire::VERSION)
        .execute(&mut *turn)
        .await
        .attempted("record the protocol version of the cluster")?;
    note_revision(project, &mut turn).await?;
    // Plans decided before the cluster existed are woken now.
    project.query(WAITING).execute(&mut *turn).await.attempted("look at the plans that wait")?;
    project.query("DELETE FROM provost.wake").execute(&mut *turn).await.attempted("look at the plans")?;
    turn.commit().await.attempted("make the tables of the cluster")
}

/// Updates the tables of a cluster that an earlier program made. A newer cluster stays as it is.
async fn brought_up_to_date(project: &DatabaseProject, connection: &mut PgConnection) -> Result<(), Error> {
    // A cluster with another wire version must not be changed.
    understood(project, connection).await?;
    let known: bool = project
        .query_scalar("SELECT to_regclass('provost_cluster.made') IS NOT NULL")
        .fetch_one(&mut *connection)
        .await
        .attempted("read the revision of its tables")?;
    if known {
        let made: Option<i32> = project
            .query_scalar("SELECT max(revision) FROM provost_cluster.made")
            .fetch_one(&mut *connection)
            .await
            .attempted("read the revision of its tables")?;
        if made.is_some_and(|made| made >= REVISION) {
            return Ok(());
        }
    }
    let mut turn = connection.begin().await.attempted("begin")?;
    project.raw(SCHEMA).execute(&mut *turn).await.attempted("bring the tables of the cluster up to date")?;
    note_revision(project, &mut turn).await?;
    turn.commit().await.attempted("bring the tables of the cluster up to date")
}

async fn note_revision(project: &DatabaseProject, connection: &mut PgConnection) -> Result<(), Error> {
    let note =
        "WITH before AS (DELETE FROM provost_cluster.made) INSERT INTO provost_cluster.made VALUES ($1)";
    project
        .query(note)
        .bind(REVISION)
        .execute(connection)
        .await
        .attempted("record the revision of its tables")?;
    Ok(())
}

pub(crate) async fn is_there(
    project: &DatabaseProject,
    connection: &mut PgConnection,
) -> Result<bool, Error> {
    project
        .query_scalar("SELECT to_regclass('provost_cluster.wire') IS NOT NULL")
        .fetch_one(connection)
        .await
        .attempted("check whether there is a cluster")
}

/// Refuses a cluster with another wire version.
pub(crate) async fn understood(
    project: &DatabaseProject,
    connection: &mut PgConnection,
) -> Result<(), Error> {
    let found: String = project
        .query_scalar("SELECT version FROM provost_cluster.wire")
        .fetch_one(connection)
        .await
        .attempted("read the protocol version of the cluster")?;
    if found == wire::VERSION { Ok(()) } else { Err(Error::OtherWire { found, known: wire::VERSION }) }
}

#[cfg(test)]
mod tests {
    use super::{REVISION, SCHEMA};

    /// A change of the file needs a new revision; both are written down here.
    #[test]
    fn a_changed_file_has_a_revision_of_its_own() {
        let digest = SCHEMA.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |digest, byte| {
            (digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        assert_eq!(format!("{REVISION} {digest:016x}"), "5 5ce4ba7e9e669e27");
    }
}
