//! The log in Postgres, for more than one machine.
//!
//! Only functions of the database write rows (`postgres/migrations/`). They enforce the hash chain, the
//! fences and the permissions of each role, so a client cannot write more than its role may. The trait is
//! synchronous; the driver is asynchronous and runs on this module's own runtime.
//!
//! **Invariant:** writers take turns, so a follower never misses an event behind its cursor. Cursors have no gaps
//! but those that archived events leave.
//! **Invariant:** an append whose answer was lost is searched in the log before it is tried again.
//! **Invariant:** no message contains a password: addresses are printed from their parts.

use std::collections::HashMap;
use std::ops::{AsyncFnMut, ControlFlow};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use provost_core::model::chain::{Head, PlanId, SealedEvent, seal};
use provost_core::model::proof::ProofKey;
use provost_core::model::usage::Amount;
use sqlx::Row as _;
use sqlx::postgres::{PgConnectOptions, PgConnection};

use crate::{Append, ColdPart, Cursor, Effect, Error, Fence, Holder, Lease, Log, Query, SealedLog, transfer};

pub mod address;
mod archive;
mod budget;
#[cfg(any(test, feature = "cluster"))]
#[doc(hidden)]
pub mod cluster;
mod connections;
mod failure;
mod follow;
mod leases;
mod project;
mod rows;
mod runtime;
mod schema;
mod seals;
mod select;
mod trust;
mod silence;
#[cfg(test)]
mod tests;
#[cfg(any(test, feature = "cluster"))]
#[doc(hidden)]
pub mod wire;

pub use address::DatabaseAddress;
pub use budget::{BudgetRecord, CountedPlan};
use connections::{CONNECTIONS, SECOND_TRY, SOON, patience};
pub use connections::{LogConnections, answer_soon};
pub use leases::ExpiredLease;
pub use project::DatabaseProject;
use runtime::run;
pub use trust::{LoginRights, TrustedKey};

/// Longest run time of a statement, unless a lease is shorter; after that the server counts as lost.
const LOST_AFTER: Duration = Duration::from_secs(25);
/// Most heads of plans in the cache; it is cleared when it is full.
const KNOWN_HEADS: usize = 1024;
pub const LEASE_TTL: Duration = Duration::from_secs(30);

pub struct Postgres {
    shared: Arc<Shared>,
    bell: follow::Bell,
    /// Heads of the chains after this process's last write; saves a round trip.
    heads: Mutex<HashMap<PlanId, Head>>,
    dispatch: Option<Arc<dyn Dispatch>>,
    /// Signs the verdicts that this process writes.
    signer: Option<ProofKey>,
    /// The answer of [`Log::own_name`].
    own_name: OnceLock<Option<String>>,
    lease_ttl: Duration,
    /// Where archived events are looked for first.
    cold_folder: Option<PathBuf>,
}

/// The part that leases keep alive after the log is dropped.
struct Shared {
    /// The address, for messages.
    at: String,
    options: PgConnectOptions,
    /// The server itself, if `options` lead to a pooler.
    direct: PgConnectOptions,
    has_pooler: bool,
    project: DatabaseProject,
    idle: Mutex<Vec<connections::IdleConnection>>,
    /// Permits to use a connection.
    permits: tokio::sync::Semaphore,
    renewals: Mutex<leases::Renewals>,
}

/// Executes effects in the transaction of the events that they belong to.
pub trait Dispatch: Send + Sync {
    /// Returns statements that run in this order before the events are written, and are rolled back with
    /// them.
    fn statements(&self, effect: &Effect) -> Vec<SqlStatement>;
}

/// SQL with `$1`, `$2`, …; add a cast if the type is not plain (`$1::json`).
#[derive(Clone, Debug, PartialEq)]
pub struct SqlStatement {
    /// Never built from input; use parameters for that.
    pub sql: String,
    pub params: Vec<Param>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Param {
    Text(Option<String>),
    Number(Option<i64>),
}

impl Postgres {
    /// Opens the log; creates or migrates it if needed and allowed.
    pub fn open(address: &DatabaseAddress) -> Result<Self, Error> {
        let log = Self::unchecked(address);
        let mut first = log.first_connection()?;
        run(schema::migrate(&log.shared, &mut first))?;
        log.shared.give_back(first);
        Ok(log)
    }

    /// Opens an existing log for reading; writes nothing.
    pub fn open_existing(address: &DatabaseAddress) -> Result<Option<Self>, Error> {
        let log = Self::unchecked(address);
        let mut first = log.first_connection()?;
        let there = run(schema::is_there(&log.shared, &mut first))?;
        log.shared.give_back(first);
        Ok(there.then_some(log))
    }

