//! Signs verdicts, and decides which events of a shared log are believed.
//!
//! The database writes down which login wrote an event. Verdicts of a worker's login are believed only if a
//! trusted key signed the hash of the event, which fixes its place in the log. The database cannot verify
//! signatures, so every reader does.
//!
//! **Invariant:** an event in doubt, and every event after it, changes nothing in the state of a plan.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use provost_core::model::chain::SealedEvent;
use provost_core::model::hash::Hash;
use provost_core::model::proof::{ProofKey, PublicKey};

/// Events that make a step pass.
const VERDICTS: [&str; 2] = ["CONTRACT_JUDGED", "TASK_COMPLETED"];
/// Most signatures in the cache; it is cleared when it is full.
const KNOWN: usize = 100_000;

/// Returns the signature of each verdict; `None` for the other events.
pub(super) fn signed(key: &ProofKey, events: &[SealedEvent]) -> Vec<Option<Vec<u8>>> {
    let seal = |event: &SealedEvent| key.sign_event(&event.hash).to_vec();
    events.iter().map(|event| VERDICTS.contains(&event.name.as_str()).then(|| seal(event))).collect()
}

/// The hash of an event, and the digest of a key and its signature.
type SignedHash = (Hash, [u8; 32]);

/// The writer of an event, as the database recorded it.
pub(super) struct EventSource<'a> {
    pub login: Option<&'a str>,
    /// `None` for events that were written before the database recorded it.
    pub rights: Option<&'a str>,
    pub signer: Option<&'a [u8]>,
    pub seal: Option<&'a [u8]>,
    /// The signing key is trusted now.
    pub is_trusted: bool,
}

impl EventSource<'_> {
    /// Returns why the event is not believed, if so.
    pub(super) fn doubt(&self, event: &SealedEvent) -> Option<String> {
        let rights = self.rights.filter(|rights| *rights != "owner")?;
        let login = self.login.unwrap_or("unknown");
        if rights == "worker" && VERDICTS.contains(&event.name.as_str()) && !self.is_signed(&event.hash) {
            return Some(format!("was written by the login {login} and not signed by a trusted key"));
        }
        // The database checks the keys of an event, and not everything inside of them.
        match event.event() {
            Ok(_) => None,
            Err(error) => {
                Some(format!("was written by the login {login} and cannot be read: {}", error.source))
            }
        }
    }

    fn is_signed(&self, hash: &Hash) -> bool {
        static SEEN: Mutex<Option<HashSet<SignedHash>>> = Mutex::new(None);
        let (Some(signer), Some(seal), true) = (self.signer, self.seal, self.is_trusted) else {
            return false;
        };
        let Some(key) = PublicKey::from_bytes(signer) else { return false };
        let known = (*hash, Hash::of(&[signer, seal].concat()).0);
        let mut seen = SEEN.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = seen.get_or_insert_default();
        if seen.contains(&known) {
            return true;
        }
        let is_signed = key.signed_event(hash, seal);
        if is_signed {
            if seen.len() >= KNOWN {
                seen.clear();
            }
            seen.insert(known);
        }
        is_signed
    }
}
