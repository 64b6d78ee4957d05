//! A glob as an automaton over bytes.

use super::pattern::Token;

/// A set of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bytes([u64; 4]);

impl Bytes {
    pub fn only(byte: u8) -> Self {
        let mut bytes = Self::default();
        bytes.add(byte);
        bytes
    }

    pub fn all() -> Self {
        Self([u64::MAX; 4])
    }

    pub fn all_but_slash() -> Self {
        Self::only(b'/').others()
    }

    pub fn add(&mut self, byte: u8) {
        self.0[usize::from(byte / 64)] |= 1 << (byte % 64);
    }

    pub fn has(&self, byte: u8) -> bool {
        self.0[usize::from(byte / 64)] & (1 << (byte % 64)) != 0
    }

    pub fn others(self) -> Self {
        Self(self.0.map(|word| !word))
    }

    pub fn and(&self, other: &Self) -> Self {
        Self([0, 1, 2, 3].map(|at| self.0[at] & other.0[at]))
    }
}

#[derive(Clone, Debug, Default)]
struct State {
    moves: Vec<(Bytes, usize)>,
    free: Vec<usize>,
    /// Where one may be without reading another byte.
    closed: Vec<usize>,
}

/// State 0 is the beginning.
#[derive(Clone, Debug)]
pub struct Automaton {
    states: Vec<State>,
    /// The glob is matched.
    matched: usize,
    /// Beneath a folder that it matches.
    beneath: usize,
}

impl Automaton {
    pub fn of(tokens: &[Token]) -> Self {
        let mut automaton = Self { states: vec![State::default()], matched: 0, beneath: 0 };
        automaton.matched = automaton.sequence(0, tokens);
        automaton.beneath = automaton.state();
        automaton.on(automaton.matched, Bytes::only(b'/'), automaton.beneath);
        automaton.on(automaton.beneath, Bytes::all(), automaton.beneath);
        automaton.close();
        automaton
    }

    pub fn begin(&self) -> &[usize] {
        self.closed(0)
    }

    pub fn moves(&self, state: usize) -> &[(Bytes, usize)] {
        &self.states[state].moves
    }

    pub fn closed(&self, state: usize) -> &[usize] {
        &self.states[state].closed
    }

    pub fn ends(&self, state: usize) -> bool {
        state == self.matched || state == self.beneath
    }

    pub fn accepts(&self, path: &[u8]) -> bool {
        let mut now: Vec<usize> = self.begin().to_vec();
        for byte in path {
            let moves = now.iter().flat_map(|state| self.moves(*state)).filter(|(bytes, _)| bytes.has(*byte));
            let mut next: Vec<usize> = moves.flat_map(|(_, to)| self.closed(*to)).copied().collect();
            next.sort_unstable();
            next.dedup();
            now = next;
        }
        now.iter().any(|state| self.ends(*state))
    }

    fn state(&mut self) -> usize {
        self.states.push(State::default());
        self.states.len() - 1
    }

    fn on(&mut self, from: usize, bytes: Bytes, to: usize) {
        self.states[from].moves.push((bytes, to));
    }

    fn sequence(&mut self, from: usize, tokens: &[Token]) -> usize {
        tokens.iter().fold(from, |from, token| self.token(from, token))
    }

    /// From a state on, as the token says; returns where that ends.
    fn token(&mut self, from: usize, token: &Token) -> usize {
        match token {
            Token::Literal(literal) => {
                let mut place = [0; 4];
                let bytes = literal.encode_utf8(&mut place).as_bytes();
                bytes.iter().fold(from, |from, byte| self.then(from, Bytes::only(*byte)))
            }
            Token::One(bytes) => self.then(from, *bytes),
            Token::Some => self.any(from, Bytes::all_but_slash()),
            Token::Everything => self.any(from, Bytes::all()),
            Token::Folders => {
                let end = self.state();
                let run = self.any(from, Bytes::all());
                self.on(run, Bytes::only(b'/'), end);
                self.states[from].free.push(end);
                end
            }
            Token::Between => {
                let slash = self.then(from, Bytes::only(b'/'));
                let run = self.any(slash, Bytes::all());
                let end = self.then(run, Bytes::only(b'/'));
                self.states[slash].free.push(end);
                end
            }
            Token::Inside => {
                let slash = self.then(from, Bytes::only(b'/'));
                self.any(slash, Bytes::all())
            }
            Token::Either(branches) if branches.is_empty() => from,
            Token::Either(branches) => {
                let end = self.state();
                for branch in branches {
                    let begin = self.state();
                    self.states[from].free.push(begin);
                    let last = self.sequence(begin, branch);
                    self.states[last].free.push(end);
                }
                end
            }
        }
    }

    fn then(&mut self, from: usize, bytes: Bytes) -> usize {
        let to = self.state();
        self.on(from, bytes, to);
        to
    }

    /// As many of these as there are. A state of its own: what comes back must not pass by what else
    /// begins at `from`.
    fn any(&mut self, from: usize, bytes: Bytes) -> usize {
        let run = self.state();
        self.states[from].free.push(run);
        self.on(run, bytes, run);
        let end = self.state();
        self.states[run].free.push(end);
        end
    }

    fn close(&mut self) {
        for state in 0..self.states.len() {
            let mut closed = vec![state];
            let mut at = 0;
            while let Some(next) = closed.get(at).copied() {
                at += 1;
                for free in &self.states[next].free {
                    if !closed.contains(free) {
                        closed.push(*free);
                    }
                }
            }
            self.states[state].closed = closed;
        }
    }
}
