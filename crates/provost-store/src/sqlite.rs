//! The embedded log: one SQLite file in the state folder, with a lock file and the leases beside it.
//!
//! Writers queue at `log.lock`, because SQLite's own busy timeout starves one of two writers. After each
//! commit the writer reads a byte of this file, which wakes the followers. Readers never wait.
//!
//! **Invariant:** a commit is synced before `append` returns (WAL, synchronous=FULL).
//! **Invariant:** the head of a chain is its last event, found by index; it is not stored a second time. Only
//! of an archived plan is it stored, with the place of the events.

use std::fs::{self, File};
use std::io;
use std::ops::ControlFlow;
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use provost_core::model::chain::{Head, PlanId, SealedEvent, seal};
use provost_core::model::hash::Hash;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, OptionalExtension as _, params};

use crate::archive::cold_read::{ColdRead, Each};
use crate::{Append, ColdPart, Cursor, Effect, Error, Fence, Holder, Lease, Log, Query};

mod archive;
mod claim;
mod follow;
mod keep;
mod schema;
mod select;
#[cfg(test)]
mod tests;

use schema::Schema;

/// Busy timeout for foreign programs; provost's own writers wait at `log.lock`.
const FOREIGN_LOCK_PATIENCE: Duration = Duration::from_secs(5);

pub struct Sqlite {
    path: PathBuf,
    access: Access,
    /// Idle connections. A short command opens exactly one.
    idle: Mutex<Vec<Connection>>,
    /// `log.lock`; `None` for a reader that cannot open it.
    gate: Mutex<Option<File>>,
    watches: follow::Watches,
    #[cfg(test)]
    page_limit: std::sync::atomic::AtomicU32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Access {
    Write,
    Read,
    /// No process can write here, so there is no shared memory file of SQLite either.
    Frozen,
}

impl Sqlite {
    /// Opens the log in `folder` for reading and writing, and creates both if needed.
    pub fn open(folder: &Path) -> Result<Self, Error> {
        let path = folder.join("log.db");
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)
            .map_err(|source| Error::io(folder, "make the state folder", source))?;
        let lock = folder.join("log.lock");
        let gate = private(&lock)?;
        with_a_byte(&gate).map_err(|source| Error::io(&lock, "write a file of the log", source))?;
        // SQLite gives its other files the mode of this one.
        private(&path)?;
        let log = Self::with(path, Access::Write, Some(gate));
        let connection = log.connect()?;
        if log.check_schema(&connection)? != Schema::Ours {
            log.create_schema(&connection)?;
        }
        log.give_back(connection);
        Ok(log)
    }

    /// Opens the log in `folder` for reading, if there is one. Writes nothing and syncs nothing.
    pub fn open_existing(folder: &Path) -> Result<Option<Self>, Error> {
        let path = folder.join("log.db");
        match fs::metadata(&path) {
            // Another process is about to create it.
            Ok(found) if found.len() == 0 => return Ok(None),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(Error::io(&path, "look at the log", source)),
        }
        let gate = File::open(folder.join("log.lock")).ok();
        let log = Self::with(path, Access::Read, gate);
        let (log, connection, schema) = match log.look() {
            Ok((connection, schema)) => (log, connection, schema),
            // A read-only folder without a shared memory file. This mode would miss the content of the
            // write-ahead log, so it is used only if that is empty.
            Err(_) if log.is_checkpointed() => {
                let log = Self { access: Access::Frozen, ..log };
                let (connection, schema) = log.look()?;
                (log, connection, schema)
            }
            Err(error) => return Err(error),
        };
        log.give_back(connection);
        Ok((schema != Schema::Absent).then_some(log))
    }

    fn look(&self) -> Result<(Connection, Schema), Error> {
        let connection = self.connect()?;
        let schema = self.check_schema(&connection)?;
        Ok((connection, schema))
    }

    fn with(path: PathBuf, access: Access, gate: Option<File>) -> Self {
        Self {
            path,
            access,
            idle: Mutex::default(),
            gate: Mutex::new(gate),
            watches: follow::Watches::default(),
            #[cfg(test)]
            page_limit: Default::default(),
        }
    }

    fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new("."))
    }

    fn bell(&self) -> PathBuf {
        self.folder().join("log.lock")
    }

    fn is_checkpointed(&self) -> bool {
        let wal = self.folder().join("log.db-wal");
        fs::metadata(wal).map_or_else(|e| e.kind() == io::ErrorKind::NotFound, |found| found.len() == 0)
    }

    fn failed(&self, attempted: &'static str) -> impl FnOnce(rusqlite::Error) -> Error + '_ {
        move |source| Error::sqlite(&self.path, attempted, source)
    }
}

/// Manages connections.
impl Sqlite {
    fn connect(&self) -> Result<Connection, Error> {
        let base = OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let opened = match self.access {
            Access::Write => {
                Connection::open_with_flags(&self.path, base | OpenFlags::SQLITE_OPEN_READ_WRITE)
            }
            Access::Read => Connection::open_with_flags(&self.path, base | OpenFlags::SQLITE_OPEN_READ_ONLY),
            Access::Frozen => Connection::open_with_flags(
                frozen_address(&self.path),
                base | OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI,
            ),
        };
        opened.and_then(|connection| self.configure(connection)).map_err(self.failed("open the log"))
    }

    fn configure(&self, connection: Connection) -> rusqlite::Result<Connection> {
        connection.busy_timeout(FOREIGN_LOCK_PATIENCE)?;
        connection.set_prepared_statement_cache_capacity(32);
        // Without this, the last process to close would do the checkpoint for all; the automatic one is
        // enough.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
        // Without this, a bound value that might match the partial index makes SQLite replan every cached
        // statement at every use.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
        if self.access == Access::Write {
            connection.execute_batch("PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 1000;")?;
        }
        #[cfg(test)]
        match self.page_limit.load(std::sync::atomic::Ordering::Relaxed) {
            0 => {}
            pages => connection.pragma_update(None, "max_page_count", pages)?,
        }
        Ok(connection)
    }

    /// Runs `use_it` with a connection of its own.
    fn connected<T>(&self, use_it: impl FnOnce(&mut Connection) -> Result<T, Error>) -> Result<T, Error> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut connection = match idle {
            Some(connection) => connection,
            None => self.connect()?,
        };
        let result = use_it(&mut connection);
        self.give_back(connection);
        result
    }

    fn give_back(&self, connection: Connection) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
    }

    /// Runs one write transaction, exclusive in this process and among all others, and commits it if
    /// `write` succeeds. Followers are woken only after the commit is visible.
    fn writing<T>(&self, write: impl FnOnce(&Connection) -> Result<T, Error>) -> Result<T, Error> {
        if self.access != Access::Write {
            return Err(Error::ReadOnly { path: self.path.clone() });
        }
        let turn = self.turn()?;
        let value = self.connected(|connection| {
            // Cached, unlike rusqlite's own transactions.
            say(connection, "BEGIN IMMEDIATE").map_err(self.failed("begin to write to the log"))?;
            let written = write(connection).and_then(|value| {
                say(connection, "COMMIT").map_err(self.failed("commit to the log"))?;
                Ok(value)
            });
            if written.is_err() && !connection.is_autocommit() {
                let _ = say(connection, "ROLLBACK");
            }
            written
        })?;
        turn.ring();
        drop(turn);
        Ok(value)
    }

    /// Waits for this process's turn at `log.lock`.
    fn turn(&self) -> Result<Turn<'_>, Error> {
        let gate = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(file) = gate.as_ref() {
            while let Err(source) = file.lock() {
                if source.kind() != io::ErrorKind::Interrupted {
                    return Err(Error::io(&self.path, "wait for the log's lock", source));
                }
            }
        }
        Ok(Turn(gate))
    }
}

struct Turn<'a>(MutexGuard<'a, Option<File>>);

impl Turn<'_> {
    /// Wakes the followers. A read dirties nothing, so the next sync has no more to write. A follower that
    /// misses it checks again within a second, so an error here does not fail the commit.
    fn ring(&self) {
        if let Some(file) = self.0.as_ref() {
            let _ = file.read_at(&mut [0], 0);
        }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        // Unlocked explicitly, because a child that is just being started may share the descriptor.
        if let Some(file) = self.0.as_ref() {
            let _ = file.unlock();
        }
    }
}

