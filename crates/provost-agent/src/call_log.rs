//! Numbered log of a run's tool calls with their answers. Evidence cites calls by number, and the model
//! reads long output again from here.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

/// Most bytes that are kept of one answer, and of all answers.
const ONE: usize = 1 << 20;
const ALL: usize = 16 << 20;
/// Most bytes of answers that are saved with a conversation.
const SAVED: usize = 2 << 20;

#[derive(Clone, Debug, Default)]
pub struct CallLog {
    calls: Arc<Mutex<Calls>>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Calls {
    last: u64,
    ended: BTreeSet<u64>,
    /// Calls that failed, or whose answer is negative.
    failed: BTreeSet<u64>,
    outputs: BTreeMap<u64, String>,
    size: usize,
}

impl CallLog {
    /// Returns the calls with the newest answers, to save them.
    pub(crate) fn saved(&self) -> Calls {
        let mut calls = self.lock().clone();
        calls.keep(SAVED);
        calls
    }

    pub(crate) fn restored(calls: Calls) -> Self {
        Self { calls: Arc::new(Mutex::new(calls)) }
    }

    /// Returns the number for a new call.
    pub fn begin(&self) -> u64 {
        let mut calls = self.lock();
        calls.last += 1;
        calls.last
    }

    /// Stores the answer of a call; the oldest answers are dropped when the log is full.
    pub fn end(&self, call: u64, output: &str) {
        let kept = &output[..crate::truncate::floor(output, ONE)];
        let mut calls = self.lock();
        calls.ended.insert(call);
        if says_no(output) {
            calls.failed.insert(call);
        }
        calls.size += kept.len();
        calls.outputs.insert(call, kept.to_owned());
        calls.keep(ALL);
    }

    /// Stores the answer of a call that ended with an error.
    pub fn fail(&self, call: u64, output: &str) {
        self.end(call, output);
        self.lock().failed.insert(call);
    }

    pub fn output(&self, call: u64) -> Option<String> {
        self.lock().outputs.get(&call).cloned()
    }

    /// Checks evidence for something done against the calls that it cites: each call was made, none failed,
    /// and a text that the evidence quotes from a call is in its answer.
    pub(crate) fn check_proof(&self, evidence: &str) -> Result<(), Doubt> {
        self.check_citations(evidence).map_err(Doubt::NoSuchCall)?;
        let calls = self.lock();
        for (call, said) in claims(evidence) {
            let answer = calls.outputs.get(&call);
            let shown = || answer.map_or("it is no longer kept", |text| first_line(text)).to_owned();
            if calls.failed.contains(&call) {
                return Err(Doubt::Failed { call, answer: shown() });
            }
            let missing = answer.and_then(|text| quoted(said).find(|words| !contains(text, words)));
            if let Some(words) = missing {
                return Err(Doubt::NotSaid { call, words: words.to_owned(), answer: shown() });
            }
        }
        Ok(())
    }

