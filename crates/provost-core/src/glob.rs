//! Which paths a glob covers, and whether two of them have one in common.
//!
//! The language is the one that files are taken over by: `*` and `?` stay within a folder, `**` does not,
//! `[…]` and `{…,…}` are as usual, and a glob that matches a folder covers everything in it. Whether two
//! globs overlap is decided, not sampled: both are automata over bytes, and a walk through pairs of their
//! states either finds a path that both cover or has seen that there is none.
//!
//! **Invariant:** a path that [`overlap`] names is covered by both sides; where it names none, no path is.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};

mod automaton;
mod pattern;

use automaton::{Automaton, Bytes};

/// A glob that was read.
#[derive(Clone, Debug)]
pub struct Glob {
    /// The part before the first wildcard, as far as it is whole names.
    start: String,
    automaton: Automaton,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("it is no path inside the workspace")]
    Outside,
    #[error("{0}")]
    Form(&'static str),
}

/// `./src/` means `src`, and `.` means everything.
pub fn plain(glob: &str) -> &str {
    let mut glob = glob;
    while let Some(rest) = glob.strip_prefix("./") {
        glob = rest.trim_start_matches('/');
    }
    let trimmed = glob.trim_end_matches('/');
    // `/` alone is the root of the machine; it is refused with the other absolute paths.
    let glob = if trimmed.is_empty() && glob.starts_with('/') { glob } else { trimmed };
    if matches!(glob, "." | "") { "**" } else { glob }
}

impl Glob {
    pub fn parse(written: &str) -> Result<Self, Error> {
        let glob = plain(written);
        if glob.split('/').any(|part| matches!(part, "" | "." | "..")) {
            return Err(Error::Outside);
        }
        let tokens = pattern::read(glob).map_err(Error::Form)?;
        let is_plain = |part: &&str| !part.contains(['*', '?', '[', ']', '{', '}', '\\']);
        let start: Vec<&str> = glob.split('/').take_while(is_plain).collect();
        Ok(Self { start: start.join("/"), automaton: Automaton::of(&tokens) })
    }

    /// Does it match this path, or a folder the path is in?
    pub fn covers(&self, path: &[u8]) -> bool {
        self.automaton.accepts(path)
    }
}

/// A path that some glob of one side and some glob of the other cover; `None` if there is none.
pub fn overlap(one: &[Glob], other: &[Glob]) -> Option<String> {
    one.iter().find_map(|one| other.iter().find_map(|other| common(one, other)))
}

/// A path that both cover.
fn common(one: &Glob, other: &Glob) -> Option<String> {
    // Most globs differ in their first folders, and that needs no automaton.
    if !is_beneath(&one.start, &other.start) && !is_beneath(&other.start, &one.start) {
        return None;
    }
    Walk::new(&one.automaton, &other.automaton).path().map(|path| String::from_utf8_lossy(&path).into_owned())
}

fn is_beneath(path: &str, folder: &str) -> bool {
    folder.is_empty()
        || path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Where in a path one is; only inside of a name may it end. `.` and `..` are no names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Within {
    Start,
    Dot,
    Dots,
    Name,
}

impl Within {
    const ALL: [Within; 4] = [Within::Start, Within::Dot, Within::Dots, Within::Name];

    fn then(self, byte: u8) -> Option<Within> {
        match (byte, self) {
            (0, _) => None,
            (b'/', Within::Name) => Some(Within::Start),
            (b'/', Within::Start | Within::Dot | Within::Dots) => None,
            (b'.', Within::Start) => Some(Within::Dot),
            (b'.', Within::Dot) => Some(Within::Dots),
            _ => Some(Within::Name),
        }
    }
}

/// A state of each automaton, and where in the path that is.
type Pair = (usize, usize, Within);

/// A walk through pairs of states, shortest paths first.
struct Walk<'a> {
    one: &'a Automaton,
    other: &'a Automaton,
    /// How each pair was reached.
    from: HashMap<Pair, Option<(Pair, u8)>>,
    next: VecDeque<Pair>,
}

impl<'a> Walk<'a> {
    fn new(one: &'a Automaton, other: &'a Automaton) -> Self {
        let mut walk = Self { one, other, from: HashMap::new(), next: VecDeque::new() };
        for first in one.begin() {
            for second in other.begin() {
                walk.reach((*first, *second, Within::Start), None);
            }
        }
        walk
    }

    fn reach(&mut self, pair: Pair, from: Option<(Pair, u8)>) {
        if let Entry::Vacant(new) = self.from.entry(pair) {
            new.insert(from);
            self.next.push_back(pair);
        }
    }

    fn path(mut self) -> Option<Vec<u8>> {
        while let Some(pair) = self.next.pop_front() {
            let (one, other, within) = pair;
            if within == Within::Name && self.one.ends(one) && self.other.ends(other) {
                return Some(self.way(pair));
            }
            let (first, second) = (self.one, self.other);
            for (bytes, to) in first.moves(one) {
                for (others, then) in second.moves(other) {
                    let both = bytes.and(others);
                    for next in Within::ALL {
                        // One byte stands for all that lead to the same place.
                        let Some(byte) = both.nicest(|byte| within.then(byte) == Some(next)) else {
                            continue;
                        };
                        for to in first.closed(*to) {
                            for then in second.closed(*then) {
                                self.reach((*to, *then, next), Some((pair, byte)));
                            }
                        }
                    }
                }
            }
        }
        None
    }

    /// The bytes that led here.
    fn way(&self, end: Pair) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut at = end;
        while let Some(Some((before, byte))) = self.from.get(&at) {
            bytes.push(*byte);
            at = *before;
        }
        bytes.reverse();
        bytes
    }
}

impl Bytes {
    /// The byte that reads best of those that fit.
    fn nicest(&self, fits: impl Fn(u8) -> bool) -> Option<u8> {
        let letters = (b'a'..=b'z').chain(b'0'..=b'9').chain(b'A'..=b'Z').chain([b'_', b'-', b'.', b'/']);
        letters.chain(b' '..=b'~').chain(0..=u8::MAX).find(|byte| self.has(*byte) && fits(*byte))
    }
}

#[cfg(test)]
mod tests;
