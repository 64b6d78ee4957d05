//! Leases: one row per name, with an epoch and an expiry time by the clock of the database.
//!
//! A background task renews all leases of a holder. A dead holder is replaced when its lease expires, or at
//! once if this machine can see that its process is gone.
//!
//! **Invariant:** the epoch is incremented before the lease is handed out, so a former holder's fence is
//! stale before any other process can act.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::Duration;

use provost_core::model::hash::Hash;

use sqlx::postgres::PgConnection;
use sqlx::{Connection as _, Row as _};

use super::{LogConnections, Postgres, SECOND_TRY, Shared, rows, runtime::runtime};
use crate::{Error, Fence, Holder, Lease};

/// Longest time for giving back a lease.
const LAST_WORD: Duration = Duration::from_secs(5);

type Tokens = BTreeMap<(String, String), (u64, [u8; 32])>;

/// The secret of the last holding of each lease that this process has taken, with its epoch, by database and
/// name. The database has only its digest, so no other process can write or release in the name of this one.
static TOKENS: Mutex<Tokens> = Mutex::new(BTreeMap::new());

fn tokens() -> MutexGuard<'static, Tokens> {
    TOKENS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the secret of a lease, if this process has taken it.
pub(super) fn token(at: &str, fence: &Fence) -> Option<[u8; 32]> {
    let (epoch, token) = *tokens().get(&(at.to_owned(), fence.name.clone()))?;
    (epoch == fence.epoch).then_some(token)
}

fn new_token() -> sqlx::Result<[u8; 32]> {
    let mut token = [0; 32];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut token)?;
    Ok(token)
}

/// A lease that has expired and was not taken by another holder yet.
#[derive(Clone, Debug)]
pub struct ExpiredLease {
    pub fence: Fence,
    /// `None` if it cannot be parsed.
    pub holder: Option<Holder>,
}

enum Taken {
    Epoch(u64),
    By { epoch: i64, holder: Option<Holder> },
}

pub(super) fn take(log: &Postgres, name: &str, holder: &Holder) -> Result<Lease, Error> {
    let epoch = match try_to(log, name, holder, None)? {
        Taken::Epoch(epoch) => epoch,
        Taken::By { epoch, holder: Some(dead) } if dead.is_gone() => {
            match try_to(log, name, holder, Some(epoch))? {
                Taken::Epoch(epoch) => epoch,
                Taken::By { holder, .. } => return Err(Error::LeaseHeld { name: name.to_owned(), holder }),
            }
        }
        Taken::By { holder, .. } => return Err(Error::LeaseHeld { name: name.to_owned(), holder }),
    };
    let fence = Fence { name: name.to_owned(), epoch };
    let held = Held::new(log.shared.clone(), fence.clone(), log.lease_ttl);
    Ok(Lease::new(fence, held))
}

fn try_to(log: &Postgres, name: &str, holder: &Holder, over: Option<i64>) -> Result<Taken, Error> {
    let written = serde_json::to_string(holder).unwrap_or_default();
    log.with("take a lease", async |connection| {
        let token = new_token()?;
        let row = log
            .project()
            .query("SELECT taken, held, holder FROM provost.take_lease($1, $2, $3, $4, $5)")
            .bind(rows::quoted(name))
            .bind(&written)
            .bind(milliseconds(log.lease_ttl))
            .bind(over)
            .bind(Hash::of(&token).0.as_slice())
            .fetch_one(connection)
            .await?;
        Ok(match row.try_get::<Option<i64>, _>(0)? {
            Some(epoch) => {
                let epoch = epoch.cast_unsigned();
                tokens().insert((log.shared.at.clone(), name.to_owned()), (epoch, token));
                Taken::Epoch(epoch)
            }
            None => Taken::By {
                epoch: row.try_get::<Option<i64>, _>(1)?.unwrap_or(0),
                holder: read(row.try_get(2)?),
            },
        })
    })
}