    fn unchecked(address: &DatabaseAddress) -> Self {
        let (idle, renewals) = (Mutex::default(), Mutex::default());
        let permits = tokio::sync::Semaphore::new(CONNECTIONS);
        let (at, options, direct) =
            (address.to_string(), address.options().clone(), address.direct().clone());
        let (has_pooler, project) = (address.has_pooler(), address.project().clone());
        let bell = follow::Bell::new(direct.clone(), project.clone());
        let shared = Shared { at, options, direct, has_pooler, project, idle, permits, renewals };
        let (dispatch, signer) = (None, None);
        Self {
            shared: Arc::new(shared),
            bell,
            heads: Mutex::default(),
            dispatch,
            signer,
            own_name: OnceLock::new(),
            lease_ttl: LEASE_TTL,
            cold_folder: None,
        }
    }

    /// Signs the verdicts that are appended here.
    pub fn with_signer(self, signer: ProofKey) -> Self {
        Self { signer: Some(signer), ..self }
    }

    /// Executes effects as statements of `dispatch` instead of rows of the log.
    pub fn with_dispatch(self, dispatch: Arc<dyn Dispatch>) -> Self {
        Self { dispatch: Some(dispatch), ..self }
    }

    /// Sets how long a lease outlives its holder. It is renewed three times in that period.
    pub fn with_lease_ttl(self, lease_ttl: Duration) -> Self {
        Self { lease_ttl, ..self }
    }

    /// Looks for cold files in this folder first, and then where they were written.
    pub fn with_cold_folder(self, folder: PathBuf) -> Self {
        Self { cold_folder: Some(folder), ..self }
    }

    /// Returns the connection options, for other connections to the same database.
    pub fn options(&self) -> &PgConnectOptions {
        &self.shared.options
    }

    /// Returns the project that has this log.
    pub fn project(&self) -> &DatabaseProject {
        &self.shared.project
    }

