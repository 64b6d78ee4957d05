//! Creates and migrates the schema, once, even if several processes start at the same time.
//!
//! **Invariant:** a released migration is never changed; a new one is added.

use std::path::PathBuf;

use sqlx::Row as _;
use sqlx::postgres::PgConnection;

use super::address::IDLE_LIMIT;
use super::failure;
use crate::Error;

/// In order; the version of each is its position, counted from one.
const MIGRATIONS: [&str; 3] = [
    include_str!("migrations/0001_log.sql"),
    include_str!("migrations/0002_trust.sql"),
    include_str!("migrations/0003_archive.sql"),
];
const ROLES: &str = include_str!("roles.sql");
/// Oldest server version that the functions of the schema support.
const OLDEST_SERVER: i32 = 140_000;
/// Key of the advisory lock: "prvs".
const LOCK: i64 = 0x7072_7673;

pub(super) async fn migrate(connection: &mut PgConnection, at: &str, has_pooler: bool) -> Result<(), Error> {
    check_server(connection, at, has_pooler).await?;
    if version(connection, at).await? == Some(MIGRATIONS.len()) {
        return Ok(());
    }
    let made = bring_up_to_date(connection, at).await;
    if made.is_err() {
        let _ = sqlx::raw_sql("ROLLBACK").execute(&mut *connection).await;
    }
    made
}

pub(super) async fn is_there(
    connection: &mut PgConnection,
    at: &str,
    has_pooler: bool,
) -> Result<bool, Error> {
    check_server(connection, at, has_pooler).await?;
    match version(connection, at).await? {
        None => Ok(false),
        Some(found) if found == MIGRATIONS.len() => Ok(true),
        Some(found) => Err(Error::OlderSchema { at: at.to_owned(), found, known: MIGRATIONS.len() }),
    }
}

/// Refuses a server that is too old, and one that does not have the settings that provost's sessions need.
async fn check_server(connection: &mut PgConnection, at: &str, has_pooler: bool) -> Result<(), Error> {
    let row = sqlx::query(
        "SELECT current_setting('server_version_num')::int, current_setting('server_version'), \
         current_setting('idle_in_transaction_session_timeout'), current_setting('synchronous_commit'), \
         current_setting('default_transaction_isolation'), current_database()::text",
    )
    .fetch_one(connection)
    .await
    .map_err(|source| failure::of(at, "ask for the version of the server", source))?;
    let number: i32 = row.try_get(0).unwrap_or(0);
    if number < OLDEST_SERVER {
        let found = row.try_get(1).unwrap_or_default();
        return Err(Error::OldServer { at: at.to_owned(), found, needed: OLDEST_SERVER / 10_000 });
    }
    let setting = |column: usize| row.try_get::<String, _>(column).unwrap_or_default();
    if !has_pooler {
        let is_session = setting(2) == IDLE_LIMIT.1;
        return if is_session { Ok(()) } else { Err(Error::PoolerNotNamed { at: at.to_owned() }) };
    }
    // Nobody can set them for a session behind a pooler.
    let needed = [
        ("synchronous_commit", setting(3), &["on", "remote_apply"][..]),
        ("default_transaction_isolation", setting(4), &["read committed"]),
    ];
    match needed.into_iter().find(|(_, found, allowed)| !allowed.contains(&found.as_str())) {
        Some((name, found, allowed)) => Err(Error::PoolerSetting {
            at: at.to_owned(),
            database: setting(5),
            name,
            found,
            needed: allowed[0],
        }),
        None => Ok(()),
    }
}