pub(super) fn holder(log: &Postgres, name: &str) -> Result<Option<Holder>, Error> {
    let found = log.with("look at a lease", async |connection| {
        let row = log.project().query(
            "SELECT holder FROM provost.lease WHERE name = $1 AND holder IS NOT NULL AND expires > clock_timestamp()",
        )
        .bind(rows::quoted(name))
        .fetch_optional(connection)
        .await?;
        row.map(|row| row.try_get::<String, _>(0)).transpose()
    })?;
    match found {
        None => Ok(None),
        Some(written) => match read(Some(&written)) {
            Some(holder) if holder.is_gone() => Ok(None),
            Some(holder) => Ok(Some(holder)),
            None => Err(Error::LeaseUnreadable { name: name.to_owned(), path: log.shared.at.clone().into() }),
        },
    }
}

pub(super) fn renew(log: &Postgres, fence: &Fence) -> Result<(), Error> {
    let (is_ours, current) = log.with("renew a lease", async |connection| {
        let is_ours = again(log, connection, fence).await?;
        let row = log
            .project()
            .query("SELECT epoch FROM provost.lease WHERE name = $1")
            .bind(rows::quoted(&fence.name))
            .fetch_optional(connection)
            .await?;
        let current = row.map(|row| row.try_get::<i64, _>(0)).transpose()?;
        Ok((is_ours, current.unwrap_or(0).cast_unsigned()))
    })?;
    if is_ours {
        return Ok(());
    }
    Err(Error::Fenced { name: fence.name.clone(), held: fence.epoch, current })
}

pub(super) fn lapsed(log: &Postgres) -> Result<Vec<ExpiredLease>, Error> {
    log.with("look for leases that ran out", async |connection| {
        let rows = log
            .project()
            .query(
                "SELECT name, epoch, holder FROM provost.lease
             WHERE holder IS NOT NULL AND expires <= clock_timestamp() ORDER BY expires",
            )
            .fetch_all(connection)
            .await?;
        let lapsed = |row: &sqlx::postgres::PgRow| {
            let epoch = row.try_get::<i64, _>(1)?.cast_unsigned();
            let fence = Fence { name: rows::unquoted(row.try_get(0)?)?, epoch };
            Ok(ExpiredLease { fence, holder: read(row.try_get(2)?) })
        };
        rows.iter().map(lapsed).collect()
    })
}

impl Postgres {
    /// The log then renews no lease by itself. The caller renews all of them with [`Self::renew_leases`], at least
    /// three times in the life of a lease.
    pub fn with_leases_renewed_by_caller(self) -> Self {
        self.shared.renewals().is_running = true;
        self
    }

    /// Renews all leases that this log holds, in one statement. One that another process has taken is no longer
    /// held.
    pub async fn renew_leases(&self, connection: &mut PgConnection) -> sqlx::Result<()> {
        renew_held(&self.shared, connection, self.lease_ttl).await
    }
}

/// The leases that a log holds. One task renews all of them, in one statement on one connection.
#[derive(Default)]
pub(super) struct Renewals {
    held: BTreeSet<(String, u64)>,
    /// Set while somebody renews them.
    is_running: bool,
}

struct Held {
    shared: Arc<Shared>,
    fence: Fence,
}

impl Held {
    fn new(shared: Arc<Shared>, fence: Fence, ttl: Duration) -> Self {
        let mut renewals = shared.renewals();
        renewals.held.insert((fence.name.clone(), fence.epoch));
        if !std::mem::replace(&mut renewals.is_running, true) {
            runtime().spawn(keep_renewing(shared.clone(), ttl));
        }
        drop(renewals);
        Self { shared, fence }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.shared.renewals().held.remove(&(self.fence.name.clone(), self.fence.epoch));
        // The drop may happen in any thread, also inside a runtime, and the next caller must find the lease
        // free. If the server is away, the lease simply expires.
        let (shared, fence) = (self.shared.clone(), self.fence.clone());
        let (done, wait) = mpsc::channel();
        runtime().spawn(async move {
            let _ = tokio::time::timeout(LAST_WORD, release(&shared, &fence)).await;
            let _ = done.send(());
        });
        let _ = wait.recv_timeout(LAST_WORD);
    }
}

