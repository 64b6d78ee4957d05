//! Remembers digests of workspace files that were read and have not changed since.
//!
//! A file is not remembered if it had changed so shortly before it was read that a second change could have
//! the same ctime. No process of the attempt is alive at this point, so none can write through an old
//! mapping.
//!
//! The digests are kept in a file for later runs, if no agent can have written to it. They count until the machine
//! is started again, because the content of a file can be lost then.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use provost_core::model::hash::Hash;

use super::{assemble, retention};
use crate::files;
use crate::files::safe_open::FileStamp;

/// Number of new digests that are worth writing the file. Fewer files are read again in a few milliseconds.
const WORTH: usize = 1_000;
/// Largest number of digests in the file.
const MANY: usize = 2_000_000;
const FORM: &str = "provost digests 1";
/// Bytes of one digest with its stamp.
const ROW: usize = 9 * 8 + 32;

#[derive(Debug, Default)]
pub(super) struct DigestCache(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    files: HashMap<(u64, u64), (FileStamp, Hash)>,
    /// Number of digests that the file does not have.
    new: usize,
    is_read: bool,
}

impl DigestCache {
    pub(super) fn digest(&self, stamp: &FileStamp) -> Option<Hash> {
        let known = self.lock();
        let (then, digest) = known.files.get(&(stamp.device, stamp.inode))?;
        (then == stamp).then_some(*digest)
    }

    pub(super) fn note(&self, stamp: &FileStamp, digest: Hash) {
        if !assemble::is_young(stamp) {
            let mut known = self.lock();
            known.files.insert((stamp.device, stamp.inode), (*stamp, digest));
            known.new += 1;
        }
    }

    /// Reads the digests of earlier runs, once. A file that cannot be read has none.
    pub(super) fn read_once(&self, path: &Path, is_trusted: impl Fn() -> bool) {
        let mut known = self.lock();
        if std::mem::replace(&mut known.is_read, true) {
            return;
        }
        let Some(bytes) = fs::read(path).ok().filter(|_| is_trusted()) else { return };
        let Some(rows) = bytes.strip_prefix(head().as_bytes()) else { return };
        for (stamp, digest) in rows.chunks_exact(ROW).map(row) {
            known.files.entry((stamp.device, stamp.inode)).or_insert((stamp, digest));
        }
    }

    /// Writes the digests for later runs, if many are new. Without the file the next run only takes longer.
    pub(super) fn keep(&self, path: &Path, is_trusted: impl Fn() -> bool) {
        let mut known = self.lock();
        if known.new < WORTH || !is_trusted() {
            return;
        }
        known.new = 0;
        let mut bytes = head().into_bytes();
        bytes.reserve(known.files.len().min(MANY) * ROW);
        for (stamp, digest) in known.files.values().take(MANY) {
            let numbers = [
                stamp.device,
                stamp.inode,
                stamp.size,
                u64::from(stamp.mode),
                stamp.links,
                stamp.modified.0.cast_unsigned(),
                stamp.modified.1.cast_unsigned(),
                stamp.changed.0.cast_unsigned(),
                stamp.changed.1.cast_unsigned(),
            ];
            numbers.iter().for_each(|number| bytes.extend(number.to_le_bytes()));
            bytes.extend(digest.0);
        }
        drop(known);
        let _ = files::write_whole(path, &bytes);
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn head() -> String {
    format!("{FORM} {}\n", retention::boot())
}

fn row(bytes: &[u8]) -> (FileStamp, Hash) {
    let number = |at: usize| {
        let mut number = [0; 8];
        number.copy_from_slice(&bytes[at * 8..at * 8 + 8]);
        u64::from_le_bytes(number)
    };
    let mut digest = [0; 32];
    digest.copy_from_slice(&bytes[ROW - 32..]);
    let stamp = FileStamp {
        device: number(0),
        inode: number(1),
        size: number(2),
        mode: u32::try_from(number(3)).unwrap_or_default(),
        links: number(4),
        modified: (number(5).cast_signed(), number(6).cast_signed()),
        changed: (number(7).cast_signed(), number(8).cast_signed()),
    };
    (stamp, Hash(digest))
}
