//! The connections of a log: how many it uses at a time, and how long it retries a lost server.

use std::ops::AsyncFnMut;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use sqlx::Connection as _;
use sqlx::postgres::PgConnection;

use super::runtime::run;
use super::{Shared, failure};

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

/// Makes every log of this process give up on a lost server soon, because people and probes wait for its
/// answers.
pub fn answer_soon() {
    PATIENCE_MS.store(1_000, Ordering::Relaxed);
}

pub(super) fn patience() -> Duration {
    Duration::from_millis(PATIENCE_MS.load(Ordering::Relaxed))
}

impl Shared {
    pub(super) async fn connect(&self) -> sqlx::Result<PgConnection> {
        let connecting = PgConnection::connect_with(&self.options);
        tokio::time::timeout(patience().min(Duration::from_secs(10)), connecting)
            .await
            .unwrap_or_else(|_| Err(silent()))
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
        // Never closed, so it never fails.
        let _permit = self.permits.acquire().await;
        let mut connection = match self.idle() {
            Some(connection) => connection,
            None => self.connect().await?,
        };
        let done =
            tokio::time::timeout(lost_after, work(&mut connection)).await.unwrap_or_else(|_| Err(silent()));
        match &done {
            Ok(_) => self.give_back(connection),
            // The idle connections lead to the same lost server.
            Err(error) if failure::is_a_lost_server(error) => self.forget(),
            // The connection may be in a failed transaction.
            Err(_) => {
                if sqlx::raw_sql("ROLLBACK").execute(&mut connection).await.is_ok() {
                    self.give_back(connection);
                }
            }
        }
        done
    }

    pub(super) fn idle(&self) -> Option<PgConnection> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    pub(super) fn give_back(&self, connection: PgConnection) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
    }

    fn forget(&self) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

fn silent() -> sqlx::Error {
    sqlx::Error::Io(std::io::Error::new(std::io::ErrorKind::TimedOut, "the server does not answer"))
}
