//! The log in Postgres, for more than one machine.
//!
//! Rows are written by functions of the database alone (`postgres/migrations/`): they hold the chain, the
//! fences and the doors, so that whoever has a connection can say no more than its role may. The trait is
//! synchronous; the driver is not, and runs on a runtime of this room's own.
//!
//! **Invariant:** writers take turns, so cursors have no gaps and what a follower has read past is complete.
//! **Invariant:** an append whose answer was lost is looked for before it is tried again.
//! **Invariant:** no password is in a message: places are written from their parts.

use std::collections::HashMap;
use std::ops::{AsyncFnMut, ControlFlow};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use provost_core::model::chain::{Head, PlanId, Sealed, seal};
use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{Connection as _, Row as _};

use crate::{Append, Cursor, Effect, Error, Fence, Holder, Keep, Lease, Log, Query, transfer};

pub mod address;
#[cfg(any(test, feature = "cluster"))]
#[doc(hidden)]
pub mod cluster;
mod failure;
mod follow;
mod leases;
mod rows;
mod runtime;
mod schema;
mod select;
mod silence;
#[cfg(test)]
mod tests;
#[cfg(any(test, feature = "cluster"))]
#[doc(hidden)]
pub mod wire;

pub use address::Address;
pub use leases::Lapsed;
use runtime::run;

/// How long a server that is being restarted is waited for.
const PATIENCE: Duration = Duration::from_secs(30);
const SECOND_TRY: Duration = Duration::from_millis(100);
/// A statement that takes longer, or longer than a lease lasts, has lost its server.
const LOST_AFTER: Duration = Duration::from_secs(25);
/// Heads of plans this process writes to; forgotten all at once when there are more.
const KNOWN_HEADS: usize = 1024;
pub const LEASE_TTL: Duration = Duration::from_secs(30);

pub struct Postgres {
    shared: Arc<Shared>,
    bell: follow::Bell,
    /// Where the chains ended when this process last wrote to them: saves a round trip.
    heads: Mutex<HashMap<PlanId, Head>>,
    dispatch: Option<Arc<dyn Dispatch>>,
    lease_ttl: Duration,
}

/// What leases outlive the log with.
struct Shared {
    /// For messages.
    at: String,
    options: PgConnectOptions,
    idle: Mutex<Vec<PgConnection>>,
}

/// Carries out effects in the transaction of the events they follow from.
pub trait Dispatch: Send + Sync {
    /// Run in this order before the events are written; rolled back with them.
    fn statements(&self, effect: &Effect) -> Vec<Statement>;
}

/// SQL with `$1`, `$2`, …; cast them where the type is not plain (`$1::json`).
#[derive(Clone, Debug, PartialEq)]
pub struct Statement {
    /// Never made of what somebody said: that is what parameters are for.
    pub sql: String,
    pub params: Vec<Param>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Param {
    Text(Option<String>),
    Number(Option<i64>),
}

impl Postgres {
    /// Opens the log, and makes or migrates it if need be and allowed.
    pub fn open(address: &Address) -> Result<Self, Error> {
        let log = Self::unchecked(address);
        let mut first = log.first_connection()?;
        run(schema::migrate(&mut first, &log.shared.at))?;
        log.shared.give_back(first);
        Ok(log)
    }

    /// Opens a log that is there, to look at; writes nothing.
    pub fn open_existing(address: &Address) -> Result<Option<Self>, Error> {
        let log = Self::unchecked(address);
        let mut first = log.first_connection()?;
        let there = run(schema::is_there(&mut first, &log.shared.at))?;
        log.shared.give_back(first);
        Ok(there.then_some(log))
    }

    fn unchecked(address: &Address) -> Self {
        let shared =
            Shared { at: address.to_string(), options: address.options().clone(), idle: Mutex::default() };
        let bell = follow::Bell::new(shared.options.clone());
        Self { shared: Arc::new(shared), bell, heads: Mutex::default(), dispatch: None, lease_ttl: LEASE_TTL }
    }

    /// Effects become statements of `dispatch`, and no rows of ours.
    pub fn with_dispatch(self, dispatch: Arc<dyn Dispatch>) -> Self {
        Self { dispatch: Some(dispatch), ..self }
    }

    /// For how long a lease outlives its holder. It is renewed three times in that time.
    pub fn with_lease_ttl(self, lease_ttl: Duration) -> Self {
        Self { lease_ttl, ..self }
    }

    /// For connections of one's own to the same database.
    pub fn options(&self) -> &PgConnectOptions {
        &self.shared.options
    }

    /// Connections of this process to the server, whoever made them, end when nothing was heard of them for as
    /// long as a lease lasts.
    pub fn expect_answers(&self) {
        silence::ends_after(self.lease_ttl, self.shared.options.get_port());
    }

