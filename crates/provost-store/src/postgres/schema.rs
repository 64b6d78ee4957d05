//! Creates and migrates the schema, once, even if several processes start at the same time.
//!
//! **Invariant:** a released migration is never changed; a new one is added.

use std::path::PathBuf;

use sqlx::Row as _;
use sqlx::postgres::PgConnection;

use super::address::IDLE_LIMIT;
use super::{DatabaseProject, Shared, failure};
use crate::Error;

/// In order; the version of each is its position, counted from one.
pub(super) const MIGRATIONS: [&str; 5] = [
    include_str!("migrations/0001_log.sql"),
    include_str!("migrations/0002_trust.sql"),
    include_str!("migrations/0003_archive.sql"),
    include_str!("migrations/0004_channel.sql"),
    include_str!("migrations/0005_budget.sql"),
];
const ROLES: &str = include_str!("roles.sql");
/// Oldest server version that the functions of the schema support.
const OLDEST_SERVER: i32 = 140_000;
/// Key of the advisory lock: "prvs".
const LOCK: i64 = 0x7072_7673;

pub(super) async fn migrate(log: &Shared, connection: &mut PgConnection) -> Result<(), Error> {
    check_server(log, connection).await?;
    if version(log, connection).await? == Some(MIGRATIONS.len()) {
        return Ok(());
    }
    let made = bring_up_to_date(log, connection).await;
    if made.is_err() {
        let _ = sqlx::raw_sql("ROLLBACK").execute(&mut *connection).await;
    }
    made
}

pub(super) async fn is_there(log: &Shared, connection: &mut PgConnection) -> Result<bool, Error> {
    check_server(log, connection).await?;
    match version(log, connection).await? {
        None => Ok(false),
        Some(found) if found == MIGRATIONS.len() => Ok(true),
        Some(found) => Err(Error::OlderSchema { at: log.at.clone(), found, known: MIGRATIONS.len() }),
    }
}

/// Refuses a server that is too old, and one that does not have the settings that provost's sessions need.
async fn check_server(log: &Shared, connection: &mut PgConnection) -> Result<(), Error> {
    let at = &log.at;
    let row = log
        .project
        .query(
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
    if !log.has_pooler {
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
async fn version(log: &Shared, connection: &mut PgConnection) -> Result<Option<usize>, Error> {
    let read = async {
        // Not `to_regclass`: within a transaction it does not see tables that others have created.
        let exists = "SELECT EXISTS (SELECT FROM pg_catalog.pg_tables
                      WHERE schemaname = 'provost' AND tablename = 'migration')";
        let there: bool = log.project.query(exists).fetch_one(&mut *connection).await?.try_get(0)?;
        if !there {
            return Ok(None);
        }
        let row = log
            .project
            .query("SELECT coalesce(max(version), 0) FROM provost.migration")
            .fetch_one(&mut *connection)
            .await?;
        Ok(Some(row.try_get::<i32, _>(0)?))
    };
    let found = read.await.map_err(|source| failure::of(&log.at, "read the version of the log", source))?;
    let known = MIGRATIONS.len();
    match found.map(|found| usize::try_from(found).unwrap_or(0)) {
        Some(found) if found > known => {
            Err(Error::NewerSchema { path: PathBuf::from(&log.at), found: found as i64, known: known as i64 })
        }
        found => Ok(found),
    }
}

async fn bring_up_to_date(log: &Shared, connection: &mut PgConnection) -> Result<(), Error> {
    let failed = |source| failure::of(&log.at, "make the log", source);
    sqlx::raw_sql("BEGIN").execute(&mut *connection).await.map_err(failed)?;
    log.project
        .query("SELECT pg_advisory_xact_lock($1)")
        .bind(LOCK)
        .execute(&mut *connection)
        .await
        .map_err(failed)?;
    // Another process may have migrated before our turn.
    let done = version(log, connection).await?;
    if done.is_none() {
        let first = "CREATE SCHEMA IF NOT EXISTS provost;
             CREATE TABLE provost.migration (version int PRIMARY KEY, at timestamptz NOT NULL DEFAULT now())";
        log.project.raw(first).execute(&mut *connection).await.map_err(failed)?;
    }
    for (place, migration) in MIGRATIONS.iter().enumerate().skip(done.unwrap_or(0)) {
        log.project.raw(migration).execute(&mut *connection).await.map_err(failed)?;
        log.project
            .query("INSERT INTO provost.migration (version) VALUES ($1)")
            .bind(place as i32 + 1)
            .execute(&mut *connection)
            .await
            .map_err(failed)?;
    }
    name_channel(log, connection).await.map_err(failed)?;
    make_roles(&log.project, connection).await.map_err(failed)?;
    sqlx::raw_sql("COMMIT").execute(&mut *connection).await.map_err(failed)?;
    Ok(())
}

/// Records the channel of the log when it is made.
async fn name_channel(log: &Shared, connection: &mut PgConnection) -> sqlx::Result<()> {
    let sql = "INSERT INTO provost.channel SELECT $1 WHERE NOT EXISTS (SELECT FROM provost.channel)";
    log.project.query(sql).bind(log.project.new_channel()?).execute(connection).await.map(drop)
}

/// All roles, as in `roles.sql`.
const ALL_ROLES: [&str; 7] = [
    "provost_harness",
    "provost_person",
    "provost_gateway",
    "provost_worker",
    "provost_agents",
    "provost_reader",
    "provost_operator",
];

/// Creates the roles that may be created and gives all of them their rights. Returns those that are missing;
/// `None` if this login does not own the log.
pub(super) async fn grant_roles(
    project: &DatabaseProject,
    connection: &mut PgConnection,
) -> sqlx::Result<Option<Vec<String>>> {
    let owner =
        "SELECT pg_has_role(session_user, nspowner, 'USAGE') FROM pg_namespace WHERE nspname = 'provost'";
    if !project.query(owner).fetch_one(&mut *connection).await?.try_get::<bool, _>(0)? {
        return Ok(None);
    }
    sqlx::raw_sql("BEGIN").execute(&mut *connection).await?;
    make_roles(project, connection).await?;
    sqlx::raw_sql("COMMIT").execute(&mut *connection).await?;
    let missing = project
        .query("SELECT r FROM unnest($1::text[]) r WHERE r NOT IN (SELECT rolname FROM pg_roles)")
        .bind(ALL_ROLES.map(|role| project.sql(role).into_owned()).to_vec())
        .fetch_all(connection)
        .await?;
    missing.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>().map(Some)
}

/// Creates the roles. They belong to the whole server, and not every owner of a database may create them.
/// Without them, only the owner can write.
async fn make_roles(project: &DatabaseProject, connection: &mut PgConnection) -> sqlx::Result<()> {
    for _ in 0..5 {
        sqlx::raw_sql("SAVEPOINT roles").execute(&mut *connection).await?;
        let Err(error) = project.raw(ROLES).execute(&mut *connection).await else { return Ok(()) };
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
