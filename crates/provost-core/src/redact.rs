//! Removes secrets from text before it becomes an event, a prompt or a line on a screen.
//!
//! There are three layers, from certain to likely: the values that provost itself handed out ([`known`]), the
//! public formats of tokens ([`shapes`]), and the values of telling names ([`assignments`]). The configuration
//! adds names and shapes ([`own`]). Each finds spans in the text; the spans are joined and replaced by
//! `[redacted:<kind>]`.
//!
//! **Invariant:** redacting twice gives the same as redacting once. A mark is never changed again.
//! **Invariant:** the time is linear in the text. No rule reads again what another one scanned.

mod assignments;
mod event;
mod known;
mod names;
mod own;
mod shapes;
mod values;

#[cfg(test)]
mod tests;

use crate::language::diagnostic::{Diagnostic, say};
use crate::model::plan::Span;
use std::borrow::Cow;
use std::ops::Range;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};

use known::KnownSecrets;
pub use names::looks_secret;
pub use own::{OwnSecrets, OwnShape};

const MARK: &str = "[redacted:";

/// Maximum number of rounds. Removing a secret can create a boundary that makes a neighbouring one visible,
/// so rounds repeat until nothing changes. Two are usual; text that still changes after this many was made to
/// do so.
const ROUNDS: usize = 8;

/// The kind that replaces a text which keeps changing.
const RESTLESS: &str = "restless-text";

/// Literals without which no shape and no assignment can match, case folded. Built once per process: for long
/// texts as the automaton that searches fastest, for shorter ones as one that is quicker to build.
static HINTS: LazyLock<AhoCorasick> = LazyLock::new(|| folded(hints(), AhoCorasickKind::DFA));
static HINTS_OF_SHORTER_TEXTS: LazyLock<AhoCorasick> =
    LazyLock::new(|| folded(hints(), AhoCorasickKind::ContiguousNFA));
/// Number of bytes from which on a text is long.
const LONG: usize = 64 << 10;
/// Numbers of the literals by their first byte.
static HINTS_BY_BYTE: LazyLock<[Vec<(usize, &'static str)>; 256]> = LazyLock::new(|| {
    let mut by_byte = [const { Vec::new() }; 256];
    for (number, hint) in hints().enumerate() {
        by_byte[usize::from(hint.as_bytes()[0])].push((number, hint));
    }
    by_byte
});
/// Number of bytes up to which the first texts are searched without an automaton. A command that redacts a few
/// lines would spend most of its time on building one.
const SHORT: usize = 256;
/// Number of short texts after which an automaton is worth its cost.
const MANY: usize = 100;

pub struct Redactor {
    known: KnownSecrets,
    own: OwnSecrets,
    /// Finds the names of `own`.
    own_hints: Option<AhoCorasick>,
}

/// Bytes to remove, and their kind.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Found<'k> {
    start: usize,
    end: usize,
    kind: &'k str,
}

impl Redactor {
    /// Creates a redactor; `known` are the secrets that were handed out, by name. Values under 8 characters
    /// are left to the other layers, because they would also match ordinary words.
    pub fn new<N, V>(known: impl IntoIterator<Item = (N, V)>) -> Self
    where
        N: AsRef<str>,
        V: AsRef<str>,
    {
        Self { known: KnownSecrets::new(known), own: OwnSecrets::default(), own_hints: None }
    }

    /// Also removes the secrets that the configuration describes.
    pub fn with_own(mut self, own: OwnSecrets) -> Self {
        self.own_hints = own.hints();
        self.own = own;
        self
    }

