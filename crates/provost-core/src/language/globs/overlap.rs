//! Decides exactly whether two globs can match the same path.
//!
//! Each glob becomes an automaton over bytes, built from the same expression that matching uses. A
//! breadth-first search runs through the product of both with the automaton of all valid paths. A string it
//! accepts is a path that both globs match; if it accepts none, there is none.
//!
//! **Invariant:** a pair that cannot be decided within the limits never counts as disjoint.

use std::collections::HashMap;
use std::sync::OnceLock;

use regex_automata::dfa::{Automaton as _, StartKind, dense};
use regex_automata::util::primitives::StateID;
use regex_automata::util::start;
use regex_automata::util::syntax;
use regex_automata::{Anchored, MatchKind};

use crate::language::globs;

/// Matches a path: non-empty parts, none of which is `.` or `..`.
const PATH: &str = r"(?-u)\A(?:PART)(?:/(?:PART))*\z";
const PART: &str = r"[^./\x00][^/\x00]*|\.[^./\x00][^/\x00]*|\.\.[^/\x00]+";
const BYTES_MAX: usize = 4 << 20;
/// Limit on the visited pairs of states. Ordinary globs need a few hundred.
const PAIRS_MAX: usize = 300_000;

type Automaton = dense::DFA<Vec<u32>>;
/// An automaton, or why there is none.
type Built = Result<Automaton, String>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Overlap {
    None,
    /// A path that both match.
    Shared(String),
    /// Why it could not be decided.
    Undecided(String),
}

/// A set of globs, ready to be compared with others.
#[derive(Clone, Debug)]
pub struct GlobSet {
    globs: Vec<Piece>,
}

#[derive(Clone, Debug)]
struct Piece {
    written: String,
    /// The folders before the first wildcard; `None` for an invalid glob.
    start: Option<String>,
    /// Built at first use: most globs already differ in their first folders.
    automaton: OnceLock<Built>,
}

/// Two globs that overlap or may overlap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GlobOverlap {
    pub globs: (String, String),
    pub overlap: Overlap,
}

impl GlobSet {
    pub fn new<S: AsRef<str>>(globs: &[S]) -> Self {
        Self { globs: globs.iter().map(|glob| Piece::new(glob.as_ref())).collect() }
    }

    /// Returns the first pair with a common path, else the first undecided pair; `None` if the sets are
    /// disjoint.
    pub fn meets(&self, other: &GlobSet) -> Option<GlobOverlap> {
        let mut doubt = None;
        for one in &self.globs {
            for two in &other.globs {
                let globs = (one.written.clone(), two.written.clone());
                match one.with(two) {
                    Overlap::None => {}
                    overlap @ Overlap::Shared(_) => return Some(GlobOverlap { globs, overlap }),
                    overlap @ Overlap::Undecided(_) => doubt = doubt.or(Some(GlobOverlap { globs, overlap })),
                }
            }
        }
        doubt
    }
}

impl Piece {
    fn new(written: &str) -> Self {
        let is_plain = |part: &&str| !part.contains(['*', '?', '[', ']', '{', '}', '\\']);
        let start = || globs::plain(written).split('/').take_while(is_plain).collect::<Vec<_>>().join("/");
        let start = globs::glob(written).is_ok().then(start);
        Self { written: written.to_owned(), start, automaton: OnceLock::new() }
    }

    fn with(&self, other: &Piece) -> Overlap {
        if let (Some(one), Some(two)) = (&self.start, &other.start)
            && !is_beneath(one, two)
            && !is_beneath(two, one)
        {
            return Overlap::None;
        }
        match (self.automaton(), other.automaton()) {
            (Ok(one), Ok(two)) => search(one, two),
            (Err(why), _) | (_, Err(why)) => Overlap::Undecided(why.clone()),
        }
    }

    fn automaton(&self) -> &Built {
        self.automaton.get_or_init(|| automaton(&self.written))
    }
}

