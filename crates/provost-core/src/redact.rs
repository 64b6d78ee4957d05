//! Takes secrets out of text, before anything becomes an event, a prompt or a line on a screen.
//!
//! Three layers, from sure to likely: the values the harness itself handed out ([`known`]), the public
//! shapes of tokens ([`shapes`]), and what stands behind a telling name ([`assignments`]). Each finds
//! spans in the text; the spans are joined and replaced by `[redacted:<kind>]`.
//!
//! **Invariant:** redacting twice is redacting once. A mark of ours is never touched again.
//! **Invariant:** the time is linear in the text. No rule looks back over what another one scanned.

mod assignments;
mod event;
mod known;
mod names;
mod shapes;
mod values;

#[cfg(test)]
mod tests;

use crate::language::diagnostic::{Diagnostic, say};
use crate::model::plan::Span;
use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};

use known::Known;
pub use names::looks_secret;

const MARK: &str = "[redacted:";

/// Taking something out can bring a boundary to light that makes a neighbour visible, so rounds are
/// made until nothing changes. Two are usual; text that still changes after this many was built to.
const ROUNDS: usize = 8;

/// What is left of a text that does not come to rest.
const RESTLESS: &str = "restless-text";

/// Literals without which no shape and no assignment can match, case folded. Built once a process.
static HINTS: LazyLock<AhoCorasick> =
    LazyLock::new(|| folded(shapes::hints().chain(assignments::HINTS.iter().copied())));

pub struct Redactor {
    known: Known,
    /// Every kind a mark of this redactor can name.
    kinds: HashSet<String>,
}

/// Bytes that must go, and what they are.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Found<'k> {
    start: usize,
    end: usize,
    kind: &'k str,
}

impl Redactor {
    /// `known` are the secrets that were handed out, by name. Values under 8 characters are left to
    /// the other layers: they would take ordinary words with them.
    pub fn new<N, V>(known: impl IntoIterator<Item = (N, V)>) -> Self
    where
        N: AsRef<str>,
        V: AsRef<str>,
    {
        let known = Known::new(known);
        let fixed = shapes::kinds().chain(assignments::KINDS.iter().copied()).chain([RESTLESS]);
        let kinds = fixed.map(str::to_owned).chain(known.kinds().map(str::to_owned)).collect();
        Self { known, kinds }
    }

    /// `text` without its secrets; borrowed when there was none.
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

    /// A plan goes into the log byte for byte, so a secret in it is the author's to take out.
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
        Self::likely(text, &mut found);
        if found.is_empty() {
            return found;
        }
        outside(joined(found), &self.marks(text))
    }

    /// Shapes and assignments, each asked only when one of its literals is there.
    fn likely<'k>(text: &str, found: &mut Vec<Found<'k>>) {
        let shapes = shapes::all();
        let mut wanted = vec![false; shapes.len()];
        let mut names = Vec::new();
        for hit in HINTS.find_overlapping_iter(text) {
            match shapes::of_hint(hit.pattern().as_usize()) {
                Some(shape) => wanted[shape] = true,
                None => names.push(hit.start()..hit.end()),
            }
        }
        for (shape, wanted) in shapes.iter().zip(wanted) {
            if wanted || shape.hints.is_empty() {
                shape.find(text, found);
            }
        }
        assignments::find(text, names, found);
    }

    /// The marks in `text` that are ours. A made-up kind is no mark: it could carry a secret.
    fn marks(&self, text: &str) -> Vec<(usize, usize)> {
        text.match_indices(MARK)
            .filter_map(|(start, _)| {
                let rest = &text[start + MARK.len()..];
                let length = rest.bytes().take(known::NAME_MAX + 1).position(|byte| byte == b']')?;
                let kind = rest.get(..length)?;
                self.kinds.contains(kind).then_some((start, start + MARK.len() + length + 1))
            })
            .collect()
    }
}

impl std::fmt::Debug for Redactor {
    /// Never the values.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Redactor").field("known", &self.known.kinds().count()).finish_non_exhaustive()
    }
}

fn folded<'h>(hints: impl Iterator<Item = &'h str>) -> AhoCorasick {
    AhoCorasick::builder()
        .ascii_case_insensitive(true)
        .match_kind(MatchKind::Standard)
        .kind(Some(AhoCorasickKind::DFA))
        .build(hints)
        .unwrap_or_else(|error| unreachable!("a few hundred short literals do not fit: {error}"))
}

/// In order and without overlap. The first kind of an overlap names it.
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

/// The parts of `found` that lie outside `marks`; both in order.
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