/// Returns the version of the schema; `None` if there is no log.
async fn version(connection: &mut PgConnection, at: &str) -> Result<Option<usize>, Error> {
    let read = async {
        // Not `to_regclass`: within a transaction it does not see tables that others have created.
        let exists = "SELECT EXISTS (SELECT FROM pg_catalog.pg_tables
                      WHERE schemaname = 'provost' AND tablename = 'migration')";
        let there: bool = sqlx::query(exists).fetch_one(&mut *connection).await?.try_get(0)?;
        if !there {
            return Ok(None);
        }
        let row = sqlx::query("SELECT coalesce(max(version), 0) FROM provost.migration")
            .fetch_one(&mut *connection)
            .await?;
        Ok(Some(row.try_get::<i32, _>(0)?))
    };
    let found = read.await.map_err(|source| failure::of(at, "read the version of the log", source))?;
    let known = MIGRATIONS.len();
    match found.map(|found| usize::try_from(found).unwrap_or(0)) {
        Some(found) if found > known => {
            Err(Error::NewerSchema { path: PathBuf::from(at), found: found as i64, known: known as i64 })
        }
        found => Ok(found),
    }
}

async fn bring_up_to_date(connection: &mut PgConnection, at: &str) -> Result<(), Error> {
    let failed = |source| failure::of(at, "make the log", source);
    sqlx::raw_sql("BEGIN").execute(&mut *connection).await.map_err(failed)?;
    sqlx::query("SELECT pg_advisory_xact_lock($1)")
        .bind(LOCK)
        .execute(&mut *connection)
        .await
        .map_err(failed)?;
    // Another process may have migrated before our turn.
    let done = version(connection, at).await?;
    if done.is_none() {
        let first = "CREATE SCHEMA IF NOT EXISTS provost;
             CREATE TABLE provost.migration (version int PRIMARY KEY, at timestamptz NOT NULL DEFAULT now())";
        sqlx::raw_sql(first).execute(&mut *connection).await.map_err(failed)?;
    }
    for (place, migration) in MIGRATIONS.iter().enumerate().skip(done.unwrap_or(0)) {
        sqlx::raw_sql(*migration).execute(&mut *connection).await.map_err(failed)?;
        sqlx::query("INSERT INTO provost.migration (version) VALUES ($1)")
            .bind(place as i32 + 1)
            .execute(&mut *connection)
            .await
            .map_err(failed)?;
    }
    make_roles(connection).await.map_err(failed)?;
    sqlx::raw_sql("COMMIT").execute(&mut *connection).await.map_err(failed)?;
    Ok(())
}

/// All roles, as in `roles.sql`.
const ALL_ROLES: [&str; 6] = [
    "provost_harness",
    "provost_person",
    "provost_gateway",
    "provost_worker",
    "provost_agents",
    "provost_reader",
];

/// Creates the roles that may be created and gives all of them their rights. Returns those that are missing;
/// `None` if this login does not own the log.
pub(super) async fn grant_roles(connection: &mut PgConnection) -> sqlx::Result<Option<Vec<String>>> {
    let owner =
        "SELECT pg_has_role(session_user, nspowner, 'USAGE') FROM pg_namespace WHERE nspname = 'provost'";
    if !sqlx::query(owner).fetch_one(&mut *connection).await?.try_get::<bool, _>(0)? {
        return Ok(None);
    }
    sqlx::raw_sql("BEGIN").execute(&mut *connection).await?;
    make_roles(connection).await?;
    sqlx::raw_sql("COMMIT").execute(&mut *connection).await?;
    let missing =
        sqlx::query("SELECT r FROM unnest($1::text[]) r WHERE r NOT IN (SELECT rolname FROM pg_roles)")
            .bind(ALL_ROLES.map(str::to_owned).to_vec())
            .fetch_all(connection)
            .await?;
    missing.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>().map(Some)
}

/// Creates the roles. They belong to the whole server, and not every owner of a database may create them.
/// Without them, only the owner can write.
async fn make_roles(connection: &mut PgConnection) -> sqlx::Result<()> {
    for _ in 0..5 {
        sqlx::raw_sql("SAVEPOINT roles").execute(&mut *connection).await?;
        let Err(error) = sqlx::raw_sql(ROLES).execute(&mut *connection).await else { return Ok(()) };
        sqlx::raw_sql("ROLLBACK TO SAVEPOINT roles").execute(&mut *connection).await?;
        match error.as_database_error().and_then(|said| said.code()).as_deref() {
            Some("42501") => return Ok(()),
            // Another database of the server created them at the same moment.
            Some("23505" | "42710" | "XX000") => {}
            _ => return Err(error),
        }
    }
    Ok(())
}
