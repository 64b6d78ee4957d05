//! The connections of a log: how many it uses at a time, how long it retries a lost server, and how an engine
//! on the same database uses them too ([`LogConnections`]).

use std::fmt;
use std::ops::AsyncFnMut;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream};
use futures_util::{FutureExt as _, StreamExt as _, TryFutureExt as _, TryStreamExt as _};
use sqlx::postgres::{PgConnection, PgQueryResult, PgRow, PgStatement, PgTypeInfo};
use sqlx::{Connection as _, Either, Execute, Executor, SqlStr};
use tokio::sync::SemaphorePermit;

use super::runtime::{run, runtime};
use super::{LOST_AFTER, Postgres, Shared, failure, silence};

/// How long a lost server is retried, in milliseconds.
static PATIENCE_MS: AtomicU64 = AtomicU64::new(30_000);
/// Set after a failed retry, if [`answer_soon`] was called: until this time, no call retries.
static AWAY_UNTIL: Mutex<Option<Instant>> = Mutex::new(None);
const AWAY: Duration = Duration::from_secs(2);
/// Longest run time of a statement in a process that answers soon.
pub(super) const SOON: Duration = Duration::from_secs(5);
pub(super) const SECOND_TRY: Duration = Duration::from_millis(100);
/// Connections that a log uses at a time, besides those that renew leases and listen.
pub(super) const CONNECTIONS: usize = 8;
/// A connection that was not used for this long is asked whether it is still alive.
const FRESH: Duration = Duration::from_secs(1);

/// A connection that nobody uses, and since when.
pub(super) type IdleConnection = (PgConnection, Instant);

/// Makes every log of this process give up on a lost server soon, because people and probes wait for its
/// answers.
pub fn answer_soon() {
    PATIENCE_MS.store(1_000, Ordering::Relaxed);
}

pub(super) fn patience() -> Duration {
    Duration::from_millis(PATIENCE_MS.load(Ordering::Relaxed))
}

impl Postgres {
    /// Uses at most this many connections at a time, and no more than [`CONNECTIONS`].
    pub fn with_connections(self, most: usize) -> Self {
        self.shared.permits.forget_permits(CONNECTIONS.saturating_sub(most.max(1)));
        self
    }

    /// Returns the connections of this log, for statements on the same database.
    pub fn connections(&self) -> LogConnections {
        LogConnections(self.shared.clone())
    }

    /// Makes all connections of this process to the server end if nothing is received for 25 seconds, or for the
    /// duration of a shorter lease, including connections that others made.
    pub fn expect_answers(&self) {
        let ports = [self.shared.options.get_port(), self.shared.direct.get_port()];
        silence::ends_after(LOST_AFTER.min(self.lease_ttl), &ports);
    }
}

impl Shared {
    /// Connects on the runtime of this module, so that the connection outlives the runtime of the caller.
    pub(super) async fn connect(&self) -> sqlx::Result<PgConnection> {
        let options = self.options.clone();
        let connecting = runtime().spawn(async move { PgConnection::connect_with(&options).await });
        let patience = patience().min(Duration::from_secs(10));
        match tokio::time::timeout(patience, connecting).await {
            Ok(Ok(connected)) => connected,
            Ok(Err(_)) | Err(_) => Err(silent()),
        }
    }

    /// Runs `work` on a connection of its own, and retries while the server is away for a moment.
    pub(super) fn with<T>(
        &self,
        lost_after: Duration,
        mut work: impl AsyncFnMut(&mut PgConnection) -> sqlx::Result<T>,
    ) -> sqlx::Result<T> {
        let away = || AWAY_UNTIL.lock().unwrap_or_else(PoisonError::into_inner);
        let is_away = away().is_some_and(|until| Instant::now() < until);
        let deadline = Instant::now() + if is_away { Duration::ZERO } else { patience() };
        loop {
            match run(self.once(lost_after, &mut work)) {
                Err(error) if failure::is_a_lost_server(&error) && Instant::now() < deadline => {
                    std::thread::sleep(SECOND_TRY);
                }
                Err(error) if failure::is_a_lost_server(&error) => {
                    *away() = (patience() < SOON).then(|| Instant::now() + AWAY);
                    return Err(error);
                }
                done => return done,
            }
        }
    }