impl Log for Sqlite {
    fn append(&self, append: Append<'_>) -> Result<Vec<SealedEvent>, Error> {
        self.writing(|transaction| {
            if let Some(fence) = append.fence {
                self.check_fence(transaction, fence)?;
            }
            let (row, mut head) = self.head_of(transaction, append.plan)?;
            if head.seq != append.expected_seq {
                return Err(Error::Conflict {
                    plan: append.plan.clone(),
                    expected: append.expected_seq,
                    found: head.seq,
                });
            }
            let mut written = Vec::with_capacity(append.events.len());
            if !append.events.is_empty() {
                let row = self.plan_row(transaction, append.plan, row)?;
                for entry in append.events {
                    let sealed = seal(append.plan, head, append.at, entry.event, entry.task_name);
                    insert(transaction, row, &sealed).map_err(self.failed("write an event"))?;
                    head = Head { seq: sealed.seq, hash: sealed.hash };
                    written.push(sealed);
                }
            }
            for effect in append.effects {
                commit_effect(transaction, effect).map_err(self.failed("write a wake-up"))?;
            }
            Ok(written)
        })
    }

    fn head(&self, plan: &PlanId) -> Result<Head, Error> {
        self.connected(|connection| Ok(self.head_of(connection, plan)?.1))
    }

    fn read_placed(
        &self,
        query: &Query,
        each: &mut dyn FnMut(Cursor, SealedEvent) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        self.connected(|connection| {
            let Some(plan) = &query.plan else { return self.read_live(connection, query, each) };
            // One snapshot, so that no event is missed that is archived meanwhile.
            let snapshot = connection.transaction().map_err(self.failed("begin to read the log"))?;
            let parts = self.parts(&snapshot, plan)?;
            let folder = self.folder().join(crate::archive::FOLDER);
            let cold = ColdRead { parts: &parts, folder: Some(&folder), doubt: &|_| None };
            cold.each(query, &mut |each| self.read_live(&snapshot, query, each), each)
        })
    }

    fn wait(&self, after: Cursor, timeout: Duration) -> Result<Cursor, Error> {
        follow::wait(self, &self.watches, &self.bell(), after, timeout)
    }

    fn cursor(&self) -> Result<Cursor, Error> {
        self.connected(|connection| {
            let sql = match self.has_archive(connection)? {
                true => format!("SELECT {}", archive::LOG_END),
                false => "SELECT ifnull(max(id), 0) FROM event".to_owned(),
            };
            let last: i64 = connection
                .prepare_cached(&sql)
                .and_then(|mut last| last.query_row([], |row| row.get(0)))
                .map_err(self.failed("find the end of the log"))?;
            Ok(Cursor(last.cast_unsigned()))
        })
    }

    fn unarchived_plans(&self) -> Result<Vec<PlanId>, Error> {
        self.connected(|connection| {
            let sql = "SELECT name FROM plan WHERE EXISTS (SELECT 1 FROM event WHERE event.plan = plan.id) ORDER BY id";
            names(connection, sql).map_err(self.failed("list the plans"))
        })
    }

    fn archived_plans(&self) -> Result<Vec<PlanId>, Error> {
        self.connected(|connection| self.all_archived(connection))
    }

    fn archived(&self, plan: &PlanId) -> Result<Vec<ColdPart>, Error> {
        self.connected(|connection| self.parts(connection, plan))
    }

    fn archivings(&self) -> Result<u64, Error> {
        self.connected(|connection| self.count_archivings(connection))
    }

    fn take_wakes(&self) -> Result<Vec<PlanId>, Error> {
        let waiting = "SELECT plan FROM wake ORDER BY plan";
        let any = self
            .connected(|connection| names(connection, waiting).map_err(self.failed("look for wake-ups")))?;
        if any.is_empty() {
            return Ok(any);
        }
        self.writing(|transaction| {
            names(transaction, waiting)
                .and_then(|taken| transaction.execute("DELETE FROM wake", []).map(|_| taken))
                .map_err(self.failed("take the wake-ups"))
        })
    }

    fn lease(&self, name: &str, holder: &Holder) -> Result<Lease, Error> {
        claim::take(self, name, holder)
    }

    fn holder(&self, name: &str) -> Result<Option<Holder>, Error> {
        claim::holder(self, name)
    }
}

/// Parts of `read_placed` and of `append`.
impl Sqlite {
    /// Calls `each` for the events that are in the database.
    fn read_live(&self, connection: &Connection, query: &Query, each: &mut Each<'_>) -> Result<(), Error> {
        select::each(connection, query, each).map_err(self.failed("read the log"))
    }

