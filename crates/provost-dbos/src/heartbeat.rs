//! A worker's heartbeat, and what it does when the database is silent. It uses its own connection, so that
//! blocked work elsewhere does not delay it.
//!
//! **Invariant:** a worker that cannot send its heartbeat stops what it runs before its leases expire and
//! others declare it dead. Leases are renewed three times in their lifetime, so a third of it is left.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use sqlx::PgPool;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use tokio::time::Instant;

use crate::error::ErrorContext as _;
use crate::reaper::Badge;
use crate::worker_context::Crew;
use crate::{Error, reaper};

/// Silence after which the SDK is started again: its own pauses grow with the silence, up to a minute and a
/// half, and longer ones than this would be noticed.
const LONG: Duration = Duration::from_secs(8);

/// Longest time of one heartbeat. After the network was away, the kernel sends what was lost after pauses that
/// have grown with the silence; a new connection is sooner.
const LONGEST: Duration = Duration::from_secs(8);

pub(crate) struct Pulse {
    database: PgConnectOptions,
    pool: PgPool,
    ttl: Duration,
    /// Time at which the last successful heartbeat was sent.
    heard: Instant,
}

impl Pulse {
    pub(crate) fn new(database: &PgConnectOptions, ttl: Duration) -> Self {
        Self { database: database.clone(), pool: one(database), ttl, heard: Instant::now() }
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
            self.pool = one(&self.database);
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

    fn left(&self) -> Duration {
        (self.ttl * 2 / 3).saturating_sub(self.heard.elapsed())
    }

    async fn once(&mut self, crew: &Arc<Crew>, badge: &Badge, drains: bool) -> Result<(), Error> {
        let sent = Instant::now();
        let (ours, stirs) = reaper::beat(crew, &self.pool, badge, drains).await?;
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
            crew.end(&self.unwanted(crew).await?, "its plan was sent back");
        }
        Ok(())
    }

    /// Returns the items of this worker whose plan a person has sent back meanwhile.
    async fn unwanted(&self, crew: &Crew) -> Result<Vec<String>, Error> {
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
            .fetch_all(&self.pool)
            .await
            .attempted("list the items that are no longer wanted")
    }
}

fn silent() -> sqlx::Error {
    sqlx::Error::Io(std::io::Error::new(std::io::ErrorKind::TimedOut, "it does not answer"))
}

fn one(database: &PgConnectOptions) -> PgPool {
    PgPoolOptions::new().max_connections(1).connect_lazy_with(database.clone())
}