    /// The first one is not waited for: a person is.
    fn first_connection(&self) -> Result<PgConnection, Error> {
        run(self.shared.connect()).map_err(|source| failure::of(&self.shared.at, "connect", source))
    }

    fn with<T>(
        &self,
        attempted: &'static str,
        work: impl AsyncFnMut(&mut PgConnection) -> sqlx::Result<T>,
    ) -> Result<T, Error> {
        self.shared
            .with(self.lost_after(), work)
            .map_err(|source| failure::of(&self.shared.at, attempted, source))
    }

    fn lost_after(&self) -> Duration {
        LOST_AFTER.min(self.lease_ttl)
    }

    fn known_head(&self, plan: &PlanId) -> Option<Head> {
        self.heads.lock().unwrap_or_else(PoisonError::into_inner).get(plan).copied()
    }

    fn remember_head(&self, plan: &PlanId, head: Option<Head>) {
        let mut heads = self.heads.lock().unwrap_or_else(PoisonError::into_inner);
        if heads.len() >= KNOWN_HEADS {
            heads.clear();
        }
        match head {
            Some(head) => heads.insert(plan.clone(), head),
            None => heads.remove(plan),
        };
    }
}

/// Connections.
impl Shared {
    async fn connect(&self) -> sqlx::Result<PgConnection> {
        let connecting = PgConnection::connect_with(&self.options);
        tokio::time::timeout(Duration::from_secs(10), connecting).await.unwrap_or_else(|_| Err(silent()))
    }

    /// Does `work` on a connection of its own, again while the server is away for a moment.
    fn with<T>(
        &self,
        lost_after: Duration,
        mut work: impl AsyncFnMut(&mut PgConnection) -> sqlx::Result<T>,
    ) -> sqlx::Result<T> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match run(self.once(lost_after, &mut work)) {
                Err(error) if failure::is_a_lost_server(&error) && Instant::now() < deadline => {
                    std::thread::sleep(SECOND_TRY);
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
        let mut connection = match self.idle() {
            Some(connection) => connection,
            None => self.connect().await?,
        };
        let done =
            tokio::time::timeout(lost_after, work(&mut connection)).await.unwrap_or_else(|_| Err(silent()));
        match &done {
            Ok(_) => self.give_back(connection),
            // The others are of the same server.
            Err(error) if failure::is_a_lost_server(error) => self.forget(),
            // It may be in a transaction that failed.
            Err(_) => {
                if sqlx::raw_sql("ROLLBACK").execute(&mut connection).await.is_ok() {
                    self.give_back(connection);
                }
            }
        }
        done
    }

    fn idle(&self) -> Option<PgConnection> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    fn give_back(&self, connection: PgConnection) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
    }

    fn forget(&self) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

fn silent() -> sqlx::Error {
    sqlx::Error::Io(std::io::Error::new(std::io::ErrorKind::TimedOut, "the server does not answer"))
}

impl Log for Postgres {
    fn append(&self, append: Append<'_>) -> Result<Vec<Sealed>, Error> {
        let mut known = self.known_head(append.plan).filter(|head| head.seq == append.expected_seq);
        self.remember_head(append.plan, None);
        let effects = Effects::of(append.effects, self.dispatch.as_deref());
        let mut sealed: Option<Vec<Sealed>> = None;
        let written = self.shared.with(self.lost_after(), async |connection| {
            if let Some(written) = &sealed
                && rows::are_there(connection, written).await?
            {
                return Ok(Ok(written.clone()));
            }
            let is_first = sealed.is_none();
            let head = match known.take() {
                Some(head) => head,
                None => rows::head(connection, append.plan).await?.map_or(Head::START, |(_, head)| head),
            };
            if head.seq != append.expected_seq {
                return Ok(Err(head.seq));
            }
            let events = sealed.insert(sealed_after(head, &append));
            match rows::write(connection, &append, events, &effects).await {
                // The try before this one was still waiting for its turn when it was looked for.
                Err(error) if !is_first && failure::is_conflict(&error) => {
                    sqlx::raw_sql("ROLLBACK").execute(&mut *connection).await?;
                    if rows::are_there(connection, events).await? { Ok(()) } else { Err(error) }
                }
                written => written,
            }?;
            Ok(Ok(events.clone()))
        });
        let conflict =
            |found| Error::Conflict { plan: append.plan.clone(), expected: append.expected_seq, found };
        match written {
            Ok(Ok(events)) => {
                let head = events.last().map(|last| Head { seq: last.seq, hash: last.hash });
                self.remember_head(append.plan, head);
                Ok(events)
            }
            Ok(Err(found)) => Err(conflict(found)),
            Err(source) => Err(match (failure::refusal(&source), append.fence) {
                (Some(failure::Refusal::Conflict(found)), _) => conflict(found),
                (Some(failure::Refusal::Fenced(current)), Some(fence)) => {
                    Error::Fenced { name: fence.name.clone(), held: fence.epoch, current }
                }
                _ => failure::of(&self.shared.at, "write to the log", source),
            }),
        }
    }