    /// Connects without retries, because a person is waiting.
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
        let longest = LOST_AFTER.min(self.lease_ttl);
        if patience() < SOON { longest.min(SOON) } else { longest }
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

impl Shared {
    fn renewals(&self) -> MutexGuard<'_, leases::Renewals> {
        self.renewals.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Log for Postgres {
    fn append(&self, append: Append<'_>) -> Result<Vec<SealedEvent>, Error> {
        let mut known = self.known_head(append.plan).filter(|head| head.seq == append.expected_seq);
        self.remember_head(append.plan, None);
        let effects = Effects::of(append.effects, self.dispatch.as_deref());
        let mut sealed: Option<Vec<SealedEvent>> = None;
        let written = self.shared.with(self.lost_after(), async |connection| {
            if let Some(written) = &sealed
                && rows::are_there(self.project(), connection, written).await?
            {
                return Ok(Ok(written.clone()));
            }
            let is_first = sealed.is_none();
            let head = match known.take() {
                Some(head) => head,
                None => rows::head(self.project(), connection, append.plan).await?,
            };
            if head.seq != append.expected_seq {
                return Ok(Err(head.seq));
            }
            let events = sealed.insert(sealed_after(head, &append));
            let call = rows::AppendCall {
                plan: &append.plan.0,
                expected: append.expected_seq,
                fence: append.fence.map(|fence| (fence.name.as_str(), fence.epoch)),
                wakes: &effects.wakes,
                token: append.fence.and_then(|fence| leases::token(&self.shared.at, fence)),
                signer: self.signer.as_ref(),
                used: effects.used,
            };
            match rows::write(self.project(), connection, call, events, &effects).await {
                // The earlier try had not committed yet when it was searched for.
                Err(error) if !is_first && failure::is_conflict(&error) => {
                    sqlx::raw_sql("ROLLBACK").execute(&mut *connection).await?;
                    if rows::are_there(self.project(), connection, events).await? {
                        Ok(())
                    } else {
                        Err(error)
                    }
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
                (Some(failure::DatabaseRefusal::Conflict(found)), _) => conflict(found),
                (Some(failure::DatabaseRefusal::Fenced(current)), Some(fence)) => {
                    Error::Fenced { name: fence.name.clone(), held: fence.epoch, current }
                }
                _ => failure::of(&self.shared.at, "write to the log", source),
            }),
        }
    }

    fn head(&self, plan: &PlanId) -> Result<Head, Error> {
        self.with("find the end of a plan", async |connection| {
            rows::head(self.project(), connection, plan).await
        })
    }

    fn read_placed(
        &self,
        query: &Query,
        each: &mut dyn FnMut(Cursor, SealedEvent) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        select::each(self, query, each)
    }

    fn wait(&self, after: Cursor, timeout: Duration) -> Result<Cursor, Error> {
        follow::wait(self, &self.bell, after, timeout)
    }

    fn cursor(&self) -> Result<Cursor, Error> {
        self.with("find the end of the log", async |connection| {
            let last = self.project().query("SELECT provost.log_end()").fetch_one(connection).await?;
            Ok(Cursor(last.try_get::<i64, _>(0)?.cast_unsigned()))
        })
    }

    fn unarchived_plans(&self) -> Result<Vec<PlanId>, Error> {
        self.with("list the plans", async |connection| {
            let sql = "SELECT name FROM provost.plan WHERE NOT is_archived ORDER BY id";
            let rows = self.project().query(sql).fetch_all(connection).await?;
            rows.iter().map(|row| rows::plan(row.try_get(0)?)).collect()
        })
    }

    fn archived_plans(&self) -> Result<Vec<PlanId>, Error> {
        archive::plans(self)
    }

    fn archived_count(&self) -> Result<u64, Error> {
        archive::count(self)
    }

    fn archived(&self, plan: &PlanId) -> Result<Vec<ColdPart>, Error> {
        archive::parts(self, plan)
    }

    fn archivings(&self) -> Result<u64, Error> {
        archive::archivings(self)
    }

    fn take_wakes(&self) -> Result<Vec<PlanId>, Error> {
        let mut taken: Vec<PlanId> = self.with("take the wake-ups", async |connection| {
            let any = self
                .project()
                .query("SELECT FROM provost.wake LIMIT 1")
                .fetch_optional(&mut *connection)
                .await?;
            if any.is_none() {
                return Ok(Vec::new());
            }
            let rows = self.project().query("SELECT provost.take_wakes()").fetch_all(connection).await?;
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

    fn own_name(&self) -> Result<Option<String>, Error> {
        if let Some(known) = self.own_name.get() {
            return Ok(known.clone());
        }
        let found = self.ask_own_name()?;
        Ok(self.own_name.get_or_init(|| found).clone())
    }

    fn counts_usage(&self) -> bool {
        true
    }

    fn waits_for_budget(&self, plan: &PlanId) -> Result<Option<String>, Error> {
        self.ask_for_budget(plan)
    }

    fn trust_policy(&self, digest: &str) -> Result<(), Error> {
        self.keep_policy(digest)
    }
}

impl SealedLog for Postgres {
    fn keep(&self, events: &[SealedEvent]) -> Result<(), Error> {
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
            // The answer to the last try was lost, but its events were written.
            if rows::are_there(self.project(), connection, events).await? {
                return Ok(());
            }
            sqlx::raw_sql("BEGIN").execute(&mut *connection).await?;
            for run in events.chunk_by(|one, next| one.plan == next.plan) {
                let call = rows::AppendCall {
                    plan: &run[0].plan.0,
                    expected: run[0].seq - 1,
                    fence: None,
                    wakes: &[],
                    token: None,
                    signer: None,
                    used: None,
                };
                call.write(self.project(), connection, run).await?;
            }
            sqlx::raw_sql("COMMIT").execute(&mut *connection).await.map(drop)
        })
    }
}

fn sealed_after(mut head: Head, append: &Append<'_>) -> Vec<SealedEvent> {
    let mut sealed = Vec::with_capacity(append.events.len());
    for entry in append.events {
        let event = seal(append.plan, head, append.at, entry.event, entry.task_name);
        head = Head { seq: event.seq, hash: event.hash };
        sealed.push(event);
    }
    sealed
}

/// The effects of an append, as SQL.
#[derive(Default)]
struct Effects {
    statements: Vec<SqlStatement>,
    wakes: Vec<String>,
    used: Option<Amount>,
}

impl Effects {
    fn of(effects: &[Effect], dispatch: Option<&dyn Dispatch>) -> Self {
        let used = effects.iter().find_map(|effect| match effect {
            Effect::Used(used) => Some(*used),
            _ => None,
        });
        let Some(dispatch) = dispatch else {
            let wakes = effects.iter().filter_map(|effect| match effect {
                Effect::Wake(plan) => Some(rows::quoted(&plan.0)),
                Effect::WakeAt { .. } | Effect::Enqueue { .. } | Effect::Cancel { .. } | Effect::Used(_) => {
                    None
                }
            });
            return Self { wakes: wakes.collect(), statements: Vec::new(), used };
        };
        let statements = effects.iter().flat_map(|effect| dispatch.statements(effect)).collect();
        Self { statements, wakes: Vec::new(), used }
    }
}

/// For an engine that uses the same leases.
impl Postgres {
    /// Renews the lease of this fence; if another process has taken it over, the error is
    /// [`Error::Fenced`].
    pub fn renew(&self, fence: &Fence) -> Result<(), Error> {
        leases::renew(self, fence)
    }

    /// Returns the leases that have expired without renewal, by the clock of the database.
    pub fn lapsed(&self) -> Result<Vec<ExpiredLease>, Error> {
        leases::lapsed(self)
    }
}