    fn check_fence(&self, connection: &Connection, fence: &Fence) -> Result<(), Error> {
        let current: Option<i64> = connection
            .prepare_cached("SELECT epoch FROM lease WHERE name = ?1")
            .and_then(|mut epoch| epoch.query_row([&fence.name], |row| row.get(0)).optional())
            .map_err(self.failed("check the lease"))?;
        let current = current.unwrap_or(0).cast_unsigned();
        if current == fence.epoch {
            return Ok(());
        }
        Err(Error::Fenced { name: fence.name.clone(), held: fence.epoch, current })
    }

    /// Returns the plan's row id, if it has one, and the end of its chain.
    fn head_of(&self, connection: &Connection, plan: &PlanId) -> Result<(Option<i64>, Head), Error> {
        let found = connection
            .prepare_cached(
                "SELECT plan.id, event.seq, event.hash FROM plan LEFT JOIN event ON event.plan = plan.id
                 WHERE plan.name = ?1 ORDER BY event.seq DESC LIMIT 1",
            )
            .and_then(|mut head| {
                head.query_row([&plan.0], |row| {
                    let hash: Option<[u8; 32]> = row.get(2)?;
                    let seq = row.get::<_, Option<i64>>(1)?.map(i64::cast_unsigned);
                    let head = seq.zip(hash).map(|(seq, hash)| Head { seq, hash: Hash(hash) });
                    Ok((row.get(0)?, head))
                })
                .optional()
            })
            .map_err(self.failed("find the end of a plan"))?;
        Ok(match found {
            None => (None, Head::START),
            Some((row, Some(head))) => (Some(row), head),
            Some((row, None)) => (Some(row), self.archived_end(connection, row)?),
        })
    }

    fn plan_row(&self, connection: &Connection, plan: &PlanId, known: Option<i64>) -> Result<i64, Error> {
        match known {
            Some(row) => Ok(row),
            None => connection
                .query_row("INSERT INTO plan (name) VALUES (?1) RETURNING id", [&plan.0], |row| row.get(0))
                .map_err(self.failed("write a new plan")),
        }
    }
}

fn insert(connection: &Connection, plan: i64, sealed: &SealedEvent) -> rusqlite::Result<()> {
    connection
        .prepare_cached(&format!(
            "INSERT INTO event (id, plan, seq, at_ms, name, step, task_name, details, prev, hash)
                 VALUES ({} + 1, ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
            archive::LOG_END
        ))?
        .execute(params![
            plan,
            sealed.seq.cast_signed(),
            sealed.at.0.cast_signed(),
            sealed.name,
            sealed.step.map(|step| step.0),
            sealed.task_name,
            sealed.details,
            sealed.prev.0,
            sealed.hash.0,
        ])?;
    Ok(())
}

fn commit_effect(connection: &Connection, effect: &Effect) -> rusqlite::Result<()> {
    match effect {
        Effect::Wake(plan) => {
            connection.prepare_cached("INSERT OR IGNORE INTO wake (plan) VALUES (?1)")?.execute([&plan.0])?;
        }
        // These are for queues, which this log does not have.
        Effect::WakeAt { .. } | Effect::Enqueue { .. } | Effect::Cancel { .. } | Effect::Used(_) => {}
    }
    Ok(())
}

fn names(connection: &Connection, sql: &str) -> rusqlite::Result<Vec<PlanId>> {
    connection.prepare_cached(sql)?.query_map([], |row| row.get(0).map(PlanId))?.collect()
}

/// Opens or creates a file that only this user can read.
fn private(path: &Path) -> Result<File, Error> {
    File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)
        .map_err(|source| Error::io(path, "open a file of the log", source))
}

/// Writes a byte into an empty lock file, because followers watch for reads and an empty file cannot be
/// read.
fn with_a_byte(bell: &File) -> io::Result<()> {
    if bell.metadata()?.len() == 0 { bell.write_all_at(b"\n", 0) } else { Ok(()) }
}

fn say(connection: &Connection, word: &str) -> rusqlite::Result<()> {
    connection.prepare_cached(word)?.execute([]).map(drop)
}

/// Returns a file URI that tells SQLite that the file cannot change.
fn frozen_address(path: &Path) -> String {
    use std::os::unix::ffi::OsStrExt as _;
    let mut address = String::from("file:");
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' => {
                address.push(*byte as char)
            }
            other => address.push_str(&format!("%{other:02x}")),
        }
    }
    address + "?immutable=1"
}