    fn head(&self, plan: &PlanId) -> Result<Head, Error> {
        let found =
            self.with("find the end of a plan", async |connection| rows::head(connection, plan).await)?;
        Ok(found.map_or(Head::START, |(_, head)| head))
    }

    fn read_placed(
        &self,
        query: &Query,
        each: &mut dyn FnMut(Cursor, Sealed) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        select::each(self, query, each)
    }

    fn wait(&self, after: Cursor, timeout: Duration) -> Result<Cursor, Error> {
        follow::wait(self, &self.bell, after, timeout)
    }

    fn cursor(&self) -> Result<Cursor, Error> {
        self.with("find the end of the log", async |connection| {
            let last =
                sqlx::query("SELECT coalesce(max(id), 0) FROM provost.event").fetch_one(connection).await?;
            Ok(Cursor(last.try_get::<i64, _>(0)?.cast_unsigned()))
        })
    }

    fn plans(&self) -> Result<Vec<PlanId>, Error> {
        self.with("list the plans", async |connection| {
            let rows = sqlx::query("SELECT name FROM provost.plan ORDER BY id").fetch_all(connection).await?;
            rows.iter().map(|row| rows::plan(row.try_get(0)?)).collect()
        })
    }

    fn take_wakes(&self) -> Result<Vec<PlanId>, Error> {
        let mut taken: Vec<PlanId> = self.with("take the wake-ups", async |connection| {
            let any =
                sqlx::query("SELECT FROM provost.wake LIMIT 1").fetch_optional(&mut *connection).await?;
            if any.is_none() {
                return Ok(Vec::new());
            }
            let rows = sqlx::query("SELECT provost.take_wakes()").fetch_all(connection).await?;
            rows.iter().map(|row| rows::plan(row.try_get(0)?)).collect()
        })?;
        taken.sort();
        Ok(taken)
    }

    fn lease(&self, name: &str, holder: &Holder) -> Result<Lease, Error> {
        leases::take(self, name, holder)
    }

    fn holder(&self, name: &str) -> Result<Option<Holder>, Error> {
        leases::holder(self, name)
    }
}

impl Keep for Postgres {
    fn keep(&self, events: &[Sealed]) -> Result<(), Error> {
        if events.is_empty() {
            return Ok(());
        }
        let mut heads = HashMap::new();
        for sealed in events {
            let head = match heads.get(&sealed.plan) {
                Some(head) => *head,
                None => self.head(&sealed.plan)?,
            };
            heads.insert(sealed.plan.clone(), transfer::fits(head, sealed)?);
        }
        self.with("write to the log", async |connection| {
            // The answer to the last try was lost, and not the events.
            if rows::are_there(connection, events).await? {
                return Ok(());
            }
            sqlx::raw_sql("BEGIN").execute(&mut *connection).await?;
            for run in events.chunk_by(|one, next| one.plan == next.plan) {
                let call =
                    rows::Call { plan: &run[0].plan.0, expected: run[0].seq - 1, fence: None, wakes: &[] };
                call.write(connection, run).await?;
            }
            sqlx::raw_sql("COMMIT").execute(&mut *connection).await.map(drop)
        })
    }
}

fn sealed_after(mut head: Head, append: &Append<'_>) -> Vec<Sealed> {
    let mut sealed = Vec::with_capacity(append.events.len());
    for entry in append.events {
        let event = seal(append.plan, head, append.at, entry.event, entry.task_name);
        head = Head { seq: event.seq, hash: event.hash };
        sealed.push(event);
    }
    sealed
}

/// What the effects of an append are in SQL.
#[derive(Default)]
struct Effects {
    statements: Vec<Statement>,
    wakes: Vec<String>,
}

impl Effects {
    fn of(effects: &[Effect], dispatch: Option<&dyn Dispatch>) -> Self {
        let Some(dispatch) = dispatch else {
            let wakes = effects.iter().filter_map(|effect| match effect {
                Effect::Wake(plan) => Some(rows::quoted(&plan.0)),
                Effect::WakeAt { .. } | Effect::Enqueue { .. } | Effect::Cancel { .. } => None,
            });
            return Self { wakes: wakes.collect(), ..Self::default() };
        };
        let statements = effects.iter().flat_map(|effect| dispatch.statements(effect)).collect();
        Self { statements, ..Self::default() }
    }
}

/// For those who drive an engine on the same leases.
impl Postgres {
    /// Holds on to a lease that was taken by whoever has this fence; a lease that was taken over is
    /// [`Error::Fenced`].
    pub fn renew(&self, fence: &Fence) -> Result<(), Error> {
        leases::renew(self, fence)
    }

    /// Leases whose holders were not heard of for their time, by the clock of the database.
    pub fn lapsed(&self) -> Result<Vec<Lapsed>, Error> {
        leases::lapsed(self)
    }
}