    async fn once<T>(
        &self,
        lost_after: Duration,
        work: &mut impl AsyncFnMut(&mut PgConnection) -> sqlx::Result<T>,
    ) -> sqlx::Result<T> {
        let (permit, idle) = self.admitted().await;
        let mut connection = match idle {
            Some((connection, _)) => connection,
            None => self.connect().await?,
        };
        let done =
            tokio::time::timeout(lost_after, work(&mut connection)).await.unwrap_or_else(|_| Err(silent()));
        self.after(connection, done.as_ref().err()).await;
        drop(permit);
        done
    }

    /// Waits until a connection may be used, and returns one that is there.
    async fn admitted(&self) -> (Option<SemaphorePermit<'_>>, Option<IdleConnection>) {
        // Never closed, so it never fails.
        let permit = self.permits.acquire().await.ok();
        (permit, self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop())
    }

    /// Keeps the connection for the next one, if it can be used after what happened on it.
    async fn after(&self, mut connection: PgConnection, failed: Option<&sqlx::Error>) {
        match failed {
            None => self.give_back(connection),
            // The idle connections lead to the same lost server.
            Some(error) if failure::is_a_lost_server(error) => self.forget(),
            // The connection may be in a failed transaction.
            Some(_) => {
                if sqlx::raw_sql("ROLLBACK").execute(&mut connection).await.is_ok() {
                    self.give_back(connection);
                }
            }
        }
    }

    pub(super) fn give_back(&self, connection: PgConnection) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push((connection, Instant::now()));
    }

    fn forget(&self) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Returns a connection that was alive a moment ago, for a statement that is not tried again.
    async fn lent(&self) -> sqlx::Result<(Option<SemaphorePermit<'_>>, PgConnection)> {
        let (permit, idle) = self.admitted().await;
        if let Some((mut connection, since)) = idle {
            let is_alive = since.elapsed() < FRESH
                || tokio::time::timeout(SOON, connection.ping()).await.is_ok_and(|answer| answer.is_ok());
            if is_alive {
                return Ok((permit, connection));
            }
            self.forget();
        }
        Ok((permit, self.connect().await?))
    }
}

/// The connections of a log, for single statements of an engine on the same database. They wait for each other
/// and for the log, as [`Postgres::with_connections`] says.
#[derive(Clone)]
pub struct LogConnections(pub(super) Arc<Shared>);

impl fmt::Debug for LogConnections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LogConnections({})", self.0.at)
    }
}

impl LogConnections {
    /// Runs the statement, and returns everything that the server answered.
    async fn answered<'q>(
        &self,
        statement: impl Execute<'q, sqlx::Postgres> + 'q,
    ) -> sqlx::Result<Vec<Either<PgQueryResult, PgRow>>> {
        let (permit, mut connection) = self.0.lent().await?;
        let answer = connection.fetch_many(statement).try_collect();
        let answer = tokio::time::timeout(LOST_AFTER, answer).await.unwrap_or_else(|_| Err(silent()));
        self.0.after(connection, answer.as_ref().err()).await;
        drop(permit);
        answer
    }
}

impl<'c> Executor<'c> for &'c LogConnections {
    type Database = sqlx::Postgres;

    fn fetch_many<'e, 'q: 'e, E>(self, query: E) -> BoxStream<'e, sqlx::Result<Either<PgQueryResult, PgRow>>>
    where
        'c: 'e,
        E: 'q + Execute<'q, sqlx::Postgres>,
    {
        let answers = self.answered(query).map_ok(|answers| stream::iter(answers.into_iter().map(Ok)));
        stream::once(answers).try_flatten().boxed()
    }

    fn fetch_optional<'e, 'q: 'e, E>(self, query: E) -> BoxFuture<'e, sqlx::Result<Option<PgRow>>>
    where
        'c: 'e,
        E: 'q + Execute<'q, sqlx::Postgres>,
    {
        let rows = |answers: Vec<_>| answers.into_iter().find_map(Either::right);
        self.answered(query).map_ok(rows).boxed()
    }

    fn prepare_with<'e>(
        self,
        sql: SqlStr,
        parameters: &'e [PgTypeInfo],
    ) -> BoxFuture<'e, sqlx::Result<PgStatement>>
    where
        'c: 'e,
    {
        let prepared = async move {
            let (permit, mut connection) = self.0.lent().await?;
            let prepared = connection.prepare_with(sql, parameters).await;
            self.0.after(connection, prepared.as_ref().err()).await;
            drop(permit);
            prepared
        };
        prepared.boxed()
    }
}

fn silent() -> sqlx::Error {
    sqlx::Error::Io(std::io::Error::new(std::io::ErrorKind::TimedOut, "the server does not answer"))
}
