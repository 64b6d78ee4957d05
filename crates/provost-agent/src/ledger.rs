//! Every tool call of a run by its number, with what it answered: what evidence may cite, and where
//! output that did not fit into the transcript is read on.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What is kept of one answer, and of all of them together.
const ONE: usize = 1 << 20;
const ALL: usize = 16 << 20;

#[derive(Clone, Debug, Default)]
pub struct Ledger {
    calls: Arc<Mutex<Calls>>,
}

#[derive(Debug, Default)]
struct Calls {
    last: u64,
    ended: BTreeSet<u64>,
    outputs: BTreeMap<u64, String>,
    size: usize,
}

impl Ledger {
    /// The number of a call that begins now.
    pub fn begin(&self) -> u64 {
        let mut calls = self.lock();
        calls.last += 1;
        calls.last
    }

    /// Keeps what it answered; the oldest make room.
    pub fn end(&self, call: u64, output: &str) {
        let kept = &output[..crate::cap::floor(output, ONE)];
        let mut calls = self.lock();
        calls.ended.insert(call);
        calls.size += kept.len();
        calls.outputs.insert(call, kept.to_owned());
        while calls.size > ALL {
            let Some((_, dropped)) = calls.outputs.pop_first() else { break };
            calls.size -= dropped.len();
        }
    }

    pub fn output(&self, call: u64) -> Option<String> {
        self.lock().outputs.get(&call).cloned()
    }

    /// The first call that is cited and never was.
    pub(crate) fn check_citations(&self, evidence: &str) -> Result<(), u64> {
        let calls = self.lock();
        // The call under way is the claim itself, and proves nothing.
        match citations(evidence).find(|call| !calls.ended.contains(call)) {
            Some(call) => Err(call),
            None => Ok(()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Calls> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The numbers after `call:`.
fn citations(text: &str) -> impl Iterator<Item = u64> {
    let begins_word = |at: usize| !text[..at].ends_with(|before: char| before.is_alphanumeric());
    text.match_indices("call:").filter(move |(at, _)| begins_word(*at)).filter_map(|(at, word)| {
        let rest = &text[at + word.len()..];
        let digits = rest.find(|other: char| !other.is_ascii_digit()).unwrap_or(rest.len());
        // Too large a number is no call either.
        (digits > 0).then(|| rest[..digits].parse().unwrap_or(u64::MAX))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn citations_are_found_where_they_are_meant() {
        let found = |text: &str| citations(text).collect::<Vec<_>>();
        assert_eq!(found("call:7 and (call:12), see call:3."), [7, 12, 3]);
        assert_eq!(found("recall:7, call: 7, call:x, issue #7"), [0; 0]);
        assert_eq!(found("call:99999999999999999999999"), [u64::MAX]);
    }

    #[test]
    fn a_citation_of_what_never_was_is_found() {
        let ledger = Ledger::default();
        assert_eq!(ledger.check_citations("call:1"), Err(1));
        assert_eq!(ledger.begin(), 1);
        assert_eq!(ledger.check_citations("call:1"), Err(1));
        ledger.end(1, "12 bytes");
        assert_eq!(ledger.check_citations("call:1"), Ok(()));
        assert_eq!(ledger.check_citations("call:1 and call:2"), Err(2));
        assert_eq!(ledger.check_citations("call:0"), Err(0));
        assert_eq!(ledger.output(1).as_deref(), Some("12 bytes"));
    }

    #[test]
    fn what_is_kept_has_a_bound() {
        let ledger = Ledger::default();
        let large = "x".repeat(2 * ONE);
        for _ in 0..20 {
            ledger.end(ledger.begin(), &large);
        }
        assert!(ledger.lock().size <= ALL);
        assert_eq!(ledger.output(1), None);
        assert_eq!(ledger.output(20).map(|text| text.len()), Some(ONE));
    }
}
