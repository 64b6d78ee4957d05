//! Leases: one locked file per name, and an epoch in the database against late writers.
//!
//! The kernel releases the lock when the process ends, so a crash needs no cleanup and no clock is
//! involved. The file names the holder, for people.
//!
//! **Invariant:** the epoch is incremented before the lease is handed out, so a former holder's fence is
//! stale before any other process can act.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read as _};
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _};
use std::path::PathBuf;

use provost_core::model::hash::Hash;

use super::{Sqlite, private};
use crate::{Error, Fence, Holder, Lease};

pub(super) fn take(log: &Sqlite, name: &str, holder: &Holder) -> Result<Lease, Error> {
    let path = file_of(log, name);
    let folder = log.folder().join("leases");
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&folder)
        .map_err(|source| Error::io(&folder, "make the folder of leases", source))?;
    log.writing(|transaction| {
        let mut file = private(&path)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(Error::LeaseHeld { name: name.to_owned(), holder: written(&mut file) });
            }
            Err(TryLockError::Error(source)) => return Err(Error::io(&path, "lock a lease", source)),
        }
        let epoch: i64 = transaction
            .query_row(
                "INSERT INTO lease (name, epoch) VALUES (?1, 1)
                 ON CONFLICT (name) DO UPDATE SET epoch = epoch + 1 RETURNING epoch",
                [name],
                |row| row.get(0),
            )
            .map_err(log.failed("write the epoch of a lease"))?;
        let held = Held(file);
        held.write(holder).map_err(|source| Error::io(&path, "write who holds a lease", source))?;
        Ok(Lease::new(Fence { name: name.to_owned(), epoch: epoch.cast_unsigned() }, held))
    })
}

pub(super) fn holder(log: &Sqlite, name: &str) -> Result<Option<Holder>, Error> {
    let path = file_of(log, name);
    let mut file = match File::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(Error::io(&path, "look at a lease", source)),
    };
    // This takes the file lock for a moment. It is done in turn with processes that take leases, so that
    // none of them is refused.
    let _turn = log.turn()?;
    match file.try_lock_shared() {
        Err(TryLockError::WouldBlock) => match written(&mut file) {
            Some(holder) => Ok(Some(holder)),
            None => Err(Error::LeaseUnreadable { name: name.to_owned(), path }),
        },
        // Free: the file names a former holder. The file lock is released before the turn.
        _ => {
            let _ = file.unlock();
            Ok(None)
        }
    }
}

struct Held(File);

impl Held {
    fn write(&self, holder: &Holder) -> io::Result<()> {
        self.0.set_len(0)?;
        self.0.write_all_at(&serde_json::to_vec(holder)?, 0)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // The holder's name stays in the file: if it were erased before the unlock, the lease would be held
        // without a name for a moment. Unlocked explicitly, because a child that is just being started may
        // share the descriptor.
        let _ = self.0.unlock();
    }
}

fn written(file: &mut File) -> Option<Holder> {
    let mut text = String::new();
    file.read_to_string(&mut text).ok()?;
    serde_json::from_str(&text).ok()
}

/// Returns the file of a lease. Names are arbitrary, so the file name is a hash.
fn file_of(log: &Sqlite, name: &str) -> PathBuf {
    let hash = Hash::of(name.as_bytes()).to_string();
    log.folder().join("leases").join(format!("{}.lock", &hash[..32]))
}
