//! Digests of files of a workspace that were read and have not been touched since.
//!
//! A file that had changed so shortly before it was read that a second change could bear the same time is
//! not remembered. Nobody of the attempt is alive when it is noted, so nobody writes through an old mapping.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use provost_core::model::hash::Hash;

use super::assemble;
use crate::safe_open::Stamp;

#[derive(Debug, Default)]
pub struct Known(Mutex<HashMap<(u64, u64), (Stamp, Hash)>>);

impl Known {
    pub fn digest(&self, stamp: &Stamp) -> Option<Hash> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (then, digest) = known.get(&(stamp.device, stamp.inode))?;
        (then == stamp).then_some(*digest)
    }

    pub fn note(&self, stamp: &Stamp, digest: Hash) {
        if !assemble::is_young(stamp) {
            let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            known.insert((stamp.device, stamp.inode), (*stamp, digest));
        }
    }
}