    /// Returns an error with the first cited call that does not exist.
    pub(crate) fn check_citations(&self, evidence: &str) -> Result<(), u64> {
        let calls = self.lock();
        // The current call is the claim itself and proves nothing.
        match citations(evidence).find(|call| !calls.ended.contains(call)) {
            Some(call) => Err(call),
            None => Ok(()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Calls> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Calls {
    /// Drops the oldest answers above this size.
    fn keep(&mut self, size: usize) {
        while self.size > size {
            let Some((_, dropped)) = self.outputs.pop_first() else { break };
            self.size -= dropped.len();
        }
    }
}

/// Why evidence that cites calls is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Doubt {
    NoSuchCall(u64),
    Failed { call: u64, answer: String },
    NotSaid { call: u64, words: String, answer: String },
}

/// Returns the numbers after `call:`.
fn citations(text: &str) -> impl Iterator<Item = u64> {
    cited(text).map(|(_, _, call)| call)
}

/// Returns the start, the end and the number of each citation.
fn cited(text: &str) -> impl Iterator<Item = (usize, usize, u64)> {
    let begins_word = |at: usize| !text[..at].ends_with(|before: char| before.is_alphanumeric());
    text.match_indices("call:").filter(move |(at, _)| begins_word(*at)).filter_map(|(at, word)| {
        let from = at + word.len();
        let rest = &text[from..];
        let digits = rest.find(|other: char| !other.is_ascii_digit()).unwrap_or(rest.len());
        // A number that is too large is not a call either.
        (digits > 0).then(|| (at, from + digits, rest[..digits].parse().unwrap_or(u64::MAX)))
    })
}

/// Returns each citation with the text before it, back to the previous citation, line end or semicolon.
fn claims(text: &str) -> impl Iterator<Item = (u64, &str)> {
    let mut from = 0;
    cited(text).map(move |(at, end, call)| {
        let before = &text[from..at];
        from = end;
        let begins = before.rfind(['\n', ';']).map_or(0, |at| at + 1);
        (
            call,
            before[begins..]
                .trim_matches(|other: char| other.is_whitespace() || ",.:()[]-–—=→>".contains(other)),
        )
    })
}

/// Returns the quotations in a text about an answer: everything in quotes, or a single word that is the
/// whole text.
fn quoted(said: &str) -> impl Iterator<Item = &str> {
    let alone = Some(said).filter(|word| !word.is_empty() && !word.contains(char::is_whitespace));
    let alone = alone.filter(|word| !word.contains(['"', '`']));
    let parts = ['"', '`'].into_iter().flat_map(|mark| said.split(mark).skip(1).step_by(2));
    alone.into_iter().chain(parts.filter(|part| !part.trim().is_empty()))
}

/// Compares without regard to white space and case.
fn contains(text: &str, words: &str) -> bool {
    let plain = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase();
    plain(text).contains(&plain(words))
}

/// Returns whether a tool's answer is negative: `false`, or a failed command.
fn says_no(answer: &str) -> bool {
    let first = first_line(answer);
    let is_false = first.strip_prefix("false").is_some_and(|rest| !rest.starts_with(char::is_alphanumeric));
    let failed = first.strip_prefix("exit code ").is_some_and(|code| code.trim() != "0");
    is_false || failed
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default().trim()
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
        let ledger = CallLog::default();
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
    fn evidence_is_held_against_what_the_calls_answered() {
        let ledger = CallLog::default();
        let answer = |text: &str| {
            let call = ledger.begin();
            ledger.end(call, text);
            call
        };
        assert_eq!(answer("false: there is no out/a.txt"), 1);
        assert_eq!(answer("true: out/a.txt, 12 bytes"), 2);
        assert_eq!(answer("exit code 1\n2 failed"), 3);
        assert_eq!(answer("exit code 0\n12 passed"), 4);
        ledger.fail(ledger.begin(), "no such file");
        let refused = |evidence: &str| match ledger.check_proof(evidence) {
            Ok(()) => "taken",
            Err(Doubt::NoSuchCall(_)) => "no such call",
            Err(Doubt::Failed { .. }) => "failed",
            Err(Doubt::NotSaid { .. }) => "not said",
        };
        for (evidence, said) in [
            ("true, call:1", "failed"),
            ("true, call:2", "taken"),
            ("the file is there (call:2)", "taken"),
            ("tests pass, call:3", "failed"),
            ("tests pass: \"12 passed\", call:4", "taken"),
            ("tests pass: \"14 passed\", call:4", "not said"),
            ("`12  Passed` call:4", "taken"),
            ("false, call:2", "not said"),
            ("read it, call:5", "failed"),
            ("it is done, call:9", "no such call"),
            ("it is done; I looked twice", "taken"),
        ] {
            assert_eq!(refused(evidence), said, "{evidence}");
        }
    }

    #[test]
    fn what_is_kept_has_a_bound() {
        let ledger = CallLog::default();
        let large = "x".repeat(2 * ONE);
        for _ in 0..20 {
            ledger.end(ledger.begin(), &large);
        }
        assert!(ledger.lock().size <= ALL);
        assert_eq!(ledger.output(1), None);
        assert_eq!(ledger.output(20).map(|text| text.len()), Some(ONE));
    }
}
