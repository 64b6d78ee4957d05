//! A worker's signs of life, and what it does when the database is silent. One connection to the server itself
//! hears of new work (`LISTEN`), renews the leases of everything that runs here, and records the heartbeat, so
//! that blocked work elsewhere delays none of them.
//!
//! **Invariant:** a worker that cannot send its heartbeat stops what it runs before its leases expire and
//! others declare it dead. Leases are renewed with each heartbeat, at least three times in their lifetime, so a
//! third of it is left.
//! **Invariant:** work enqueued while the connection was down is found: every new connection wakes the worker, and
//! each heartbeat also asks whether something waits (`schema.sql`).

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use provost_store::postgres::DatabaseAddress;
use sqlx::Acquire as _;
use sqlx::postgres::{PgListener, PgPoolOptions};
use tokio::time::Instant;

use crate::error::ErrorContext as _;
use crate::reaper::Badge;
use crate::worker_context::Crew;
use crate::{Error, reaper};

/// Asks for the channel, as in `schema.sql`.
const CHANNEL: &str = "SELECT name || '_cluster' FROM provost.channel";

/// Silence after which the SDK is started again: its own pauses grow with the silence, up to a minute and a
/// half, and longer ones than this would be noticed.
const LONG: Duration = Duration::from_secs(8);

/// Longest time of one heartbeat. After the network was away, the kernel sends what was lost after pauses that
/// have grown with the silence; a new connection is sooner.
const LONGEST: Duration = Duration::from_secs(8);

pub(crate) struct Pulse {
    database: DatabaseAddress,
    /// The connection; `None` if it was lost.
    line: Option<PgListener>,
    ttl: Duration,
    /// Time at which the last successful heartbeat was sent.
    heard: Instant,
}

impl Pulse {
    pub(crate) fn new(database: DatabaseAddress, ttl: Duration) -> Self {
        Self { database, line: None, ttl, heard: Instant::now() }
    }

    /// Returns the time without a heartbeat after which a worker counts as dead.
    pub(crate) fn ttl(&self) -> Duration {
        self.ttl
    }

    /// Sends a heartbeat and reaps dead workers.
    pub(crate) async fn beat(&mut self, crew: &Arc<Crew>, badge: &Badge, drains: bool) -> Result<(), Error> {
        let longest = LONGEST.min(self.ttl / 3);
        let patience = Some(self.left()).filter(|left| !left.is_zero());
        let patience = patience.map_or(longest, |left| left.min(longest));
        let beaten = tokio::time::timeout(patience, self.once(crew, badge, drains)).await;
        let beaten =
            beaten.unwrap_or_else(|_| Err(silent()).attempted("record the heartbeat of this worker"));
        if beaten.is_err() {
            // The connection may be dead without an error.
            self.line = None;
        }
        // Includes connections opened since the last time, and those of the SDK.
        crew.log.expect_answers();
        self.look(crew);
        beaten
    }

    /// Stops all work if the last successful heartbeat is too old; nothing new is taken until the next one.
    pub(crate) fn look(&self, crew: &Crew) {
        let is_stale = self.left().is_zero();
        crew.is_stale.store(is_stale, Ordering::Relaxed);
        if is_stale {
            crew.let_go();
        }
    }

    /// Waits for this time, or until it heard of work. Returns whether the connection was lost.
    pub(crate) async fn listen(&mut self, crew: &Crew, time: Duration) -> bool {
        let Some(line) = &mut self.line else {
            tokio::time::sleep(time).await;
            return false;
        };
        match tokio::time::timeout(time, line.try_recv()).await {
            Err(_) => return false,
            Ok(Ok(Some(said))) => {
                if crew.listens_to(said.payload()) {
                    crew.bell.ring();
                }
                return false;
            }
            Ok(Ok(None) | Err(_)) => self.line = None,
        }
        true
    }

    /// Returns the connection, and makes it if there is none.
    async fn line(&mut self, crew: &Crew) -> sqlx::Result<&mut PgListener> {
        let line = match self.line.take() {
            Some(line) => line,
            None => {
                let direct = self.database.direct().clone();
                let pool = PgPoolOptions::new().max_connections(1).connect_lazy_with(direct);
                let mut line = PgListener::connect_with(&pool).await?;
                line.eager_reconnect(false);
                let channel: String = crew.project().query_scalar(CHANNEL).fetch_one(&mut line).await?;
                line.listen(&channel).await?;
                // Work may have been enqueued while there was no connection.
                crew.bell.ring();
                line
            }
        };
        Ok(self.line.insert(line))
    }

    fn left(&self) -> Duration {
        (self.ttl * 2 / 3).saturating_sub(self.heard.elapsed())
    }

    async fn once(&mut self, crew: &Arc<Crew>, badge: &Badge, drains: bool) -> Result<(), Error> {
        let sent = Instant::now();
        let line = self.line(crew).await.attempted("be reached")?;
        let renewed = async { crew.log.renew_leases(line.acquire().await?).await };
        renewed.await.attempted("renew the leases of this worker")?;
        let (ours, stirs) = reaper::beat(crew, line, badge, drains).await?;
        if self.heard.elapsed() > LONG {
            crew.was_away.store(true, Ordering::Relaxed);
        }
        self.heard = sent;
        crew.is_stale.store(false, Ordering::Relaxed);
        crew.health.heard(sent.into_std(), self.ttl);
        crew.keep_only(&ours);
        if stirs || crew.was_away.load(Ordering::Relaxed) {
            crew.bell.ring();
        }
        if !ours.is_empty() {
            let unwanted = unwanted(crew, self.line(crew).await.attempted("be reached")?).await?;
            crew.end(&unwanted, "its plan was sent back");
        }
        Ok(())
    }
}

/// Returns the items of this worker whose plan a person has sent back meanwhile.
async fn unwanted(crew: &Crew, line: &mut PgListener) -> Result<Vec<String>, Error> {
    crew.project()
        .query_scalar(
            "SELECT i.id FROM provost_cluster.item i \
             JOIN provost.plan p ON p.name = to_json(i.plan)::text \
             CROSS JOIN LATERAL (SELECT e.name FROM provost.event e \
                 WHERE e.plan = p.id AND e.name IN ('GATE_APPROVED', 'GATE_REJECTED') \
                 ORDER BY e.seq DESC LIMIT 1) AS gate \
             WHERE i.worker = $1 AND gate.name = 'GATE_REJECTED'",
        )
        .bind(&crew.id)
        .fetch_all(line)
        .await
        .attempted("list the items that are no longer wanted")
}

fn silent() -> sqlx::Error {
    sqlx::Error::Io(std::io::Error::new(std::io::ErrorKind::TimedOut, "it does not answer"))
}
