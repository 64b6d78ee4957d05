//! Reads one word of a script, with its quotes and expansions.

use super::{Lexer, Until};
use crate::language::shell::Word;

impl Lexer<'_> {
    /// Reads one word, up to a blank or an operator.
    pub(super) fn word(&mut self) -> Word {
        let start = self.at;
        let mut word = Word { start, end: start, quoted: false, expands: false };
        while self.at < self.bytes.len() {
            match self.peek(0) {
                b' ' | b'\t' | b'\n' | b'\r' | b';' | b'&' | b'|' | b'<' | b'>' | b'(' | b')' => break,
                // Inside backticks the next backtick closes; nested ones are always escaped.
                b'`' if self.backtick => break,
                b'\\' => {
                    word.quoted = true;
                    self.at += 2;
                }
                b'\'' => {
                    word.quoted = true;
                    self.at += 1;
                    self.to(b'\'');
                }
                b'"' => {
                    word.quoted = true;
                    self.double(&mut word);
                }
                b'$' | b'`' => self.expansion(&mut word),
                b'*' | b'?' | b'[' if self.at > start || self.peek(0) != b'[' => {
                    word.expands = true;
                    self.at += 1;
                }
                b'{' if self.at > start || !matches!(self.peek(1), b' ' | b'\t' | b'\n') => {
                    word.expands |= self.peek(1) != b'}';
                    self.at += 1;
                }
                _ => self.at += 1,
            }
        }
        self.at = self.at.min(self.bytes.len());
        if self.at == start {
            // No word begins here; still advance, so that the loop ends.
            self.at += 1;
        }
        word.end = self.at;
        word
    }

    fn to(&mut self, closing: u8) {
        while self.at < self.bytes.len() && self.peek(0) != closing {
            self.at += 1;
        }
        self.at += 1;
    }

    fn double(&mut self, word: &mut Word) {
        self.at += 1;
        while self.at < self.bytes.len() {
            match self.peek(0) {
                b'"' => {
                    self.at += 1;
                    return;
                }
                b'`' if self.backtick => return,
                b'\\' => self.at += 2,
                b'$' | b'`' => self.expansion(word),
                _ => self.at += 1,
            }
        }
    }

    /// Reads `$x`, `${…}`, `$(…)`, `$((…))` or a backtick.
    fn expansion(&mut self, word: &mut Word) {
        match (self.peek(0), self.peek(1)) {
            (b'`', _) => {
                word.expands = true;
                self.at += 1;
                let outer = std::mem::replace(&mut self.backtick, true);
                self.deeper(Until::Backtick);
                self.backtick = outer;
            }
            (_, b'(') if self.peek(2) == b'(' => {
                word.expands = true;
                self.arithmetic(3);
            }
            (_, b'(') => {
                word.expands = true;
                self.at += 2;
                let outer = std::mem::replace(&mut self.backtick, false);
                self.deeper(Until::Parenthesis);
                self.backtick = outer;
            }
            (_, b'{') => {
                word.expands = true;
                self.at += 2;
                self.parameter();
            }
            (_, b'\'') => {
                // `$'…'`: its escapes are not decoded.
                word.expands = true;
                self.at += 2;
                while self.at < self.bytes.len() && self.peek(0) != b'\'' {
                    self.at += 1 + usize::from(self.peek(0) == b'\\');
                }
                self.at += 1;
            }
            (_, next) => {
                word.expands |= next.is_ascii_alphanumeric()
                    || matches!(next, b'_' | b'@' | b'*' | b'#' | b'?' | b'!' | b'$');
                self.at += 1;
            }
        }
    }

    /// Reads up to the end of `${…}`, including the substitutions inside.
    fn parameter(&mut self) {
        let mut inner = Word { start: self.at, end: self.at, quoted: false, expands: false };
        let mut open = 1u32;
        while self.at < self.bytes.len() && open > 0 {
            match self.peek(0) {
                b'{' => {
                    open += 1;
                    self.at += 1;
                }
                b'}' => {
                    open -= 1;
                    self.at += 1;
                }
                b'\\' => self.at += 2,
                b'\'' => {
                    self.at += 1;
                    self.to(b'\'');
                }
                b'`' => self.expansion(&mut inner),
                b'$' if self.peek(1) == b'(' => self.expansion(&mut inner),
                _ => self.at += 1,
            }
        }
    }

    /// Skips `((…))` and `$((…))`, which contain no commands. The cursor is on the opening.
    pub(super) fn arithmetic(&mut self, opening: usize) {
        self.at = (self.at + opening).min(self.bytes.len());
        let mut open = 2u32;
        while self.at < self.bytes.len() && open > 0 {
            match self.peek(0) {
                b'(' => open += 1,
                b')' => open -= 1,
                _ => {}
            }
            self.at += 1;
        }
    }
}