fn is_beneath(path: &str, folder: &str) -> bool {
    folder.is_empty()
        || path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Decides whether a path exists that both globs cover.
pub fn overlap(one: &str, other: &str) -> Overlap {
    Piece::new(one).with(&Piece::new(other))
}

/// Builds an automaton that accepts what the glob matches and everything in a folder it matches.
fn automaton(written: &str) -> Built {
    let glob = globs::glob(written).map_err(|why| format!("`{written}`: {why}"))?;
    let inner = glob.regex().strip_prefix("(?-u)^").and_then(|inner| inner.strip_suffix('$'));
    let inner = inner.ok_or_else(|| format!("`{written}` has an unknown form"))?;
    built(&format!(r"(?-u)\A(?:{inner})(?:/.*)?\z"))
        .map_err(|_| format!("`{written}` is too large to compare"))
}

fn built(pattern: &str) -> Result<Automaton, Box<dense::BuildError>> {
    let config = dense::Config::new()
        .match_kind(MatchKind::All)
        .start_kind(StartKind::Anchored)
        .dfa_size_limit(Some(BYTES_MAX))
        .determinize_size_limit(Some(4 * BYTES_MAX));
    dense::Builder::new()
        .configure(config)
        // The settings that glob matching uses.
        .syntax(syntax::Config::new().utf8(false).dot_matches_new_line(true))
        .thompson(regex_automata::nfa::thompson::Config::new().utf8(false))
        .build(pattern)
        .map_err(Box::new)
}

fn paths() -> &'static Option<Automaton> {
    static PATHS: OnceLock<Option<Automaton>> = OnceLock::new();
    PATHS.get_or_init(|| built(&PATH.replace("PART", PART)).ok())
}

type Place = [StateID; 3];

/// Searches breadth first, so that the found path is as short as possible.
fn search(one: &Automaton, other: &Automaton) -> Overlap {
    let undecided = |why: &str| Overlap::Undecided(why.to_owned());
    let Some(paths) = paths() else { return undecided("provost cannot build a pattern for paths") };
    let factors = [one, other, paths];
    let begin = start::Config::new().anchored(Anchored::Yes);
    let Ok(first) = factors.iter().map(|factor| factor.start_state(&begin)).collect::<Result<Vec<_>, _>>()
    else {
        return undecided("provost cannot search the globs");
    };
    let first: Place = [first[0], first[1], first[2]];
    let steps = steps(&factors);
    let mut seen: Vec<(Place, usize, u8)> = vec![(first, 0, 0)];
    let mut known: HashMap<Place, usize> = HashMap::from([(first, 0)]);
    let mut at = 0;
    while let Some((place, ..)) = seen.get(at).copied() {
        let accepts =
            |(factor, state): (&&Automaton, &StateID)| factor.is_match_state(factor.next_eoi_state(*state));
        if factors.iter().zip(&place).all(accepts) {
            return Overlap::Shared(path_to(&seen, at));
        }
        for byte in &steps {
            let next = [0, 1, 2].map(|which| factors[which].next_state(place[which], *byte));
            let is_dead = (0..3).any(|which| factors[which].is_dead_state(next[which]));
            if is_dead || known.contains_key(&next) {
                continue;
            }
            if seen.len() >= PAIRS_MAX {
                return undecided("the globs are too large to compare");
            }
            known.insert(next, seen.len());
            seen.push((next, at, *byte));
        }
        at += 1;
    }
    Overlap::None
}

/// Returns one byte per class of bytes that the three automata distinguish, letters first, so that the found
/// path is readable.
fn steps(factors: &[&Automaton; 3]) -> Vec<u8> {
    let mut known = std::collections::HashSet::new();
    let letters = (b'a'..=b'z').chain(b'0'..=b'9').chain(b'A'..=b'Z').chain(*b"/._-");
    let classes = |byte: u8| factors.map(|factor| factor.byte_classes().get(byte));
    letters.chain(0..=255).filter(|byte| known.insert(classes(*byte))).collect()
}

fn path_to(seen: &[(Place, usize, u8)], mut at: usize) -> String {
    let mut bytes = Vec::new();
    while at != 0 {
        bytes.push(seen[at].2);
        at = seen[at].1;
    }
    bytes.reverse();
    String::from_utf8_lossy(&bytes).into_owned()
}