async fn release(shared: &Arc<Shared>, fence: &Fence) -> sqlx::Result<()> {
    let connections = LogConnections(shared.clone());
    shared
        .project
        .query("SELECT provost.release_lease($1, $2, $3)")
        .bind(rows::quoted(&fence.name))
        .bind(fence.epoch.cast_signed())
        .bind(token(&shared.at, fence).as_ref().map(|token| token.as_slice()))
        .execute(&connections)
        .await?;
    Ok(())
}

/// Renews the leases of a log as long as it holds any. A connection that does not answer is given up early
/// enough to try another one.
async fn keep_renewing(shared: Arc<Shared>, ttl: Duration) {
    let patience = ttl / 3;
    // A separate connection, because the others may be busy for longer than a lease lasts.
    let mut connection: Option<PgConnection> = None;
    let mut pause = patience;
    loop {
        tokio::time::sleep(pause).await;
        {
            let mut renewals = shared.renewals();
            if renewals.held.is_empty() {
                renewals.is_running = false;
                break;
            }
        }
        let renewed = tokio::time::timeout(patience, async {
            let mut open = match connection.take() {
                Some(open) => open,
                None => shared.connect().await?,
            };
            renew_held(&shared, &mut open, ttl).await?;
            Ok::<_, sqlx::Error>(open)
        });
        match renewed.await {
            Ok(Ok(open)) => (connection, pause) = (Some(open), patience),
            Ok(Err(_)) | Err(_) => pause = SECOND_TRY,
        }
    }
    if let Some(open) = connection {
        let _ = open.close().await;
    }
}

/// Renews the leases that the log holds, and forgets those that another process has taken.
async fn renew_held(shared: &Shared, connection: &mut PgConnection, ttl: Duration) -> sqlx::Result<()> {
    let held = shared.renewals().held.clone();
    if held.is_empty() {
        return Ok(());
    }
    let fence = |(name, epoch): &(String, u64)| Fence { name: name.clone(), epoch: *epoch };
    let names: Vec<String> = held.iter().map(|(name, _)| rows::quoted(name)).collect();
    let epochs: Vec<i64> = held.iter().map(|(_, epoch)| epoch.cast_signed()).collect();
    let tokens: Vec<Option<Vec<u8>>> =
        held.iter().map(|lease| token(&shared.at, &fence(lease)).map(|token| token.to_vec())).collect();
    let rows = shared
        .project
        .query(
            "SELECT provost.renew_lease(l.name, l.epoch, $3, l.token) \
         FROM unnest($1::text[], $2::bigint[], $4::bytea[]) WITH ORDINALITY AS l (name, epoch, token, place) \
         ORDER BY l.place",
        )
        .bind(names)
        .bind(epochs)
        .bind(milliseconds(ttl))
        .bind(tokens)
        .fetch_all(connection)
        .await?;
    let ours: Vec<bool> = rows.iter().map(|row| row.try_get(0)).collect::<sqlx::Result<_>>()?;
    let taken: Vec<_> =
        held.iter().zip(ours).filter(|(_, is_ours)| !is_ours).map(|(lease, _)| lease).collect();
    shared.renewals().held.retain(|lease| !taken.contains(&lease));
    Ok(())
}

async fn again(log: &Postgres, connection: &mut PgConnection, fence: &Fence) -> sqlx::Result<bool> {
    let row = log
        .project()
        .query("SELECT provost.renew_lease($1, $2, $3, $4)")
        .bind(rows::quoted(&fence.name))
        .bind(fence.epoch.cast_signed())
        .bind(milliseconds(log.lease_ttl))
        .bind(token(&log.shared.at, fence).as_ref().map(|token| token.as_slice()))
        .fetch_one(connection)
        .await?;
    row.try_get(0)
}

fn read(written: Option<&str>) -> Option<Holder> {
    serde_json::from_str(written?).ok()
}

fn milliseconds(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}