    /// Returns `text` without its secrets; borrowed if there were none.
    pub fn text<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let mut out = Cow::Borrowed(text);
        for _ in 0..ROUNDS {
            match self.round(&out) {
                None => return out,
                Some(next) => out = Cow::Owned(next),
            }
        }
        match self.round(&out) {
            None => out,
            Some(_) => Cow::Owned(format!("{MARK}{RESTLESS}]")),
        }
    }

    /// Reports secrets in a plan. A plan is logged byte for byte, so its author must remove them.
    pub fn diagnose(&self, text: &str) -> Vec<Diagnostic> {
        self.find(text)
            .iter()
            .map(|found| say::secret(Span::new(found.start, found.end), found.kind))
            .collect()
    }

    fn round(&self, text: &str) -> Option<String> {
        let found = self.find(text);
        if found.is_empty() { None } else { Some(replaced(text, &found)) }
    }

    fn find(&self, text: &str) -> Vec<Found<'_>> {
        let mut found = Vec::new();
        self.known.find(text, &mut found);
        self.own.find(text, &mut found);
        self.likely(text, &mut found);
        if found.is_empty() {
            return found;
        }
        outside(joined(found), &self.marks(text))
    }

    /// Finds shapes and assignments; each is tried only if one of its literals occurs.
    fn likely<'k>(&'k self, text: &str, found: &mut Vec<Found<'k>>) {
        let shapes = shapes::all();
        let mut wanted = vec![false; shapes.len()];
        let mut names = Vec::new();
        each_hint(text, |pattern, hit| match shapes::of_hint(pattern) {
            Some(shape) => wanted[shape] = true,
            None => names.push(hit),
        });
        let without_hint = shapes::may_match_without_hint(text);
        // Compiling a shape takes longer than redacting a few lines.
        let longest = text.split_ascii_whitespace().map(str::len).max().unwrap_or_default();
        for (shape, wanted) in shapes.iter().zip(wanted) {
            if (wanted || (without_hint && shape.hints.is_empty())) && shape.least <= longest {
                shape.find(text, found);
            }
        }
        let own = self.own_hints.iter().flat_map(|hints| hints.find_overlapping_iter(text));
        names.extend(own.map(|hit| hit.start()..hit.end()));
        assignments::find(text, names, &self.own, found);
    }

    /// Returns whether a mark of this redactor can name the kind.
    fn is_kind(&self, kind: &str) -> bool {
        let mut fixed = shapes::kinds().chain(assignments::KINDS.iter().copied()).chain([RESTLESS]);
        let mut others = self.known.kinds().chain(self.own.kinds());
        fixed.any(|known| known == kind) || others.any(|known| known == kind)
    }

    /// Returns the marks in `text` that provost wrote. A made-up kind does not count, because it could
    /// contain a secret.
    fn marks(&self, text: &str) -> Vec<(usize, usize)> {
        text.match_indices(MARK)
            .filter_map(|(start, _)| {
                let rest = &text[start + MARK.len()..];
                let length = rest.bytes().take(known::NAME_MAX + 1).position(|byte| byte == b']')?;
                let kind = rest.get(..length)?;
                self.is_kind(kind).then_some((start, start + MARK.len() + length + 1))
            })
            .collect()
    }
}

impl std::fmt::Debug for Redactor {
    /// Never prints the values.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Redactor").field("known", &self.known.kinds().count()).finish_non_exhaustive()
    }
}

fn hints() -> impl Iterator<Item = &'static str> {
    shapes::hints().chain(assignments::HINTS.iter().copied())
}

/// Calls `tell` for every occurrence of a hint, with the number of the hint and its place.
fn each_hint(text: &str, mut tell: impl FnMut(usize, Range<usize>)) {
    static SHORT_TEXTS: AtomicUsize = AtomicUsize::new(0);
    if text.len() <= SHORT && SHORT_TEXTS.fetch_add(1, Ordering::Relaxed) < MANY {
        return each_hint_of_few(text, tell);
    }
    let automaton = if text.len() < LONG { &*HINTS_OF_SHORTER_TEXTS } else { &*HINTS };
    automaton
        .find_overlapping_iter(text)
        .for_each(|hit| tell(hit.pattern().as_usize(), hit.start()..hit.end()));
}

/// Does the same without an automaton.
fn each_hint_of_few(text: &str, mut tell: impl FnMut(usize, Range<usize>)) {
    let lower = text.to_ascii_lowercase();
    for (start, byte) in lower.bytes().enumerate() {
        for (number, hint) in &HINTS_BY_BYTE[usize::from(byte)] {
            if lower.as_bytes()[start..].starts_with(hint.as_bytes()) {
                tell(*number, start..start + hint.len());
            }
        }
    }
}

fn folded<'h>(hints: impl Iterator<Item = &'h str>, kind: AhoCorasickKind) -> AhoCorasick {
    AhoCorasick::builder()
        .ascii_case_insensitive(true)
        .match_kind(MatchKind::Standard)
        .kind(Some(kind))
        .build(hints)
        .unwrap_or_else(|error| unreachable!("a few hundred short literals do not fit: {error}"))
}

/// Sorts the spans and joins those that overlap. The first kind names the result.
fn joined(mut found: Vec<Found<'_>>) -> Vec<Found<'_>> {
    found.sort_by_key(|each| (each.start, std::cmp::Reverse(each.end)));
    let mut joined: Vec<Found<'_>> = Vec::with_capacity(found.len());
    for each in found {
        match joined.last_mut() {
            Some(last) if each.start < last.end => last.end = last.end.max(each.end),
            _ => joined.push(each),
        }
    }
    joined
}

/// Returns the parts of `found` outside of `marks`; both are sorted.
fn outside<'k>(found: Vec<Found<'k>>, marks: &[(usize, usize)]) -> Vec<Found<'k>> {
    if marks.is_empty() {
        return found;
    }
    let mut parts = Vec::with_capacity(found.len());
    let mut next = 0;
    for Found { mut start, end, kind } in found {
        while next < marks.len() && marks[next].1 <= start {
            next += 1;
        }
        let mut mark = next;
        while start < end {
            let (from, to) = marks.get(mark).copied().unwrap_or((usize::MAX, usize::MAX));
            if start < from.min(end) {
                parts.push(Found { start, end: from.min(end), kind });
            }
            start = to;
            mark += 1;
        }
    }
    parts
}

fn replaced(text: &str, found: &[Found<'_>]) -> String {
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    for each in found {
        out.push_str(&text[at..each.start]);
        out.push_str(MARK);
        out.push_str(each.kind);
        out.push(']');
        at = each.end;
    }
    out.push_str(&text[at..]);
    out
}
