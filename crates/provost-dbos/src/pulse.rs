//! A worker's sign of life, and what it makes of silence. It has a connection of its own: what hangs elsewhere
//! must not keep it.
//!
//! **Invariant:** whoever could not say that it is there ends what it runs before its leases run out and others take
//! it for dead. Leases are renewed three times in their time, so there is a third of it to spare.

use std::sync::Arc;
use std::time::Duration;

use sqlx::PgPool;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use tokio::time::Instant;

use crate::error::Attempted as _;
use crate::place::Crew;
use crate::sweep::Badge;
use crate::{Error, sweep};

pub(crate) struct Pulse {
    database: PgConnectOptions,
    pool: PgPool,
    ttl: Duration,
    /// When the last sign that arrived was sent.
    heard: Instant,
}

impl Pulse {
    pub fn new(database: &PgConnectOptions, ttl: Duration) -> Self {
        Self { database: database.clone(), pool: one(database), ttl, heard: Instant::now() }
    }

    /// After how long without a sign it is missed.
    pub fn ttl(&self) -> Duration {
        self.ttl
    }

    /// Says that it is there and looks after the others.
    pub async fn beat(&mut self, crew: &Arc<Crew>, badge: &Badge, drains: bool) -> Result<(), Error> {
        let patience = Some(self.left()).filter(|left| !left.is_zero());
        let patience = patience.map_or(self.ttl / 3, |left| left.min(self.ttl / 3));
        let beaten = tokio::time::timeout(patience, self.once(crew, badge, drains)).await;
        let beaten = beaten.unwrap_or_else(|_| Err(silent()).attempted("say that this worker was heard"));
        if beaten.is_err() {
            // It may be one that says nothing for ever.
            self.pool = one(&self.database);
        }
        // Of those too that were made since the last time, and by the SDK.
        crew.log.expect_answers();
        self.look(crew);
        beaten
    }

    /// Whether it is still to be heard that this worker is there.
    pub fn look(&self, crew: &Crew) {
        if self.left().is_zero() {
            crew.let_go();
        }
    }

    fn left(&self) -> Duration {
        (self.ttl * 2 / 3).saturating_sub(self.heard.elapsed())
    }

    async fn once(&mut self, crew: &Arc<Crew>, badge: &Badge, drains: bool) -> Result<(), Error> {
        let sent = Instant::now();
        let (ours, stirs) = sweep::beat(crew, &self.pool, badge, drains).await?;
        self.heard = sent;
        crew.keep_only(&ours);
        if stirs {
            crew.bell.ring();
        }
        if !ours.is_empty() {
            crew.end(&self.unwanted(crew).await?, "its plan was sent back");
        }
        Ok(())
    }

    /// What we have in hand of plans that a person sent back meanwhile.
    async fn unwanted(&self, crew: &Crew) -> Result<Vec<String>, Error> {
        sqlx::query_scalar(
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
        .attempted("say what is wanted")
    }
}

fn silent() -> sqlx::Error {
    sqlx::Error::Io(std::io::Error::new(std::io::ErrorKind::TimedOut, "it does not answer"))
}

fn one(database: &PgConnectOptions) -> PgPool {
    PgPoolOptions::new().max_connections(1).connect_lazy_with(database.clone())
}
