//! Leases: one row per name, with an epoch and an expiry time by the clock of the database.
//!
//! A holder renews its lease in a background task. A dead holder is replaced when its lease expires, or at
//! once if this machine can see that its process is gone.
//!
//! **Invariant:** the epoch is incremented before the lease is handed out, so a former holder's fence is
//! stale before any other process can act.

use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use sqlx::postgres::PgConnection;
use sqlx::{Connection as _, Row as _};
use tokio::task::JoinHandle;

use super::{Postgres, SECOND_TRY, Shared, rows, runtime::runtime};
use crate::{Error, Fence, Holder, Lease};

/// Longest time for giving back a lease.
const LAST_WORD: Duration = Duration::from_secs(5);

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
        let row = sqlx::query("SELECT taken, held, holder FROM provost.take_lease($1, $2, $3, $4)")
            .bind(rows::quoted(name))
            .bind(&written)
            .bind(milliseconds(log.lease_ttl))
            .bind(over)
            .fetch_one(connection)
            .await?;
        Ok(match row.try_get::<Option<i64>, _>(0)? {
            Some(epoch) => Taken::Epoch(epoch.cast_unsigned()),
            None => Taken::By {
                epoch: row.try_get::<Option<i64>, _>(1)?.unwrap_or(0),
                holder: read(row.try_get(2)?),
            },
        })
    })
}

pub(super) fn holder(log: &Postgres, name: &str) -> Result<Option<Holder>, Error> {
    let found = log.with("look at a lease", async |connection| {
        let row = sqlx::query(
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
        let is_ours = again(connection, fence, log.lease_ttl).await?;
        let row = sqlx::query("SELECT epoch FROM provost.lease WHERE name = $1")
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
        let rows = sqlx::query(
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

struct Held {
    shared: Arc<Shared>,
    fence: Fence,
    renewing: JoinHandle<()>,
}

impl Held {
    fn new(shared: Arc<Shared>, fence: Fence, ttl: Duration) -> Self {
        let renewing = runtime().spawn(keep_renewing(shared.clone(), fence.clone(), ttl));
        Self { shared, fence, renewing }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.renewing.abort();
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

async fn release(shared: &Shared, fence: &Fence) -> sqlx::Result<()> {
    let mut connection = match shared.idle() {
        Some(connection) => connection,
        None => shared.connect().await?,
    };
    sqlx::query("SELECT provost.release_lease($1, $2)")
        .bind(rows::quoted(&fence.name))
        .bind(fence.epoch.cast_signed())
        .execute(&mut connection)
        .await?;
    shared.give_back(connection);
    Ok(())
}

/// Renews the lease until the task is aborted or another process has taken it. A connection that does not
/// answer is given up early enough to try another one.
async fn keep_renewing(shared: Arc<Shared>, fence: Fence, ttl: Duration) {
    let patience = ttl / 3;
    // A separate connection, because the others may be busy for longer than the lease lasts.
    let mut connection: Option<PgConnection> = None;
    let mut pause = patience;
    loop {
        tokio::time::sleep(pause).await;
        let renewed = tokio::time::timeout(patience, async {
            let mut open = match connection.take() {
                Some(open) => open,
                None => shared.connect().await?,
            };
            let is_ours = again(&mut open, &fence, ttl).await?;
            Ok::<_, sqlx::Error>((is_ours, open))
        });
        match renewed.await {
            Ok(Ok((true, open))) => (connection, pause) = (Some(open), patience),
            Ok(Ok((false, open))) => {
                let _ = open.close().await;
                return;
            }
            Ok(Err(_)) | Err(_) => pause = SECOND_TRY,
        }
    }
}

async fn again(connection: &mut PgConnection, fence: &Fence, ttl: Duration) -> sqlx::Result<bool> {
    let row = sqlx::query("SELECT provost.renew_lease($1, $2, $3)")
        .bind(rows::quoted(&fence.name))
        .bind(fence.epoch.cast_signed())
        .bind(milliseconds(ttl))
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
