//! What a glob's text says, part by part.

use std::iter::Peekable;
use std::str::Chars;

use super::automaton::Bytes;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Token {
    Literal(char),
    One(Bytes),
    /// `*`
    Some,
    /// All there is: `**` alone.
    Everything,
    /// `**/` at the beginning: any folders, or none.
    Folders,
    /// `/**/`: a slash, or folders between two.
    Between,
    /// `/**` at the end: whatever is inside.
    Inside,
    Either(Vec<Vec<Token>>),
}

pub fn read(glob: &str) -> Result<Vec<Token>, &'static str> {
    let mut reader = Reader { chars: glob.chars().peekable(), before: None, depth: 0 };
    let tokens = reader.sequence()?;
    match (reader.chars.next(), tokens.as_slice()) {
        (Some(_), _) => Err("a `}` closes nothing"),
        (None, [Token::Folders]) => Ok(vec![Token::Everything]),
        (None, _) => Ok(tokens),
    }
}

struct Reader<'t> {
    chars: Peekable<Chars<'t>>,
    /// The character before the next one.
    before: Option<char>,
    /// How many braces are open.
    depth: usize,
}

impl Reader<'_> {
    fn bump(&mut self) -> Option<char> {
        let found = self.chars.next();
        self.before = found;
        found
    }

    /// Up to the end, or to what ends an alternative.
    fn sequence(&mut self) -> Result<Vec<Token>, &'static str> {
        let mut tokens = Vec::new();
        while let Some(next) = self.chars.peek().copied() {
            if next == '}' || next == ',' && self.depth > 0 {
                break;
            }
            let before = self.before;
            self.bump();
            match next {
                '?' => tokens.push(Token::One(Bytes::all_but_slash())),
                '*' if self.chars.peek() == Some(&'*') => {
                    self.bump();
                    self.two_stars(before, &mut tokens);
                }
                '*' => tokens.push(Token::Some),
                '[' => tokens.push(Token::One(self.class()?)),
                '{' => tokens.push(self.alternatives()?),
                '\\' => tokens.push(Token::Literal(self.bump().ok_or("a `\\` at the end escapes nothing")?)),
                literal => tokens.push(Token::Literal(literal)),
            }
        }
        Ok(tokens)
    }

    /// `**` reaches over folders where it stands for whole names; elsewhere it is a `*`.
    fn two_stars(&mut self, before: Option<char>, tokens: &mut Vec<Token>) {
        let next = self.chars.peek().copied();
        if tokens.is_empty() {
            match next {
                None | Some('/') => {
                    self.bump();
                    tokens.push(Token::Folders);
                }
                Some(_) => tokens.push(Token::Some),
            }
            return;
        }
        let ends = next.is_none() || self.depth > 0 && matches!(next, Some(',' | '}'));
        if before != Some('/') || !(ends || next == Some('/')) {
            tokens.push(Token::Some);
            return;
        }
        if !ends {
            self.bump();
        }
        // The slash before it is part of it.
        match tokens.pop() {
            Some(Token::Folders) => tokens.push(Token::Folders),
            _ if ends => tokens.push(Token::Inside),
            _ => tokens.push(Token::Between),
        }
    }

    fn alternatives(&mut self) -> Result<Token, &'static str> {
        self.depth += 1;
        let mut branches = Vec::new();
        loop {
            branches.push(self.sequence()?);
            match self.bump() {
                Some(',') => {}
                Some(_) => break,
                None => return Err("a `{` is not closed"),
            }
        }
        self.depth -= 1;
        // An empty alternative is none.
        branches.retain(|branch| !is_blank(branch));
        Ok(Token::Either(branches))
    }

    /// `[a-z]`, `[!a]`; a `]` or `-` that comes first means itself.
    fn class(&mut self) -> Result<Bytes, &'static str> {
        let negated = self.chars.next_if(|next| matches!(next, '!' | '^')).is_some();
        let mut ranges: Vec<(char, char)> = Vec::new();
        let mut open = false;
        loop {
            let next = self.bump().ok_or("a `[` is not closed")?;
            match next {
                ']' if !ranges.is_empty() => break,
                '-' if !ranges.is_empty() && !open => open = true,
                last => match ranges.last_mut().filter(|_| open) {
                    Some(range) if last < range.0 => return Err("a range is the wrong way round"),
                    Some(range) => {
                        range.1 = last;
                        open = false;
                    }
                    None => ranges.push((last, last)),
                },
            }
        }
        if open {
            ranges.push(('-', '-'));
        }
        let mut bytes = Bytes::default();
        for (first, last) in ranges {
            add(&mut bytes, first, last)?;
        }
        Ok(if negated { bytes.others() } else { bytes })
    }
}

/// Names are bytes, so what is not ASCII is in a class byte by byte.
fn add(bytes: &mut Bytes, first: char, last: char) -> Result<(), &'static str> {
    let (mut low, mut high) = ([0; 4], [0; 4]);
    let (low, high) = (first.encode_utf8(&mut low).as_bytes(), last.encode_utf8(&mut high).as_bytes());
    if first == last {
        low.iter().for_each(|byte| bytes.add(*byte));
        return Ok(());
    }
    let (from, to) = (low[low.len() - 1], high[0]);
    if to < from {
        return Err("a range is the wrong way round");
    }
    (from..=to).chain(low.iter().copied()).chain(high.iter().copied()).for_each(|byte| bytes.add(byte));
    Ok(())
}

fn is_blank(tokens: &[Token]) -> bool {
    tokens.iter().all(|token| matches!(token, Token::Either(branches) if branches.is_empty()))
}
