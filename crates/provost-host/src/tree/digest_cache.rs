//! Remembers digests of workspace files that were read and have not changed since.
//!
//! A file is not remembered if it had changed so shortly before it was read that a second change could have
//! the same ctime. No process of the attempt is alive at this point, so none can write through an old
//! mapping.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use provost_core::model::hash::Hash;

use super::assemble;
use crate::files::safe_open::FileStamp;

#[derive(Debug, Default)]
pub(super) struct DigestCache(Mutex<HashMap<(u64, u64), (FileStamp, Hash)>>);

impl DigestCache {
    pub(super) fn digest(&self, stamp: &FileStamp) -> Option<Hash> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (then, digest) = known.get(&(stamp.device, stamp.inode))?;
        (then == stamp).then_some(*digest)
    }

    pub(super) fn note(&self, stamp: &FileStamp, digest: Hash) {
        if !assemble::is_young(stamp) {
            let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            known.insert((stamp.device, stamp.inode), (*stamp, digest));
        }
    }
}
