//! The sign-ins that are under way.
//!
//! **Invariant:** each can be taken once, within ten minutes, by the browser that has its cookie.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use provost_core::model::hash::Hash;
use provost_core::model::timestamp::Timestamp;
use ring::rand::{SecureRandom as _, SystemRandom};

use super::Fault;

/// How long a person may take to sign in at the provider.
pub(crate) const BINDING_LASTS: Duration = Duration::from_secs(600);
/// Most sign-ins that are remembered; the oldest is forgotten first.
const PENDING_MAX: usize = 4096;
/// Longest address that is remembered.
const NEXT_MAX: usize = 2048;

/// A new sign-in.
pub(super) struct NewSignIn {
    pub state: String,
    pub nonce: String,
    /// Secret for the cookie of the browser.
    pub binding: String,
    verifier: String,
}

impl NewSignIn {
    /// Returns the challenge of PKCE, by the method S256.
    pub(super) fn challenge(&self) -> String {
        BASE64_URL_SAFE_NO_PAD.encode(Hash::of(self.verifier.as_bytes()).0)
    }
}

/// A sign-in that the provider has answered.
pub(super) struct TakenSignIn {
    pub nonce: String,
    pub verifier: String,
    pub next: String,
}

struct Waiting {
    binding: Hash,
    nonce: String,
    verifier: String,
    next: String,
    begun: Timestamp,
}

#[derive(Default)]
pub(super) struct Pending {
    all: Mutex<HashMap<String, Waiting>>,
}

impl Pending {
    pub(super) fn begin(&self, next: &str, now: Timestamp) -> Result<NewSignIn, Fault> {
        let new = NewSignIn { state: random()?, nonce: random()?, binding: random()?, verifier: random()? };
        let waiting = Waiting {
            binding: Hash::of(new.binding.as_bytes()),
            nonce: new.nonce.clone(),
            verifier: new.verifier.clone(),
            next: if next.len() <= NEXT_MAX { next } else { "/" }.to_owned(),
            begun: now,
        };
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, waiting| waiting.is_open(now));
        if all.len() >= PENDING_MAX
            && let Some(oldest) =
                all.iter().min_by_key(|(_, waiting)| waiting.begun).map(|(key, _)| key.clone())
        {
            all.remove(&oldest);
        }
        all.insert(new.state.clone(), waiting);
        Ok(new)
    }

    /// Takes a sign-in. It is gone then, also if the browser is another one.
    pub(super) fn take(
        &self,
        state: Option<&str>,
        binding: Option<&str>,
        now: Timestamp,
    ) -> Option<TakenSignIn> {
        let found = self.all.lock().unwrap_or_else(PoisonError::into_inner).remove(state?)?;
        // Digests are compared, so that the comparison time reveals nothing about the secret.
        let is_browser = Hash::of(binding?.as_bytes()) == found.binding;
        let Waiting { nonce, verifier, next, .. } =
            if is_browser && found.is_open(now) { found } else { return None };
        Some(TakenSignIn { nonce, verifier, next })
    }
}

impl Waiting {
    fn is_open(&self, now: Timestamp) -> bool {
        now.0.saturating_sub(self.begun.0) < BINDING_LASTS.as_millis() as u64
    }
}

/// Returns 256 random bits as text.
fn random() -> Result<String, Fault> {
    let mut bytes = [0; 32];
    let filled = SystemRandom::new().fill(&mut bytes);
    filled.map_err(|_| Fault::Unreachable("this machine has no random numbers".to_owned()))?;
    Ok(BASE64_URL_SAFE_NO_PAD.encode(bytes))
}

#[cfg(test)]
mod tests {
    use provost_core::model::timestamp::Timestamp;

    use super::{PENDING_MAX, Pending};

    const NOW: Timestamp = Timestamp(1_700_000_000_000);

    #[test]
    fn a_sign_in_is_taken_once_in_time_and_by_its_browser() {
        let pending = Pending::default();
        let begin = || pending.begin("/inbox", NOW).expect("begun");
        let one = begin();
        assert_eq!(one.challenge().len(), 43);
        let taken = pending.take(Some(&one.state), Some(&one.binding), NOW).expect("taken");
        assert_eq!((taken.next.as_str(), &taken.nonce), ("/inbox", &one.nonce));
        assert!(pending.take(Some(&one.state), Some(&one.binding), NOW).is_none(), "a second time");
        let (one, other) = (begin(), begin());
        assert!(pending.take(Some(&one.state), Some(&other.binding), NOW).is_none(), "another browser");
        assert!(pending.take(Some(&one.state), Some(&one.binding), NOW).is_none(), "it is gone");
        assert!(pending.take(Some(&other.state), None, NOW).is_none(), "no cookie");
        assert!(pending.take(None, None, NOW).is_none());
        let late = begin();
        assert!(pending.take(Some(&late.state), Some(&late.binding), Timestamp(NOW.0 + 600_000)).is_none());
    }

    #[test]
    fn the_number_of_sign_ins_is_limited() {
        let pending = Pending::default();
        let first = pending.begin("/", NOW).expect("begun");
        for later in 1..=PENDING_MAX as u64 {
            pending.begin("/", Timestamp(NOW.0 + later)).expect("begun");
        }
        assert_eq!(pending.all.lock().expect("a lock").len(), PENDING_MAX);
        assert!(
            pending.take(Some(&first.state), Some(&first.binding), NOW).is_none(),
            "the oldest is forgotten"
        );
        pending.begin("/", Timestamp(NOW.0 + 700_000)).expect("begun");
        assert_eq!(pending.all.lock().expect("a lock").len(), 1, "what is over is forgotten");
    }
}
